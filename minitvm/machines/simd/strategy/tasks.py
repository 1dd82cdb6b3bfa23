"""Fuse loops into tasks so that a task's indices follow from its number by divisions by constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....strategy.blocks import constant_extent
from ....tir import Schedule


def task_order(sch: Schedule, loops: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return (loops to fuse, loops to keep). One symbolic loop comes first, followed by the constant ones; other
    symbolic loops are kept.

    If the symbolic loop comes first, all divisions are by constant extents.
    """
    is_open = [constant_extent(sch, loop) is None for loop in loops]
    first, *others = [loop for loop, open_one in zip(loops, is_open, strict=True) if open_one] or [None]
    known = [loop for loop, open_one in zip(loops, is_open, strict=True) if not open_one]
    return (known if first is None else [first, *known]), others


def fused_tasks(sch: Schedule, loops: Sequence[Any]) -> list[Any]:
    """Fuse the outermost loops of a nest, and return the fused loop, followed by the symbolic loops that are kept.

    Raises `ScheduleError` if loops cannot be reordered or fused.
    """
    tasks, others = task_order(sch, loops)
    if [*tasks, *others] != list(loops):
        sch.reorder(*tasks, *others)
    return [sch.fuse(*tasks) if len(tasks) > 1 else tasks[0], *others]


def in_parallel(sch: Schedule, loops: Sequence[Any]) -> None:
    """Run the outermost loops of a nest as parallel tasks."""
    sch.parallel(fused_tasks(sch, loops)[0])
