"""Level 5: the compiled program as data. See `nodes` for the grammar and its meaning."""

from .evaluate import evaluate
from .nodes import (
    BUFFER,
    SCALAR,
    Arena,
    ArenaSlice,
    Argument,
    Barrier,
    CallExternal,
    CallKernel,
    Constant,
    ConstantRef,
    Copy,
    Dim,
    Executable,
    Input,
    Kernel,
    KernelParam,
    Location,
    Output,
    ScalarSpec,
    Step,
    TensorSpec,
)  # fmt: skip
from .printer import script
from .serialize import load, save
from .verifier import RULES, verify

__all__ = [
    "BUFFER", "RULES", "SCALAR", "Arena", "ArenaSlice", "Argument", "Barrier", "CallExternal", "CallKernel", "Constant",
    "ConstantRef", "Copy", "Dim", "Executable", "Input", "Kernel", "KernelParam", "Location", "Output", "ScalarSpec",
    "Step", "TensorSpec", "evaluate", "load", "save", "script", "verify",
]  # fmt: skip
