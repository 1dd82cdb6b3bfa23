"""Memory on huge pages, if the system provides them on request (Linux: transparent huge pages).

A processor caches the addresses of about two thousand pages. The rows of a matrix are on separate pages, so a loop over
many rows, or over weights that are spread over the heap, waits for address translation. A page of 2 MiB replaces 512
pages of 4 KiB. Huge pages only affect the speed: without them, memory stays as it is.
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
    """Return uninitialised bytes at a multiple of `alignment`. Large memory is newly mapped, on huge pages once it is
    used.
    """
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
    """Memory that grows in place: pages that were used stay, so growing only touches new pages.

    It reserves a range of addresses as large as the machine's memory, and pages are allocated when they are first used.
    Small memory, of less than a few huge pages, comes from the heap, and moves when it grows. The same is true of all
    memory if the system does not provide that many addresses, and of memory that is not expected to grow again
    (`steady`).
    """

    def __init__(self, alignment: int, steady: bool = False) -> None:
        self._alignment, self._steady = alignment, steady
        self._range: np.ndarray[Any, Any] | None = None
        self._advised = 0  # bytes for which huge pages were asked
        self.memory = aligned_empty(0, alignment)

    def grow(self, nbytes: int) -> bool:
        """Grow to at least `nbytes` bytes. Return whether the memory moved."""
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
        """Request huge pages for memory that will be used."""
        advise, end = _madvise(), -(-nbytes // _PAGE) * _PAGE
        if advise is not None and self._range is not None and end > self._advised:
            advise(address(self._range) + self._advised, end - self._advised, _HUGE)
            self._advised = end


def _addresses(nbytes: int, alignment: int) -> np.ndarray[Any, Any] | None:
    """Return a range of addresses without memory that begins at a multiple of a huge page, or None if the system has
    none.
    """
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
    """Return the bytes of memory that the machine has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def move_to_huge_pages(arrays: Iterable[np.ndarray[Any, Any]]) -> None:
    """Move long-lived arrays, such as weights, to huge pages. Their contents and addresses stay the same."""
    advise = _madvise()
    if advise is None:
        return
    for first, end in _spans(arrays):
        begin, stop = -(-first // _PAGE) * _PAGE, end // _PAGE * _PAGE
        if begin < stop:
            advise(begin, stop - begin, _COLLAPSE)  # a refusal changes nothing


def _spans(arrays: Iterable[np.ndarray[Any, Any]]) -> list[tuple[int, int]]:
    """Return the memory of arrays as ranges of addresses, merging neighbours."""
    spans: list[tuple[int, int]] = []
    for first, end in sorted(((at := address(array)), at + array.nbytes) for array in arrays if array.nbytes):
        if spans and first - spans[-1][1] < _NEAR:
            before, so_far = spans.pop()
            first, end = before, max(end, so_far)
        spans.append((first, end))
    return spans


@cache
def _madvise() -> Any:
    """Return the system's `madvise(address, bytes, advice)`, or None if it has no huge pages."""
    if sys.platform != "linux":
        return None
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return advise
