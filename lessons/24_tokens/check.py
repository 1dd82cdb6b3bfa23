"""Builds a program of the accelerator with the learner's tokens, and lets the verifier's rules judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from lessons.grading import attempt, cases, require
from minitvm.machines.vta.config import AccelConfig, Scratchpad
from minitvm.machines.vta.isa import MicroOp, Program
from minitvm.machines.vta.ordering import conflicts, ordering
from minitvm.machines.vta.stream import Stream

PLACES = 3  # elements of inp, and of acc
ONE = AccelConfig("one", block_in=1, block_out=1, inp_bytes=4, wgt_bytes=4, acc_bytes=16, uop_bytes=1024)
NEIGHBOURS = {("load", "compute"), ("compute", "load"), ("compute", "store"), ("store", "compute")}
Pairs = list[tuple[int, int]]


@dataclass(frozen=True)
class Step:
    """A load into `inp`, a product of `inp` into `acc`, or a store of `acc`."""

    module: str
    inp: int
    acc: int

    def told(self) -> tuple[str, set[str], set[str]]:
        inp, acc = f"inp{self.inp}", f"acc{self.acc}"
        reads, writes = {"load": (set(), {inp}), "compute": ({inp, acc}, {acc}), "store": ({acc}, set())}[self.module]
        return self.module, reads, writes


@dataclass(frozen=True)
class Case:
    """Steps, in the order of the program."""

    steps: tuple[Step, ...]

    def told(self) -> list[tuple[str, set[str], set[str]]]:
        """What the learner sees."""
        return [step.told() for step in self.steps]

    def program(self, pairs: Pairs) -> Program:
        """The steps with these tokens. What they need is there before, and is in order with all of them."""
        s = Stream(ONE, "steps")
        image = s.buffer("image", "input", Scratchpad.INP, PLACES)
        out = s.buffer("out", "output", Scratchpad.OUT, PLACES)
        for step in self.steps:
            if step.module == "load":
                s.load(Scratchpad.INP, step.inp, image, step.inp)
            elif step.module == "compute":
                s.gemm(s.micro_ops([MicroOp(step.acc, step.inp)]))
            else:
                s.store(step.acc, out, step.acc)
        instructions = list(s.instructions)
        for a, b in pairs:
            forward = (self.steps[a].module, self.steps[b].module) in (("load", "compute"), ("compute", "store"))
            push, pop = ("push_next", "pop_prev") if forward else ("push_prev", "pop_next")
            changes: list[tuple[int, dict[str, Any]]] = [(a, {push: True}), (b, {pop: True})]
            for number, fields in changes:
                instructions[number] = replace(instructions[number], **fields)
        s.instructions = instructions
        return s.program()

    def __str__(self) -> str:
        names = [(m, sorted(r), sorted(w)) for m, r, w in self.told()]
        return "\n".join(f"    {n}: {m:<8} reads {r}, writes {w}" for n, (m, r, w) in enumerate(names))


@st.composite
def many_cases(draw: Callable[..., Any]) -> Case:
    """Two to nine steps."""
    place = st.integers(0, PLACES - 1)
    step = st.builds(Step, st.sampled_from(["load", "compute", "store"]), place, place)
    return Case(tuple(draw(st.lists(step, min_size=2, max_size=9))))


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest program whose tokens are too few, too many or none that can be."""

    @cases(250, case=many_cases())
    def all_is_in_order_and_no_token_too_many(case: Case) -> None:
        what = f"for\n{case}\n"
        answer = attempt(what, module.tokens, case.told())
        problem = malformed(case, answer)
        require(problem is None, f"{what}tokens returned {answer!r}; {problem}")
        pair = unordered(case, answer)
        require(pair is None, f"{what}tokens returned {answer}, and nothing orders instructions {pair}")
        for token in answer:
            fewer = [other for other in answer if other != token]
            require(unordered(case, fewer) is not None, f"{what}tokens returned {answer}; {token} is not needed")


def malformed(case: Case, answer: Any) -> str | None:
    """What is wrong with an answer before anybody runs it."""
    numbers = range(len(case.steps))
    pairs = isinstance(answer, list) and all(
        isinstance(p, tuple) and len(p) == 2 and p[0] in numbers and p[1] in numbers and p[0] < p[1] for p in answer
    )
    if not pairs:
        return "wanted a list of pairs (a, b) of instructions, a before b in the program"
    queues: dict[tuple[str, str], Pairs] = {}
    for a, b in sorted(answer):
        queues.setdefault((case.steps[a].module, case.steps[b].module), []).append((a, b))
    for queue, tokens in queues.items():
        if queue not in NEIGHBOURS:
            return f"{queue[0]} and {queue[1]} are not neighbours"
        if len({a for a, _ in tokens}) < len(tokens) or len({b for _, b in tokens}) < len(tokens):
            return "an instruction pushes one token to a neighbour, and pops one"
        if [b for _, b in tokens] != sorted(b for _, b in tokens):
            return f"the tokens from {queue[0]} to {queue[1]} cross: the first pushed is the first popped"
    return None


def unordered(case: Case, pairs: Pairs) -> tuple[int, int] | None:
    """Two instructions that touch a place and are in no order, by the rule of the accelerator's verifier."""
    program = case.program(pairs)
    before = len(program.instructions) - len(case.steps) - 1  # micro-ops are loaded before the steps, FINISH is behind
    for found in conflicts(program, ONE, ordering(program, ONE)):
        return min(found.first, found.second) - before, max(found.first, found.second) - before
    return None
