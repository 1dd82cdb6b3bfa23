"""Builds kernels of random stages with the learner's barriers, and lets the shadow mode judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lessons.grading import attempt, cases, require
from minitvm import reference
from minitvm.expr import Call, DType, StringImm, Var, const
from minitvm.reference.meaning.findings import UndefinedBehaviour
from minitvm.tir.nodes import Allocate, Buffer, BufferStore, Evaluate, For, ForKind, PrimFunc, Seq, Stmt

SIZE = 6  # elements of the shared array, and the most threads
BARRIER = Evaluate(Call(DType("int32"), "tvm_storage_sync", (StringImm("shared"),)))


@dataclass(frozen=True)
class Stage:
    """Thread t touches the element (factor * t + offset) % SIZE; in a stage that writes, each another one."""

    verb: str
    factor: int
    offset: int

    def elements(self, threads: int) -> list[int]:
        return [(self.factor * t + self.offset) % SIZE for t in range(threads)]


@dataclass(frozen=True)
class Stages:
    """Stages that a block of so many threads goes through; what is read goes into a row of its own of R."""

    threads: int
    stages: tuple[Stage, ...]

    def told(self) -> list[tuple[str, list[int]]]:
        """What the learner sees."""
        return [(stage.verb, stage.elements(self.threads)) for stage in self.stages]

    def kernel(self, placed: list[int]) -> PrimFunc:
        """The kernel, with barriers before these stages. All of the shared array is written first."""
        shared, out = Buffer("S", (SIZE,), "int32", scope="shared"), Buffer("R", (len(self.stages) * SIZE,), "int32")
        thread, k = Var("t"), Var("k")
        fill = For(k, const(0), const(SIZE), ForKind.SERIAL, BufferStore(shared, const(0), (k,)))
        parts: list[Stmt] = []
        for number, stage in enumerate(self.stages):
            at = (thread * stage.factor + stage.offset) % SIZE
            if number in placed:
                parts.append(BARRIER)
            if stage.verb == "write":
                parts.append(BufferStore(shared, thread + number, (at,)))
            else:
                parts.append(BufferStore(out, shared[at], (thread + number * SIZE,)))
        body = For(thread, const(0), const(self.threads), ForKind.THREAD, Seq.of(*parts), "threadIdx.x")
        return PrimFunc((out,), Allocate(shared, Seq.of(fill, body)), {"global_symbol": "stages"})

    def __str__(self) -> str:
        return "\n".join(f"    stage {n}: {verb:<5} {at}" for n, (verb, at) in enumerate(self.told()))


@st.composite
def many_stages(draw: Callable[..., Any]) -> Stages:
    """Two to six stages of two to six threads."""
    write = st.builds(Stage, st.just("write"), st.sampled_from([1, 5]), st.integers(0, SIZE - 1))
    read = st.builds(Stage, st.just("read"), st.sampled_from([0, 1, 2, 5]), st.integers(0, SIZE - 1))
    return Stages(draw(st.integers(2, SIZE)), tuple(draw(st.lists(st.one_of(write, read), min_size=2, max_size=6))))


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest stages whose barriers are too few, too many or no numbers of stages."""

    @cases(200, case=many_stages())
    def nothing_races_and_nobody_waits_for_nothing(case: Stages) -> None:
        what = f"for {case.threads} threads and\n{case}\n"
        answer = attempt(what, module.barriers, case.told())
        inside = set(range(1, len(case.stages)))
        fits = isinstance(answer, list) and answer == sorted(set(answer)) and set(answer) <= inside
        wanted = f"wanted a list of numbers from 1 to {len(case.stages) - 1}, in increasing order"
        require(fits, f"{what}barriers returned {answer!r}; {wanted}")
        race = race_of(case, answer)
        require(race is None, f"{what}barriers returned {answer}, and there are {race}")
        fewer = fewest(case)
        require(len(answer) <= len(fewer), f"{what}barriers returned {answer}; {fewer} are enough")
        require(
            answer == fewer, f"{what}barriers returned {answer}; {fewer} are as few, and each is as late as it can be"
        )


def race_of(case: Stages, placed: list[int]) -> UndefinedBehaviour | None:
    """What the shadow mode finds in the kernel with these barriers."""
    try:
        reference.kernel.run(case.kernel(placed), np.zeros(len(case.stages) * SIZE, "int32"), inout=["R"])
    except UndefinedBehaviour as error:
        return error
    return None


def fewest(case: Stages) -> list[int]:
    """As few barriers as possible: each as late as nothing races."""
    placed: list[int] = []
    begin = 0
    for number in range(1, len(case.stages)):
        # A barrier as late as possible: before the first stage that races with one since the last barrier.
        if race_of(Stages(case.threads, case.stages[begin : number + 1]), []) is not None:
            placed.append(number)
            begin = number
    return placed
