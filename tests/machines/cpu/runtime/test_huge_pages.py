"""Memory on huge pages is memory: aligned, and what arrays hold stays where it is."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.executable.alignment import address
from minitvm.machines.cpu.runtime import huge_pages
from minitvm.machines.cpu.runtime.huge_pages import Room, huge_empty, move_to_huge_pages

MIB = 1 << 20


@given(st.integers(0, 9 * MIB), st.sampled_from([1, 64, 4096, 4 * MIB]))
def test_any_size_at_any_alignment(nbytes: int, alignment: int) -> None:
    memory = huge_empty(nbytes, alignment)
    assert (memory.nbytes, address(memory) % alignment if nbytes else 0) == (nbytes, 0)
    memory[:] = 7
    assert (memory == 7).all()


def test_much_memory_is_on_huge_pages() -> None:
    if not _are_given():
        pytest.skip("this system gives no huge pages")
    memory = huge_empty(64 * MIB, 64)
    before = _held()
    memory[:] = 1
    assert _held() > before


def test_a_system_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    monkeypatch.setattr(huge_pages, "_madvise", lambda: None)
    memory = huge_empty(8 * MIB, 64)
    memory[:] = 3
    move_to_huge_pages([memory])
    assert (memory == 3).all()


@settings(max_examples=20)
@given(st.lists(st.integers(0, 3 * MIB), max_size=6), st.integers(0, 2**32 - 1))
def test_what_arrays_hold_stays_in_its_place(sizes: list[int], seed: int) -> None:
    """Parts of one array that touch, overlap or lie apart; one is read-only."""
    rng = np.random.default_rng(seed)
    whole = rng.integers(0, 256, 12 * MIB, dtype=np.uint8)
    copy = whole.copy()
    parts = [whole[(start := int(rng.integers(0, whole.size - size))) : start + size] for size in sizes]
    if parts:
        parts[0].flags.writeable = False
    places = [address(part) for part in parts]
    move_to_huge_pages([*parts, np.empty(0)])
    assert [address(part) for part in parts] == places
    np.testing.assert_array_equal(whole, copy)


def test_neighbours_are_one_range() -> None:
    whole = np.zeros(MIB, np.uint8)
    at = address(whole)
    parts = [whole[700_000:800_000], whole[:1000], whole[500:40_000], whole[60_000:61_000]]
    assert huge_pages._spans(parts) == [(at, at + 61_000), (at + 700_000, at + 800_000)]


def _are_given() -> bool:
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return setting.exists() and "[never]" not in setting.read_text()


def _held() -> int:
    """Bytes of this process on huge pages."""
    lines = Path("/proc/self/smaps").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("AnonHugePages"))


@settings(max_examples=20)
@given(st.lists(st.integers(0, 24 * MIB), min_size=1, max_size=6), st.sampled_from([64, 4096, 8 * MIB]), st.booleans())
def test_room_grows_where_it_lies(sizes: list[int], alignment: int, has_addresses: bool) -> None:
    """What `grow` says about the place is right, and what lies there stays, unless the room moved."""
    with pytest.MonkeyPatch.context() as patch:
        if not has_addresses:
            patch.setattr(huge_pages, "_madvise", lambda: None)
        room, most = Room(alignment), 0
        for number, size in enumerate(sizes, 1):
            before, place = room.memory[:most].copy(), address(room.memory)
            moved = room.grow(size)
            assert room.memory.nbytes >= size and (not size or address(room.memory) % alignment == 0)
            assert moved == (size > most and address(room.memory) != place) or not most
            if not moved:
                np.testing.assert_array_equal(room.memory[:most], before)
            most = max(most, size)
            room.memory[:] = number


def test_much_room_does_not_move_again() -> None:
    if huge_pages._madvise() is None:
        pytest.skip("this system gives no addresses without memory")
    room = Room(64)
    assert room.grow(5 * MIB)
    place = address(room.memory)
    assert [room.grow(size * MIB) for size in (4, 9, 64, 200)] == [False] * 4
    assert address(room.memory) == place and room.memory.nbytes == 200 * MIB


def test_room_without_enough_addresses_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "_all_memory", lambda: 16 * MIB)
    room = Room(64)
    assert [room.grow(size * MIB) for size in (5, 12, 20, 40)] == [True, False, True, True]
    monkeypatch.setattr(huge_pages, "_all_memory", lambda: 1 << 62)
    assert [Room(64).grow(size * MIB) for size in (5, 12)] == [True, True]
