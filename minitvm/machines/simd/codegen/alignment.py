"""Find vectors in memory that certainly start at a multiple of their size: devices access these in one piece."""

from __future__ import annotations

from collections.abc import Mapping

from ....arith import Analyzer
from ....expr import EQ, Expr, Ramp, Var, const, substitute
from ....tir.nodes import Buffer


def is_whole(buffer: Buffer, index: Expr, analyzer: Analyzer, lets: Mapping[Var, Expr]) -> bool:
    """Return whether the elements at a vector index certainly form one whole vector, aligned to its own size.

    `lets` maps variables to their values, which may be needed to prove divisibility.
    """
    if not isinstance(index, Ramp) or index.lanes & (index.lanes - 1):
        return False  # no machine has vectors of 15
    if index.lanes * buffer.dtype.bytes > buffer.align:
        return False
    base = substitute(index.base, dict(lets)) if lets else index.base
    return analyzer.can_prove(EQ(base % index.lanes, const(0, base.dtype)))
