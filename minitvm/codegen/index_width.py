"""Decide whether a kernel's indices fit in 32 bits, the width of the integer units of GPUs and small CPUs."""

from __future__ import annotations

from ..arith import Analyzer
from ..expr import DType, Expr, IntImm, Node, children
from ..tir.nodes import BufferLoad, BufferStore, For, LetStmt, PrimFunc
from .spelling import is_index

_LIMIT = 2**31


def index_dtype(kernel: PrimFunc) -> DType:
    """Return int32 if all indices of the kernel, and all intermediate results, certainly fit, or int64 otherwise."""
    return DType("int32" if _fits(kernel.body, Analyzer()) else "int64")


def _fits(node: Node, analyzer: Analyzer) -> bool:
    if isinstance(node, Expr) and is_index(node):
        low, high = analyzer.bounds(node)
        if low is None or high is None or low < -_LIMIT or high >= _LIMIT:
            return False
    if isinstance(node, BufferLoad | BufferStore) and not _reaches(node):
        return False
    if isinstance(node, For):
        if not (_fits(node.start, analyzer) and _fits(node.extent, analyzer)):
            return False
        analyzer.bind(node)
        return _fits(node.start + node.extent, analyzer) and _fits(node.body, analyzer)
    if isinstance(node, LetStmt):
        if not _fits(node.value, analyzer):
            return False
        if is_index(node.value):
            analyzer.bind_value(node.var, node.value)
        return _fits(node.body, analyzer)
    return all(_fits(child, analyzer) for child in children(node))


def _reaches(access: BufferLoad | BufferStore) -> bool:
    """Return whether the 64-bit indices of an access that come from data fit in 32 bits whenever the access is in
    bounds.
    """
    if all(index.dtype.bits <= 32 or is_index(index) for index in access.indices):
        return True
    size = access.buffer.shape[0]
    return isinstance(size, IntImm) and size.value < _LIMIT
