"""Shuffles of the fast mode: all lanes of all warps at once, if all of them take part.

Other cases (a mask that leaves out active lanes, or lanes beyond the block) are left to the slow mode, whose errors
name the lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm.tir import nodes as t

from ..meaning.scalar import Environment, Evaluate, Value
from .grid import GRID, MASK
from .grid_elements import NeedsOrder


def shuffle(e: x.Call, axes: Sequence[t.For], args: Sequence[Evaluate]) -> Evaluate:
    """Compile a shuffle to a function that returns the values of all lanes, at all points of a grid with these axes."""
    threads = sorted((str(loop.thread), k) for k, loop in enumerate(axes) if str(loop.thread).startswith("threadIdx"))
    places = [k for _, k in reversed(threads)]  # the numbers of threads count along x fastest
    if not places or e.op == "tvm_warp_activemask":
        raise NeedsOrder(f"{e}: outside of a loop over threadIdx")

    def evaluate(env: Environment) -> Value:
        mask, value, by, width, size = (a(env) for a in args)
        grid = env[GRID]
        shape = tuple(grid[k] for k in places)
        total = int(np.prod(shape))
        if env[MASK] is not None and any(env[MASK].shape[k] > 1 for k in places):
            raise NeedsOrder(f"{e}: not all threads of a block")

        def flat(array: Any) -> np.ndarray:
            """Return the values of each block's threads along one axis."""
            whole = np.broadcast_to(np.asarray(array), (*grid, 1))[..., 0]
            moved = np.moveaxis(whole, places, range(-len(places), 0))
            return moved.reshape(*moved.shape[: len(grid) - len(places)], total)

        number = np.arange(total)
        warp, lane = number // size, number % size
        here = np.minimum(size, total - warp * size)  # lanes that a warp has
        if np.any(flat(mask).astype(np.uint64) != (np.uint64(1) << here.astype(np.uint64)) - np.uint64(1)):
            raise NeedsOrder(f"{e}: some lanes of a warp")
        if not 0 < width <= size or width & (width - 1):
            raise NeedsOrder(f"{e}: a width of {width}")
        source = _sources(e.op, lane, flat(by).astype(np.int64), int(width))
        if np.any((source < 0) | (source >= here)):
            raise NeedsOrder(f"{e}: from lanes that do not take part")
        if type(value) is not np.ndarray:
            return value
        values = flat(value)
        moved = np.take_along_axis(values, np.broadcast_to(warp * size + source, values.shape), -1)
        whole = np.moveaxis(moved.reshape(*moved.shape[:-1], *shape), range(-len(places), 0), places)
        return np.ascontiguousarray(whole)[..., None]

    return evaluate


def _sources(op: str, lane: np.ndarray, by: np.ndarray, width: int) -> np.ndarray:
    first = lane - lane % width
    if op == "tvm_warp_shuffle":
        return first + by % width
    if op == "tvm_warp_shuffle_xor":
        return np.where((lane ^ by) < first + width, lane ^ by, lane)
    other = lane + by if op == "tvm_warp_shuffle_down" else lane - by
    return np.where((other >= first) & (other < first + width), other, lane)
