"""A function as a tree with parent links: find loops and blocks, and replace statements.

A `Tree` is built once for an immutable `PrimFunc` and never changes. `rebuild` makes a new function, which shares every
statement that does not contain a replaced one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

from ...errors import InternalError
from ...expr import Expr, Var, const, find, free_vars, map_children, replace, substitute
from ...expr.node import kept_with_node
from .. import nodes as tir


def sub_statements(stmt: tir.Stmt) -> Iterator[tir.Stmt]:
    """Yield the statements directly inside a statement, in program order."""
    if isinstance(stmt, tir.Seq):
        yield from stmt.stmts
    elif isinstance(stmt, tir.BlockRealize):
        yield stmt.block
    elif isinstance(stmt, tir.Block):
        if stmt.init is not None:
            yield stmt.init
        yield stmt.body
    elif isinstance(stmt, tir.If):
        yield stmt.then_case
        if stmt.else_case is not None:
            yield stmt.else_case
    elif isinstance(stmt, tir.For | tir.While | tir.LetStmt | tir.Allocate | tir.Instruction | tir.Async):
        yield stmt.body


def statements(stmt: tir.Stmt) -> Iterator[tir.Stmt]:
    """Yield the statement and all statements inside it in program order, parents first."""
    yield stmt
    for inner in sub_statements(stmt):
        yield from statements(inner)


def own_expressions(stmt: tir.Stmt) -> Iterator[Expr]:
    """Yield the expressions directly in a statement. For a block realization, these are its bindings and
    its predicate.
    """
    for name in stmt._children:
        value = getattr(stmt, name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Expr):
                yield item


@kept_with_node
def _parts(stmt: tir.Stmt) -> tuple[tuple[tir.BufferLoad, ...], tuple[tir.Stmt, ...]]:
    """Return the loads in the expressions of a statement, and the statements directly inside it."""
    return tuple(n for e in own_expressions(stmt) for n in find(e, tir.BufferLoad)), tuple(sub_statements(stmt))


Loads = tuple[tuple[tir.Stmt, tir.BufferLoad], ...]


class Tree:
    """The parents, loops and blocks of one function. Loops are looked up by their variable and blocks by their id.

    The statements around each statement are recorded in a single walk when the tree is built.
    """

    __slots__ = (
        "_blocks_in", "_controls", "_last", "_loops", "_moving", "_scope",
        "blocks", "func", "kept", "loops", "order", "parent",
    )  # fmt: skip

    def __init__(self, func: tir.PrimFunc) -> None:
        self.func = func
        self.parent: dict[tir.Stmt, tir.Stmt] = {}
        self.loops: dict[Var, tir.For] = {}
        self.blocks: dict[tir.BlockId, tir.BlockRealize] = {}
        self.order: dict[tir.Stmt, int] = {}
        self.kept: dict[Any, Any] = {}  # results of other analyses about this tree
        self._last: dict[tir.Stmt, int] = {}  # the place in the order of the last statement inside
        self._scope: dict[tir.Stmt, tir.BlockRealize | None] = {}
        self._loops: dict[tir.Stmt, tuple[tir.For, ...]] = {}
        self._controls: dict[tir.Stmt, Loads] = {}
        self._blocks_in: dict[tir.BlockRealize | None, list[tir.BlockRealize]] = {}
        self._moving: frozenset[Var] | None = None
        self._add(func.body, None, (), ())

    def _add(self, stmt: tir.Stmt, scope: tir.BlockRealize | None, loops: tuple[tir.For, ...], loads: Loads) -> None:
        self.order[stmt] = len(self.order)
        self._scope[stmt], self._loops[stmt] = scope, loops
        own, inside = _parts(stmt)
        loads = (*((stmt, load) for load in own), *loads) if own else loads
        if isinstance(stmt, tir.For):
            self.loops[stmt.var] = stmt
            loops = (*loops, stmt)
        elif isinstance(stmt, tir.BlockRealize):
            self.blocks[stmt.block.id] = stmt
            self._controls[stmt] = loads
            self._blocks_in.setdefault(scope, []).append(stmt)
            scope, loops, loads = stmt, (), ()
        for inner in inside:
            self.parent[inner] = stmt
            self._add(inner, scope, loops, loads)
        self._last[stmt] = len(self.order) - 1

    @property
    def root(self) -> tir.BlockRealize:
        """The realization of the root block."""
        if not isinstance(self.func.body, tir.BlockRealize):
            raise InternalError(f"{self.func.name} has no root block")
        return self.func.body

    @property
    def moving(self) -> frozenset[Var]:
        """The variables of loops, block iterators and lets.

        Any other variable is a size or a parameter, which has a single value.
        """
        if self._moving is None:
            iterators = {it.var for realize in self.blocks.values() for it in realize.block.iter_vars}
            lets = {stmt.var for stmt in self.order if isinstance(stmt, tir.LetStmt)}
            self._moving = frozenset({*self.loops, *iterators, *lets})
        return self._moving

    def moves(self, *expressions: Expr) -> bool:
        """Return whether the value of any of the expressions may change while the function runs.

        Loads are not considered.
        """
        return any(v in self.moving for e in expressions for v in free_vars(e))

    def condition_above(self, stmt: tir.Stmt, within: tir.Stmt | None) -> tir.If | tir.While | None:
        """Return the `if` or `while` inside `within` that decides whether `stmt` runs, or None if there is none. If
        `within` is None, the search goes up to the scope of `stmt`.
        """
        for outer in self.above(stmt):
            if outer is within or isinstance(outer, tir.BlockRealize):
                return None
            if isinstance(outer, tir.If | tir.While):
                return outer
        return None

    def controls(self, realize: tir.BlockRealize) -> Loads:
        """Return a (statement, load) pair for every load that decides whether or where a block runs.

        These are the loads in its predicate and bindings, and in the conditions, loop bounds and lets around it in its
        scope. `statement` is the statement that contains the load.
        """
        return self._controls[realize]

    def above(self, stmt: tir.Stmt) -> Iterator[tir.Stmt]:
        """Yield the statements around a statement, innermost first."""
        at = self.parent.get(stmt)
        while at is not None:
            yield at
            at = self.parent.get(at)

    def scope(self, stmt: tir.Stmt) -> tir.BlockRealize:
        """Return the realization of the block that directly contains a loop or block."""
        return self._scope[stmt] or self.root

    def loops_above(self, stmt: tir.Stmt) -> list[tir.For]:
        """Return the loops between a statement and the block that contains it, outermost first."""
        return list(self._loops[stmt])

    def all_loops_above(self, stmt: tir.Stmt) -> list[tir.For]:
        """Return all loops around a statement, including those outside of the block that contains it,
        outermost first.
        """
        scope = self._scope[stmt]
        return [*(self.all_loops_above(scope) if scope else ()), *self._loops[stmt]]

    def blocks_in(self, stmt: tir.Stmt) -> list[tir.BlockRealize]:
        """Return the outermost blocks inside a statement, in program order."""
        if isinstance(stmt, tir.BlockRealize):
            return list(self._blocks_in.get(stmt, ()))
        scope = self._scope[stmt]
        return [b for b in self._blocks_in.get(scope, ()) if self.inside(b, stmt)]

    def inside(self, inner: tir.Stmt, outer: tir.Stmt) -> bool:
        """Return whether `inner` is `outer` or inside it."""
        return self.order[outer] <= self.order[inner] <= self._last[outer]

    def rebuild(self, changes: Mapping[tir.Stmt, tir.Stmt | None]) -> tir.PrimFunc:
        """Return the function with statements replaced. Mapping a statement to None removes it, along with the loops
        that this leaves empty.

        A replaced statement must not be inside another one; this raises `InternalError`.
        """
        touched = {outer for stmt in changes for outer in self.above(stmt)}
        for stmt in changes:
            if stmt in touched:
                raise InternalError("a replaced statement stands inside another one")

        body = _rebuilt(self.func.body, changes, touched)
        if body is None:
            raise InternalError("the root block was removed")
        return self.func.with_body(body)


def _rebuilt(stmt: tir.Stmt, changes: Mapping[tir.Stmt, tir.Stmt | None], touched: Set[tir.Stmt]) -> tir.Stmt | None:
    """Return a statement with its inner statements replaced; `touched` are the statements that contain a
    replaced one.
    """
    if stmt in changes:
        return changes[stmt]
    if stmt not in touched:
        return stmt
    if isinstance(stmt, tir.Seq):
        return _sequence([_rebuilt(s, changes, touched) for s in stmt.stmts])
    if isinstance(stmt, tir.BlockRealize):
        return replace(stmt, block=_rebuilt(stmt.block, changes, touched))
    if isinstance(stmt, tir.Block):
        init = None if stmt.init is None else _rebuilt(stmt.init, changes, touched)
        return replace(stmt, init=init, body=_rebuilt(stmt.body, changes, touched) or tir.Evaluate(const(0)))
    if isinstance(stmt, tir.If):
        then_case = _rebuilt(stmt.then_case, changes, touched)
        else_case = None if stmt.else_case is None else _rebuilt(stmt.else_case, changes, touched)
        if then_case is None and else_case is None:
            return None
        return tir.If(stmt.condition, then_case or tir.Evaluate(const(0)), else_case)
    body = _rebuilt(stmt.body, changes, touched)  # type: ignore[attr-defined]
    return None if body is None else replace(stmt, body=body)


def _sequence(stmts: list[tir.Stmt | None]) -> tir.Stmt | None:
    kept = [s for s in stmts if s is not None]
    return tir.Seq.of(*kept) if kept else None


def fresh_copy(stmt: tir.Stmt) -> tir.Stmt:
    """Return a copy with its own loop variables and block ids, which a duplicated statement needs."""

    # Each definition is renamed at its place: a nest that is in two places has its variables in both.
    def go(at: tir.Stmt) -> tir.Stmt:
        if isinstance(at, tir.For | tir.LetStmt):
            var = at.var.with_name(at.var.name)
            return replace(at, var=var, body=substitute(go(at.body), {at.var: var}))
        if isinstance(at, tir.Block):
            renamed: dict[Var, Expr] = {it.var: it.var.with_name(it.var.name) for it in at.iter_vars}
            iters = tuple(replace(it, var=renamed[it.var]) for it in at.iter_vars)
            init = None if at.init is None else go(at.init)
            return substitute(replace(at, iter_vars=iters, init=init, body=go(at.body), id=tir.BlockId()), renamed)
        return _with_inner(at, go)

    return go(stmt)


def _with_inner(stmt: tir.Stmt, change: Callable[[tir.Stmt], tir.Stmt]) -> tir.Stmt:
    """Apply `change` to each statement directly inside a statement. Returns the same object if nothing changed."""
    changed: tir.Stmt = map_children(stmt, lambda child: change(child) if isinstance(child, tir.Stmt) else child)
    return changed


def with_own_keys(func: tir.PrimFunc) -> tir.PrimFunc:
    """Make every loop variable and block id unique in a function. Returns the same object if they already are.

    Handles find statements by these keys. If a program was built by hand from shared statements, these statements are
    copied.
    """
    seen: set[object] = set()
    shared = False
    for stmt in statements(func.body):
        keys: list[object] = [stmt]
        if isinstance(stmt, tir.For):
            keys.append(stmt.var)
        if isinstance(stmt, tir.Block):
            keys.append(stmt.id)
        shared = shared or any(key in seen for key in keys)
        seen.update(keys)
    if not shared:
        return func
    # Leaves are copied too: a statement object in two places would have two parents.
    return func.with_body(_own_leaves(fresh_copy(func.body)))


def _own_leaves(stmt: tir.Stmt) -> tir.Stmt:
    changed = _with_inner(stmt, _own_leaves)
    return replace(stmt) if changed is stmt else changed
