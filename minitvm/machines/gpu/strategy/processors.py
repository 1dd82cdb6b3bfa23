"""Processors behind a GPU interface, such as PoCL's: use the CPU's schedules, with a block of one thread for each task.

A core runs the threads of a block one after the other, and blocks run in parallel. A block benefits from the same
measures as a CPU's task: tiles in registers, and copies that stay in the cache. So the rules for CPUs propose the
candidates, and each parallel loop of a schedule becomes the grid.
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
    """Return the rules for CPUs, with their parallel loops bound to the grid."""
    return [replace(row, propose=_Proposed(row)) for row in cpu.rules(target)]


class _Proposed:
    """A callable that yields the candidates of a CPU's rule, adapted to a grid."""

    def __init__(self, row: Rule) -> None:
        self.row = row

    def __call__(self, func: PrimFunc, target: Target) -> Iterator[Candidate]:
        for candidate in self.row.propose(func, target):
            yield replace(candidate, apply=_Gridded(candidate.apply))


class _Gridded:
    """A callable that applies a CPU's schedule steps and then binds the grid."""

    def __init__(self, apply: Any) -> None:
        self.apply = apply

    def __call__(self, sch: Schedule, **knobs: Any) -> None:
        self.apply(sch, **knobs)
        parallel_on_the_grid(sch)


def parallel_on_the_grid(sch: Schedule) -> None:
    """Bind parallel loops to blockIdx.x, except those inside of another one."""
    for name in [block.name for block in blocks_of(sch.func)]:
        for loop in sch.get_loops(sch.get_block(name)):
            node = sch.get(loop)
            if isinstance(node, For) and node.kind is ForKind.THREAD:
                break
            if isinstance(node, For) and node.kind is ForKind.PARALLEL:
                sch.bind(loop, "blockIdx.x")
                break
