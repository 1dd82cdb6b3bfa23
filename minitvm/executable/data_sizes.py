"""Sizes that steps bind, with their bounds: the memory for what has such a size in its shape.

A step `BindSize` gives a variable a value from 0 to its bound, an expression over variables that are known before a
run.
"""

from __future__ import annotations

from ..expr import Var
from .nodes import BindSize, Dim, Executable


def data_sizes(executable: Executable) -> dict[Var, Dim]:
    """The variables that steps bind, each with its bound."""
    return {step.var: step.most for step in executable.steps if isinstance(step, BindSize)}
