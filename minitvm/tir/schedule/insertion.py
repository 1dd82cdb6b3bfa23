"""Insert new code into a scope: where it may go, and how blocks, loops and buffers change with it in one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...expr import replace
from .. import nodes as tir
from ..analysis.block_kinds import Scope
from ..analysis.block_regions import buffers_touched
from ..analysis.threads import owns
from ..analysis.tree import Tree
from . import requirements as req
from .registry import Failure, holds_inside
from .state import ScheduleState
from .thread_storage import passes_on

own_values = holds_inside(
    "own_values", "if each thread has its own copy of a buffer, it reads only values that it has written itself"
)


@dataclass(frozen=True, slots=True)
class InsertionPoint:
    """A position for new code inside `within`, which is a loop or the block of the scope.

    The position is directly before `anchor` or, if `after` is set, directly after it. If `anchor` is None, the position
    is the start of `within` or, if `after` is set, its end.
    """

    within: tir.Stmt
    anchor: tir.Stmt | None
    after: bool


@dataclass(slots=True)
class Insertion:
    """The changes of one step: statements to rewrite, copies to insert, and buffers to allocate in the scope."""

    tree: Tree
    scope: Scope
    rewritten: dict[tir.Stmt, tir.Stmt] = field(default_factory=dict)
    copies: list[tuple[InsertionPoint, tir.Stmt]] = field(default_factory=list)
    allocated: list[tir.Buffer] = field(default_factory=list)

    def apply(self, state: ScheduleState) -> list[tir.BlockRealize]:
        """Apply the changes to the program and return the blocks of the copies. Anchors are loops and block
        realizations, which are found again by their keys.
        """
        tree = self._set(state, self.tree, dict(self.rewritten))
        ends: tuple[list[tir.Stmt], list[tir.Stmt]] = ([], [])
        around: dict[tir.Stmt, tuple[list[tir.Stmt], list[tir.Stmt]]] = {}
        for place, nest in self.copies:
            if place.anchor is None:
                ends[place.after].append(nest)
            else:
                anchor = _same_place(self.tree, tree, place.anchor)
                around.setdefault(anchor, ([], []))[place.after].append(nest)
        tree = self._set(state, tree, {a: tir.Seq.of(*before, a, *after) for a, (before, after) in around.items()})
        block = tree.blocks[self.scope.realize.block.id].block
        body = tir.Seq.of(*ends[False], block.body, *ends[True]) if any(ends) else block.body
        buffers = (*block.alloc_buffers, *self.allocated)
        self._set(state, tree, {block: replace(block, body=body, alloc_buffers=buffers)})
        return [block_in(state, nest) for _, nest in self.copies]

    def apply_one(self, state: ScheduleState) -> tir.BlockRealize:
        """Apply changes that insert one copy, and return its block; raise `Refused` if this block would cause a
        race.
        """
        (block,) = self.apply(state)
        refuse_races(state, block)
        return block

    def _set(self, state: ScheduleState, tree: Tree, changes: Mapping[tir.Stmt, tir.Stmt]) -> Tree:
        if not changes:
            return tree
        func = tree.rebuild(changes)
        state.set_func(tree, func)
        return state.tree(next(name for name, f in state.mod.items() if f is func))


def _same_place(before: Tree, now: Tree, stmt: tir.Stmt) -> tir.Stmt:
    """Find a statement again in another tree in which blocks were rewritten but all statements kept their positions."""
    if stmt in now.order:
        return stmt
    inner = before.blocks_in(stmt)[0] if not isinstance(stmt, tir.BlockRealize) else stmt
    at: tir.Stmt = now.blocks[inner.block.id]
    outer: tir.Stmt = inner
    while outer is not stmt:
        outer, at = before.parent[outer], now.parent[at]
    return at


def start_of(scope: Scope) -> InsertionPoint:
    """Return the place before all statements of a scope."""
    return InsertionPoint(scope.realize.block, None, after=False)


def end_of(scope: Scope) -> InsertionPoint:
    """Return the place after all statements of a scope."""
    return InsertionPoint(scope.realize.block, None, after=True)


def place_beside(
    tree: Tree, block: tir.BlockRealize, others: Sequence[tir.BlockRealize], after: bool = True
) -> InsertionPoint:
    """Return the place directly after `block`, or directly before it, but outside of the loops and branches that
    contain none of the others.

    `within` is the innermost loop that `block` shares with any of the others, or the block of their scope.
    """
    loops = tree.loops_above(block)
    shared = [l for l in loops if any(tree.inside(o, l) for o in others)]
    within: tir.Stmt = shared[-1] if shared else tree.scope(block).block
    at: tir.Stmt = block
    # Go outward until the node around the statement also contains another one: a loop, a branch, the body of a let.
    while True:
        outer = tree.parent[at]
        ends = outer is within or (isinstance(outer, tir.Seq) and tree.parent[outer] is within)
        if ends or any(tree.inside(o, outer) for o in others):
            return InsertionPoint(within, at, after)
        at = outer


def place_between(tree: Tree, writer: tir.BlockRealize, readers: Sequence[tir.BlockRealize]) -> InsertionPoint:
    """Return the latest place after `writer` and before `readers`."""
    place = place_beside(tree, writer, readers)
    assert place.anchor is not None  # a place beside a block
    around = tree.parent[place.anchor]
    if not isinstance(around, tir.Seq):
        return place
    later = around.stmts[around.stmts.index(place.anchor) + 1 :]
    first = next((stmt for stmt in later if any(tree.inside(reader, stmt) for reader in readers)), None)
    return place if first is None else InsertionPoint(place.within, first, after=False)


def block_in(state: ScheduleState, nest: tir.Stmt) -> tir.BlockRealize:
    """Return the block of the copy loops `nest`, as it currently is in the program."""
    at = nest
    while not isinstance(at, tir.BlockRealize):
        at = at.body  # type: ignore[attr-defined]
    placed = state.block(at.block.id)
    assert placed is not None  # it was just put there
    return placed


def refuse_races(state: ScheduleState, realize: tir.BlockRealize) -> None:
    """Raise `Refused` if a new block causes a race between iterations of a concurrent loop.

    The loop may be around the new block, or around a block that shares a buffer with it. Threads that each owned a
    buffer, or filled it in lockstep, race if the buffer is now also used outside of these threads.
    """
    tree = state.home(realize)
    touched = buffers_touched(realize.block)
    for outer in _loops_around(tree, realize, touched):
        if outer.kind in tir.CONCURRENT:
            race = req.no_races.check(state=state, loop=outer)
            if race is not None:
                raise req.no_races.refuse(race)
        for buffer in {b for b in touched if owns(outer, b.scope)}:
            if passes_on(state, tree, outer, buffer, buffer.scope):
                raise own_values.refuse(
                    Failure(
                        {outer: f"each has its own {buffer.name}", realize.block: f"uses {buffer.name}"},
                        f"iterations of {outer.var.name} that find in {buffer.name} what they have written themselves",
                        f"one may read what another has written to {buffer.name}, in {buffer.scope} storage",
                        ("a scope that they share",),
                    )
                )


def _loops_around(tree: Tree, realize: tir.BlockRealize, buffers: set[tir.Buffer]) -> list[tir.For]:
    """Return the loops around a block and around the other blocks of its scope that touch any of `buffers`."""
    users = [b for b in Scope.around(tree, realize).blocks if b is realize or buffers & buffers_touched(b.block)]
    return list(dict.fromkeys(l for user in users for l in tree.all_loops_above(user)))
