"""Compares the learner's formulas with what the interpreter counts, on random extents."""

from __future__ import annotations

from types import ModuleType

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


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest extents for which a number is wrong."""

    @cases(m=st.integers(1, 5), n=st.integers(1, 5), k=st.integers(1, 5))
    def as_the_interpreter_counts(m: int, n: int, k: int) -> None:
        case = f"with m={m}, n={n}, k={k}"
        answer = attempt(case, module.counts, m, n, k)
        numbers = counted(m, n, k)
        require(isinstance(answer, dict), f"counts returned {answer!r}; wanted a dictionary such as {numbers}")
        missing = [name for name in numbers if name not in answer]
        require(not missing, f"the dictionary has no entry {', '.join(map(repr, missing))}")
        for name, number in numbers.items():
            message = f"{case}: {name} is {answer[name]} by your formula; the interpreter counted {number}"
            require(answer[name] == number, message)
