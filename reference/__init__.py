"""The oracle: one interpreter a level, written to be read, sharing nothing but node definitions with what it judges.

reference.te.evaluate       tensor expressions            reference.tir.run          level-3 loop programs
reference.kernel.run        lowered modules               reference.executable.run   steps over arenas
reference.graph.run         operators on whole tensors    reference.check            do two programs mean the same?
reference.bound.compare     may results come from a program, in any order of its sums?
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import bound, equivalence, exact, executable, graph, kernel, listeners, scalar, strategies, te, tir
    from .equivalence import Verdict, check, close, random_inputs

_FUNCTIONS = {
    "check": ".equivalence",
    "close": ".equivalence",
    "random_inputs": ".equivalence",
    "Verdict": ".equivalence",
}
_MODULES = (
    "bound", "equivalence", "exact", "executable", "graph", "kernel", "listeners", "scalar", "strategies", "te", "tir",
)  # fmt: skip

__all__ = [
    "Verdict", "bound", "check", "close", "equivalence", "exact", "executable", "graph", "kernel", "listeners",
    "random_inputs", "scalar", "strategies", "te", "tir",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _FUNCTIONS:
        return getattr(importlib.import_module(_FUNCTIONS[name], __name__), name)
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
