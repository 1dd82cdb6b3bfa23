"""What a network had better run on its host: functions that a GPU has no schedule for.

Some functions are loops whose iterations follow each other: sorts, scans, loops over time. A rule can share out the few
tasks around them (the rows that are sorted), but not what one task does. Where the tasks are fewer than the threads
of one block, and each of them is long, a processor is faster than a GPU's threads, copies included.
"""

from __future__ import annotations

from typing import Any

from ....expr import children, contains
from ....strategy.blocks import blocks_of, volume
from ....target import Target
from ....tir.nodes import Block, For, PrimFunc, Stmt, While
from .fallback import THREADS

LEAST = 1 << 16  # statements of a task, from which it is long


def refusal(func: PrimFunc, target: Target) -> str:
    """Why a function does not run on the device; "" for one that does. The part "refusal" of its back ends."""
    if target.processor is not None:
        return ""
    for block in blocks_of(func):
        tasks = volume(axis.dom.extent for axis in block.iter_vars)
        statements = _statements(block.body) if _is_serial(block) else 0
        if tasks < THREADS and statements >= LEAST:
            return f"{block.name} is {tasks} tasks of {statements} statements, each task by one thread"
    return ""


def _is_serial(block: Block) -> bool:
    """Whether an iteration of a block is a program of its own."""
    return contains(block.body, For | While)


def _statements(node: Any) -> int:
    """How many statements run, at least: loops of open extents count as one iteration."""
    inner = [child for child in children(node) if isinstance(child, Stmt)]
    count = sum(map(_statements, inner)) if inner else int(isinstance(node, Stmt))
    return count * volume([node.extent]) if isinstance(node, For) else count
