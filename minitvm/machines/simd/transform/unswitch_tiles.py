"""Make versions of tiles that may extend beyond a symbolic extent: one without conditions, and one for each partial
tile.

`partition_loops` does the same for a constant extent, by cutting the loop. Here only the tile size is constant. The
number of remaining rows is known when the kernel runs, and each number of rows gets a micro-kernel whose accumulators
stay in registers. Statements that read the finished sums are not copied for each number: one copy with conditions
serves all. If there are no accumulators, or if there would be too many versions, a partial tile keeps its conditions.
If the remainder consists of vector lanes, each number of remaining vectors has a version, with masks.

Only statements that pass rows to each other in registers are copied together. If a task has several nests with separate
tiles, each nest gets versions, not the whole task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields
from typing import Any

from ....arith.affine import variables
from ....expr import EQ, LT, Expr, Var, children, const, contains, find, map_children, replace, walk
from ....tir.conditions import all_of, conjuncts, reads_memory
from ....tir.nodes import Allocate, Buffer, BufferLoad, BufferStore, For, ForKind, If, LetStmt, PrimFunc, Seq, Stmt
from ....tir.transform.affine import Affine, Ranges, expr, interval, moves, slack, with_loop
from ....tir.transform.simplify import simplify_stmt
from ....tir.transform.unroll import bind, unrolled_size
from .partition_loops import partition_loops

CODE_GROWTH = 400  # statements, unrolled, of all versions of a nest
_WIDEST = 1 << 12  # values of what is inside of a tile: more is no tile
VERSIONS = 15  # numbers of rows that get a version of their own

Key = frozenset[Any]  # what tells one edge from another: the terms outside of the tile


def unswitch_tiles(func: PrimFunc) -> PrimFunc:
    """Make versions of partial tiles, at the outermost place where the size of a partial tile is known.

    before:
        n: T.int32
        A: T.Buffer((64,), "float32")
        B: T.Buffer((64,), "float32")
        for i in range((n + 2) // 3):
            for r in T.unroll(3):
                if i * 3 + r < n:
                    B[i * 3 + r] = A[i * 3 + r]
    after:
        for i in range((n + 2) // 3):
            if i * 3 + 2 < n:
                for r in T.unroll(3):
                    B[i * 3 + r] = A[i * 3 + r]
            else:
                for r in T.unroll(2):
                    if i * 3 + r < n:
                        B[i * 3 + r] = A[i * 3 + r]
    """
    if any(loop.thread is not None for loop in find(func.body, For)):
        return func  # threads of a block must meet at the same barriers: conditions stay at the statements
    body = _visit(func.body, {}, _Left())
    # The size of a partial tile is constant in each version, so a loop can be cut there.
    return func if body is func.body else partition_loops(func.with_body(simplify_stmt(body, {})))


@dataclass(frozen=True, slots=True)
class _Edge:
    """Conditions `outer + inner < 0` that share `outer`. `inner` runs from `low` to `high`, in vector lanes if
    `vector`.

    `registers` are local buffers that the tile accesses only under these conditions. A vector has `lanes` consecutive
    values of `inner`, or 0 if there are no vectors or if the values are in another order.
    """

    outer: Affine
    low: int
    high: int
    vector: bool
    dtype: Any
    registers: frozenset[Buffer] = frozenset()
    lanes: int = 0

    @property
    def vectors(self) -> int:
        """The number of adjacent register vectors in a tile, or 1 if the vectors cannot be told apart."""
        apart = self.vector and self.lanes and self.registers
        return -(-(self.high + 1 - self.low) // self.lanes) if apart else 1

    @property
    def key(self) -> Key:
        """The key that tells this edge from others."""
        return frozenset(self.outer.terms.items())

    def compare(self, how: Any, count: int) -> Expr:
        """Return `i*4 + count < n`, or another comparison. No number in it is larger than in the original
        conditions.
        """
        left = Affine({term: times for term, times in self.outer.terms.items() if times > 0})
        return how(expr(left + count, self.dtype), expr(left - self.outer, self.dtype))


@dataclass(frozen=True, slots=True)
class _Left:
    """The remaining budget for versions inside of a version, in statements, and the edges that are decided there.

    A version with conditions keeps the conditions of its edge, and so does a version for some of the vectors. Without
    this record, inner loops would get the same versions again.
    """

    growth: int = CODE_GROWTH
    decided: frozenset[Key] = frozenset()

    def inside(self, edge: _Edge, growth: int) -> _Left:
        """Return the remaining budget inside of a version of an edge."""
        return _Left(growth, self.decided | {edge.key})


def _visit(stmt: Any, ranges: Ranges, left: _Left) -> Any:
    if not isinstance(stmt, Stmt):
        return stmt
    if isinstance(stmt, For):
        inner = dict(with_loop(stmt, ranges))
        if stmt.kind == ForKind.VECTORIZED:
            return stmt
        body = _of_tile(stmt.body, inner, left) if stmt.kind != ForKind.UNROLLED else None
    elif isinstance(stmt, LetStmt):
        inner, body = dict(ranges), _versions(stmt.body, ranges, left)
    else:
        return map_children(stmt, lambda child: _visit(child, ranges, left))
    if body is None:
        body = _visit(stmt.body, inner, left)
    return stmt if body is stmt.body else replace(stmt, body=body)


def _of_tile(body: Stmt, ranges: Ranges, left: _Left) -> Any:
    """Return the versions of a loop's body. If the body first checks whether there is a tile at all, the check is
    kept.
    """
    versions = _versions(body, ranges, left)
    if versions is not None or not isinstance(body, If) or body.else_case is not None:
        return versions
    tile = _versions(body.then_case, ranges, left)
    return None if tile is None else replace(body, then_case=tile)


def _versions(body: Stmt, ranges: Ranges, left: _Left, own: frozenset[Buffer] = frozenset()) -> Stmt | None:
    """Return the body of a loop as a choice between versions of it, or None if it has no partial tile.

    `own` holds the buffers that are allocated inside the loop, around the body.
    """
    if isinstance(body, Allocate):
        inside = _versions(body.body, ranges, left, own | {body.buffer})
        return None if inside is None else replace(body, body=inside)
    size = unrolled_size(body)
    edges = [edge for edge in _edges(body, ranges) if edge.key not in left.decided] if size <= left.growth // 2 else []
    if isinstance(body, Seq):
        first, last = _run(body, edges, own)
        if last - first < len(body.stmts):
            middle = [Seq.of(*body.stmts[first:last])] if first < last else []
            return _one_by_one([*body.stmts[:first], *middle, *body.stmts[last:]], ranges, left, own)
    if not edges:
        return None
    edge = edges[0]
    if 1 < edge.vectors <= VERSIONS and size * (1 + (edge.vectors + 1) // 2) <= left.growth:
        return _by_vectors(body, edge, ranges, left)
    rest = range(edge.low + 1, edge.high + 1)
    # A version for c of n rows has c n-ths of the statements.
    several = len(rest) <= VERSIONS and size * (1 + (len(rest) + 1) // 2) <= left.growth
    each = not edge.vector and several and bool(edge.registers)
    within = left.inside(edge, left.growth // 2 if each else left.growth - size)

    def version(stmt: Stmt, count: int | bool | None) -> Stmt:
        copied = bind(stmt, {}) if count is None else bind(_limited(stmt, edge, count), {})
        return _visit(copied, ranges, within)

    if not each:
        return If(edge.compare(LT, edge.high), version(body, True), version(body, None))
    sums, rest_of_body = _apart(body, edge)
    partial = version(sums, False)
    for count in rest:
        partial = If(edge.compare(EQ, count), version(sums, count), partial)
    if rest_of_body is not None:
        partial = Seq.of(partial, version(rest_of_body, None))
    return If(edge.compare(LT, edge.high), version(body, True), partial)


def _by_vectors(body: Stmt, edge: _Edge, ranges: Ranges, left: _Left) -> Stmt:
    """Return a version without conditions, and one with masks for each number of remaining vectors."""

    def version(count: int | bool) -> Stmt:
        limited = _limited(body, edge, count) if isinstance(count, bool) else _narrowed(body, edge, count)
        return _visit(bind(limited, {}), ranges, left.inside(edge, left.growth))

    partial = version(edge.vectors)
    for count in range(edge.vectors - 1, 0, -1):
        partial = If(edge.compare(LT, edge.low + count * edge.lanes), partial, version(count))
    return If(edge.compare(LT, edge.high), version(True), partial)


def _apart(body: Stmt, edge: _Edge) -> tuple[Stmt, Stmt | None]:
    """Split a tile into the statements that fill its registers, and those that only read them."""
    if not isinstance(body, Seq):
        return body, None
    stores = [any(isinstance(n, BufferStore) and n.buffer in edge.registers for n in walk(s)) for s in body.stmts]
    behind = len(stores) - stores[::-1].index(True) if any(stores) else len(stores)
    return Seq.of(*body.stmts[:behind]), Seq.of(*body.stmts[behind:]) if behind < len(stores) else None


def _one_by_one(parts: Sequence[Stmt], ranges: Ranges, left: _Left, own: frozenset[Buffer]) -> Stmt | None:
    """Return versions of each statement of a sequence separately, so that no statement is copied for another one's
    sake.
    """
    made = [_versions(part, ranges, left, own) for part in parts]
    if all(new is None for new in made):
        return None
    return Seq.of(*(_visit(part, ranges, left) if new is None else new for part, new in zip(parts, made, strict=True)))


def _run(body: Seq, edges: Sequence[_Edge], own: frozenset[Buffer]) -> tuple[int, int]:
    """Return the range of statements that pass rows of a tile to each other in registers.

    Lanes of a mask are not rows, so an edge of vectors concerns the whole sequence.
    """
    if any(edge.vector for edge in edges):
        return 0, len(body.stmts)
    for edge in edges:
        shared = edge.registers & own
        places = [k for k, part in enumerate(body.stmts) if any(_touches(node, shared) for node in walk(part))]
        if len(places) > 1:
            return places[0], places[-1] + 1
    return 0, 0


def _touches(node: Any, buffers: frozenset[Buffer]) -> bool:
    return isinstance(node, BufferLoad | BufferStore) and node.buffer in buffers


def _limited(stmt: Any, edge: _Edge, count: int | bool) -> Any:
    """Return the statement with the edge's conditions replaced by `inner < count`, or by a truth value."""
    return _with_conditions(stmt, lambda part, lanes: [_limit(part, edge, count)])


def _narrowed(stmt: Any, edge: _Edge, count: int) -> Any:
    """Return the statement with the edge's conditions limited to the first `count` vectors."""

    def narrowed(condition: Expr, lanes: frozenset[Var]) -> list[Expr]:
        inner = _inside(condition, edge)
        if inner is None:
            return [condition]
        first = Affine({term: times for term, times in inner.terms.items() if not moves(Affine.of(term), lanes)})
        limit = const(edge.low + count * edge.lanes, edge.dtype)
        return [LT(expr(first + inner.const, edge.dtype), limit), condition]

    return _with_conditions(stmt, narrowed)


def _with_conditions(stmt: Any, change: Callable[[Expr, frozenset[Var]], list[Expr]]) -> Any:
    """Return the statement with each part of a condition replaced by the parts that `change(part, lane variables)`
    returns.
    """

    def go(node: Any, lanes: frozenset[Var]) -> Any:
        if not isinstance(node, Stmt):
            return node
        if isinstance(node, For) and node.kind == ForKind.VECTORIZED:
            lanes = lanes | {node.var}
        made = map_children(node, lambda child: go(child, lanes))
        if not isinstance(made, If):
            return made
        return replace(
            made, condition=all_of([new for part in conjuncts(made.condition) for new in change(part, lanes)])
        )

    return go(stmt, frozenset())


def _limit(condition: Expr, edge: _Edge, count: int | bool) -> Expr:
    inner = _inside(condition, edge)
    if inner is None:
        return condition
    if isinstance(count, bool):
        return const(count, "bool")
    return LT(expr(inner, edge.dtype), const(count, edge.dtype)) if inner.terms else const(inner.const < count, "bool")


def _inside(condition: Expr, edge: _Edge) -> Affine | None:
    """Return the `inner` of a condition if it belongs to the edge, or None."""
    form = slack(condition)
    if form is None or any(form.terms.get(term) != times for term, times in edge.outer.terms.items()):
        return None
    return form - edge.outer


def _edges(body: Stmt, ranges: Ranges) -> Iterator[_Edge]:
    """Yield the edges of a loop's body, in the order of their first conditions."""
    inside = {node.var for node in find(body, For | LetStmt)}
    serial = {node.var for node in find(body, For) if node.kind in _SERIAL}
    seen = _Seen()
    seen.visit(body, ranges, _Scope(inside, serial))
    for key, group in seen.edges.items():
        low, high = min(edge.low for edge in group), max(edge.high for edge in group)
        if low < high:
            registers = frozenset(b for b, keys in seen.guards.items() if b.scope == "local" and key in keys)
            lanes = {edge.lanes for edge in group}
            yield _Edge(
                group[0].outer, low, high, any(edge.vector for edge in group), group[0].dtype, registers,
                lanes.pop() if len(lanes) == 1 else 0,
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Scope:
    """The variables bound in a body: all of them, those of serial loops, and those that are vector lanes.

    `guards` holds the edges whose conditions are known to hold.
    """

    inside: set[Var]
    serial: set[Var]
    lanes: frozenset[Var] = frozenset()
    guards: frozenset[Key] = frozenset()


_SEEN = BufferLoad | BufferStore | If
_SERIAL = (ForKind.SERIAL, ForKind.PARALLEL)


@dataclass
class _Seen:
    """The edges in a body by key, and for each buffer the edges that guard all of its accesses."""

    edges: dict[Key, list[_Edge]] = field(default_factory=dict)
    guards: dict[Buffer, frozenset[Key]] = field(default_factory=dict)

    def visit(self, node: Any, ranges: Ranges, scope: _Scope) -> None:
        if node is None or not contains(node, _SEEN):
            return
        if isinstance(node, BufferLoad | BufferStore):
            self.guards[node.buffer] = scope.guards & self.guards.get(node.buffer, scope.guards)
        if isinstance(node, For):
            ranges = with_loop(node, ranges)
            if node.kind == ForKind.VECTORIZED:
                scope = replace_fields(scope, lanes=scope.lanes | {node.var})
        if isinstance(node, If):
            self.visit(node.condition, ranges, scope)
            found = [edge for part in conjuncts(node.condition) if (edge := _edge(part, ranges, scope)) is not None]
            for edge in found:
                self.edges.setdefault(edge.key, []).append(edge)
            guards = scope.guards | {edge.key for edge in found}
            self.visit(node.then_case, ranges, replace_fields(scope, guards=guards))
            self.visit(node.else_case, ranges, scope)
            return
        for child in children(node):
            self.visit(child, ranges, scope)


def _edge(condition: Expr, ranges: Ranges, scope: _Scope) -> _Edge | None:
    form = None if reads_memory(condition) else slack(condition)
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
    dtype = condition.a.dtype  # type: ignore[attr-defined]
    return _Edge(outer, *limits, moves(inner, scope.lanes), dtype, lanes=_lanes(inner, ranges, scope))


def _lanes(inner: Affine, ranges: Ranges, scope: _Scope) -> int:
    """Return how many consecutive values a vector has, if each vector begins where another one ends, or 0 otherwise."""
    terms = {term: moves(Affine.of(term), scope.lanes) for term in inner.terms}
    within = Affine({term: times for term, times in inner.terms.items() if terms[term]})
    reach = interval(within, ranges)
    if len(within.terms) != 1 or set(within.terms.values()) != {1} or reach is None or reach[0] != 0:
        return 0
    lanes = reach[1] + 1
    return lanes if all(times % lanes == 0 for term, times in inner.terms.items() if not terms[term]) else 0
