"""Compares the learner's formulas with what the interpreter counts, on random extents."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

from hypothesis import strategies as st

from lessons import example
from lessons.grading import attempt, cases, require
from minitvm import reference
from minitvm.reference.listeners import Ledger


def counted(m: int, n: int, k: int) -> dict[str, int]:
    """The four numbers, by running the program."""
    ledger = Ledger()
    reference.tir.run(example.three_loops(m, n, k), *example.inputs(m, n, k), listeners=[ledger])
    return {
        "multiplies": ledger.operations["mul"],
        "adds": ledger.operations["add"],
        "loads": sum(ledger.loads.values()),
        "stores": sum(ledger.stores.values()),
    }


def by_formula(m: int, n: int, k: int) -> dict[str, int]:
    """The four numbers for any sizes: the counts of one element grow evenly with k."""
    none, one = counted(1, 1, 0), counted(1, 1, 1)
    return {name: m * n * (none[name] + k * (one[name] - none[name])) for name in one}


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest extents for which a number is wrong."""
    size = st.sampled_from([1, 2, 3, 0, 4, 5])

    @cases(100, m=size, n=size, k=size)
    def as_the_interpreter_counts(m: int, n: int, k: int) -> None:
        case = f"with m={m}, n={n}, k={k}"
        compare(case, attempt(case, module.counts, m, n, k), counted(m, n, k))

    m, n, k = 1_000_000, 2_000_000, 3_000_000
    case = f"with m={m}, n={n}, k={k}"
    compare(case, attempt(case, in_few_lines, case, lambda: module.counts(m, n, k)), by_formula(m, n, k))


def compare(case: str, answer: Any, numbers: dict[str, int]) -> None:
    """Raises AssertionError unless the answer is a dictionary of these numbers."""
    require(isinstance(answer, dict), f"counts returned {answer!r}; wanted a dictionary such as {numbers}")
    missing = [name for name in numbers if name not in answer]
    require(not missing, f"the dictionary has no entry {', '.join(map(repr, missing))}")
    others = [name for name in answer if name not in numbers]
    require(not others, f"the dictionary has an entry {', '.join(map(repr, others))}; wanted only the four numbers")
    for name, number in numbers.items():
        message = f"{case}: {name} is {answer[name]} by your formula; the interpreter counted {number}"
        require(answer[name] == number, message)
        kind = type(answer[name]).__name__
        require(kind == "int", f"{case}: {name} is {answer[name]!r}, of type {kind}; wanted a whole number, an int")


def in_few_lines(case: str, call: Callable[[], Any], most: int = 10_000) -> Any:
    """The result of a call that may run only so many lines of Python."""
    lines = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += 1
        require(lines <= most, f"{case}: counts ran more than {most} lines; wanted formulas, without a loop")
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        return call()
    finally:
        sys.settrace(before)
