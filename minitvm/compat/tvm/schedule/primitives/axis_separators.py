"""Axis separators: which dimensions of a buffer become one dimension of memory each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from .....expr import replace
from .....tir.nodes import BlockRealize, PrimFunc
from .....tir.schedule import programs as on
from .....tir.schedule.access_remapping import SIDES
from .....tir.schedule.primitives.transform_layout import named_buffer, names_a_buffer, not_a_view
from .....tir.schedule.registry import Failure, primitive, requirement
from .....tir.schedule.state import ScheduleState
from .....tir.schedule.views import with_buffers


@requirement
def increasing_axes(
    state: ScheduleState, block: BlockRealize, buffer: object, axis_separators: list[int] | None
) -> Failure | None:
    """the separators are increasing positions between dimensions of the buffer, from 0 to its number of dimensions"""
    named = named_buffer(block, buffer)
    separators = list(axis_separators or ())
    ordered = all(a < b for a, b in pairwise(separators))
    if ordered and all(0 <= a <= named.ndim for a in separators):
        return None
    return Failure({block.block: "this block"}, f"increasing positions from 0 to {named.ndim}", str(separators))


@primitive(
    kind="SetAxisSeparator", aka={"TVM": "set_axis_separator"}, requires=[names_a_buffer, not_a_view, increasing_axes]
)
def set_axis_separators(
    state: ScheduleState, block: BlockRealize, buffer: object, axis_separators: list[int] | None
) -> None:
    """Set the separators of a buffer: the dimensions between two separators become one dimension of memory.

    before:
        B = T.alloc_buffer((4, 8, 4))
        for i, j, k in T.grid(4, 8, 4):
            with T.block("B"): B[vi, vj, vk] = A[vi, vj, vk] * 2.0
        for x in range(4):
            with T.block("C"): C[vx] = B[vx, 0, 0] + 1.0
    call: `sch.set_axis_separators("B", ("write", 0), [2])`
    after:
        B = T.alloc_buffer((4, 8, 4), axis_separators=[2])
        for i, j, k in T.grid(4, 8, 4):
            with T.block("B"): B[vi, vj, vk] = A[vi, vj, vk] * 2.0
        for x in range(4):
            with T.block("C"): C[vx] = B[vx, 0, 0] + 1.0

    The meaning of the program does not change. Our targets have only one-dimensional memory, so `flatten_buffers`
    refuses such a buffer. An empty list (or None) removes the separators.
    """
    tree = state.home(block)
    old = named_buffer(block, buffer)
    new = replace(old, axis_separators=tuple(axis_separators or ()))
    params = tuple(new if p is old else p for p in tree.func.params)
    state.set_func(tree, PrimFunc(params, with_buffers(tree.func.body, {old: new}), tree.func.attrs))


set_axis_separators.refuses(names_a_buffer, "sch.set_axis_separators('B', 'C', [1])", on.SCALED)
set_axis_separators.refuses(not_a_view, "sch.set_axis_separators('B', 'row', [1])", on.THROUGH_A_VIEW)
set_axis_separators.refuses(increasing_axes, "sch.set_axis_separators('B', ('write', 0), [2, 1])", on.SCALED)


@set_axis_separators.space
def _set_axis_separators_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    for block in state.tree().blocks.values():
        for side, regions in SIDES.items():
            for k in range(len(regions(block.block))):
                yield block, (side, k), []  # no others: every target of ours has memory of one dimension
