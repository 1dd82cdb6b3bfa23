"""Loads of every second element become loads of whole vectors and a shuffle.

    A[ramp(b, 2, 16)]  ->  shuffle(A[ramp(b, 1, 16)], A[ramp(b + 15, 1, 16)]; 0, 2, .., 14, 17, 19, .., 31)

A gather costs an access an element. The second vector starts one element early, so that nothing behind the last element
asked for is touched. The elements in between are touched and not read: they may be unwritten, or another thread's.
Strided convolutions and pools on rows, and slices with a step, load so.
"""

from __future__ import annotations

from typing import Any

from ...expr import IntImm, Node, Ramp, Shuffle, const, rewrite
from ..nodes import BufferLoad, PrimFunc
from .affine import expr, linear

STEP = 2
FEWEST_LANES = 4  # with fewer, gathering is as good


def strided_loads(func: PrimFunc) -> PrimFunc:
    """Rewrite every load without a mask whose index has stride 2. Needs flat buffers.

    After `vectorize`, and after `share_loads`, which would name the whole vectors: a shuffle has to show what of a load
    it picks.
    """
    return func.with_body(rewrite(func.body, _shuffled))


def _shuffled(node: Node) -> Any:
    if not isinstance(node, BufferLoad) or node.predicate is not None or len(node.indices) != 1:
        return None
    index = node.indices[0]
    if not isinstance(index, Ramp) or index.lanes < FEWEST_LANES or node.buffer.dtype.bytes < 2:
        return None
    if not isinstance(index.stride, IntImm) or index.stride.value != STEP:
        return None
    lanes, dtype = index.lanes, index.base.dtype
    unit = const(1, dtype)
    later = expr(linear(index.base + const(lanes - 1, dtype)), dtype)
    halves = tuple(BufferLoad(node.buffer, (Ramp(base, unit, lanes),)) for base in (index.base, later))
    # Element 2l lies at place 2l of the first vector, or at 2l - (lanes - 1) of the second.
    places = tuple(STEP * lane if STEP * lane < lanes else STEP * lane + 1 for lane in range(lanes))
    return Shuffle(halves, places)
