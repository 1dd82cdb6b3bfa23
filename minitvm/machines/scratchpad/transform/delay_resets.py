"""Set registers to zero where they are first needed: by then, their previous users are more likely to be done.

    reset acc[0]; reset acc[1]; gemm acc[0]; gemm acc[1]   ->   reset acc[0]; gemm acc[0]; reset acc[1]; gemm acc[1]

A module runs its instructions in order. On the left, the products of the first context wait until the second context's
registers have been stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....target import Target
from ....tir.analysis.scratchpads import Array, extents_of, is_scratchpad, read_and_written, strided
from ....tir.nodes import Allocate, Buffer, Instruction, PrimFunc, Seq, Stmt

Places = dict[Buffer, Array]


def delay_resets(func: PrimFunc, target: Target) -> PrimFunc:
    """Move each instruction that reads nothing to just before the first later instruction that accesses what it writes.

    Runs after `fetch_order`. No instruction in between accesses these elements, so the result is the same.
    """
    storage: list[Allocate] = []
    body: Stmt = func.body
    while isinstance(body, Allocate):
        storage.append(body)
        body = body.body
    if not isinstance(body, Seq) or not all(isinstance(s, Instruction) for s in body.stmts):
        return func
    elements = target.config.elements()
    waiting: list[tuple[Instruction, Places]] = []
    ordered: list[Stmt] = []
    for stmt in body.stmts:
        assert isinstance(stmt, Instruction)
        places = _places(stmt, elements)
        due = [one for one in waiting if _meet(one[1], places)]
        ordered += [one for one, _ in due]
        waiting = [one for one in waiting if one not in due]
        reads, writes = read_and_written(stmt)
        if not reads and writes:
            waiting.append((stmt, places))
        else:
            ordered.append(stmt)
    last = len(ordered) - 1  # FINISH
    body = Seq((*ordered[:last], *(one for one, _ in waiting), *ordered[last:]))
    for allocation in reversed(storage):
        body = Allocate(allocation.buffer, body, allocation.annotations)
    return func.with_body(body)


def _places(stmt: Instruction, elements: Any) -> Places:
    """Return the elements of scratchpads that an instruction accesses, by buffer."""
    found: Places = {}
    for tile in stmt.tiles:
        if is_scratchpad(tile.buffer.scope):
            at = strided(stmt, tile, elements[tile.buffer.scope]).indices(extents_of(stmt)).reshape(-1)
            found[tile.buffer] = np.union1d(found[tile.buffer], at) if tile.buffer in found else np.unique(at)
    return found


def _meet(one: Places, other: Places) -> bool:
    return any(
        one[b][0] <= other[b][-1] and other[b][0] <= one[b][-1] and len(np.intersect1d(one[b], other[b])) > 0
        for b in one.keys() & other.keys()
    )
