"""Branches whose results do not fit in a single value: the nodes after them are converted once per branch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import UnsupportedOperator
from ...expr import Expr
from ..common.operand import Operand, SequenceOperand

DEEPEST = 3  # such nodes behind each other: each doubles what is behind it


class Parted(Exception):
    """Raised for an If whose results differ in rank or dtype. It has the condition as data [] and as a condition on
    sizes.

    `refusal` is the error if the results still differ where the graph ends.
    """

    def __init__(self, refusal: UnsupportedOperator, flag: Operand, holds: Expr, branches: Mapping[bool, Any]) -> None:
        super().__init__(str(refusal))
        self.refusal, self.flag, self.holds, self.branches = refusal, flag, holds, branches


def selectable(a: Operand, b: Operand) -> bool:
    """Return whether a single value can hold either of two operands."""
    sequences = isinstance(a, SequenceOperand) or isinstance(b, SequenceOperand)
    return not sequences and a.dtype == b.dtype and a.ndim == b.ndim
