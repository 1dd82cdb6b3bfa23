"""`ScheduleState`: the IRModule that a schedule primitive works on, with a tree of each function.

Only the methods of the state may change it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import cast

from ...arith import Analyzer
from ...arith.iter_simplify import simplify_bindings
from ...errors import InternalError, ScheduleError, nearest
from ...expr import Expr, Range, Var, const, replace
from ..analysis.block_kinds import Scope
from ..analysis.tree import Tree
from ..conditions import all_of, both, conjuncts, is_const, reads_memory
from ..nodes import Block, BlockId, BlockRealize, For, ForKind, If, IRModule, PrimFunc, Seq, Stmt, root_block
from .block_scope import BlockScope, StmtSRef
from .randomness import RandomNumbers


class ScheduleDebugMask(IntEnum):
    """The bits of TVM's `debug_mask`. They have no effect here, because the program is always checked."""

    VERIFY_SREF_TREE = 1
    VERIFY_CACHED_FLAGS = 2


class ScheduleState:
    """A module during one step of a schedule.

    A primitive reads the trees of the state and calls `replace` or `set_func`. The `Schedule` uses the result only if
    the whole step succeeds, so a refused call changes nothing.
    """

    def __init__(
        self,
        mod: IRModule | PrimFunc,
        func_name: str | None = None,
        trees: Mapping[PrimFunc, Tree] | None = None,
        random_state: int = 1,
        *,
        debug_mask: str | int = "none",  # noqa: ARG002 (TVM's argument)
    ) -> None:
        mod = mod if isinstance(mod, IRModule) else IRModule({"main": mod})
        self.mod = mod
        self.func_name = func_name
        self.random = RandomNumbers(random_state)
        reusable = trees or {}
        self.trees: dict[PrimFunc, Tree] = {f: reusable[f] for f in mod.functions.values() if f in reusable}
        # The functions that the oracle compares instead of those whose parameters a step has changed.
        self.comparable: dict[str, PrimFunc] = {}

    def tree(self, name: str | None = None) -> Tree:
        """Return the tree of a function, by default of the one that you work on."""
        func = self.mod[self.named(name)]
        if func not in self.trees:
            root_block(func)
            self.trees[func] = Tree(func)
        return self.trees[func]

    def named(self, name: str | None) -> str:
        """Return a function's name, by default of the one that you work on; raise `ScheduleError` if there is no
        default.
        """
        resolved = name or self.func_name
        if resolved is None:
            names = ", ".join(self.mod.functions)
            raise ScheduleError(
                f"which function? the module has {names}, and none is named main\n"
                "  try:    sch.work_on(NAME), or get_block(..., func_name=NAME)"
            )
        return resolved

    def _schedulable(self) -> Iterable[tuple[str, Tree]]:
        if self.func_name is not None:
            yield self.func_name, self.tree()
        for name, func in self.mod.items():
            if name != self.func_name and isinstance(func.body, BlockRealize):
                yield name, self.tree(name)

    def schedulable_trees(self) -> Iterable[Tree]:
        """Return the trees of all functions that are not lowered yet, starting with the one that you work on."""
        return (tree for _, tree in self._schedulable())

    def loop(self, var: Var) -> For | None:
        """Return the loop over the variable `var`; None if it does not exist (any longer)."""
        return next((tree.loops[var] for _, tree in self._schedulable() if var in tree.loops), None)

    def block(self, key: BlockId) -> BlockRealize | None:
        """Return the block with the id `key`; None if it does not exist (any longer)."""
        return next((tree.blocks[key] for _, tree in self._schedulable() if key in tree.blocks), None)

    def get_sref(self, stmt: Block | For | None) -> StmtSRef:
        """Return TVM's reference to a block or loop of the module; for None, return the mark of the root. Raises
        `ScheduleError` if the block or loop is not in the module.
        """
        if stmt is None:
            return StmtSRef.root_mark()
        place = self.block(stmt.id) if isinstance(stmt, Block) else self.loop(stmt.var)
        if place is None:
            raise ScheduleError("get_sref: the block or loop is not part of the module as it is now")
        return StmtSRef.of(place, self.home(place))

    def get_block_scope(self, block_sref: StmtSRef) -> BlockScope:
        """Return the dependences between the blocks directly inside a block (TVM's method). Raises `ScheduleError` if
        the block is not in the module.
        """
        block = self.block(cast("BlockId", block_sref.key))
        if block is None:
            raise ScheduleError("get_block_scope: the block is not part of the module as it is now")
        return BlockScope(Scope(self.home(block), block))

    def home(self, stmt: Stmt) -> Tree:
        """Return the tree of the function that contains a statement."""
        for _, tree in self._schedulable():
            if stmt in tree.order:
                return tree
        raise InternalError("the statement is not part of the module that is scheduled")

    def block_named(self, name: str, func_name: str | None = None) -> BlockRealize:
        """Return the only block called `name`; raise `ScheduleError` if there is none (suggesting similar names) or
        more than one.
        """
        tree = self.tree(func_name)
        matches = [realize for realize in tree.blocks.values() if realize.block.name == name]
        if len(matches) == 1:
            return matches[0]
        names = [realize.block.name for realize in tree.blocks.values()]
        where = self.named(func_name)
        if not matches:
            raise ScheduleError(f"no block {name!r} in function {where!r}; {nearest(name, names)}")
        raise ScheduleError(f"{len(matches)} blocks of function {where!r} are named {name!r}; use get_child_blocks")

    def replace(self, changes: Mapping[Stmt, Stmt | None]) -> None:
        """Replace statements, all in the same function. A statement that is mapped to None is removed."""
        if changes:
            tree = self.home(next(iter(changes)))
            self.set_func(tree, tree.rebuild(changes))

    def set_func(self, tree: Tree, func: PrimFunc) -> None:
        """Replace the function that `tree` belongs to by a new version."""
        for name, old in self.mod.items():
            if old is tree.func:
                self.mod = self.mod.with_function(name, func)
                return
        raise InternalError("the function is not part of the module that is scheduled")

    def domains(self, stmt: Stmt) -> dict[Var, Range]:
        """Return the ranges of all loops around a statement, outermost first."""
        return {l.var: Range(l.start, l.extent) for l in self.home(stmt).all_loops_above(stmt)}

    def analyzer(self, stmt: Stmt | None = None) -> Analyzer:
        """Return an analyzer that knows the ranges of all loops around a statement, including the statement itself if
        it is a loop.
        """
        loops = [] if stmt is None else self.home(stmt).all_loops_above(stmt)
        return Analyzer.inside(*loops, stmt) if isinstance(stmt, For) else Analyzer.inside(*loops)


def tidy(
    stmt: Stmt,
    analyzer: Analyzer,
    keep_unit: bool = False,
    around: Mapping[Var, Range] = MappingProxyType({}),
    as_written: bool = False,
) -> Stmt:
    """Simplify loops and block bindings after a rewrite: extents, iterator values and conditions.

    Conditions that always hold are removed. `analyzer` knows the loops around `stmt`, and `around` has their ranges.
    With `keep_unit`, loops of extent 1 stay in the bindings (like TVM's preserve_unit_iters). With `as_written`,
    predicates are not changed, as in TVM when loops are split and fused.
    """
    if isinstance(stmt, For):
        start, extent = analyzer.simplify(stmt.start), analyzer.simplify(stmt.extent)
        # A range that is too large by one is still correct, and keeps the variable from being simplified away.
        shown = const(2, extent.dtype) if keep_unit and is_const(extent, 1) else extent
        analyzer.bind(stmt.var, Range(start, shown))
        inside = {**around, stmt.var: Range(start, extent)}
        return replace(stmt, start=start, extent=extent, body=tidy(stmt.body, analyzer, keep_unit, inside, as_written))
    if isinstance(stmt, Seq):
        return Seq(tuple(tidy(s, analyzer, keep_unit, around, as_written) for s in stmt.stmts))
    if isinstance(stmt, If):
        condition = analyzer.simplify(stmt.condition)
        if is_const(condition, 1):
            return tidy(stmt.then_case, analyzer, keep_unit, around, as_written)
        other = None if stmt.else_case is None else tidy(stmt.else_case, analyzer, keep_unit, around, as_written)
        return If(condition, tidy(stmt.then_case, analyzer, keep_unit, around, as_written), other)
    if isinstance(stmt, BlockRealize):
        simple = {c: analyzer.simplify(c) for c in conjuncts(stmt.predicate)}
        kept = [c if as_written else simplified for c, simplified in simple.items() if not is_const(simplified, 1)]
        predicate = all_of(kept)
        values = simplify_bindings(stmt.iter_values, around, predicate, analyzer, keep_unit)
        return replace(stmt, iter_values=values, predicate=predicate)
    return stmt


def nest_around(body: Stmt, loops: Sequence[Var], extents: Sequence[Expr]) -> Stmt:
    """Wrap a statement in serial loops that start at 0; the first loop is the outermost."""
    for loop, extent in reversed(list(zip(loops, extents, strict=True))):
        body = For(loop, const(0, loop.dtype), extent, ForKind.SERIAL, body)
    return body


def guard(stmt: Stmt, condition: Expr) -> Stmt:
    """Make a statement run only if `condition` holds, by extending the predicates of its blocks or by wrapping it in an
    `if`.

    If the bindings or the predicate of a block read memory, they are evaluated only if the condition holds.
    """
    if is_const(condition, 1):
        return stmt
    if isinstance(stmt, BlockRealize) and not any(map(reads_memory, stmt.iter_values)):
        first, second = stmt.predicate, condition
        if reads_memory(first):
            first, second = second, first  # as in TVM it comes second, except for a load that may be out of bounds
        return replace(stmt, predicate=both(first, second))
    if isinstance(stmt, For) and not reads_memory(stmt.start) and not reads_memory(stmt.extent):
        return replace(stmt, body=guard(stmt.body, condition))
    if isinstance(stmt, Seq):
        return Seq(tuple(guard(s, condition) for s in stmt.stmts))
    return If(condition, stmt)
