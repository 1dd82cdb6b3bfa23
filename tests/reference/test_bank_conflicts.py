"""Bank conflicts of shared storage: the kernel interpreter counts them; padded and swizzled layouts have none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm import reference, tir
from minitvm.expr import call, walk
from minitvm.reference.bank_conflicts import BankConflicts, conflicts
from minitvm.reference.kernel import is_barrier
from minitvm.script import from_source
from minitvm.tir.transform import lower


def turned(rows: int = 32) -> tir.PrimFunc:
    """A tile that is written by rows and read by columns."""
    return from_source(f"""
    @T.prim_func
    def main(A: T.Buffer(({rows}, 32)), B: T.Buffer(({rows}, 32))):
        S = T.alloc_buffer(({rows}, 32), scope="shared")
        for b in T.thread_binding(1, thread="blockIdx.x"):
            for i in range({rows}):
                for t in T.thread_binding(32, thread="threadIdx.x"):
                    with T.block("fill"):
                        vi, vj = T.axis.remap("SS", [i, t])
                        S[vi, vj] = A[vi, vj]
            for i in range({rows}):
                for t in T.thread_binding(32, thread="threadIdx.x"):
                    with T.block("use"):
                        vi, vj = T.axis.remap("SS", [i, t])
                        B[vi, vj] = S[vj, vi]
    """)


def padded(sch: tir.Schedule) -> None:
    sch.storage_align("fill", 0, 0, 32, 1)


def swizzled(sch: tir.Schedule) -> None:
    sch.transform_layout("fill", ("write", 0), lambda i, j: (i, call("bitwise_xor", i, j)))


def counted(layout: Callable[[tir.Schedule], None] | None) -> tuple[int, int, tir.IRModule]:
    """Conflicts when the tile is written and when it is read, and the module."""
    func = turned()
    sch = tir.Schedule(func)
    if layout is not None:
        layout(sch)
    module = lower(sch.func, "cuda -arch=sm_80", "main")
    banks = BankConflicts()
    a = np.arange(1024, dtype="float32").reshape(32, 32)
    b = np.zeros_like(a)
    reference.kernel.run(module, a, b, listeners=[banks])
    np.testing.assert_array_equal(b, a.T)
    return banks.of("S", "written"), banks.of("S", "read"), module


def test_a_swizzled_tile_has_no_conflicts() -> None:
    assert counted(None)[:2] == (0, 32 * 31)
    assert counted(padded)[:2] == (0, 0)
    assert counted(swizzled)[:2] == (0, 0)


def test_a_swizzled_tile_needs_no_room_and_no_barrier_more() -> None:
    sizes, waits = {}, {}
    for layout in (None, padded, swizzled):
        kernel: Any = counted(layout)[2]["main_kernel_0"]
        nodes = list(walk(kernel.body))
        sizes[layout] = next(int(n.buffer.shape[0]) for n in nodes if isinstance(n, tir.Allocate))
        waits[layout] = sum(map(is_barrier, nodes))
    assert sizes == {None: 1024, padded: 1024 + 31, swizzled: 1024}
    assert waits == {None: 1, padded: 1, swizzled: 1}


@pytest.mark.parametrize(
    ("starts", "size", "count"),
    [
        ([[4 * t] for t in range(32)], 4, 0),
        ([[0] for _ in range(32)], 4, 0),  # one word, which all read
        ([[8 * t] for t in range(32)], 4, 1),
        ([[128 * t] for t in range(32)], 4, 31),
        ([[2 * t] for t in range(32)], 2, 0),  # two share a word
        ([[16 * t + 4 * k for k in range(4)] for t in range(32)], 4, 0),  # quarters of a warp
        ([[32 * t + 4 * k for k in range(4)] for t in range(32)], 4, 4),  # each in two turns
        ([[4 * t, 128 * t + 1024] for t in range(32)], 4, 31),  # two accesses
    ],
)
def test_turns_of_a_warp(starts: list[list[int]], size: int, count: int) -> None:
    assert conflicts(dict(enumerate(starts)), size) == count


@given(st.lists(st.integers(0, 255), min_size=1, max_size=32))
def test_turns_are_the_most_words_of_a_bank(words: list[int]) -> None:
    different = set(words)
    most = max(sum(word % 32 == bank for word in different) for bank in range(32))
    assert conflicts({lane: [4 * word] for lane, word in enumerate(words)}, 4) == most - 1


def wide_accesses_take_turns() -> None:
    assert conflicts({t: [16 * t + 4 * k for k in range(4)] for t in range(32)}, 4) == 0
    assert conflicts({t: [128 * t] for t in range(32)}, 4) == 31
    assert conflicts({t: [0] for t in range(32)}, 4) == 0


CHECKS = [wide_accesses_take_turns, test_a_swizzled_tile_has_no_conflicts]
