"""Branches whose results no value can be: the nodes behind them are converted once for each branch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import UnsupportedOperator
from ...expr import Expr
from ..common.operand import Operand, SequenceOperand

DEEPEST = 3  # such nodes behind each other: each doubles what is behind it


class Parted(Exception):
    """An If whose results differ in rank or dtype, with its condition as data [] and as one on sizes.

    `refusal` is the error if the results still differ where the graph ends.
    """

    def __init__(self, refusal: UnsupportedOperator, flag: Operand, holds: Expr, branches: Mapping[bool, Any]) -> None:
        super().__init__(str(refusal))
        self.refusal, self.flag, self.holds, self.branches = refusal, flag, holds, branches


def selectable(a: Operand, b: Operand) -> bool:
    """Whether one value can be either of two."""
    sequences = isinstance(a, SequenceOperand) or isinstance(b, SequenceOperand)
    return not sequences and a.dtype == b.dtype and a.ndim == b.ndim
