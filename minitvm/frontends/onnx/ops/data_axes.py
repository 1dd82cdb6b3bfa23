"""Axes that depend on data: all of the finitely many cases are computed, and a run selects one.

The rank of a tensor is known, so a list of axes becomes one truth value per axis. An operation is applied along all
axes, one after the other, and each result is selected if the list contains its axis.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....graph.nodes import Dim
from ...common.operand import Operand, known_dims
from ..context import NodeContext


def counted_from_front(n: NodeContext, axes: Operand, rank: int) -> Operand:
    """Return axes as int64, with negative ones counted from the end."""
    whole = n.cast(axes, "int64")
    counted: Operand = n.op("where", n.op("less", whole, 0), n.op("add", whole, rank), whole)
    return counted


def _hits(n: NodeContext, axes: Operand, rank: int) -> Operand:
    """Return [k, rank] truth values: whether list entry k is each axis."""
    column = n.op("expand_dims", counted_from_front(n, axes, rank), axis=(1,))
    hits: Operand = n.op("equal", column, np.arange(rank)[None])
    return hits


def listed(n: NodeContext, axes: Operand, rank: int) -> Operand:
    """Return [rank] truth values: whether each axis is in a list [k]."""
    times = n.op("sum", n.cast(_hits(n, axes, rank), "int64"), axis=(0,), keepdims=False)
    flags: Operand = n.op("greater", times, 0)
    return flags


def spread(n: NodeContext, axes: Operand, values: Operand, rank: int, default: int) -> Operand:
    """Return an int64 vector [rank] with each axis's value from a list [k], or the default."""
    column = n.op("expand_dims", n.cast(values, "int64"), axis=(1,))
    chosen = n.op("where", _hits(n, axes, rank), column, np.zeros((1, 1), np.int64))
    own = n.op("sum", chosen, axis=(0,), keepdims=False)
    result: Operand = n.op("where", listed(n, axes, rank), own, np.full(1, default, np.int64))
    return result


def flag_of(n: NodeContext, flags: Operand, axis: int) -> Operand:
    """Return the element of `flags` for an axis, as a scalar."""
    return n.reshape(n.part(flags, 0, axis, axis + 1), ())


def selected(n: NodeContext, flag: Operand, a: Operand, b: Operand) -> Operand:
    """Return a if the truth value [] holds, and b otherwise."""
    return n.builder.selected(flag, n.holds(flag), a, b, n.name_hint, n.where)


def along_listed(n: NodeContext, x: Operand, flags: Operand, change: Callable[[Operand, int], Operand]) -> Operand:
    """Apply `change(x, axis)` for each axis whose truth value holds, one after the other."""
    for axis in range(x.ndim):
        x = selected(n, flag_of(n, flags, axis), change(x, axis), x)
    return x


def along_one(
    n: NodeContext, axis: Operand, rank: int, made: Callable[[int], Operand], last: int | None = None
) -> Operand:
    """Return `made(axis)` for the axis that a tensor with one element holds at run time. It is at most `last`."""
    place = counted_from_front(n, n.reshape(axis, ()), rank)
    last = rank - 1 if last is None else last
    result = made(last)
    for k in reversed(range(last)):
        result = selected(n, n.op("equal", place, k), made(k), result)
    return result


def without(n: NodeContext, x: Operand, flags: Operand, count: int) -> Operand:
    """Return x without the `count` axes whose truth values hold. These axes have one entry each."""
    kept = n.op("logical_not", flags)
    number = n.op("cumsum", n.cast(kept, "int64"), axis=0)
    place = np.arange(1, x.ndim - count + 1)[:, None]
    own = n.op("logical_and", n.op("equal", n.op("expand_dims", number, axis=(0,)), place), kept)
    extents = n.op("where", own, known_dims(x.shape), np.zeros((1, 1), np.int64))
    shape = n.op("max", extents, axis=(1,), keepdims=False)
    return n.reshape(x, n.dims(shape, "the extents"))


def with_new(n: NodeContext, x: Operand, axes: Operand, count: int) -> Operand:
    """Return x with `count` new axes of one entry each. `axes` holds their positions in the result."""
    rank = x.ndim + count
    new = listed(n, axes, rank)
    if not x.ndim:
        return n.reshape(x, (1,) * rank)
    before = n.op("subtract", n.op("cumsum", n.cast(n.op("logical_not", new), "int64"), axis=0), 1)
    old = n.op("take", known_dims(x.shape), n.op("clip", before, a_min=0, a_max=x.ndim - 1), axis=0)
    shape = n.op("where", new, np.ones(1, np.int64), old)
    return n.reshape(x, n.dims(shape, "the extents"))


def number_of(n: NodeContext, axes: Operand, what: str) -> int:
    """Return the number of axes in a list, which determines the rank of a result."""
    count: Dim = axes.shape[0] if axes.ndim else 1
    if not isinstance(count, int):
        n.refuse(f"the number {count} of {what} decides the rank of the result\n  try:    shapes={{...}}")
    return count


def all_or_none(n: NodeContext, axes: Operand, flags: Operand, rank: int) -> Operand:
    """Return the flags of an axis list, or all True if the list is empty, because then it means all axes."""
    empty = n.op("equal", n.number(axes.shape[0]), 0)
    every: Operand = n.op("logical_or", flags, n.op("broadcast_to", empty, shape=(rank,)))
    return every
