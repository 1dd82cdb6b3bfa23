"""The oracle: one interpreter for each level, and the checks that compare two programs.

The interpreters are written to be read. They share only the definitions of nodes with the compiler that they judge.

Read tiny.py first: it defines in 300 lines what a kernel does. The other interpreters also check each access, run
faster, and show where two programs differ.

reference.tiny.run          kernels, as simply as possible
reference.te.evaluate       tensor expressions            reference.tir.run          loop programs
reference.kernel.run        lowered modules               reference.executable.run   steps over arenas
reference.graph.run         operators on whole tensors    reference.check            do two programs mean the same?
reference.accel.run         instructions of the tensor accelerator; `check` runs them in all orders
reference.bound.compare     can a program give these results, in some order of its sums?

    tiny.py      the first file to read
    tir.py te.py kernel.py accel.py graph.py executable.py   one interpreter for each level
    meaning/     the meaning of expressions, statements and memory, one element at a time: the definition
    fast/        the same with NumPy: many iterations at once, after a check at run time that they are independent
    operators/   the meaning of each operator of a graph
    domains/     other kinds of numbers that floats can be replaced with, such as exact sums or error bounds
    judging/     do two programs mean the same? `modes/` compare, `inputs/` chooses inputs; verdicts, counterexamples
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

# The module that defines each public name.
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
