"""The reads and writes that blocks declare. They are correct in the original program, and are extended when a later
step inserts other blocks into a block.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ...arith import Analyzer, regions
from ...expr import replace
from ..analysis.block_regions import Regions, regions_touched, union_regions
from ..analysis.tree import Tree
from ..nodes import Block, BlockRealize, BufferRegion, PrimFunc
from ..verifier.tir_rules import reads_are_declared, writes_are_declared
from .registry import Failure, requirement
from .state import ScheduleState


@requirement
def declares_what_it_touches(state: ScheduleState) -> Failure | None:
    """the regions that each block declares contain everything that its body certainly reads and writes, because readers
    of the program rely on them
    """
    return next(
        (failure for tree in state.schedulable_trees() if (failure := _undeclared(tree.func)) is not None), None
    )


@functools.lru_cache(64)  # a tuner schedules one function many times
def _undeclared(func: PrimFunc) -> Failure | None:
    for rule in (reads_are_declared, writes_are_declared):
        for node, fault in rule(func):
            return Failure({node: "here"}, "blocks that declare all that they read and write", fault)
    return None


def widened(before: Tree, after: Tree) -> PrimFunc:
    """Return the function in which each changed block also declares the accesses that the blocks inside it declare.

    If every block already declares them, the same function is returned.
    """
    func = after.func
    done: set[object] = set()
    while True:
        tree = after if func is after.func else Tree(func)
        changed = [b for b in tree.blocks.values() if b is not tree.root and b not in before.order]
        # Inner blocks first: outer blocks must declare what inner blocks declare.
        for realize in reversed(changed):
            if realize.block.id in done or not tree.blocks_in(realize):
                continue
            done.add(realize.block.id)
            wider = _wider(realize)
            if wider is not None:
                func = tree.rebuild({realize.block: wider})
                break
        else:
            return func


def _wider(realize: BlockRealize) -> Block | None:
    block = realize.block
    analyzer = Analyzer.inside(*block.iter_vars)
    declared = (block.reads, block.writes)
    reads, writes = (_grown(*pair, analyzer) for pair in zip(declared, regions_touched(block), strict=True))
    return None if (reads, writes) == declared else replace(block, reads=reads, writes=writes)


def _grown(declared: Regions, touched: Regions, analyzer: Analyzer) -> Regions:
    lacking = [r for r in touched if not _declared(declared, r, analyzer)]
    return union_regions([*declared, *lacking]) if lacking else declared


def _declared(claims: Sequence[BufferRegion], region: BufferRegion, analyzer: Analyzer) -> bool:
    return any(c.buffer is region.buffer and regions.covers(c.region, region.region, analyzer) for c in claims)
