"""Check the arrays that a caller passes. No array is converted silently, and errors give the expected and the actual
type.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, TypeMismatch, nearest, report
from ..executable import ScalarSpec, TensorSpec
from ..executable.alignment import address
from ..expr.dtypes import is_floating
from .device.arrays import resident
from .dlpack import brain_floats, shared
from .shapes import spec_text

if TYPE_CHECKING:
    from .device.device import Device

Array = np.ndarray[Any, Any]


def listing(specs: Sequence[TensorSpec | ScalarSpec]) -> str:
    return ", ".join(map(spec_text, specs)) or "no inputs"


def checked_array(what: str, spec: TensorSpec, value: Any) -> Array:
    """Return `value` as an array, which must have the declared dtype.

    A different dtype raises `TypeMismatch`, because a conversion would hide mistakes and cost time.
    """
    if not isinstance(value, np.ndarray):
        value = _converted(what, spec, value)
    if hasattr(value, "mask"):  # numpy.ma's masked arrays; its import is slow, and it is rarely loaded
        raise TypeMismatch(f"{what}: {spec.name} is a masked array, and its mask would be lost; try .filled(...)")
    if value.dtype != spec.dtype.numpy or not value.dtype.isnative:
        raise TypeMismatch(
            report(
                f"{what}: the dtype of {spec.name} does not fit",
                wanted=spec_text(spec),
                found=f"an array of {value.dtype.str if not value.dtype.isnative else value.dtype}",
                tries=[f'{spec.name}.astype("{spec.dtype}")'],
            )
        )
    return value


def _converted(what: str, spec: TensorSpec, value: Any) -> Array:
    """Convert an object that contains an array, or Python numbers, to an array. Numbers get the declared dtype.

    Raises `TypeMismatch` or `InputError` if that is not possible, for example if the dtype cannot hold a number.
    """
    if hasattr(value, "__array__") or hasattr(value, "__dlpack__"):
        try:
            array = brain_floats(value) if spec.dtype == "bfloat16" else None  # PyTorch's tensors have no such arrays
            if array is not None:
                return array
            return np.asarray(value) if hasattr(value, "__array__") else shared(value)
        except Exception as error:  # another library's object raises its own error: a tensor on a GPU, for example
            text = f"{what}: {spec.name} is a {type(value).__name__} that gives no array: {error}"
            raise TypeMismatch(text) from error
    if not isinstance(value, numbers.Number | list | tuple):
        raise TypeMismatch(f"{what}: {spec.name} is a {type(value).__name__}; wanted an array: {spec_text(spec)}")
    try:
        array = np.asarray(value)
    except ValueError:
        raise TypeMismatch(f"{what}: {spec.name} has rows of different lengths; wanted {spec_text(spec)}") from None
    if array.size and _rank(array.dtype) > _rank(spec.dtype.numpy):
        raise TypeMismatch(f"{what}: {spec.name} holds numbers of {array.dtype}; wanted {spec_text(spec)}")
    finite = array[np.isfinite(array)] if array.size else array
    if finite.size and not (spec.dtype.min <= finite.min() and finite.max() <= spec.dtype.max):
        raise InputError(f"{what}: {spec.name} holds a number that {spec.dtype} does not; wanted {spec_text(spec)}")
    return array.astype(spec.dtype.numpy)


def _same_memory(what: str, spec: TensorSpec, value: Any) -> Array:
    """Return an array that shares the memory of another library's object. Raises `TypeMismatch` if it cannot be
    shared.
    """
    try:
        return shared(value)
    except Exception as error:  # another library's object raises its own error: a tensor on a GPU, for example
        text = f"{what}: the memory of {spec.name}, a {type(value).__name__}, cannot be shared: {error}"
        raise TypeMismatch(text) from error


def _rank(dtype: np.dtype[Any]) -> int:
    """Return the rank of a dtype. Numbers are converted only to a dtype of the same or a higher rank."""
    return 2 if is_floating(dtype) else {"b": 0, "u": 1, "i": 1}.get(dtype.kind, 9)


def checked_scalar(what: str, spec: ScalarSpec, value: Any) -> int | float:
    """Return `value` as a Python number. Raises an error if the scalar's dtype cannot hold it."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, np.generic) and is_floating(value.dtype):
        value = float(value)
    accepted: Any = numbers.Real if spec.dtype.is_float else (numbers.Integral, bool, np.bool_)
    if not isinstance(value, accepted):
        raise TypeMismatch(f"{what}: {spec.name} is {value!r} of type {type(value).__name__}; wanted {spec_text(spec)}")
    if spec.dtype.is_float:
        return float(value)
    number = int(value)
    if not spec.dtype.min <= number <= spec.dtype.max:
        raise InputError(f"{what}: {spec.name} is {number}, which {spec.dtype} does not hold")
    return number


def destination(
    what: str, spec: TensorSpec, value: Any, shape: tuple[int, ...] | None = None, device: Device | None = None
) -> Any:
    """Check and return an array that a kernel will write to. It must have the right dtype (and shape, if given).

    It must also be contiguous and writeable. An object with `__dlpack__`, such as a PyTorch tensor on the CPU or on the
    program's `device`, is written in place.
    """
    there = resident(what, spec, value, device)
    if there is not None:
        if shape is not None and there.shape != shape:
            raise InputError(f"{what}: {spec.name} has shape {there.shape}; wanted {shape}")
        return there
    if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__"):
        value = _same_memory(what, spec, value)
    if not isinstance(value, np.ndarray):
        raise TypeMismatch(f"{what}: {spec.name} is written in place; wanted an array, found a {type(value).__name__}")
    array = checked_array(what, spec, value)
    if shape is not None and array.shape != shape:
        raise InputError(f"{what}: {spec.name} has shape {array.shape}; wanted {shape}")
    if not array.flags.c_contiguous or not array.flags.aligned:
        raise InputError(f"{what}: {spec.name} is written in place and must be C-contiguous and aligned")
    if not array.flags.writeable:
        raise InputError(f"{what}: {spec.name} is written in place, but the array is read-only")
    return array


def _span(array: Any) -> tuple[int, int]:
    """Return the first address of an array and the address after its end."""
    start: int
    start, nbytes = (address(array), array.nbytes) if isinstance(array, np.ndarray) else (array.address, array.room)
    return start, start + nbytes


def contiguous(array: Array) -> Array:
    """Return the array itself if it is contiguous and aligned, or a copy otherwise."""
    return array if array.flags.c_contiguous and array.flags.aligned else np.array(array, order="C", copy=True)


def named(what: str, specs: Sequence[TensorSpec | ScalarSpec], values: dict[str, Any]) -> list[Any]:
    """Return the values in the order of the specs. Raises `InputError` for an unknown or missing name."""
    names = [s.name for s in specs]
    for name in values:
        if name not in names:
            raise InputError(
                report(
                    f"{what}: there is no input called {name}",
                    wanted=listing(specs),
                    found=", ".join(values),
                    tries=[nearest(name, names)],
                )
            )
    missing = [n for n in names if n not in values]
    if missing:
        raise InputError(
            report(
                f"{what}: no value for {', '.join(missing)}",
                wanted=listing(specs),
                found=", ".join(values) or "nothing",
            )
        )
    return [values[n] for n in names]


def disjoint(what: str, written: Sequence[tuple[str, Any]], others: Sequence[tuple[str, Any]]) -> None:
    """Raise `InputError` if a destination shares memory with another argument, because kernels assume that no two
    arguments overlap.
    """
    both = overlapping([array for _, array in written], [array for _, array in others])
    if both is not None:
        (name, _), (other, _) = ((*written, *others)[number] for number in both)
        raise InputError(f"{what}: {name} is written, and shares memory with {other}")


def overlapping(written: Sequence[Any], others: Sequence[Any]) -> tuple[int, int] | None:
    """Return the numbers of two arrays that share memory, the first of them written, or None. The numbers of `others`
    follow those of `written`.
    """
    spans = list(map(_span, (*written, *others)))
    for i, (low, high) in enumerate(spans[: len(written)]):
        for j, (other_low, other_high) in enumerate(spans[i + 1 :], i + 1):
            if low < other_high and other_low < high and low < high and other_low < other_high:
                return i, j
    return None
