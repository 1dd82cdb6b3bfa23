"""Memory that begins at a multiple of the cache line size, for fast vector loads. Later steps need not copy aligned
arrays.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

from ..expr import DType

ALIGNMENT = 64
_MAPPED = 1 << 20  # bytes from which memory comes from the system


def address(array: np.ndarray[Any, Any]) -> int:
    """Return the address of an array's memory.

    `array.ctypes` would leave a reference cycle that keeps the array alive until the garbage collector runs, so it is
    not used. The array interface builds a dictionary with strings; for writeable memory there is a faster way.
    """
    try:
        memory: Any = array
        return ctypes.addressof(ctypes.c_char.from_buffer(memory))
    except (TypeError, ValueError):  # read-only, without elements, or not contiguous
        return int(array.__array_interface__["data"][0])


def aligned_empty(nbytes: int, alignment: int = ALIGNMENT) -> np.ndarray[Any, Any]:
    """Return `nbytes` uninitialised bytes at an address that is a multiple of `alignment`.

    The memory lives as long as the array, which refers to it through its base.
    """
    room = np.empty(max(1, nbytes) + alignment, np.uint8)
    skip = -address(room) % alignment
    return room[skip : skip + nbytes]


def zeroed(nbytes: int) -> np.ndarray[Any, Any]:
    """Return `nbytes` zeros at a multiple of the cache line size. Large memory is provided page by page, when it is
    first written to.
    """
    if nbytes >= _MAPPED:
        private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
        return np.frombuffer(mmap.mmap(-1, nbytes, **private), np.uint8)
    room = aligned_empty(nbytes)
    room[:] = 0
    return room


def aligned_array(shape: tuple[int, ...], dtype: np.dtype[Any], room: int = 0) -> np.ndarray[Any, Any]:
    """Return an uninitialised array that begins at a multiple of the cache line size, with `room` more bytes of memory
    after it.
    """
    nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return aligned_empty(nbytes + room)[:nbytes].view(dtype).reshape(shape)


def aligned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array itself if it is C-contiguous and aligned, or an aligned copy otherwise."""
    if array.flags.c_contiguous and address(array) % ALIGNMENT == 0:
        return array
    return aligned_copy(array)


def aligned_copy(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a C-contiguous, aligned copy of an array."""
    copy = aligned_empty(array.nbytes).view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def frozen(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an aligned, C-contiguous array of the same contents that nobody can change: the array itself if it is one,
    or else a copy.
    """
    if array.flags.c_contiguous and address(array) % ALIGNMENT == 0 and _is_read_only(array):
        return array
    copy = aligned_copy(array)
    memory: Any = copy
    while isinstance(memory, np.ndarray):  # also the arrays of which the copy is a view
        memory.flags.writeable = False
        memory = memory.base
    return copy


def _is_read_only(array: Any) -> bool:
    """Return whether an array and all arrays of which it is a view are read-only."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return False
        array = array.base
    return array is None


def array_at(address: int, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return a view of the memory at an address as an array. The array does not keep the memory alive."""
    np_dtype = DType(dtype).numpy
    count = int(np.prod(shape, dtype=np.int64))
    if count == 0:
        return np.empty(shape, np_dtype)
    memory = (ctypes.c_char * (count * np_dtype.itemsize)).from_address(address)
    return np.ndarray(shape, np_dtype, memoryview(memory))
