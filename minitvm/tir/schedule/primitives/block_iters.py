"""Small changes to a single block: reorder_block_iter_var, add_unit_loop."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from ....expr import Var, const, replace
from ...nodes import BlockRealize, For, ForKind
from ..registry import Failure, primitive, requirement
from ..state import ScheduleState


@requirement
def permutation(state: ScheduleState, block: BlockRealize, new_order: Sequence[int]) -> Failure | None:
    """new_order is a permutation of 0 .. n - 1, for the block's n iterators"""
    count = len(block.block.iter_vars)
    if sorted(new_order) == list(range(count)):
        return None
    names = ", ".join(f"{k}: {it.var.name}" for k, it in enumerate(block.block.iter_vars))
    return Failure(
        {block.block: f"its iterators are {names}" if names else "no iterators"},
        f"a permutation of 0 .. {count - 1}" if count else "an empty order",
        str(list(new_order)),
    )


@primitive(requires=[permutation])
def reorder_block_iter_var(state: ScheduleState, block: BlockRealize, new_order: Sequence[int]) -> None:
    """Permute the iterators of a block: the new iterator k is the old iterator `new_order[k]`.

    before:
        for i, k in T.grid(8, 4):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init(): B[vi] = 0.0
                B[vi] = B[vi] + A[vi, vk]
    call: `sch.reorder_block_iter_var("B", [1, 0])`
    after:
        for i, k in T.grid(8, 4):
            with T.block("B"):
                vk, vi = T.axis.remap("RS", [k, i])
                with T.init(): B[vi] = 0.0
                B[vi] = B[vi] + A[vi, vk]

    The loops do not change, so every iteration runs when it did before. Primitives that depend on the order of the
    iterators (tensorize, blockize) use the new order.
    """
    inner = replace(block.block, iter_vars=tuple(block.block.iter_vars[k] for k in new_order))
    state.replace({block: replace(block, iter_values=tuple(block.iter_values[k] for k in new_order), block=inner)})


@reorder_block_iter_var.space
def _reorder_block_iter_var_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    for block in state.tree().blocks.values():
        count = len(block.block.iter_vars)
        for order in itertools.islice(itertools.permutations(range(count)), 1, 6):
            yield block, list(order)


@requirement
def inside_root(state: ScheduleState, block_or_loop: BlockRealize | For) -> Failure | None:
    """the block is not the root block, which is the body of a function"""
    if block_or_loop is not state.home(block_or_loop).root:
        return None
    return Failure({}, "a loop, or a block inside the root block", "the root block")


@primitive(requires=[inside_root])
def add_unit_loop(state: ScheduleState, block_or_loop: BlockRealize | For) -> For:
    """Put a loop with one iteration around a block or loop, so that you can bind that loop or compute blocks at it.

    before:
        with T.block("B"): B[0] = A[0] * 2.0
    call: `u = sch.add_unit_loop("B")`
    after:
        for u in range(1):
            with T.block("B"): B[0] = A[0] * 2.0
    """
    # As in TVM the loop drives no iterator: blocks do not see it.
    unit = Var("u")
    state.replace({block_or_loop: For(unit, const(0), const(1), ForKind.SERIAL, block_or_loop)})
    loop = state.loop(unit)
    assert loop is not None  # it was just made
    return loop


@add_unit_loop.space
def _add_unit_loop_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    tree = state.tree()
    for loop in tree.loops.values():
        yield (loop,)
    for block in tree.blocks.values():
        if block is not tree.root:
            yield (block,)


reorder_block_iter_var.refuses(permutation, "sch.reorder_block_iter_var('B', [0])")
add_unit_loop.refuses(inside_root, "sch.add_unit_loop('root')")
