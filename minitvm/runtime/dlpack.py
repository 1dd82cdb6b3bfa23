"""Share memory with other libraries by DLPack, in both directions. Follows dlpack.h, DLPack 1.0.

A capsule from another library is not consumed: the user of its memory keeps a reference to it, and its producer frees
the memory when the capsule is deleted.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import TypeMismatch
from ..expr import DType

CPU, CUDA, OPENCL = 1, 2, 4  # DLDeviceType
ON_HOST = (CPU, 3)  # plain memory, and memory that is pinned for CUDA's copies
_NAMES = {CUDA: "CUDA device", OPENCL: "OpenCL device", 7: "Vulkan device", 8: "Metal device", 10: "ROCm device"}
_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}  # DLDataTypeCode
_TENSOR, _USED = b"dltensor", b"used_dltensor"


class _Tensor(ctypes.Structure):
    """The C struct DLTensor, which is the first member of the struct in a capsule named "dltensor"."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    """The C struct DLManagedTensor."""

    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))


@dataclass(frozen=True, slots=True)
class Foreign:
    """An array of another library: its address, and the capsule that keeps it alive.

    `dtype` is None if minitvm does not support it.
    """

    address: int
    dtype: DType | None
    shape: tuple[int, ...]
    is_contiguous: bool
    capsule: Any


def place_name(device: tuple[int, int]) -> str:
    """Return a readable name for a device that is given in DLPack's numbering."""
    kind, number = device
    return "the CPU" if kind in ON_HOST else f"{_NAMES.get(kind, f'a device of kind {kind}, number')} {number}"


def device_of(value: Any) -> tuple[int, int] | None:
    """Return the device that holds an object's memory, or None if the object does not say."""
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack_device__"):
        return None
    kind, number = value.__dlpack_device__()
    return int(kind), int(number)


def described(value: Any, stream: int | None = None) -> Foreign:
    """Describe the memory of an object with `__dlpack__`. On CUDA devices, commands queued on `stream` may use it.

    Raises the object's own exceptions, and `BufferError` if the capsule is not a DLPack capsule.
    """
    capsule = value.__dlpack__() if stream is None else value.__dlpack__(stream=stream)
    tensor = _tensor(capsule)
    shape = tuple(tensor.shape[: tensor.ndim])
    dense, step = [], 1
    for size in reversed(shape):
        dense.append(step)
        step *= size
    strides = tensor.strides[: tensor.ndim] if tensor.strides else dense[::-1]
    contiguous = step == 0 or all(n == 1 or a == b for n, a, b in zip(shape, strides, dense[::-1], strict=True))
    return Foreign((tensor.data or 0) + tensor.byte_offset, _dtype(tensor), shape, contiguous, capsule)


def _tensor(capsule: Any) -> _Tensor:
    try:
        return _Tensor.from_address(_held(capsule, _TENSOR))
    except ValueError as error:
        raise BufferError(f"the capsule is not one of DLPack that is still to be used: {error}") from None


def _dtype(tensor: _Tensor) -> DType | None:
    if tensor.lanes != 1:
        return None
    if tensor.code == _CODES["bool"]:
        return DType("bool") if tensor.bits == 8 else None
    name = next((kind for kind, code in _CODES.items() if code == tensor.code), "")
    if not name or tensor.bits not in (
        (16,) if name == "bfloat" else (16, 32, 64) if name == "float" else (8, 16, 32, 64)
    ):
        return None
    return DType(f"{name}{tensor.bits}")


# -- our arrays, for other libraries


def _dtype_fields(dtype: str) -> tuple[int, int]:
    if dtype == "bool":
        return _CODES["bool"], 8
    kind = dtype.rstrip("0123456789")
    if kind not in _CODES:
        raise TypeMismatch(f"DLPack has no {dtype}")
    return _CODES[kind], int(dtype[len(kind) :])


_alive: dict[int, tuple[Any, ...]] = {}  # the objects that each exported tensor uses, by the tensor's address
_offered: dict[int, Any] = {}  # capsules of tensors that no consumer has taken, as far as we know


@_Deleter
def _delete(address: int) -> None:
    _alive.pop(address, None)
    _offered.pop(address, None)


def _free_refused(phase: str = "start", _about: Any = None) -> None:
    """Free the tensors of capsules that only this module still references. Python calls this during garbage collection.

    A capsule cannot do this itself: a consumer that refuses a tensor drops the capsule while an error is set. A
    destructor in Python would lose that error, and the consumer would fail with a SystemError.
    """
    if phase != "start" or not _offered:
        return
    for address in list(_offered):
        capsule = _offered.get(address)
        if capsule is not None and sys.getrefcount(capsule) <= _OWN_REFERENCES:
            taken = not _is_valid(capsule, _TENSOR)
            _offered.pop(address, None)
            if not taken:
                _alive.pop(address, None)


_OWN_REFERENCES = 3  # those in `_offered`, in the local variable, and in the argument
gc.callbacks.append(_free_refused)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_held = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def capsule_of(
    address: int, dtype: str, shape: Sequence[int], device: tuple[int, int], owner: Any, offset: int = 0
) -> Any:
    """Return a capsule for dense memory that `owner` holds. The owner lives as long as the capsule's tensor is in
    use.
    """
    _free_refused()
    code, bits = _dtype_fields(dtype)
    sizes = (ctypes.c_int64 * max(1, len(shape)))(*shape)
    tensor = _Tensor(address, *device, len(shape), code, bits, 1, sizes, None, offset)
    managed = _Managed(tensor, None, _delete)
    at = ctypes.addressof(managed)
    _alive[at] = (managed, sizes, owner)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    capsule = _offered[at] = new(at, _TENSOR, None)
    return capsule


# -- arrays of the CPU


class _Shared:
    """An object with the array interface. NumPy builds an array from it, and the array keeps it alive."""

    def __init__(self, foreign: Foreign, tensor: _Tensor) -> None:
        self.capsule = foreign.capsule
        self.__array_interface__ = {
            "version": 3,
            "typestr": "<u2",
            "shape": foreign.shape,
            "strides": tuple(2 * s for s in tensor.strides[: tensor.ndim]) if tensor.strides else None,
            "data": (foreign.address, False),
        }


def shared(value: Any) -> np.ndarray[Any, Any]:
    """Return an array that shares the memory of an object with `__dlpack__`.

    Raises the exceptions of the object or of NumPy.
    """
    try:
        return np.from_dlpack(value)
    except Exception:
        array = brain_floats(value)
        if array is None:
            raise
        return array


def brain_floats(value: Any) -> np.ndarray[Any, Any] | None:
    """Return an array over CPU memory that holds bfloat16, which NumPy itself does not accept, or None for other
    objects.
    """
    if not hasattr(value, "__dlpack__") or value.__dlpack_device__()[0] != CPU:
        return None
    foreign = described(value)
    if foreign.dtype != "bfloat16":
        return None
    return np.asarray(_Shared(foreign, _tensor(foreign.capsule))).view(DType("bfloat16").numpy)
