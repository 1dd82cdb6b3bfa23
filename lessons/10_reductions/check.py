"""Holds the learner's two steps against the plain dot product: same formula, nothing undefined, lanes in parallel."""

from __future__ import annotations

from collections import Counter
from types import ModuleType

import numpy as np
from hypothesis import strategies as st

from lessons.grading import attempt, cases, require, yours
from minitvm import events, reference, tir
from minitvm.errors import InputError, MinitvmError, ScheduleError
from minitvm.expr import Var
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


class Reads(events.Listener):
    """How often A is read in each iteration of a loop, and how often each buffer inside and outside of that loop."""

    def __init__(self, loop: Var) -> None:
        self.loop, self.inside = loop, False
        self.lanes: list[int] = []
        self.counts: Counter[tuple[bool, str]] = Counter()

    def loop_enter(self, loop: events.Loop) -> None:
        self.inside |= loop.node.var is self.loop

    def loop_exit(self, loop: events.Loop) -> None:
        self.inside &= loop.node.var is not self.loop

    def loop_iteration(self, loop: events.Loop, value: int) -> None:
        if loop.node.var is self.loop:
            self.lanes.append(0)

    def load(self, access: events.Access) -> None:
        self.counts[self.inside, access.buffer] += 1
        if self.inside and access.buffer == "A":
            self.lanes[-1] += 1


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
        adds_infinity(case, n, answer)


def same_as_the_chain(case: str, n: int, answer: tir.PrimFunc) -> None:
    """The same formula for all inputs, and nothing undefined on the way."""
    try:
        verdict = reference.check(in_one_chain(n), answer, modes=("exact", "field", "shadow"))
    except InputError as error:
        raise AssertionError(f"{case} has other parameters than the plain dot product:\n{error}") from None
    text = yours(verdict)
    if "is used where it has no value" in text:
        text += "\nT.where must be the first line of its block: names that are defined above it have no value there"
    require(bool(verdict), f"{case} is not the dot product, by the mode {verdict.mode!r}:\n{text}")


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
        reads_what_it_may(case, n, lanes, sch.func, sch.get(around[0]).var)
        sch.parallel(around[0])
    except ScheduleError as error:
        raise AssertionError(f"{case}: the loop over the lanes cannot be parallel\n{error}") from None
    verdict = reference.check(in_one_chain(n), sch.func, modes=("shadow", "exact"))
    require(bool(verdict), f"{case}: with parallel lanes\n{yours(verdict)}")


def reads_what_it_may(case: str, n: int, lanes: int, answer: tir.PrimFunc, loop: Var) -> None:
    """Each lane has its share of products, the other blocks add partial sums, and the bias is added once."""
    reads = Reads(loop)
    reference.tir.run(answer, *arrays(n), listeners=[reads], shadow=False)
    most = -(-n // lanes)
    for lane, count in enumerate(reads.lanes):
        require(
            count <= most, f"{case}: lane {lane} reads A {count} times; wanted at most ceil({n} / {lanes}) = {most}"
        )
    for buffer in "AB":
        again = reads.counts[False, buffer]
        require(
            not again, f"{case}: {buffer} is read outside of the lanes, too; wanted a sum of the partial sums there"
        )
    in_lanes, after = reads.counts[True, "bias"], reads.counts[False, "bias"]
    require(not in_lanes, f"{case}: a lane reads bias; wanted partial sums of products only")
    require(after == 1, f"{case}: bias[0] is read {after} times; wanted once: add it when the lanes are added up")


def arrays(n: int) -> tuple[np.ndarray, ...]:
    """Arguments of the program: A and B of ones, bias and Y of zeros."""
    return np.ones(n, "float32"), np.ones(n, "float32"), np.zeros(1, "float32"), np.zeros(1, "float32")


def adds_infinity(case: str, n: int, answer: tir.PrimFunc) -> None:
    """An infinite element is counted once: 0 times infinity would be NaN."""
    a, b, bias, y = arrays(n)
    a[-1] = np.inf
    with np.errstate(invalid="ignore"):
        reference.tir.run(answer, a, b, bias, y, shadow=False)
    message = f"{case} gives {y[0]} with A[{n - 1}] = inf and all else in A and B = 1; wanted inf\nis A[{n - 1}] read"
    require(bool(y[0] == np.inf), f"{message} where there is no product, and multiplied by 0? That is NaN")
