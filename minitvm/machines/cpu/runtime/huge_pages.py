"""Memory on huge pages, where the system gives them to those who ask (Linux: transparent huge pages).

A processor keeps the addresses of some two thousand pages. Rows of a matrix lie on pages of their own, so what passes
over many rows, or over weights that lie all over the heap, waits for addresses. A page of 2 MiB replaces 512 of 4 KiB.
Nothing depends on it but time: where the system has no such pages, or none is free, memory stays as it is.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from ....executable.alignment import address, aligned_empty

_PAGE = 2 << 20
_HUGE = 14  # MADV_HUGEPAGE
_COLLAPSE = 25  # MADV_COLLAPSE, since Linux 6.1: now, and not when the kernel comes by
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)  # of Linux
_NEAR = 64 << 10  # arrays that are no further apart share their pages


def huge_empty(nbytes: int, alignment: int) -> np.ndarray[Any, Any]:
    """Uninitialised bytes at a multiple of `alignment`; much memory is new, and on huge pages once it is touched."""
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if nbytes < 2 * _PAGE or advice is None or alignment > _PAGE:
        return aligned_empty(nbytes, alignment)
    memory = mmap.mmap(-1, nbytes + _PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):
        memory.madvise(advice)
    room = np.frombuffer(memory, np.uint8)
    skip = -address(room) % _PAGE
    return room[skip : skip + nbytes]


class Room:
    """Memory that grows where it lies: what was touched stays, so a larger size touches only what is new.

    It is a range of addresses as long as the machine has memory; pages come as they are touched. Less than a few huge
    pages come from the heap, and move as they grow. So does all memory, where the system does not give so many
    addresses, and what is not expected to grow again (`steady`).
    """

    def __init__(self, alignment: int, steady: bool = False) -> None:
        self._alignment, self._steady = alignment, steady
        self._range: np.ndarray[Any, Any] | None = None
        self._advised = 0  # bytes for which huge pages were asked
        self.memory = aligned_empty(0, alignment)

    def grow(self, nbytes: int) -> bool:
        """Have at least so many bytes; returns whether they lie elsewhere than before."""
        if nbytes <= self.memory.nbytes:
            return False
        moves = self._range is None
        if self._range is None and nbytes >= 2 * _PAGE and not self._steady:
            self._range = _addresses(_all_memory(), self._alignment)
        if self._range is None or nbytes > self._range.nbytes:
            self._range, self.memory = None, huge_empty(nbytes, self._alignment)
            return True
        self.memory = self._range[:nbytes]
        self._advise(nbytes)
        return moves

    def _advise(self, nbytes: int) -> None:
        """Ask for huge pages for what will be touched."""
        advise, end = _madvise(), -(-nbytes // _PAGE) * _PAGE
        if advise is not None and self._range is not None and end > self._advised:
            advise(address(self._range) + self._advised, end - self._advised, _HUGE)
            self._advised = end


def _addresses(nbytes: int, alignment: int) -> np.ndarray[Any, Any] | None:
    """A range of addresses without memory, from a multiple of a huge page on; None where there is none to be had."""
    nbytes = nbytes // _PAGE * _PAGE
    if _madvise() is None or alignment > _PAGE:
        return None
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    try:
        room = np.frombuffer(mmap.mmap(-1, nbytes + _PAGE, flags=flags), np.uint8)
    except (OSError, ValueError, OverflowError):
        return None
    skip = -address(room) % _PAGE
    return room[skip : skip + nbytes]


@cache
def _all_memory() -> int:
    """The bytes of memory that the machine has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def move_to_huge_pages(arrays: Iterable[np.ndarray[Any, Any]]) -> None:
    """Move arrays that stay for long, such as weights, to huge pages: what they hold and their addresses remain."""
    advise = _madvise()
    if advise is None:
        return
    for first, end in _spans(arrays):
        begin, stop = -(-first // _PAGE) * _PAGE, end // _PAGE * _PAGE
        if begin < stop:
            advise(begin, stop - begin, _COLLAPSE)  # a refusal changes nothing


def _spans(arrays: Iterable[np.ndarray[Any, Any]]) -> list[tuple[int, int]]:
    """The memory of arrays as ranges of addresses, those of neighbours as one."""
    spans: list[tuple[int, int]] = []
    for first, end in sorted(((at := address(array)), at + array.nbytes) for array in arrays if array.nbytes):
        if spans and first - spans[-1][1] < _NEAR:
            before, so_far = spans.pop()
            first, end = before, max(end, so_far)
        spans.append((first, end))
    return spans


@cache
def _madvise() -> Any:
    """The system's `madvise(address, bytes, advice)`; None where it knows no huge pages."""
    if sys.platform != "linux":
        return None
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return advise
