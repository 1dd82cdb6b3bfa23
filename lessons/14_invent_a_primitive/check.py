"""Calls the learner's primitive where it is legal and where it is not, and looks at the order of what is stored."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lessons.grading import attempt, cases, require
from minitvm import reference, tir
from minitvm.errors import ScheduleError
from minitvm.events import Access, Listener
from minitvm.script import tir as T
from minitvm.tir.nodes import ForKind
from minitvm.tir.schedule import Primitive


def independent(n: int) -> tir.PrimFunc:
    """A loop whose iterations have nothing to do with each other."""

    @T.prim_func
    def squares(X: T.Buffer((n,), "float32"), Y: T.Buffer((n,), "float32")):
        for i in T.serial(n):
            with T.block("Y"):
                vi = T.axis.spatial(n, i)
                Y[vi] = X[vi] * X[vi]

    return squares


def chained(n: int, distance: int) -> tir.PrimFunc:
    """A loop in which each iteration reads what the one `distance` before it wrote."""

    @T.prim_func
    def running(X: T.Buffer((n + distance,), "float32"), Y: T.Buffer((n + distance,), "float32")):
        for i in T.serial(n + distance):
            with T.block("start"):
                vi = T.axis.spatial(n + distance, i)
                Y[vi] = X[vi]
        for i in T.serial(n):
            with T.block("Y"):
                vi = T.axis.spatial(n, i)
                Y[vi + distance] = Y[vi] + T.float32(1)

    return running


def shifted(n: int, first: int) -> tir.PrimFunc:
    """A loop that does not begin at 0."""

    @T.prim_func
    def later(X: T.Buffer((n + first,), "float32"), Y: T.Buffer((n + first,), "float32")):
        for i in T.serial(n + first):
            with T.block("start"):
                vi = T.axis.spatial(n + first, i)
                Y[vi] = T.float32(0)
        for i in T.serial(first, n + first):
            with T.block("Y"):
                vi = T.axis.spatial(n + first, i)
                Y[vi] = X[vi] * X[vi]

    return later


def summed(n: int) -> tir.PrimFunc:
    """A loop that a sum runs over."""

    @T.prim_func
    def total(X: T.Buffer((n,), "float32"), Y: T.Buffer((1,), "float32")):
        for i in T.serial(n):
            with T.block("Y"):
                vi = T.axis.reduce(n, i)
                with T.init():
                    Y[0] = T.float32(0)
                Y[0] = Y[0] + X[vi]

    return total


def triangle(n: int) -> tir.PrimFunc:
    """A loop whose extent depends on the loop around it."""

    @T.prim_func
    def rows(X: T.Buffer((n, n), "float32"), Y: T.Buffer((n, n), "float32")):
        for i, j in T.grid(n, n):
            with T.block("start"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.float32(0)
        for i in T.serial(n):
            for j in T.serial(i + 1):
                with T.block("Y"):
                    vi = T.axis.spatial(n, i)
                    vj = T.axis.spatial(n, j)
                    Y[vi, vj] = X[vi, vj] * X[vi, vj]

    return rows


def counted_in_64_bits(n: int) -> tir.PrimFunc:
    """A loop over int64."""

    @T.prim_func
    def squares(X: T.Buffer((n,), "float32"), Y: T.Buffer((n,), "float32")):
        for i in T.serial(T.int64(n)):
            with T.block("Y"):
                vi = T.axis.spatial(T.int64(n), i)
                Y[vi] = X[vi] * X[vi]

    return squares


KINDS: dict[str, Callable[[Any, Any], object]] = {
    "serial": lambda sch, loop: None,
    "parallel": lambda sch, loop: sch.parallel(loop),
    "vectorized": lambda sch, loop: sch.vectorize(loop),
    "unrolled": lambda sch, loop: sch.unroll(loop),
}


class Stores(Listener):
    """The elements of Y, in the order in which they are stored."""

    def __init__(self) -> None:
        self.order: list[int] = []

    def store(self, access: Access) -> None:
        if access.buffer == "Y":
            self.order.append(access.offset)


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest loop and number of hands for which something is wrong."""
    primitive = module.deal
    require(isinstance(primitive, Primitive), "deal is not a primitive; wanted a function under @primitive(...)")

    @cases(50, n=st.integers(1, 9), hands=st.integers(1, 5), kind=st.sampled_from(list(KINDS)))
    def deals_a_loop_out(n: int, hands: int, kind: str) -> None:
        case = f"deal(loop, {hands}) on a {kind} loop of {n}"
        sch = tir.Schedule(independent(n))
        KINDS[kind](sch, sch.get_loops("Y")[0])
        before = sch.func
        answer = called(sch, primitive, hands, case)
        require(
            not isinstance(answer, ScheduleError),
            f"{case} is refused, though its iterations are independent:\n{answer}",
        )
        watched = Stores()
        arrays = [np.zeros(n, "float32"), np.zeros(n, "float32")]
        try:
            reference.tir.run(sch.func, *arrays, listeners=[watched], shadow=False)
        except Exception as error:
            raise AssertionError(f"{case} makes a program that does not run: {error}") from None
        expected = [i for hand in range(hands) for i in range(hand, n, hands)]
        require(watched.order == expected, f"{case} stores Y in the order {watched.order}\nwanted {expected}")
        loops = [int(sch.get(loop).extent) for loop in sch.get_loops("Y")]
        require(loops == [hands, -(-n // hands)], f"{case} makes loops of {loops}, wanted {[hands, -(-n // hands)]}")
        handles = answer if isinstance(answer, list) else [answer]
        require(handles == sch.get_loops("Y"), f"{case} returns {answer}, wanted the two loops, hands first")
        kinds = [sch.get(loop).kind for loop in sch.get_loops("Y")]
        require(
            all(made == ForKind.SERIAL for made in kinds),
            f"{case} makes loops of the kinds {', '.join(made.value for made in kinds)}; wanted serial ones",
        )
        verdict = reference.check(before, sch.func, shrink=False)
        require(bool(verdict), f"{case} makes another program: {verdict}")

    deals_other_loops(primitive)

    @cases(40, n=st.integers(1, 6), distance=st.integers(1, 6), hands=st.integers(1, 4))
    def refuses_what_changes_the_result(n: int, distance: int, hands: int) -> None:
        case = f"deal(loop, {hands}) on `for i in range({n}): Y[i + {distance}] = Y[i] + 1`"
        before = chained(n, distance)
        sch = tir.Schedule(before)
        if isinstance(called(sch, primitive, hands, case), ScheduleError):
            require(distance < n, f"{case} is refused, though no iteration reads what another one wrote")
            return
        verdict = reference.check(before, sch.func, shrink=False)
        require(bool(verdict), f"{case} is accepted, and the result is another:\n{verdict}")

    @cases(30, n=st.integers(1, 6), first=st.integers(1, 4), hands=st.integers(1, 4))
    def minds_where_a_loop_begins(n: int, first: int, hands: int) -> None:
        case = f"deal(loop, {hands}) on `for i in range({first}, {n + first}): Y[i] = X[i] * X[i]`"
        before = shifted(n, first)
        sch = tir.Schedule(before)
        if not isinstance(called(sch, primitive, hands, case), ScheduleError):
            verdict = reference.check(before, sch.func, shrink=False)
            require(bool(verdict), f"{case} is accepted, and the result is another:\n{verdict}")

    refuses_other_loops(primitive)
    for hands in (0, -1):
        case = f"deal(loop, {hands})"
        try:
            accepted = not isinstance(called(tir.Schedule(independent(4)), primitive, hands, case), ScheduleError)
        except Exception as error:
            raise AssertionError(
                f"{case} ends in {type(error).__name__}; wanted a requirement that refuses it, listed in `requires`"
            ) from None
        require(not accepted, f"{case} is accepted; wanted a requirement that refuses it, listed in `requires`")


def deals_other_loops(primitive: Primitive) -> None:
    """Raises AssertionError unless loops with other extents and dtypes are dealt out, and a sum of one term."""
    for case, before, hands in (
        ("deal(j, 2) in `for i in range(3): for j in range(i + 1): Y[i, j] = X[i, j] * X[i, j]`", triangle(3), 2),
        ("deal(loop, 2) on a loop over int64", counted_in_64_bits(5), 2),
        ("deal(loop, 2) on `for i in range(1): Y[0] = Y[0] + X[i]`, a sum of one term,", summed(1), 2),
    ):
        sch = tir.Schedule(before)
        dtype = sch.get(sch.get_loops("Y")[-1]).var.dtype
        try:
            answer = called(sch, primitive, hands, case)
        except Exception as error:
            raise AssertionError(f"{case} ends in {type(error).__name__}: {str(error).splitlines()[0]}") from None
        message = f"{case} is refused, though its iterations are independent:\n{answer}"
        require(not isinstance(answer, ScheduleError), message)
        verdict = reference.check(before, sch.func, shrink=False)
        require(bool(verdict), f"{case} makes another program: {verdict}")
        for loop in map(sch.get, sch.get_loops("Y")[-2:]):
            require(loop.var.dtype == dtype, f"{case} makes a loop over {loop.var.dtype}; wanted {dtype}, as it was")


def refuses_other_loops(primitive: Primitive) -> None:
    """Raises AssertionError unless loops with a thread or a note, and loops of a sum, are refused."""
    for step, change in (
        ('sch.bind(loop, "threadIdx.x")', lambda sch, loop: sch.bind(loop, "threadIdx.x")),
        ('sch.annotate(loop, "prefetch", 4)', lambda sch, loop: sch.annotate(loop, "prefetch", 4)),
    ):
        sch = tir.Schedule(independent(6))
        change(sch, sch.get_loops("Y")[0])
        case = f"deal(loop, 2) after `{step}`"
        refused = isinstance(called(sch, primitive, 2, case), ScheduleError)
        require(refused, f"{case} is accepted; wanted a refusal, as the new loops would not have what the loop has")
    case = "deal(loop, 2) on `for i in range(5): Y[0] = Y[0] + X[i]`"
    refused = isinstance(called(tir.Schedule(summed(5)), primitive, 2, case), ScheduleError)
    require(refused, f"{case} is accepted; wanted a refusal: a sum runs over the loop, and its order would change")


def called(sch: tir.Schedule, primitive: Primitive, hands: int, case: str) -> Any:
    """What the call returns, or the error that refuses it."""

    def call() -> Any:
        try:
            return sch.call(primitive, {"loop": sch.get_loops("Y")[-1], "hands": hands})
        except ScheduleError as refused:
            return refused

    return attempt(case, call)
