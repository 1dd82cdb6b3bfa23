"""Runs random loop nests, gives the learner's detector what happened, and lets the interpreter's shadow mode judge."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lessons.grading import attempt, cases, require
from minitvm import events, reference
from minitvm.arith import simplify
from minitvm.expr import Expr, Var, const
from minitvm.reference.meaning.findings import UndefinedBehaviour
from minitvm.tir.nodes import Buffer, BufferStore, For, ForKind, PrimFunc, Stmt, with_root

KINDS = {
    "serial": ForKind.SERIAL,
    "parallel": ForKind.PARALLEL,
    "vectorized": ForKind.VECTORIZED,
    "unrolled": ForKind.UNROLLED,
}
Access = tuple[tuple[int, ...], str, str]


@dataclass(frozen=True)
class Nest:
    """Loops of so many iterations each, around A[written] = A[read] + 1; an index is a factor a loop, and an offset."""

    kinds: tuple[str, ...]
    extents: tuple[int, ...]
    written: tuple[int, ...]
    read: tuple[int, ...]

    def program(self) -> tuple[PrimFunc, int]:
        """The nest as a function of A, and the size of A."""
        loops = [Var(name) for name in "ijk"[: len(self.kinds)]]
        size = 1 + max(
            index[-1] + sum(factor * (extent - 1) for factor, extent in zip(index, self.extents))
            for index in (self.written, self.read)
        )
        a = Buffer("A", (size,), "int32")
        body: Stmt = BufferStore(a, a[indexed(self.read, loops)] + 1, (indexed(self.written, loops),))
        for var, extent, kind in reversed(list(zip(loops, self.extents, self.kinds))):
            body = For(var, const(0), const(extent), KINDS[kind], body)
        return with_root((a,), body, {"global_symbol": "nest"}), size

    def __str__(self) -> str:
        return "\n".join("    " + line for line in self.program()[0].script().splitlines()[4:])


def indexed(index: tuple[int, ...], loops: list[Var]) -> Expr:
    """The factors and the offset of an index as an expression in the loops."""
    return simplify(sum((loop * factor for factor, loop in zip(index, loops)), const(index[-1])))


@dataclass
class Diary(events.Listener):
    """Writes down the accesses of a run, each with its iteration."""

    now: list[int] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)

    def loop_enter(self, loop: events.Loop) -> None:
        self.now.append(loop.start)

    def loop_iteration(self, loop: events.Loop, value: int) -> None:
        self.now[-1] = value

    def loop_exit(self, loop: events.Loop) -> None:
        self.now.pop()

    def load(self, access: events.Access) -> None:
        self.accesses.append((tuple(self.now), "read", f"{access.buffer}[{access.offset}]"))

    def store(self, access: events.Access) -> None:
        self.accesses.append((tuple(self.now), "write", f"{access.buffer}[{access.offset}]"))


@st.composite
def nests(draw: Callable[..., Any]) -> Nest:
    """Nests of one to three short loops, of all kinds, with and without races."""
    depth = draw(st.integers(1, 3))
    index = st.tuples(*[st.integers(0, 3)] * depth, st.integers(0, 2))
    return Nest(
        draw(st.tuples(*[st.sampled_from(list(KINDS))] * depth)),
        draw(st.tuples(*[st.integers(2, 3)] * depth)),
        draw(index),
        draw(index),
    )


ELEMENTS = ("A[1]", "A[10]", "A[1000]", "A[1001]", "B[1]")
Trace = tuple[tuple[str, ...], list[Access]]


@st.composite
def traces(draw: Callable[..., Any]) -> Trace:
    """Kinds of loops, and accesses to a few elements, in the order of a serial run; several in an iteration."""
    kinds = draw(st.lists(st.sampled_from(list(KINDS)), max_size=3))
    iterations = st.tuples(*[st.integers(0, draw(st.sampled_from([1, 2, 11])))] * len(kinds))
    element = st.sampled_from(ELEMENTS[: draw(st.sampled_from([1, 1, 2, 5]))])
    access = st.tuples(iterations, st.sampled_from(["read", "write"]), element)
    return tuple(kinds), sorted(draw(st.lists(access, max_size=6)), key=lambda one: one[0])


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest nest whose races are found wrong."""

    @cases(120, nest=nests())
    def agrees_with_the_shadow_mode(nest: Nest) -> None:
        program, size = nest.program()
        diary = Diary()
        reference.tir.run(program, np.zeros(size, "int32"), inout=["A"], listeners=[diary], mode="slow", shadow=False)
        case = f"for kinds={nest.kinds} and the accesses of\n{nest}\n"
        answer = attempt(case, module.race, nest.kinds, list(diary.accesses))
        truth = finding_of(program, size)
        if answer is None:
            require(truth is None, f"{case}race finds nothing, but there are {truth}")
            return
        pair = two_accesses(case, answer, diary.accesses)
        case_and_answer = f"{case}race returned {answer}:\n" + "\n".join(f"  {told_of(one)}" for one in pair)
        fault = why_not(nest.kinds, *pair)
        require(not fault, f"{case_and_answer}\n{fault}")
        require(truth is not None, f"{case_and_answer}\nand the interpreter finds nothing; please report it")

    @cases(500, trace=traces())
    def finds_a_race_in_any_trace(trace: Trace) -> None:
        kinds, accesses = trace
        listed = "\n".join(f"  {position}: {told_of(one)}" for position, one in enumerate(accesses)) or "  (none)"
        case = f"for kinds={kinds} and the accesses\n{listed}\n"
        answer = attempt(case, module.race, kinds, list(accesses))
        if answer is None:
            pairs = itertools.combinations(range(len(accesses)), 2)
            racing = next(((p, q) for p, q in pairs if not why_not(kinds, accesses[p], accesses[q])), None)
            require(racing is None, f"{case}race finds nothing, but the accesses {racing} race")
            return
        fault = why_not(kinds, *two_accesses(case, answer, accesses))
        require(not fault, f"{case}race returned {answer}: {fault}")


def finding_of(program: PrimFunc, size: int) -> UndefinedBehaviour | None:
    """The race that the shadow mode finds."""
    try:
        reference.tir.run(program, np.zeros(size, "int32"), inout=["A"])
    except UndefinedBehaviour as error:
        return error
    return None


def two_accesses(case: str, answer: object, accesses: list[Access]) -> tuple[Access, Access]:
    """The accesses that an answer stands for."""
    require(
        isinstance(answer, tuple) and len(answer) == 2 and all(isinstance(at, int) for at in answer),
        f"{case}race returned {answer!r}; wanted None, or two positions in the list",
    )
    p, q = answer  # type: ignore[misc]
    require(
        0 <= p < q < len(accesses), f"{case}race returned {answer}; wanted p < q, both from 0 to {len(accesses) - 1}"
    )
    return accesses[p], accesses[q]


def told_of(access: Access) -> str:
    """`A[3] is read where i = 0, j = 1`."""
    iteration, verb, element = access
    where = ", ".join(f"{var} = {value}" for var, value in zip("ijk", iteration)) or "no loop runs"
    return f"{element} is {'written' if verb == 'write' else 'read'} where {where}"


def why_not(kinds: tuple[str, ...], first: Access, second: Access) -> str:
    """Why two accesses are no race; "" when they are one."""
    if first[2] != second[2]:
        return "these are two elements"
    if first[1] == second[1] == "read":
        return "both only read the element, so their order makes no difference"
    for var, kind, p, q in zip("ijk", kinds, first[0], second[0]):
        if p == q:
            continue
        if kind in ("serial", "unrolled"):
            return f"the outermost loop in which they differ is {var}, which is {kind}, so it orders them"
        return ""
    return "they belong to the same iteration"
