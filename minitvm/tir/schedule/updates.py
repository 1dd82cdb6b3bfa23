"""Build parts of a reduction's update for `rfactor` and related primitives: simultaneous stores and copied loops."""

from __future__ import annotations

from collections.abc import Sequence

from ...expr import Call, DataVar, Expr, Node, Var, free_vars, replace, rewrite, structural_equal, substitute
from ..analysis.updates import AccumulatedElement
from ..nodes import BlockRealize, BufferStore, For, LetStmt, Seq, Stmt


def stored_together(elements: Sequence[AccumulatedElement], results: Sequence[Expr]) -> Stmt:
    """Store each result to its element. All results are computed from the values that the elements have before the
    first store.

    Rows are stored first, in their own loops. Each row reads only itself and single elements (`recognised` checks
    this). A call that has the same value along a row is evaluated once.
    """
    pairs = sorted(zip(elements, results, strict=True), key=lambda pair: not pair[0].loops)
    if len(pairs) == 1 and not elements[0].loops:
        return BufferStore(elements[0].buffer, results[0], elements[0].indices)
    lets: list[tuple[Var, Expr]] = []
    rows: list[Stmt] = []
    points: list[Stmt] = []
    for e, result in pairs:
        if e.loops:
            row = _hoisted(result, e, lets)
            rows.append(fresh_loops(e.around(BufferStore(e.buffer, row, e.indices))))
        else:
            lets.append((DataVar(f"v_{e.buffer.name}", e.buffer.dtype), _with_known(result, lets)))
            points.append(BufferStore(e.buffer, lets[-1][0], e.indices))
    body = Seq.of(*rows, *points)
    for var, value in reversed(lets):
        body = LetStmt(var, value, body)
    return body


def _hoisted(result: Expr, element: AccumulatedElement, lets: list[tuple[Var, Expr]]) -> Expr:
    """Return a result along a row, in which calls that are the same for all elements of the row are moved to variables.
    The variables are added to `lets`.
    """
    own = {l.var for l in element.loops}

    def change(node: Node) -> Node | None:
        if not isinstance(node, Call) or own & set(free_vars(node)):
            return None
        known = _with_known(node, lets)
        if known is node:
            lets.append((DataVar(f"v_{len(lets)}", node.dtype), node))
            known = lets[-1][0]
        return known

    moved: Expr = rewrite(result, change)
    return moved


def _with_known(result: Expr, lets: Sequence[tuple[Var, Expr]]) -> Expr:
    """Replace the values of `lets` in an expression by their variables."""
    known: Expr = rewrite(result, lambda node: next((v for v, value in lets if structural_equal(value, node)), None))
    return known


def fresh_loops(stmt: Stmt) -> Stmt:
    """Return a statement with new loop variables, because two loops of a program must not share a variable."""
    if isinstance(stmt, Seq):
        return Seq.of(*map(fresh_loops, stmt.stmts))
    if not isinstance(stmt, For):
        return stmt
    var = stmt.var.with_name(stmt.var.name)
    return replace(stmt, var=var, body=fresh_loops(substitute(stmt.body, {stmt.var: var})))


def copied_nest(loops: Sequence[For], inner: BlockRealize) -> Stmt:
    """Wrap a block in copies of `loops`."""
    renamed: dict[Var, Expr] = {l.var: l.var.with_name(l.var.name) for l in loops}
    nest: Stmt = replace(
        inner,
        iter_values=tuple(substitute(v, renamed) for v in inner.iter_values),
        predicate=substitute(inner.predicate, renamed),
    )
    for l in reversed(loops):
        var = renamed[l.var]
        assert isinstance(var, Var)  # made above
        start, extent = substitute(l.start, renamed), substitute(l.extent, renamed)
        nest = For(var, start, extent, l.kind, nest, l.thread, dict(l.annotations))
    return nest
