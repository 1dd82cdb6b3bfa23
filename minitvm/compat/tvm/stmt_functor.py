"""TVM's walks over programs, under its names; `minitvm.expr` has `walk`, `rewrite` and `substitute`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import InputError
from ...expr import Node, as_expr, children, map_children
from ...expr import substitute as substituted
from ...tir.analysis.tree import fresh_copy
from ...tir.nodes import BlockRealize, PrimFunc

Visit = Callable[[Node], Any]

__all__ = ["ir_transform", "post_order_visit", "pre_order_visit", "renew_defs", "substitute"]


def pre_order_visit(stmt: Node, fvisit: Visit) -> None:
    """Call `fvisit(node)` for a node before those inside it; where it returns False, they are not visited."""
    if fvisit(stmt) is False:
        return
    for child in children(stmt):
        pre_order_visit(child, fvisit)


def post_order_visit(stmt: Node, fvisit: Visit) -> None:
    """Call `fvisit(node)` once for each node, after those inside it."""
    visited: set[Node] = set()

    def visit(node: Node) -> None:
        if node in visited:
            return
        visited.add(node)
        for child in children(node):
            visit(child)
        fvisit(node)

    visit(stmt)


def ir_transform(
    stmt: Node, preorder: Visit | None, postorder: Visit | None, only_enable: Sequence[str] | None = None
) -> Any:
    """Rebuild a program: a node that `preorder` returns stands for the old one and is not entered; otherwise
    `postorder` may return a replacement for the rebuilt node. Both return None to keep it.

    `only_enable` lists the kinds of nodes that the functions see, such as "tir.BufferStore".
    """
    kinds = None if only_enable is None else tuple(map(_kind, only_enable))

    def change(node: Any) -> Any:
        enabled = isinstance(node, Node) and (kinds is None or isinstance(node, kinds))
        early = preorder(node) if enabled and preorder is not None else None
        if early is not None:
            return early
        rebuilt = map_children(node, change) if isinstance(node, Node) else node
        late = postorder(rebuilt) if enabled and postorder is not None else None
        return rebuilt if late is None else late

    return change(stmt)


def _kind(name: str) -> type:
    from ... import tir

    kind = getattr(tir, name.rpartition(".")[2], None)
    if not isinstance(kind, type):
        raise InputError(f"ir_transform: {name!r} is no kind of node; for example, tir.BufferStore is one")
    return kind


def substitute(node: Node, vmap: Mapping[Any, Any]) -> Any:
    """Replace free uses of variables."""
    return substituted(node, {var: as_expr(value, var.dtype) for var, value in vmap.items()})


def renew_defs(func: PrimFunc) -> PrimFunc:
    """A copy of a function with loop variables, iterators and blocks of its own."""
    return func.with_body(fresh_copy(func.body)) if isinstance(func.body, BlockRealize) else func
