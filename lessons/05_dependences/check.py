"""Asks the learner's rule and the schedule about random stencils, and the interpreter to witness where they differ."""

from __future__ import annotations

import itertools
import re
from types import ModuleType

from hypothesis import strategies as st

from lessons.grading import attempt, cases, require
from minitvm import reference, tir
from minitvm.errors import ScheduleError
from minitvm.script import tir as T
from minitvm.tir.nodes import PrimFunc

FIRST, LAST = -2, 5  # of the offsets
N = LAST - FIRST + 1  # iterations of each loop; more than any distance
SIDE = N + LAST - FIRST
Offsets = tuple[int, int, int]


def stencil(written: Offsets, read: Offsets) -> PrimFunc:
    """The exercise's loops, after ones that fill A from X; no index is below 0."""
    w0, w1, w2 = (offset - FIRST for offset in written)
    r0, r1, r2 = (offset - FIRST for offset in read)

    @T.prim_func
    def stencil(X: T.Buffer((SIDE, SIDE, SIDE), "int32"), A: T.Buffer((SIDE, SIDE, SIDE), "int32")):
        for i, j, k in T.grid(SIDE, SIDE, SIDE):
            with T.block("start"):
                vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                A[vi, vj, vk] = X[vi, vj, vk]
        for i, j, k in T.grid(N, N, N):
            with T.block("step"):
                vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                A[vi + w0, vj + w1, vk + w2] = A[vi + r0, vj + r1, vk + r2] + 1

    return stencil


def refusal(written: Offsets, read: Offsets, order: Offsets) -> str:
    """Why the schedule does not take the order: what its error found; "" where it does."""
    sch = tir.Schedule(stencil(written, read))
    loops = sch.get_loops("step")
    try:
        sch.reorder(*(loops[loop] for loop in order))
    except ScheduleError as error:
        why = str(error).splitlines()[-1].strip().removeprefix("found:").strip()
        return re.sub(r"^A\[.*?\]", "One element", why)  # its place is that of the shifted program
    return ""


def index(offsets: Offsets) -> str:
    """`i + 1, j, k`."""
    signs = ("-" if offset < 0 else "+" for offset in offsets)
    return ", ".join(f"{name} {s} {abs(at)}" if at else name for name, s, at in zip("ijk", signs, offsets))


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest offsets for which the answer is not what the schedule proves."""
    offsets = st.tuples(*[st.integers(0, LAST) | st.integers(FIRST, -1)] * 3)
    orders = list(itertools.permutations(range(3)))

    @cases(100, written=offsets, read=offsets, order=st.sampled_from(orders))
    def agrees_with_the_schedule(written: Offsets, read: Offsets, order: Offsets) -> None:
        compare(module, written, read, order)

    @cases(200, signs=st.sampled_from(sorted(itertools.product((0, 1, -1), repeat=3), key=lambda d: sum(map(abs, d)))))
    def knows_all_directions(signs: Offsets) -> None:
        written, read = tuple(max(d, 0) for d in signs), tuple(max(-d, 0) for d in signs)
        for order in orders:
            compare(module, written, read, order)  # type: ignore[arg-type]

    every_order_that_is_legal_is_the_same_program()


def compare(module: ModuleType, written: Offsets, read: Offsets, order: Offsets) -> None:
    """Raises AssertionError unless the answer on these offsets is what the schedule proves."""
    case = f"keeps(written={written}, read={read}, order={order})"
    answer = attempt(case, module.keeps, written, read, order)
    require(isinstance(answer, bool), f"{case} returned {answer!r}, wanted True or False")
    why = refusal(written, read, order)
    if answer == (not why):
        return
    case_and_answer = f"{case} is {answer}\nfor i, j, k: A[{index(written)}] = A[{index(read)}] + 1\n"
    new = ", ".join("ijk"[loop] for loop in order)
    if why:
        raise AssertionError(f"{case_and_answer}but in the order {new} the result is another. {why}")
    raise AssertionError(
        f"{case_and_answer}but the order {new} is legal: no read and write of one element change places"
    )


def every_order_that_is_legal_is_the_same_program() -> None:
    """The judge of the check, judged: the interpreter runs what the schedule accepted."""
    program = stencil((1, 1, 0), (0, 0, 1))
    sch = tir.Schedule(program)
    i, j, k = sch.get_loops("step")
    sch.reorder(j, i, k)
    verdict = reference.check(program, sch.func)
    require(bool(verdict), f"the schedule accepted an order that is another program; please report it\n{verdict}")
