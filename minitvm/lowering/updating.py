"""A function that changes a copy of its input, as one that changes its input.

    f(.., p, .., r):  A; r[i] = p[i] for all i; S          becomes          f(.., r):  A; S

**Theorem.** If A touches neither p nor r, and S does not touch p, then both leave the same in r, where the second
begins with r = p. *Reason*: A does the same in both, as it does not see where they differ. Behind the copy in the one,
and behind A in the other, r holds p, and S runs on equal memory from there.
"""

from __future__ import annotations

from ..errors import InternalError
from ..expr import Node, structural_equal, walk
from ..expr.conditions import is_const
from ..tir.nodes import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    PrimFunc,
    Seq,
    Stmt,
    root_block,
    with_root,
)


def updating(func: PrimFunc, number: int) -> PrimFunc:
    """`func`, whose last parameter is the result, without its input `number`, whose memory the result takes over.

    Raises `InternalError` if the function does not begin with a copy of that input, or reads it elsewhere.
    """
    source, result, root = func.params[number], func.params[-1], root_block(func)
    body = root.body.stmts if isinstance(root.body, Seq) else (root.body,)
    first = next((k for k, stmt in enumerate(body) if _touches(stmt, result)), 0)
    rest = Seq.of(*body[:first], *body[first + 1 :])
    if not _is_copy(body[first], source, result) or _touches(rest, source):
        raise InternalError(
            f"{func.name} does not begin by copying {source} to {result}, or reads it elsewhere\n{func}"
        )
    params = tuple(p for p in func.params if p is not source)
    return with_root(params, rest, dict(func.attrs), alloc_buffers=root.alloc_buffers)


def _is_copy(stmt: Stmt, source: object, result: object) -> bool:
    """Whether a statement is `result[i] = source[i]` for every i, and nothing else."""
    extents = []
    while isinstance(stmt, For):
        extents.append((stmt.var, stmt.start, stmt.extent))
        stmt = stmt.body
    if not isinstance(stmt, BlockRealize) or not isinstance(result, Buffer) or not isinstance(source, Buffer):
        return False
    block: Block = stmt.block
    store = block.body
    iterators = tuple(it.var for it in block.iter_vars)
    shapes = [source.shape, result.shape, tuple(extent for _, _, extent in extents)]
    return (
        is_const(stmt.predicate, 1)
        and all(is_const(start, 0) for _, start, _ in extents)
        and len({len(shape) for shape in (*shapes, iterators, stmt.iter_values)}) == 1
        and all(a is var for a, (var, _, _) in zip(stmt.iter_values, extents, strict=True))
        and all(structural_equal(a, b) and structural_equal(a, c) for a, b, c in zip(*shapes, strict=True))
        and isinstance(store, BufferStore)
        and isinstance(store.value, BufferLoad)
        and (store.buffer, store.value.buffer) == (result, source)
        and store.predicate is None
        and store.value.predicate is None
        and all(a is b for a, b in zip(store.indices, iterators, strict=True))
        and all(a is b for a, b in zip(store.value.indices, iterators, strict=True))
    )


def _touches(stmt: Node, buffer: object) -> bool:
    return any(isinstance(n, BufferLoad | BufferStore) and n.buffer is buffer for n in walk(stmt))
