"""Holds the learner's two steps against the plain dot product: same formula, nothing undefined, lanes in parallel."""

from __future__ import annotations

from types import ModuleType

from hypothesis import strategies as st

from lessons.grading import attempt, cases, require
from minitvm import reference, tir
from minitvm.errors import InputError, MinitvmError, ScheduleError
from minitvm.script import tir as T


def in_one_chain(n: int) -> tir.PrimFunc:
    """The program of the exercise's docstring."""

    @T.prim_func
    def dot(
        A: T.Buffer((n,), "float32"),
        B: T.Buffer((n,), "float32"),
        bias: T.Buffer((1,), "float32"),
        Y: T.Buffer((1,), "float32"),
    ):
        C = T.alloc_buffer((1,), "float32")
        for r in range(n):
            with T.block("C"):
                vr = T.axis.reduce(n, r)
                with T.init():
                    C[0] = T.float32(0)
                C[0] = C[0] + A[vr] * B[vr]
        with T.block("Y"):
            Y[0] = C[0] + bias[0]

    return dot


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest length and number of lanes for which something is wrong."""

    @cases(40, n=st.integers(1, 12), lanes=st.integers(1, 6))
    def is_the_dot_product_in_lanes(n: int, lanes: int) -> None:
        case = f"two_steps(n={n}, lanes={lanes})"
        try:
            answer = attempt(case, module.two_steps, n, lanes)
        except MinitvmError as error:
            raise AssertionError(f"{case} is no program that the parser accepts:\n{error}") from None
        require(isinstance(answer, tir.PrimFunc), f"{case} returned {type(answer).__name__}, wanted a PrimFunc")
        same_as_the_chain(case, n, answer)
        has_its_lanes(case, n, lanes, answer)


def same_as_the_chain(case: str, n: int, answer: tir.PrimFunc) -> None:
    """The same formula for all inputs, and nothing undefined on the way."""
    try:
        verdict = reference.check(in_one_chain(n), answer, modes=("exact", "field", "shadow"))
    except InputError as error:
        raise AssertionError(f"{case} has other parameters than the plain dot product:\n{error}") from None
    require(bool(verdict), f"{case} is not the dot product, by the mode {verdict.mode!r}:\n{verdict}")


def has_its_lanes(case: str, n: int, lanes: int, answer: tir.PrimFunc) -> None:
    """The block "partial" is there, and its outermost loop may be parallel and has an iteration for each lane."""
    sch = tir.Schedule(answer)
    try:
        around = sch.get_loops("partial")
        require(bool(around), f"{case}: there is no loop around the block partial; wanted one over the lanes")
        extent = int(sch.get(around[0]).extent)
        require(
            extent == lanes,
            f"{case}: the outermost loop around partial has {extent} iterations; wanted one for each lane, {lanes}",
        )
        sch.parallel(around[0])
    except ScheduleError as error:
        raise AssertionError(f"{case}: the loop over the lanes cannot be parallel\n{error}") from None
    verdict = reference.check(in_one_chain(n), sch.func, modes=("shadow", "exact"))
    require(bool(verdict), f"{case}: with parallel lanes\n{verdict}")
