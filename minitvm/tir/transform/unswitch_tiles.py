"""Tiles that may stick out of a symbolic extent: a version without conditions, and one for each part of a tile.

    for i in (n + 3) // 4: for k: for r in 4: if i*4 + r < n: S

    for i in (n + 3) // 4:
        if i*4 + 3 < n: for k: for r in 4: S
        else:
            if i*4 + 3 == n: for k: for r in 3: S
            else: ...                                   2, then 1

`partition_loops` does the same where the extent is known, by cutting the loop. Here the tiles are all that is known:
how many rows are left is found when the kernel runs, and each number of rows gets a micro-kernel whose accumulators
stay in registers. Where that would be too many, or the rest is lanes of a vector (which has masks), a tile that is not
full keeps its conditions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from typing import Any

from ...arith.affine import variables
from ...expr import EQ, LT, Expr, Var, children, const, map_children, replace, walk
from ..conditions import all_of, conjuncts, reads_memory
from ..nodes import Allocate, For, ForKind, If, LetStmt, PrimFunc, Stmt
from .affine import Affine, Ranges, expr, interval, moves, slack, with_loop
from .partition_loops import partition_loops
from .simplify import simplify_stmt
from .unroll import bind, unrolled_size

CODE_GROWTH = 400  # statements, unrolled, of all versions of a nest
_WIDEST = 1 << 12  # values of what is inside of a tile: more is no tile
VERSIONS = 15  # numbers of rows that get a version of their own


def unswitch_tiles(func: PrimFunc) -> PrimFunc:
    """Make the versions, at the outermost place where what is left of a tile is known."""
    if any(isinstance(node, For) and node.thread is not None for node in walk(func.body)):
        return func  # threads of a block must meet at the same barriers: conditions stay at the statements
    body = _visit(func.body, {}, CODE_GROWTH)
    # What is left of a tile is a constant in each version: a loop is cut there.
    return func if body is func.body else partition_loops(func.with_body(simplify_stmt(body, {})))


@dataclass(frozen=True, slots=True)
class _Edge:
    """Conditions `outer + inner < 0` that share `outer`; `inner` runs from `low` to `high`, in lanes if `vector`."""

    outer: Affine
    low: int
    high: int
    vector: bool
    dtype: Any

    @property
    def key(self) -> frozenset[Any]:
        """What tells one edge from another."""
        return frozenset(self.outer.terms.items())

    def compare(self, how: Any, count: int) -> Expr:
        """`i*4 + count < n`, or another comparison: nothing larger is computed than in the conditions themselves."""
        left = Affine({term: times for term, times in self.outer.terms.items() if times > 0})
        return how(expr(left + count, self.dtype), expr(left - self.outer, self.dtype))


def _visit(stmt: Any, ranges: Ranges, growth: int) -> Any:
    if not isinstance(stmt, Stmt):
        return stmt
    if isinstance(stmt, For):
        inner = dict(with_loop(stmt, ranges))
        if stmt.kind == ForKind.VECTORIZED:
            return stmt
        body = _versions(stmt.body, inner, growth) if stmt.kind != ForKind.UNROLLED else None
    elif isinstance(stmt, LetStmt):
        inner, body = dict(ranges), _versions(stmt.body, ranges, growth)
    else:
        return map_children(stmt, lambda child: _visit(child, ranges, growth))
    if body is None:
        body = _visit(stmt.body, inner, growth)
    return stmt if body is stmt.body else replace(stmt, body=body)


def _versions(body: Stmt, ranges: Ranges, growth: int) -> Stmt | None:
    """The body of a loop as a choice between versions of it; None where it has no such tile."""
    if isinstance(body, Allocate):
        inside = _versions(body.body, ranges, growth)
        return None if inside is None else replace(body, body=inside)
    size = unrolled_size(body)
    edge = next(iter(_edges(body, ranges)), None) if size <= growth // 2 else None
    if edge is None:
        return None
    rest = range(edge.low + 1, edge.high + 1)
    # A version for c of n rows has c n-ths of the statements.
    each = not edge.vector and len(rest) <= VERSIONS and size * (1 + (len(rest) + 1) // 2) <= growth
    left = growth // 2 if each else growth - size

    def version(count: int | bool | None) -> Stmt:
        copied = bind(body, {}) if count is None else bind(_limited(body, edge, count), {})
        return _visit(copied, ranges, left)

    partial: Stmt | None = version(False if each else None)
    if each:
        for count in rest:
            partial = If(edge.compare(EQ, count), version(count), partial)
    return If(edge.compare(LT, edge.high), version(True), partial)


def _limited(stmt: Any, edge: _Edge, count: int | bool) -> Any:
    """The statement where `inner < count`, or a truth value, stands for the edge's conditions."""

    def go(node: Any) -> Any:
        if not isinstance(node, Stmt):
            return node
        made = map_children(node, go)
        if not isinstance(made, If):
            return made
        parts = [_limit(part, edge, count) for part in conjuncts(made.condition)]
        return replace(made, condition=all_of(parts))

    return go(stmt)


def _limit(condition: Expr, edge: _Edge, count: int | bool) -> Expr:
    form = slack(condition)
    if form is None or any(form.terms.get(term) != times for term, times in edge.outer.terms.items()):
        return condition
    inner = form - edge.outer
    if isinstance(count, bool):
        return const(count, "bool")
    return LT(expr(inner, edge.dtype), const(count, edge.dtype)) if inner.terms else const(inner.const < count, "bool")


def _edges(body: Stmt, ranges: Ranges) -> Iterator[_Edge]:
    """The edges of a loop's body, in the order of their first conditions."""
    edges: dict[frozenset[Any], list[_Edge]] = {}
    inside = {node.var for node in walk(body) if isinstance(node, For | LetStmt)}
    serial = {node.var for node in walk(body) if isinstance(node, For) and node.kind in _SERIAL}
    for edge in _conditions(body, ranges, _Scope(inside, serial)):
        edges.setdefault(edge.key, []).append(edge)
    for group in edges.values():
        low, high = min(edge.low for edge in group), max(edge.high for edge in group)
        if low < high:
            yield _Edge(group[0].outer, low, high, any(edge.vector for edge in group), group[0].dtype)


@dataclass(frozen=True, slots=True)
class _Scope:
    """The variables bound in a body: all, those of loops that run one iteration after the other, and lanes."""

    inside: set[Var]
    serial: set[Var]
    lanes: frozenset[Var] = frozenset()


_SERIAL = (ForKind.SERIAL, ForKind.PARALLEL)


def _conditions(node: Any, ranges: Ranges, scope: _Scope) -> Iterator[_Edge]:
    if not isinstance(node, Stmt):
        return
    if isinstance(node, For):
        ranges = with_loop(node, ranges)
        if node.kind == ForKind.VECTORIZED:
            scope = replace_fields(scope, lanes=scope.lanes | {node.var})
    if isinstance(node, If):
        for condition in conjuncts(node.condition):
            edge = None if reads_memory(condition) else _edge(condition, ranges, scope)
            if edge is not None:
                yield edge
    for child in children(node):
        yield from _conditions(child, ranges, scope)


def _edge(condition: Expr, ranges: Ranges, scope: _Scope) -> _Edge | None:
    form = slack(condition)
    if form is None:
        return None
    moving = {term for term in form.terms if moves(Affine.of(term), scope.inside)}
    outer = Affine({term: times for term, times in form.terms.items() if term not in moving})
    inner = form - outer
    limits = interval(inner, ranges)
    if limits is None or all(var in ranges for var in variables(outer)):
        return None
    if limits[1] - limits[0] >= _WIDEST or moves(inner, scope.serial):
        return None  # the tiles are those of a loop further in
    return _Edge(outer, *limits, moves(inner, scope.lanes), condition.a.dtype)  # type: ignore[attr-defined]
