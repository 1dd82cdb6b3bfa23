"""Find buffers on which the threads of a GPU do not race: each thread owns them, or they are filled in lockstep.

`tir.analysis.threads` defines both kinds; this module decides when a schedule may rely on them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.block_kinds import Scope, why_not_complete
from ..analysis.block_regions import regions_written
from ..analysis.dependences import accesses, conflicting_pairs, shown_apart
from ..analysis.threads import adds_up, depends, is_register, is_shared, is_thread, owns, reductions_over
from ..analysis.tree import Tree
from ..analysis.updates import recognised
from ..nodes import BlockRealize, Buffer, For, ForKind
from .moving import uncovered
from .state import ScheduleState

_COMMON = ("global", "shared")  # scopes that the iterations of a parallel loop do not own


def safe_storage(state: ScheduleState, tree: Tree, loop: For, bound: For) -> set[Buffer]:
    """Return the buffers inside `loop` on which its iterations do not race once `bound`, a concurrent loop or a loop on
    the grid, replaces it.

    - Buffers that each iteration owns: it reads from such a buffer only values that it has written itself.
    - Buffers that threads share: every block that writes such a buffer gives each element the same value, whichever
      thread runs it and when. No two threads write an element in the same statement, unless the statement is the same
      for all threads, so that one thread runs it.
    """
    scope = Scope.around(tree, loop)
    used = {r.buffer for b in scope.blocks for r in regions_written(b.block) if tree.inside(b, loop)}
    on_grid = bound.kind is ForKind.THREAD
    own = (lambda s: owns(bound, s) or is_shared(s)) if on_grid else is_register
    scoped = [b for b in used if b in scope.allocated and own(b.scope)]
    return {b for b in scoped if _is_safe(state, scope, loop, bound, b)}


def _is_safe(state: ScheduleState, scope: Scope, loop: For, bound: For, buffer: Buffer) -> bool:
    if not _filled_first(state, scope, loop, buffer):
        return False
    return is_register(buffer.scope) or owns(bound, buffer.scope) or _shares_safely(state, scope, loop, buffer)


def _shares_safely(state: ScheduleState, scope: Scope, loop: For, buffer: Buffer) -> bool:
    """Return whether threads that share a buffer write it in lockstep with the same values, and read only what they
    have written.
    """
    if not _filled_first(state, scope, loop, buffer):
        return False
    writers = scope.writers(buffer)
    return all(_is_steady(state, scope, loop, w) and _is_alone(scope.tree, loop, w, buffer) for w in writers)


def combined_alone(tree: Tree, bound: For, inside: For | None = None) -> set[Buffer]:
    """Return the buffers that only a cross-thread reduction of a loop uses, if its reducer is registered.

    `inside` is the loop as it is in the tree, and `bound` is the loop as it will be.
    """
    buffers: set[Buffer] = set()
    for realize in reductions_over(bound):
        read = recognised(realize.block, without_init=True)
        if not isinstance(read, str):
            mine = set(read[0].buffers)
            touches = accesses(tree, inside or bound)
            buffers |= {b for b in mine if all(a.stmt is realize for a in touches if a.buffer is b)}
    return buffers


def passes_on(state: ScheduleState, tree: Tree, loop: For, buffer: Buffer, storage_scope: str) -> bool:
    """Return whether an iteration of a loop may read a value that another iteration wrote to a buffer, if the buffer is
    in `storage_scope`.

    Iterations do not see each other's values if each one owns its storage, or if threads fill shared storage in
    lockstep.
    """
    above = tree.all_loops_above(loop)
    touches = [a for a in accesses(tree, loop) if a.buffer is buffer]
    if all(shown_apart(above, loop, a, b) for a, b in conflicting_pairs(touches)):
        return False
    scope = Scope.around(tree, loop)
    if owns(loop, storage_scope) or (loop.kind is ForKind.PARALLEL and not storage_scope.startswith(_COMMON)):
        return not _filled_first(state, scope, loop, buffer)
    if is_shared(storage_scope) and adds_up(loop) and buffer in combined_alone(tree, loop):
        return False  # as if the loop had been bound after the buffer got its scope: `no_races`
    if not is_thread(loop) or not is_shared(storage_scope):
        return True
    # Threads use shared storage in step, even if values are already passed on in it.
    return not is_shared(buffer.scope) and not _shares_safely(state, scope, loop, buffer)


def _filled_first(state: ScheduleState, scope: Scope, loop: For, buffer: Buffer) -> bool:
    """Return whether each iteration of a loop reads from a buffer only values that it has written itself, and nothing
    else uses the buffer.
    """
    tree = scope.tree
    users = [b for b in scope.blocks if b in scope.writers(buffer) or buffer in scope.read(b)]
    if not all(tree.inside(user, loop) for user in users):
        return False
    writers = scope.writers(buffer)
    for reader in scope.readers(buffer):
        producers = [w for w in writers if w is not reader]
        if not producers or not all(scope.before(p, reader) for p in producers):
            return False
        if any(uncovered(state, tree, p, reader) is not None for p in producers):
            return False
    return True


def _is_steady(state: ScheduleState, scope: Scope, loop: For, block: BlockRealize) -> bool:
    """Return whether a block stores the same values in each iteration of a loop, because it and its producers are
    complete blocks.
    """
    if why_not_complete(scope, block) is not None:
        return False
    inside = [p for p in scope.producers(block) if scope.tree.inside(p, loop)]
    return all(
        scope.before(p, block) and uncovered(state, scope.tree, p, block) is None and _is_steady(state, scope, loop, p)
        for p in inside
    )


def _is_alone(tree: Tree, loop: For, block: BlockRealize, buffer: Buffer) -> bool:
    if not depends(loop, block):
        return True
    above = tree.all_loops_above(loop)
    writes = [a for a in accesses(tree, loop) if a.stmt is block and a.is_write and a.buffer is buffer]
    return all(shown_apart(above, loop, a, b) for a in writes for b in writes)


def sharing_threads(tree: Tree, loop: For, buffer: Buffer) -> Sequence[For]:
    """Return the thread loops whose iterations share a buffer, among `loop` and the loops around it."""
    if not is_shared(buffer.scope):
        return ()
    return [l for l in (*tree.all_loops_above(loop), loop) if is_thread(l)]
