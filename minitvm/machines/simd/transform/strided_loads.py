"""Replace gathers whose lanes are in one or two rows of neighbours with loads of whole vectors and a shuffle.

    A[ramp(b, 2, 16)]                                  every second element; likewise every third or fourth
      ->  shuffle(A[ramp(b, 1, 16)], A[ramp(b + 15, 1, 16)]; 0, 2, .., 14, 17, 19, .., 31)
    A[ramp(0, 1, 16) % 2 * n + ramp(0, 1, 16) // 2 + b]  the elements of two rows in turn
      ->  shuffle(A[ramp(b, 1, 8)], A[ramp(b + n, 1, 8)]; 0, 8, 1, 9, .., 7, 15)
    A[ramp(0, 1, 16) // 2 + b]                         each element twice
      ->  shuffle(A[ramp(b, 1, 8)]; 0, 0, 1, 1, .., 7, 7)

A gather costs one access per element. The vectors begin and end with elements that the gather also loads, so they never
extend beyond the buffer. The elements in between are loaded but not used, so they may be unwritten, or belong to
another thread. Strided convolutions and pools on rows, slices with a step, and interleaved phases contain such
loads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ....expr import Add, Broadcast, Expr, FloorDiv, FloorMod, IntImm, Mul, Node, Ramp, Shuffle, Sub, const, rewrite
from ....tir.nodes import BufferLoad, PrimFunc
from ....tir.transform.affine import expr, linear

STEPS = (2, 3, 4)  # as many vectors are loaded: with longer steps, gathering is as good
FEWEST_LANES = 4  # with fewer, gathering is as good


def strided_loads(func: PrimFunc) -> PrimFunc:
    """Rewrite each unmasked load that gathers its lanes with a small stride, or from two rows, into whole vectors and a
    shuffle. Buffers must be flat.

    before:
        A: T.Buffer((9,), "float32")
        B: T.Buffer((4,), "float32")
        B[T.Ramp(0, 1, 4)] = A[T.Ramp(0, 2, 4)] + A[T.Ramp(1, 2, 4)]
    after:
        B[T.Ramp(0, 1, 4)] = T.Shuffle([A[T.Ramp(0, 1, 4)], A[T.Ramp(3, 1, 4)]], [0, 2, 5, 7]) + T.Shuffle(
            [A[T.Ramp(1, 1, 4)], A[T.Ramp(4, 1, 4)]], [0, 2, 5, 7]
        )

    Runs after `vectorize` and `share_loads`. The latter would give whole vectors a name, but a shuffle must show which
    lanes of a load it uses.
    """
    # Legal: whole vectors begin and end with elements that the gather also loads, so they are inside the buffer. The
    # shuffle picks the lanes of the gather; a value that is loaded and not picked has no effect, whatever it is.
    return func.with_body(rewrite(func.body, _shuffled))


def _shuffled(node: Node) -> Any:
    if not isinstance(node, BufferLoad) or node.predicate is not None or len(node.indices) != 1:
        return None
    index = node.indices[0]
    if index.dtype.lanes < FEWEST_LANES or node.buffer.dtype.bytes < 2:
        return None
    if not isinstance(index, Ramp):
        return _from_rows(node, index)
    if not isinstance(index.stride, IntImm) or index.stride.value not in STEPS:
        return None
    lanes, step = index.lanes, int(index.stride.value)
    # The last vector ends with the last element.
    starts = (*(k * lanes for k in range(step - 1)), (lanes - 1) * (step - 1))
    places = [min(step * lane // lanes, step - 1) for lane in range(lanes)]
    picks = tuple(k * lanes + step * lane - starts[k] for lane, k in enumerate(places))
    return Shuffle(_vectors(node, index.base, starts, lanes), picks)


def _from_rows(node: BufferLoad, index: Expr) -> Shuffle | None:
    """Return the load as a shuffle if its lanes are in one row of neighbours or in two rows of equal length, or
    None.
    """
    base, offsets = _lanes(index) or (None, [])
    if base is None:
        return None
    ordered = sorted(set(offsets))
    gaps = [k for k in range(1, len(ordered)) if ordered[k] != ordered[k - 1] + 1]
    rows = (ordered[0],) if not gaps else (ordered[0], ordered[gaps[0]])
    length = len(ordered) // len(rows)
    if length < 2 or (gaps and gaps != [length]):
        return None
    # Languages have vectors of 2, 4, 8, ... lanes. Two of them, which overlap, cover a row of any other length.
    lanes = 1 << (length.bit_length() - 1)
    starts = tuple(dict.fromkeys(first for row in rows for first in (row, row + length - lanes)))
    picks = {start + lane: k * lanes + lane for k, start in enumerate(starts) for lane in range(lanes)}
    return Shuffle(_vectors(node, base, starts, lanes), tuple(picks[offset] for offset in offsets))


def _vectors(node: BufferLoad, base: Expr, starts: tuple[int, ...], lanes: int) -> tuple[Expr, ...]:
    dtype = base.dtype
    firsts = (base if start == 0 else expr(linear(base + const(start, dtype)), dtype) for start in starts)
    return tuple(BufferLoad(node.buffer, (Ramp(first, const(1, dtype), lanes),)) for first in firsts)


_Lanes = tuple[Expr | None, list[int]]
_CONSTANT: Mapping[type[Expr], Callable[[int, int], int]] = {
    Mul: lambda a, b: a * b,
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
}


def _lanes(e: Expr) -> _Lanes | None:
    """Return a vector index as a scalar (None for 0) and each lane's constant distance from it.

    Returns None if the distances are not constant.
    """
    if isinstance(e, Ramp) and isinstance(e.stride, IntImm):
        base = _lanes(Broadcast(e.base, e.lanes))
        assert base is not None
        return base[0], [start + e.stride.value * lane for lane, start in enumerate(base[1])]
    if isinstance(e, Broadcast):
        if isinstance(e.value, IntImm):
            return None, [e.value.value] * e.lanes
        return e.value, [0] * e.lanes
    if not isinstance(e, Add | Sub | Mul | FloorDiv | FloorMod):
        return None
    left, right = _lanes(e.a), _lanes(e.b)
    if left is None or right is None:
        return None
    if isinstance(e, Add):
        both = [part for part in (left[0], right[0]) if part is not None]
        return (sum(both[1:], both[0]) if both else None), [x + y for x, y in zip(left[1], right[1], strict=True)]
    if isinstance(e, Sub):
        if right[0] is not None:
            return None
        return left[0], [x - y for x, y in zip(left[1], right[1], strict=True)]
    if left[0] is not None or right[0] is not None or (not isinstance(e, Mul) and 0 in right[1]):
        return None
    operation = _CONSTANT[type(e)]
    return None, [operation(x, y) for x, y in zip(left[1], right[1], strict=True)]
