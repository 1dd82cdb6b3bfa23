"""The oracle: one interpreter a level, written to be read, sharing nothing but node definitions with what it judges.

Open tiny.py first: 300 lines that define what a kernel does, to be read from top to bottom. The other interpreters also
check each access, run quickly, and say where two programs differ.

reference.tiny.run          kernels, with nothing clever
reference.te.evaluate       tensor expressions            reference.tir.run          level-3 loop programs
reference.kernel.run        lowered modules               reference.executable.run   steps over arenas
reference.graph.run         operators on whole tensors    reference.check            do two programs mean the same?
reference.accel.run         instructions of the tensor accelerator; `check` in all orders
reference.bound.compare     may results come from a program, in any order of its sums?

    tiny.py      the first file to read
    tir.py te.py kernel.py accel.py graph.py executable.py   one interpreter a level
    meaning/     what expressions, statements and memory mean, one element at a time: the definition
    fast/        the same with NumPy, many iterations at once, proved independent while they run
    operators/   what each operator of a graph means
    domains/     what floats may mean beside the numbers that they are
    judging/     do two programs mean the same? `modes/` compare, `inputs/` finds what to try, verdicts, counterexamples
    strategies/  random programs for Hypothesis
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import accel, executable, graph, kernel, listeners, strategies, te, tiny, tir
    from .domains import bound, exact
    from .judging import equivalence
    from .judging.equivalence import check, close, random_inputs
    from .judging.verdict import Verdict
    from .meaning import scalar

# Where each public name is defined.
_FUNCTIONS = {
    "check": ".judging.equivalence",
    "close": ".judging.equivalence",
    "random_inputs": ".judging.equivalence",
    "Verdict": ".judging.equivalence",
}
_MODULES = {
    **{
        name: f".{name}"
        for name in ("accel", "executable", "graph", "kernel", "listeners", "strategies", "te", "tiny", "tir")
    },
    "bound": ".domains.bound",
    "exact": ".domains.exact",
    "equivalence": ".judging.equivalence",
    "scalar": ".meaning.scalar",
}

__all__ = [
    "Verdict", "accel", "bound", "check", "close", "equivalence", "exact", "executable", "graph", "kernel", "listeners",
    "random_inputs", "scalar", "strategies", "te", "tiny", "tir",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _FUNCTIONS:
        return getattr(importlib.import_module(_FUNCTIONS[name], __name__), name)
    if name in _MODULES:
        return importlib.import_module(_MODULES[name], __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
