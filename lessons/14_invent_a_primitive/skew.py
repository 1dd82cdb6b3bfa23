"""A schedule primitive in one file, outside the package: `skew` leans a loop nest over, so that its diagonals stand up.

    minitvm explain skew --load skew.py     its documentation, and what it refuses
    minitvm check skew.py                   its example, its refusals, and random programs

It is the transformation of Michael Wolfe, "Loop skewing: the wavefront method revisited" (1986).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from minitvm.expr import Var, const, replace, substitute
from minitvm.tir.nodes import For, ForKind
from minitvm.tir.schedule import requirements as req
from minitvm.tir.schedule.primitives.loops import consecutive, rectangular
from minitvm.tir.schedule.registry import Failure, primitive, requirement
from minitvm.tir.schedule.state import ScheduleState, guard, tidy


@requirement
def leans_over(state: ScheduleState, inner: For, factor: int) -> Failure | None:
    """factor >= 1"""
    if factor >= 1:
        return None
    return Failure({inner: "begins later in each row"}, "a factor of at least 1", str(factor))


@primitive(
    past="was skewed into",
    aka={"Tiramisu": "skew"},
    requires=[req.distinct_loops, req.plain_loops, req.starts_at_zero, consecutive, rectangular, leans_over],
)
def skew(state: ScheduleState, outer: For, inner: For, factor: int = 1) -> For:
    """Let the inner loop begin `factor` steps later in each iteration of the outer one; returns the new inner loop.

    before:
        for i, j in T.grid(4, 3):
            with T.block("B"): B[vi, vj] = A[vi, vj] * 2.0
    call: `wave = sch.skew(i, j)`
    after:
        for i, j_skewed in T.grid(4, 6):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                vj = T.axis.spatial(3, j_skewed - i)
                T.where(i <= j_skewed and j_skewed <= i + 2)
                B[vi, vj] = A[vi, vj] * 2.0

    The order of iterations stays the same, so no dependence can break. But a `reorder` can now move the new loop
    outside. Each of its iterations then runs one diagonal of the old iterations. If each old iteration needs only the
    results of the iterations above it and to its left, `parallel` accepts the inner loop. This order is called a
    wavefront.
    """
    wave = Var(f"{inner.var.name}_skewed", inner.var.dtype)
    old = wave - outer.var * factor  # the value that the inner loop had
    body = guard(guard(substitute(inner.body, {inner.var: old}), old >= 0), old < inner.extent)
    extent = inner.extent + (outer.extent - 1) * factor
    skewed = For(wave, const(0, wave.dtype), extent, ForKind.SERIAL, body)
    around = state.analyzer(state.home(outer).parent[outer])
    state.replace({outer: tidy(replace(outer, body=skewed), around, keep_unit=True)})
    new_loop = state.loop(wave)
    assert new_loop is not None
    return new_loop


@skew.space
def _space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    for loop in state.tree().loops.values():
        if isinstance(loop.body, For):
            yield loop, loop.body
            yield loop, loop.body, 2


def _rows(columns: str) -> str:
    return f"for i in range(4):\n  for j in range({columns}):\n    with T.block('B'): B[vi, vj] = 0.0"


skew.refuses(req.distinct_loops, "sch.skew(i, i)")
skew.refuses(req.plain_loops, "sch.bind(j, 'threadIdx.x'); sch.skew(i, j)")
skew.refuses(req.starts_at_zero, "sch.skew(i, j)", before=_rows("2, 6"))
skew.refuses(consecutive, "sch.skew(j, i)")
skew.refuses(rectangular, "sch.skew(i, j)", before=_rows("i + 1"))
skew.refuses(leans_over, "sch.skew(i, j, factor=0)")
