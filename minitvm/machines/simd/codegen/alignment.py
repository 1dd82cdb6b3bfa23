"""Which vectors in memory surely lie at a multiple of their size: devices read and write those at once."""

from __future__ import annotations

from collections.abc import Mapping

from ....arith import Analyzer
from ....expr import EQ, Expr, Ramp, Var, const, substitute
from ....tir.nodes import Buffer


def is_whole(buffer: Buffer, index: Expr, analyzer: Analyzer, lets: Mapping[Var, Expr]) -> bool:
    """Whether neighbours that a vector index names surely are a whole vector, as aligned as it is large.

    `lets` are the variables that have values, which divisibility follows from.
    """
    if not isinstance(index, Ramp) or index.lanes & (index.lanes - 1):
        return False  # no machine has vectors of 15
    if index.lanes * buffer.dtype.bytes > buffer.align:
        return False
    base = substitute(index.base, dict(lets)) if lets else index.base
    return analyzer.can_prove(EQ(base % index.lanes, const(0, base.dtype)))
