"""Places the learner's tokens in random programs, and looks at which instructions they order."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from lessons.grading import attempt, cases, require

MODULES = ("load", "compute", "store")
NEIGHBOURS = {("load", "compute"), ("compute", "load"), ("compute", "store"), ("store", "compute")}
INP, ACC = ("inp0", "inp1"), ("acc0", "acc1")
PLACES = {"load": INP, "compute": INP + ACC, "store": ACC}  # load and store share none
Instruction = tuple[str, set[str], set[str]]
Program = list[Instruction]
Pairs = list[tuple[int, int]]


def instructions(module: str) -> st.SearchStrategy[Instruction]:
    """Instructions of one module, which read and write any of its places."""
    places = st.sets(st.sampled_from(PLACES[module]), max_size=2)
    return st.tuples(st.just(module), places, places)


def shown(program: Program) -> str:
    """One instruction a line."""
    lines = ((n, m, sorted(reads), sorted(writes)) for n, (m, reads, writes) in enumerate(program))
    return "\n".join(f"    {n}: {m:<8} reads {reads}, writes {writes}" for n, m, reads, writes in lines)


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest program whose tokens are too few, too many or none that can be."""

    steps = st.lists(st.sampled_from(MODULES).flatmap(instructions), min_size=1, max_size=8)

    @cases(400, program=steps)
    def all_is_in_order_and_no_token_too_many(program: Program) -> None:
        what = f"for\n{shown(program)}\n"
        answer = attempt(what, module.tokens, program)
        problem = malformed(program, answer)
        require(problem is None, f"{what}tokens returned {answer!r}; {problem}")
        pair = unordered(program, answer)
        require(pair is None, f"{what}tokens returned {answer}, and nothing orders instructions {pair}")
        for token in answer:
            fewer = [other for other in answer if other != token]
            require(unordered(program, fewer) is not None, f"{what}tokens returned {answer}; {token} is not needed")


def malformed(program: Program, answer: Any) -> str | None:
    """What is wrong with an answer before anybody runs it."""
    numbers = range(len(program))
    pairs = isinstance(answer, list) and all(
        isinstance(p, tuple) and len(p) == 2 and p[0] in numbers and p[1] in numbers and p[0] < p[1] for p in answer
    )
    if not pairs:
        return "wanted a list of pairs (a, b) of instructions, a before b in the program"
    queues: dict[tuple[str, str], Pairs] = {}
    for a, b in sorted(answer):
        queues.setdefault((program[a][0], program[b][0]), []).append((a, b))
    for queue, tokens in queues.items():
        if queue not in NEIGHBOURS:
            return f"{queue[0]} and {queue[1]} are not neighbours"
        if len({a for a, _ in tokens}) < len(tokens) or len({b for _, b in tokens}) < len(tokens):
            return "an instruction pushes one token to a neighbour, and pops one"
        if [b for _, b in tokens] != sorted(b for _, b in tokens):
            return f"the tokens from {queue[0]} to {queue[1]} cross: the first pushed is the first popped"
    return None


def unordered(program: Program, pairs: Pairs) -> tuple[int, int] | None:
    """The first two instructions of different modules that touch a place, one of them to write it, in no order."""
    before: list[set[int]] = []  # for each instruction, those that have ended when it begins
    for number, (module, reads, writes) in enumerate(program):
        direct = {n for n in range(number) if program[n][0] == module} | {a for a, b in pairs if b == number}
        before.append(direct.union(*(before[n] for n in direct)))
        for n in range(number):
            _, others_reads, others_writes = program[n]
            if (writes & (others_reads | others_writes) or reads & others_writes) and n not in before[number]:
                return n, number
    return None
