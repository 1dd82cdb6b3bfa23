"""Arrays between fences: a page that no process may touch is directly after, or directly before, the elements.

An access beyond the fence ends the process by a signal. Bytes between the elements and the fence on the other side
have a known pattern, which is NaN in every float dtype: `Fences.written` says whether a program changed them, and
values that a program read there are no numbers.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

PATTERN = 0xFF
_PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)


class Fences:
    """Memory between fences; `at_end` puts elements directly before a fence, else directly after one."""

    def __init__(self, at_end: bool) -> None:
        self.at_end = at_end
        self._rooms: list[tuple[np.ndarray, int, int]] = []  # with the first and the last byte of elements

    def empty(self, shape: Sequence[int], dtype: Any, alignment: int = 1) -> np.ndarray:
        """An array whose bytes have the pattern."""
        dtype = np.dtype(dtype)
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        inner = -(-max(nbytes, 1) // _PAGE) * _PAGE + _PAGE
        memory = mmap.mmap(-1, inner + 2 * _PAGE)
        whole = np.frombuffer(memory, np.uint8)
        whole[_PAGE : _PAGE + inner] = PATTERN
        start = whole.__array_interface__["data"][0]
        for fence in (start, start + _PAGE + inner):
            if _libc.mprotect(ctypes.c_void_p(fence), ctypes.c_size_t(_PAGE), 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        room = whole[_PAGE : _PAGE + inner]
        first = (inner - nbytes) // alignment * alignment if self.at_end else 0
        self._rooms.append((room, first, first + nbytes))
        return room[first : first + nbytes].view(dtype).reshape(tuple(shape))

    def copy(self, array: np.ndarray) -> np.ndarray:
        """The same elements between fences."""
        own = self.empty(array.shape, array.dtype)
        own[...] = array
        return own

    def written(self) -> bool:
        """Whether a byte beside the elements of an array has changed."""
        return any((room[:a] != PATTERN).any() or (room[b:] != PATTERN).any() for room, a, b in self._rooms)

    @contextlib.contextmanager
    def around_everything(self) -> Iterator[None]:
        """Within, the CPU's runtime puts constants, arenas and outputs between fences too."""
        from minitvm.executable import alignment
        from minitvm.machines.cpu.runtime import huge_pages
        from minitvm.runtime import module

        def aligned_empty(nbytes: int, alignment: int = alignment.ALIGNMENT) -> np.ndarray:
            return self.empty((nbytes,), np.uint8, alignment)

        names = SimpleNamespace(**{name: getattr(np, name) for name in dir(np) if not name.startswith("_")})
        names.empty = self.empty
        with (
            mock.patch.object(alignment, "aligned_empty", aligned_empty),
            mock.patch.object(huge_pages, "aligned_empty", aligned_empty),
            mock.patch.object(module, "np", names),
        ):
            yield
