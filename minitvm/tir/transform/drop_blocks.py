"""Remove blocks: iterators become their values, predicates become conditions, and local buffers become allocations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...expr import Expr, IntImm, Let, Var, map_children
from ..annotations import ALIGNMENTS
from ..nodes import Allocate, BlockRealize, Buffer, If, PrimFunc, Stmt
from .align_storage import alignments


def drop_blocks(func: PrimFunc) -> PrimFunc:
    """Replace blocks by plain statements: `with block(vi = i*4 + j) where p: S(vi)` -> `if p: S(i*4 + j)`. Runs after
    `lower_init` and `lower_match_buffers`.

    before:
        A: T.Buffer((10,), "float32")
        B = T.alloc_buffer((12,))
        for i, j in T.grid(3, 4):
            with T.block("B"):
                v = T.axis.spatial(10, i * 4 + j)
                T.where(i * 4 + j < 10)
                B[v] = A[v] * 2.0
        for i in range(10):
            with T.block("C"): C[vi] = B[vi] + 1.0
    after:
        B = T.decl_buffer((12,))
        for i, j in T.grid(3, 4):
            if i * 4 + j < 10:
                B[i * 4 + j] = A[i * 4 + j] * 2.0
        for i in range(10):
            C[i] = B[i] + 1.0
    """
    return func.with_body(_drop(func.body, {}, alignments(func.body)))


def _drop(node: Any, values: dict[Var, Expr], aligned: Mapping[Buffer, Any]) -> Any:
    if isinstance(node, Var):
        return values.get(node, node)
    if isinstance(node, Let):  # an expression has no effects, so its value may replace its name
        return _drop(node.body, {**values, node.var: _drop(node.value, values, aligned)}, aligned)
    if not isinstance(node, BlockRealize):
        return map_children(node, lambda child: _drop(child, values, aligned))
    # Legal: a block runs once for each iteration of its loops, with the values that are bound to its iterators, if its
    # predicate holds. `lower_init` has already replaced its init by statements.
    block = node.block
    bound = [_drop(v, values, aligned) for v in node.iter_values]
    inner = {**values, **{axis.var: v.astype(axis.var.dtype) for axis, v in zip(block.iter_vars, bound, strict=True)}}
    body: Stmt = _drop(block.body, inner, aligned)
    for buffer in reversed(block.alloc_buffers):
        body = Allocate(buffer, body, {ALIGNMENTS: aligned[buffer]} if buffer in aligned else {})
    predicate = _drop(node.predicate, values, aligned)
    if isinstance(predicate, IntImm) and predicate.value:
        return body
    return If(predicate, body)
