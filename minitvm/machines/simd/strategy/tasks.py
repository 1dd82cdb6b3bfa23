"""Loops that become tasks: fused, so that what a task does follows from its number by divisions by constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....strategy.blocks import constant_extent
from ....tir import Schedule


def task_order(sch: Schedule, loops: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """(loops that become one, loops that stay): an open extent in front of the known ones, and all other open ones.

    The open one comes first: then divisions are by the known extents.
    """
    is_open = [constant_extent(sch, loop) is None for loop in loops]
    first, *others = [loop for loop, open_one in zip(loops, is_open, strict=True) if open_one] or [None]
    known = [loop for loop, open_one in zip(loops, is_open, strict=True) if not open_one]
    return (known if first is None else [first, *known]), others


def fused_tasks(sch: Schedule, loops: Sequence[Any]) -> list[Any]:
    """The outermost loops of a nest as one, and behind it those that stay loops: all open extents but the first.

    Raises `ScheduleError` where loops cannot be reordered or fused.
    """
    tasks, others = task_order(sch, loops)
    if [*tasks, *others] != list(loops):
        sch.reorder(*tasks, *others)
    return [sch.fuse(*tasks) if len(tasks) > 1 else tasks[0], *others]


def in_parallel(sch: Schedule, loops: Sequence[Any]) -> None:
    """Run the outermost loops of a nest as tasks."""
    sch.parallel(fused_tasks(sch, loops)[0])
