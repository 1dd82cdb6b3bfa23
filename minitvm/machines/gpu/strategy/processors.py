"""Processors behind an interface for GPUs, as PoCL offers them: the CPU's schedules, a block of one thread for a task.

A core runs the threads of a block one after the other. Blocks are what runs in parallel, and what a CPU's task gains
from, tiles in registers and copies that stay in the cache, its block gains too. So the rules of CPUs propose, and each
parallel loop of a schedule becomes the grid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ....strategy.blocks import blocks_of
from ....strategy.candidate import Candidate
from ....strategy.registry import Rule
from ....target import Target
from ....tir import Schedule
from ....tir.nodes import For, ForKind, PrimFunc
from ...simd import strategy as cpu


def rules(target: Target) -> list[Rule]:
    """The rules of CPUs, their parallel loops on the grid."""
    return [replace(row, propose=_Proposed(row)) for row in cpu.rules(target)]


class _Proposed:
    """The candidates of a CPU's rule, for a grid."""

    def __init__(self, row: Rule) -> None:
        self.row = row

    def __call__(self, func: PrimFunc, target: Target) -> Iterator[Candidate]:
        for candidate in self.row.propose(func, target):
            yield replace(candidate, apply=_Gridded(candidate.apply))


class _Gridded:
    """A CPU's steps, then the grid."""

    def __init__(self, apply: Any) -> None:
        self.apply = apply

    def __call__(self, sch: Schedule, **knobs: Any) -> None:
        self.apply(sch, **knobs)
        parallel_on_the_grid(sch)


def parallel_on_the_grid(sch: Schedule) -> None:
    """Bind parallel loops to blockIdx.x, those inside of another one left out."""
    for name in [block.name for block in blocks_of(sch.func)]:
        for loop in sch.get_loops(sch.get_block(name)):
            node = sch.get(loop)
            if isinstance(node, For) and node.kind is ForKind.THREAD:
                break
            if isinstance(node, For) and node.kind is ForKind.PARALLEL:
                sch.bind(loop, "blockIdx.x")
                break
