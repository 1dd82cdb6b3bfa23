"""Map a linked image of kernels into this process, with only NumPy and the C library: without LLVM or Numba.

`link_kernels` makes an image. The memory is first written and then made executable, never both at once.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from ....errors import InternalError, TargetError

PLATFORM = f"{sys.platform} {platform.machine()}"


@dataclass(frozen=True, slots=True)
class CodeImage:
    """Position-independent machine code, followed by a table of addresses that is filled when the image is mapped.

    `entries` holds the offsets of the kernels. `externals` holds the names of external functions and the offsets of
    their slots.
    """

    data: bytes | memoryview
    entries: tuple[int, ...]
    externals: tuple[tuple[str, int], ...]


class MappedKernel:
    """A kernel of a mapped image. The image stays mapped for as long as one of its kernels lives."""

    __slots__ = ("_memory", "address")

    def __init__(self, memory: mmap.mmap, address: int) -> None:
        self._memory = memory
        self.address = address

    def __repr__(self) -> str:
        return f"MappedKernel(at {self.address:#x})"


def map_image(image: CodeImage) -> list[MappedKernel]:
    """Map the image and return its kernels in the order of `entries`.

    Raises `InternalError` if it needs a function that this process does not have, `TargetError` if the system does not
    let a process make memory executable, and `ValueError` for offsets that are not in the image.
    """
    size = len(image.data)
    if any(not 0 <= at < size for at in image.entries) or any(not 0 <= at <= size - 8 for _, at in image.externals):
        raise ValueError(f"an offset is not in the machine code of {size} bytes")
    missing = [name for name, _ in image.externals if _address_of(name) is None]
    if missing:
        raise InternalError(f"machine code needs {', '.join(missing)}, which this process lacks")
    memory = mmap.mmap(-1, max(1, size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[:size] = bytes(image.data)
    for name, slot in image.externals:
        struct.pack_into("<Q", memory, slot, _address_of(name))
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    _make_executable(base, size)
    return [MappedKernel(memory, base + entry) for entry in image.entries]


def _make_executable(address: int, size: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC):
        raise TargetError(f"this system does not let a process make memory executable (errno {ctypes.get_errno()})")


@functools.cache
def _libraries() -> Sequence[ctypes.CDLL]:
    """Return this process, and libm: an interpreter that links libm statically does not export its functions."""
    libraries = [ctypes.CDLL(None)]
    for name in ("libm.so.6", "libm.so"):
        try:
            return [*libraries, ctypes.CDLL(name)]
        except OSError:
            continue
    return libraries


def _address_of(name: str) -> int | None:
    for library in _libraries():
        try:
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        except AttributeError:
            continue
    return None
