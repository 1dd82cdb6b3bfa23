"""Arrays in the memory of a device: results that stay there, and memory of other libraries, which is used without a
copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ...backend import registered
from ...errors import InputError, MinitvmError, TypeMismatch
from ...executable import TensorSpec
from ...executable.alignment import address, aligned_empty
from ...expr import DType
from .. import dlpack
from ..shapes import spec_text
from .device import Place, as_bytes, reported

if TYPE_CHECKING:
    from .device import Device

KEPT = 8  # the most pieces of one size that are kept for later results


class DeviceArray:
    """A dense array on a device.

    `numpy()` copies it to the host. Other libraries can use it without a copy through DLPack.
    """

    _free: list[Any] | None = None  # the list that gets its memory when the array is freed

    def __init__(self, device: Device, buffer: Any, dtype: DType, shape: Sequence[int], owner: Any = None) -> None:
        self.device, self.buffer, self.owner = device, buffer, owner
        self.address = device.address(buffer)
        self.type, self.shape = DType(dtype), tuple(map(int, shape))

    def __del__(self) -> None:
        if self._free is not None and len(self._free) < KEPT:
            self._free.append(self.buffer)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""
        return self.type.numpy

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return self.size * self.type.bytes

    @property
    def room(self) -> int:
        """The length of the array's address range: the number of its bytes, or at most 1 if the device's addresses only
        identify pieces of memory.
        """
        return self.nbytes if self.device.has_addresses else min(self.nbytes, 1)

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a copy of the array in host memory."""
        data = aligned_empty(self.nbytes)
        if self.nbytes:
            with reported(self.device, "a copy to the host"):
                self.device.read(data, Place(self.buffer))
                self.device.finish()
        return data.view(self.dtype).reshape(self.shape)

    def copy(self) -> np.ndarray[Any, Any]:
        """Return a copy in host memory, like `numpy()`."""
        return self.numpy()

    def beginning(self, shape: Sequence[int]) -> DeviceArray:
        """Return a view of the first elements of the array, with the shape `shape`."""
        return DeviceArray(self.device, self.buffer, self.type, shape, self)

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:  # fmt: skip
        """Return a DLPack capsule. All commands that write the array have finished, so any stream may use the array.

        Raises `BufferError` if the caller asks for a copy or for another device.
        """
        if copy or (dl_device is not None and tuple(map(int, dl_device)) != self.device.dlpack):
            raise BufferError(f"an array on {self.device.name} is shared in place; numpy() copies it")
        del stream, max_version
        return dlpack.capsule_of(self.address, self.type, self.shape, self.device.dlpack, self)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device.dlpack

    def __repr__(self) -> str:
        return f"DeviceArray({self.type}{list(self.shape)} on {self.device.name})"


class Pool:
    """A pool that reuses the memory of results that are no longer referenced.

    A result in reused memory has the same address as before, so that kernel launches that were prepared for this
    address can be used again.
    """

    def __init__(self, allocate: Callable[[int, str], Any]) -> None:
        self._allocate = allocate
        self._free: dict[int, list[Any]] = {}

    def array(self, device: Device, dtype: DType, shape: Sequence[int], what: str) -> DeviceArray:
        """Return a new array. Its memory returns to the pool when nothing uses the array any longer."""
        nbytes = prod(shape) * dtype.bytes
        free = self._free.setdefault(nbytes, [])
        made = DeviceArray(device, free.pop() if free else self._allocate(nbytes, what), dtype, shape)
        made._free = free
        return made

    def filled(self, device: Device, data: np.ndarray[Any, Any]) -> DeviceArray:
        """Return a new array that holds a copy of `data`."""
        array = self.array(device, DType(data.dtype.name), data.shape, "an array")
        if data.nbytes:
            with reported(device, "a copy to the device"):
                device.write(Place(array.buffer), as_bytes(np.ascontiguousarray(data)))
                device.finish()
        return array


def place_of(value: Any) -> tuple[int, int] | None:
    """Return the device of an array in DLPack's numbering, or None if it is in host memory."""
    if isinstance(value, DeviceArray):
        return value.device.dlpack
    where = dlpack.device_of(value)
    return None if where is None or where[0] in dlpack.ON_HOST else where


def adopted(value: Any, device: Device) -> DeviceArray:
    """Return an array on this device that shares the memory of another library's array.

    Raises `InputError` if the array is on another device or is not dense, and `TypeMismatch` if minitvm does not
    support its dtype.
    """
    if isinstance(value, DeviceArray) and value.device.identity == device.identity:
        return value
    where = place_of(value) or (dlpack.CPU, 0)
    if where != device.dlpack or isinstance(value, DeviceArray):
        raise InputError(f"it is on {_name(value)}, and programs run on {device.name}")
    foreign = dlpack.described(value, device.stream)
    if not foreign.is_contiguous:
        raise InputError("it is not contiguous, and nothing on a device is copied unasked\n  try:    .contiguous()")
    if foreign.dtype is None:
        raise TypeMismatch("it has elements of a type that minitvm does not have")
    nbytes = int(np.prod(foreign.shape, dtype=np.int64)) * foreign.dtype.bytes
    return DeviceArray(device, device.adopted(foreign.address, nbytes), foreign.dtype, foreign.shape, foreign.capsule)


def _name(value: Any) -> str:
    """Return a readable name for the device of an array."""
    return (
        value.device.name if isinstance(value, DeviceArray) else dlpack.place_name(place_of(value) or (dlpack.CPU, 0))
    )


def from_dlpack(value: Any) -> Any:
    """Return an array that shares the memory of an object with `__dlpack__`.

    The result is a NumPy array on the CPU, and a `DeviceArray` otherwise. Raises `TypeMismatch` if the object does not
    share its memory, and `InputError` if no program on this machine can run on the object's device.
    """
    if not hasattr(value, "__dlpack__"):
        raise TypeMismatch(f"from_dlpack: a {type(value).__name__} has no __dlpack__")
    if isinstance(value, DeviceArray):
        return value
    where = place_of(value)
    try:
        if where is None:
            return dlpack.shared(value)
        for backend in registered().values():
            find = backend.part("memory")
            device = None if find is None else find(where)
            if device is not None:
                return adopted(value, device)
    except MinitvmError as error:
        raise type(error)(f"from_dlpack: a {type(value).__name__}: {error}") from None
    except Exception as error:  # another library's object raises its own error
        raise TypeMismatch(f"from_dlpack: the memory of a {type(value).__name__} cannot be shared: {error}") from error
    raise InputError(f"from_dlpack: the {type(value).__name__} is on {_name(value)}, on which no programs run here")


def argument(value: Any) -> Any:
    """Return an argument in the form that a program accepts: the address of a host array, or a device array itself.

    For anything else, return 0.
    """
    return address(value) if isinstance(value, np.ndarray) else value if isinstance(value, DeviceArray) else 0


def resident(what: str, spec: TensorSpec, value: Any, device: Device | None) -> DeviceArray | None:
    """Return an argument as an array on `device`, or None if it is in host memory.

    An argument in host memory is checked as a NumPy array instead. `device` is None for a program on the CPU. Raises
    `InputError` if the argument is on another device, and `TypeMismatch` if its dtype is wrong.
    """
    if place_of(value) is None:
        return None
    if device is None:
        raise InputError(
            f"{what}: {spec.name} is on {_name(value)}, and the program runs on the CPU\n  try:    a copy on the CPU"
        )
    try:
        array = adopted(value, device)
    except MinitvmError as error:
        raise type(error)(f"{what}: {spec.name}, a {type(value).__name__}: {error}") from None
    except Exception as error:  # another library's object raises its own error
        text = f"{what}: the memory of {spec.name}, a {type(value).__name__}, cannot be shared: {error}"
        raise TypeMismatch(text) from error
    if array.type != spec.dtype:
        raise TypeMismatch(
            f"{what}: the dtype of {spec.name} does not fit\n  wanted: {spec_text(spec)}\n"
            f"  found:  an array of {array.type} on {device.name}"
        )
    return array
