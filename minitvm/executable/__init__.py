"""The executable: the compiled program as data. See `nodes` for the grammar and its meaning.

The nodes are imported immediately. The functions on them are imported at their first use, so that the oracle, which
needs only the definitions of the nodes, loads nothing else.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .nodes import (
    BUFFER,
    SCALAR,
    Arena,
    ArenaSlice,
    Argument,
    Barrier,
    BindSize,
    Bound,
    CallExternal,
    CallKernel,
    Constant,
    ConstantRef,
    Copy,
    Dim,
    Executable,
    Guard,
    Input,
    Kernel,
    KernelParam,
    Location,
    Loop,
    Output,
    Resident,
    ScalarSpec,
    State,
    StateSpec,
    Step,
    TensorSpec,
    beginning,
)

if TYPE_CHECKING:
    from .evaluation import evaluate
    from .printer import script
    from .serialize import load, save
    from .verifier import RULES, verify

__all__ = [
    "BUFFER", "RULES", "SCALAR", "Arena", "ArenaSlice", "Argument", "Barrier", "BindSize", "Bound", "CallExternal",
    "CallKernel", "Constant", "ConstantRef", "Copy", "Dim", "Executable", "Guard", "Input", "Kernel", "KernelParam",
    "Location", "Loop", "Output", "Resident", "ScalarSpec", "State", "StateSpec", "Step", "TensorSpec", "beginning",
    "evaluate", "load", "save", "script", "verify",
]  # fmt: skip

_DEFINED_IN = {
    "RULES": "verifier", "evaluate": "evaluation", "load": "serialize", "save": "serialize", "script": "printer",
    "verify": "verifier",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _DEFINED_IN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_DEFINED_IN[name]}", __name__), name)
    globals()[name] = value
    return value
