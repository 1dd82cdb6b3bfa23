"""Decide which functions a network should run on its host because a GPU has no good schedule for them.

Some functions are loops whose iterations depend on each other: sorts, scans, loops over time. A rule can distribute the
tasks around them (such as the rows to sort), but not the work of one task. If there are fewer tasks than threads in one
block, and each task is long, a processor is faster than a GPU's threads, even with the copies.
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
    """Return the reason why a function should not run on the device, or "". This is the part "refusal" of GPU back
    ends.
    """
    if target.processor is not None:
        return ""
    for block in blocks_of(func):
        tasks = volume(axis.dom.extent for axis in block.iter_vars)
        statements = _statements(block.body) if _is_serial(block) else 0
        if tasks < THREADS and statements >= LEAST:
            return f"{block.name} is {tasks} tasks of {statements} statements, each task by one thread"
    return ""


def _is_serial(block: Block) -> bool:
    """Return whether each iteration of a block contains loops."""
    return contains(block.body, For | While)


def _statements(node: Any) -> int:
    """Return a lower bound on the number of statements that run. Loops of unknown extent count as one iteration."""
    inner = [child for child in children(node) if isinstance(child, Stmt)]
    count = sum(map(_statements, inner)) if inner else int(isinstance(node, Stmt))
    return count * volume([node.extent]) if isinstance(node, For) else count
