"""reverse_compute_inline of consumers that read the producer through a bijective map of their iterators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm import te
from minitvm.compat.tvm.schedule.testing import verify_trace_roundtrip
from minitvm.errors import ScheduleError
from minitvm.reference import check
from minitvm.tir import PrimFunc
from minitvm.tir.schedule import Schedule


def reader(shape: tuple[Any, ...], read: tuple[Any, ...], point: Callable[..., Any]) -> PrimFunc:
    """B = A * 2 of a shape; C[i] = B[point(i)] + 1 + D[i] over another."""
    A, D = te.placeholder(shape, name="A"), te.placeholder(read, name="D")
    B = te.compute(shape, lambda *i: A(*i) * 2.0, name="B")
    C = te.compute(read, lambda *i: B(*point(*i)) + 1.0 + D(*i), name="C")
    return te.create_prim_func([A, D, C])


@pytest.mark.parametrize(
    ("shape", "read", "point", "shown"),
    [
        ((4, 6), (24,), lambda i: (i // 6, i % 6), "C[v_i1 + v_i0 * 6] = "),
        ((24,), (4, 6), lambda i, j: (i * 6 + j,), "C[v_i0 // 6, v_i0 % 6] = "),
        ((4, 6), (3, 2, 4), lambda a, b, c: (c, b * 3 + a), "C[v_i1 % 3, v_i1 // 3, v_i0] = "),
        ((4, 6), (1, 24), lambda u, i: (i // 6, i % 6), "C[0, v_i1 + v_i0 * 6] = "),
        ((8,), (8,), lambda i: (7 - i,), "C[7 - v_i0] = "),
        ((5, 8), (24,), lambda i: (i // 6, i % 6), "T.where(i0 < 4 and i1 < 6)"),
        ((4, 6), (10,), lambda i: (i // 6, i % 6), "T.where(i0 * 6 + i1 < 10)"),
        ((4, 6), (4, 3), lambda i, j: (i, j + 2), "T.where(2 <= i1 and i1 < 5)"),
        ((8, 6), (2, 20), lambda i, j: (i * 4 + j // 6, j % 6), "C[v_i0 // 4, v_i1 + v_i0 % 4 * 6] = "),
        ((30,), (4, 6), lambda i, j: (i * 7 + j,), "T.where(i0 % 7 < 6 and i0 < 27)"),
    ],
)
def test_it_is_computed_where_its_point_is(shape: Any, read: Any, point: Any, shown: str) -> None:
    func = reader(shape, read, point)
    sch = Schedule(func)
    sch.reverse_compute_inline("C")
    assert [b.block.name for b in sch.state.tree().blocks.values()] == ["root", "B"]
    assert shown in sch.mod.script()
    verdict = check(func, sch.func)
    assert verdict, verdict
    verify_trace_roundtrip(sch, func)


@st.composite
def parts(draw: st.DrawFn) -> PrimFunc:
    """A consumer of a part of its producer: digits of its iterators as indices, in any order, some not reached."""
    shape = [draw(st.integers(1, 4)) for _ in range(draw(st.integers(1, 3)))]
    order = draw(st.permutations(range(len(shape))))
    fused = draw(st.integers(1, len(shape)))  # so many digits are one iterator
    steps = [math.prod(shape[d] for d in order[k + 1 : fused]) for k in range(fused)]
    whole = [math.prod(shape[d] for d in order[:fused]), *(shape[d] for d in order[fused:])]
    read = tuple(draw(st.integers(1, extent)) for extent in whole)

    def point(*i: Any) -> list[Any]:
        digits = {d: i[0] // step % shape[d] for d, step in zip(order[:fused], steps, strict=True)}
        digits[order[0]] = i[0] // steps[0]
        digits |= {d: i[k] for k, d in enumerate(order[fused:], 1)}
        return [digits[d] for d in range(len(shape))]

    return reader(tuple(shape), read, point)


@settings(max_examples=30, deadline=None)
@given(parts())
def test_a_part_is_computed_where_it_is_read(func: PrimFunc) -> None:
    sch = Schedule(func)
    sch.reverse_compute_inline("C")
    verdict = check(func, sch.func, shrink=False)
    assert verdict, f"{verdict}\n{func.script()}\n{sch.func.script()}"


@pytest.mark.parametrize(
    ("shape", "read", "point", "reason"),
    [
        ((4, 6), (12,), lambda i: (i // 6, i % 3), "has no inverse"),  # two iterations at one element
        ((8, 4), (4, 8), lambda i, j: ((i + j) // 2, 0 * i), "B"),
        ((3, 6), (24,), lambda i: (i // 6 % 3, i % 6), "B"),
    ],
)
def test_only_where_each_iteration_has_a_point_of_its_own(shape: Any, read: Any, point: Any, reason: str) -> None:
    sch = Schedule(reader(shape, read, point))
    with pytest.raises(ScheduleError, match=rf"reads_its_own_point[\s\S]*{reason}"):
        sch.reverse_compute_inline("C")


def test_no_iteration_is_outside_of_the_buffer() -> None:
    """A guarded load may name elements that are not there: its iteration has no place to go to."""
    A = te.placeholder((3, 6), name="A")
    B = te.compute((3, 6), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((24,), lambda i: te.if_then_else(i < 18, B[i // 6, i % 6], 0.0), name="C")
    sch = Schedule(te.create_prim_func([A, C]))
    with pytest.raises(ScheduleError, match=r"stays_in_the_buffer[\s\S]*runs over \[0, 4\)"):
        sch.reverse_compute_inline("C")
