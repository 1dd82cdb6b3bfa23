"""Write many copies of a statement with different values of its variables: `bind`, with an analysis that all copies
share.

A program of the accelerator has thousands of instructions, each a copy of one of a few statements in loops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from ....expr import Expr, IntImm, Node, Var, const
from ....tir.nodes import BufferLoad, BufferStore, For, Stmt
from ....tir.transform.affine import Affine, expr, linear
from ....tir.transform.unroll import bind, fold_index

Values = dict[Var, Expr]
Write = Callable[[Values], Any]


class Copies:
    """Writes copies of a statement. Each loop of a copy gets a new variable, and indices are in linear form."""

    def __init__(self, stmt: Stmt) -> None:
        self.stmt, self.write = stmt, _written(stmt)

    def at(self, values: Mapping[Var, Expr]) -> Any:
        """Return the statement with variables replaced by `values`, as `bind` does."""
        return self.stmt if self.write is None else self.write(dict(values))


def _written(node: Any) -> Write | None:
    """Return a function that writes a copy of a node, or None if all copies are the node itself."""
    if isinstance(node, Var):
        return lambda values: values.get(node, node)
    if isinstance(node, For):
        return _loop(node)
    if node._defs:
        return lambda values: bind(node, values)
    kind: Any = type(node)
    names = [f.name for f in fields(kind) if f.init]
    parts = [getattr(node, name) for name in names]
    indexed = isinstance(node, BufferLoad | BufferStore)
    writes = [
        _part(part, indexed and name == "indices") if name in node._children else None
        for name, part in zip(names, parts, strict=True)
    ]
    if not any(writes):
        return None
    return lambda values: kind(
        *[part if write is None else write(values) for part, write in zip(parts, writes, strict=True)]
    )


def _part(part: Any, indices: bool) -> Write | None:
    """Return a function that writes a copy of a node's field: a node, a tuple that may contain nodes, or any other
    value.
    """
    if isinstance(part, tuple):
        writes = [
            None
            if not isinstance(item, Node)
            else _index(item)
            if indices and isinstance(item, Expr)
            else _written(item)
            for item in part
        ]
        if not any(writes):
            return None
        return lambda values: tuple(
            [item if write is None else write(values) for item, write in zip(part, writes, strict=True)]
        )
    return _written(part) if isinstance(part, Node) else None


def _loop(loop: For) -> Write:
    start, extent, body = _part(loop.start, False), _part(loop.extent, False), _part(loop.body, False)

    def write(values: Values) -> For:
        first = loop.start if start is None else start(values)
        count = loop.extent if extent is None else extent(values)
        values[loop.var] = own = loop.var.with_name(loop.var.name)
        inner = loop.body if body is None else body(values)
        return For(own, first, count, loop.kind, inner, loop.thread, loop.annotations)

    return write


def _index(index: Any) -> Write | None:
    form = linear(index) if index.dtype.lanes == 1 else None
    if form is None or not all(isinstance(term, Var) for term in form.terms):
        write = _written(index)
        return None if write is None else lambda values: fold_index(write(values))
    if not form.terms:
        return None

    def at(values: Values) -> Expr:
        terms: dict[Any, int] = {}
        total = form.const
        for term, step in form.terms.items():
            value = values.get(term, term)
            if isinstance(value, IntImm):
                total += step * value.value
            elif isinstance(value, Var):
                terms[value] = terms.get(value, 0) + step
            else:
                return fold_index(bind(index, values))
        return expr(Affine(terms, total), index.dtype) if terms else const(total, index.dtype)

    return at
