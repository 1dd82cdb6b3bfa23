"""Share one base address between accesses that are at constant distances from each other.

LLVM would find the common part too. However, Numba first types and lowers each operator of the source, and this takes
most of a kernel's compile time.
"""

from __future__ import annotations

from typing import Any

from ...expr import Expr, Node, Ramp, Var, children, contains, map_children, replace, rewrite
from ..nodes import BufferLoad, BufferStore, For, Instruction, LetStmt, Prefetch, PrimFunc
from .affine import Affine, expr, linear, moves

_Access = BufferLoad | BufferStore | Prefetch
Forms = dict[Any, tuple[Var, Affine]]


def share_indices(func: PrimFunc) -> PrimFunc:
    """Name the variable part of an index if several accesses in a loop body share it.

    before:
        for i in range(4):
            for j in range(8):
                C[i * 48 + 6 * j] = A[i * 48 + 6 * j] * 2.0
                C[i * 48 + 6 * j + 1] = A[i * 48 + 6 * j + 1] * 2.0
    after:
        for i, j in T.grid(4, 8):
            at_C: T.int32 = i * 48 + j * 6
            at_A: T.int32 = i * 48 + j * 6
            C[at_C] = A[at_A] * 2.0
            C[at_C + 1] = A[at_A + 1] * 2.0
    """
    # Legal: an index is an integer expression without effects, whose variables do not change in the body of the loop.
    loops = rewrite(func.body, lambda node: _share(node) if isinstance(node, For) else None, leave=(Expr, Instruction))
    return func.with_body(loops)


def _share(loop: For) -> For:
    counts: dict[Any, int] = {}
    forms: Forms = {}
    local: set[Var] = set()
    _collect(loop.body, counts, forms, local)
    shared = {
        key: entry
        for key, entry in forms.items()
        if counts[key] > 1 and operations(entry[1]) > 1 and not moves(entry[1], local)
    }
    if not shared:
        return loop
    body = _replaced(loop.body, shared)
    for var, form in reversed(shared.values()):
        body = LetStmt(var, expr(form, var.dtype), body)
    return replace(loop, body=body)


def operations(form: Affine) -> int:
    """Return the number of additions and multiplications in the variable part of a form."""
    return len(form.terms) - 1 + sum(abs(c) != 1 for c in form.terms.values())


def _index(node: Any) -> Expr | None:
    """Return the index of an access or prefetch; None for other nodes, and for accesses with several indices."""
    if isinstance(node, Prefetch):
        return node.index
    if isinstance(node, BufferLoad | BufferStore) and len(node.indices) == 1:
        return node.indices[0]
    return None


def _scalar_base(index: Expr) -> Expr | None:
    if isinstance(index, Ramp):
        return index.base
    return index if index.dtype.lanes == 1 else None


def _key(buffer: Any, form: Affine, dtype: str) -> Any:
    return (buffer, str(dtype), Affine(form.terms))


def _collect(node: Node, counts: dict[Any, int], forms: Forms, local: set[Var]) -> None:
    """Count, in `counts`, the variable parts of the indices inside a node. Inner loops are skipped, because they have
    their own counts.
    """
    if isinstance(node, For) or not contains(node, _Access | LetStmt):
        return
    if isinstance(node, LetStmt):
        local.add(node.var)
    index = _index(node)
    if index is not None and isinstance(node, _Access):
        base = _scalar_base(index)
        # An index that reads memory stays where it is: the memory may change, or the access may be under a condition.
        reads = base is not None and contains(base, BufferLoad)
        if base is not None and base.dtype in ("int32", "int64") and not reads:
            form = linear(base)
            key = _key(node.buffer, form, base.dtype)
            counts[key] = counts.get(key, 0) + 1
            if key not in forms:
                forms[key] = (Var(f"at_{node.buffer.name}", base.dtype), Affine(form.terms))
    for child in children(node):
        _collect(child, counts, forms, local)


def _replaced(node: Any, shared: Forms) -> Any:
    if isinstance(node, For) or not contains(node, _Access):
        return node
    new = map_children(node, lambda child: _replaced(child, shared))
    index = _index(new)
    if index is not None:
        base = _scalar_base(index)
        if base is not None and base.dtype in ("int32", "int64"):
            form = linear(base)
            entry = shared.get(_key(new.buffer, form, base.dtype))
            if entry is not None:
                short = expr(Affine({entry[0]: 1}, form.const), base.dtype)
                short = replace(index, base=short) if isinstance(index, Ramp) else short
                return replace(new, **({"index": short} if isinstance(new, Prefetch) else {"indices": (short,)}))
    return new
