"""Of a load in a shuffle only the lanes that are picked are read; all of them have to lie inside the buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm import expr as x
from minitvm.errors import ExecutionError
from minitvm.reference import check, kernel
from minitvm.reference.domains.bound import compare
from minitvm.reference.listeners import Ledger
from minitvm.target import Target
from minitvm.tir import nodes as t
from minitvm.tir.transform import lower

LANES = 4
EVEN = (0, 2, 4, 6)
SERIAL, PARALLEL = t.ForKind.SERIAL, t.ForKind.PARALLEL


def vector(buffer: t.Buffer, base: Any, stride: int = 1) -> t.BufferLoad:
    return t.BufferLoad(buffer, (x.Ramp(x.as_expr(base), x.const(stride), LANES),))


def evens(buffer: t.Buffer, base: Any, picks: tuple[int, ...] = EVEN) -> x.Shuffle:
    """Elements of the eight from `base`."""
    return x.Shuffle((vector(buffer, base), vector(buffer, base + LANES)), picks)


def half_written(picks: tuple[int, ...] = EVEN, room: int = 8) -> t.PrimFunc:
    """C = some of eight elements of B, of which those at even places are written."""
    a, b, c, i = t.Buffer("A", (LANES,)), t.Buffer("B", (room,), scope="global"), t.Buffer("C", (LANES,)), x.Var("i")
    fill = t.For(i, x.const(0), x.const(LANES), SERIAL, t.BufferStore(b, a[i], (i * 2,)))
    use = t.BufferStore(c, evens(b, x.const(0), picks), (x.Ramp(x.const(0), x.const(1), LANES),))
    return t.PrimFunc((a, c), t.Allocate(b, t.Seq.of(fill, use)), {"global_symbol": "halves"})


def turns(first: int) -> t.PrimFunc:
    """Iteration i of a parallel loop writes every second element from `first` on, and reads those at even places."""
    a, c, i = t.Buffer("A", (16,)), t.Buffer("C", (8,)), x.Var("i")
    write = t.BufferStore(a, x.Broadcast(x.const(1.0), LANES), (x.Ramp((1 - i) * 8 + first, x.const(2), LANES),))
    read = t.BufferStore(c, evens(a, i * 8), (x.Ramp(i * LANES, x.const(1), LANES),))
    loop = t.For(i, x.const(0), x.const(2), PARALLEL, t.Seq.of(write, read))
    return t.PrimFunc((a, c), loop, {"global_symbol": "turns"})


@pytest.mark.parametrize("mode", ["slow", "fast"])
def test_what_is_not_picked_may_be_unwritten(mode: str) -> None:
    data, found = np.arange(LANES, dtype="float32"), np.empty(LANES, "float32")
    kernel.run(half_written(), data, found, mode=mode)
    assert (found == data).all()
    assert compare(half_written(), [data, np.zeros_like(found)], [data, found])


@pytest.mark.parametrize("mode", ["slow", "fast"])
def test_what_is_picked_may_not(mode: str) -> None:
    with pytest.raises(ExecutionError, match=r"uninitialised read: element \[3\] of B"):
        kernel.run(half_written((0, 2, 3, 6)), np.zeros(LANES, "f"), np.zeros(LANES, "f"), mode=mode)


@pytest.mark.parametrize("mode", ["slow", "fast"])
@pytest.mark.parametrize("shadow", [True, False])
def test_what_is_not_picked_lies_inside(mode: str, shadow: bool) -> None:
    """B ends with the last element that is picked: compiled code would touch the one behind it."""
    with pytest.raises(ExecutionError, match=r"out of bounds: B\[.*\] at index \(7\)"):
        kernel.run(half_written(room=7), np.zeros(LANES, "f"), np.zeros(LANES, "f"), mode=mode, shadow=shadow)


@pytest.mark.parametrize("mode", ["slow", "fast"])
def test_what_is_not_picked_may_be_written_meanwhile(mode: str) -> None:
    a, c = np.arange(16, dtype="float32"), np.empty(8, "float32")
    kernel.run(turns(first=1), a, c, mode=mode, order="shuffled", inout=["A"])
    assert (c == np.arange(0, 16, 2)).all()
    with pytest.raises(ExecutionError, match=r"conflicting accesses to element \[\d+\] of A"):
        kernel.run(turns(first=0), a, c, mode=mode, inout=["A"])


def test_listeners_hear_what_hardware_touches() -> None:
    ledger = Ledger()
    kernel.run(half_written(), np.zeros(LANES, "f"), np.zeros(LANES, "f"), mode="slow", listeners=(ledger,))
    assert ledger.loads == {"A": LANES, "B": 2 * LANES}


def sparse(step: int, first: int, count: int, parallel: bool) -> t.PrimFunc:
    """B holds something at every `step`-th place from `first` on only; vectors of what it holds become C."""
    a, b, c = t.Buffer("A", (count,)), t.Buffer("B", (step * (count - 1) + first + 1,)), t.Buffer("C", (count,))
    i, j = x.Var("i"), x.Var("j")
    fill = t.BufferStore(b, a[i], (i * step + first,))
    use = t.BufferStore(c, b[j * step + first] * x.const(3.0), (j,))
    loops = (
        t.For(i, x.const(0), x.const(count), PARALLEL if parallel else SERIAL, fill),
        t.For(j, x.const(0), x.const(count), t.ForKind.VECTORIZED, use),
    )
    return t.with_root((a, c), t.Seq.of(*loops), {"global_symbol": "sparse"}, (b,))


@given(st.integers(1, 3), st.integers(0, 3), st.integers(1, 40), st.booleans())
def test_holes_between_the_elements(step: int, first: int, count: int, parallel: bool) -> None:
    """However far apart the elements are that a vectorised loop reads: what lies between was never written."""
    func = sparse(step, first, count, parallel)
    verdict = check(func, lower(func, Target("cpu")), modes=("exact", "shadow"))
    assert verdict, verdict
