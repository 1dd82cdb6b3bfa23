"""Axes that data decide: of the finitely many cases, a run takes the one that it finds.

The rank of a tensor is known, so a list of axes is a truth value for each. What is done along an axis is done along all
of them, one after the other, and selected where the list has the axis.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....graph.nodes import Dim
from ...common.operand import Operand, known_dims
from ..context import NodeContext


def counted_from_front(n: NodeContext, axes: Operand, rank: int) -> Operand:
    """Axes as int64, negative ones counted from the end."""
    whole = n.cast(axes, "int64")
    counted: Operand = n.op("where", n.op("less", whole, 0), n.op("add", whole, rank), whole)
    return counted


def _hits(n: NodeContext, axes: Operand, rank: int) -> Operand:
    """[k, rank]: whether the k-th axis is each of them."""
    column = n.op("expand_dims", counted_from_front(n, axes, rank), axis=(1,))
    hits: Operand = n.op("equal", column, np.arange(rank)[None])
    return hits


def listed(n: NodeContext, axes: Operand, rank: int) -> Operand:
    """[rank]: whether each axis is in a list [k]."""
    times = n.op("sum", n.cast(_hits(n, axes, rank), "int64"), axis=(0,), keepdims=False)
    flags: Operand = n.op("greater", times, 0)
    return flags


def spread(n: NodeContext, axes: Operand, values: Operand, rank: int, default: int) -> Operand:
    """[rank], int64: for each axis its value in a list [k], or the default."""
    column = n.op("expand_dims", n.cast(values, "int64"), axis=(1,))
    chosen = n.op("where", _hits(n, axes, rank), column, np.zeros((1, 1), np.int64))
    own = n.op("sum", chosen, axis=(0,), keepdims=False)
    result: Operand = n.op("where", listed(n, axes, rank), own, np.full(1, default, np.int64))
    return result


def flag_of(n: NodeContext, flags: Operand, axis: int) -> Operand:
    """The truth value [] of an axis."""
    return n.reshape(n.part(flags, 0, axis, axis + 1), ())


def selected(n: NodeContext, flag: Operand, a: Operand, b: Operand) -> Operand:
    """a if the truth value [] holds, else b."""
    return n.builder.selected(flag, n.holds(flag), a, b, n.name_hint, n.where)


def along_listed(n: NodeContext, x: Operand, flags: Operand, change: Callable[[Operand, int], Operand]) -> Operand:
    """`change(x, axis)` for each axis whose truth value holds, one after the other."""
    for axis in range(x.ndim):
        x = selected(n, flag_of(n, flags, axis), change(x, axis), x)
    return x


def along_one(
    n: NodeContext, axis: Operand, rank: int, made: Callable[[int], Operand], last: int | None = None
) -> Operand:
    """`made(axis)` for the axis that a run finds in a tensor of one element; it is at most `last`."""
    place = counted_from_front(n, n.reshape(axis, ()), rank)
    last = rank - 1 if last is None else last
    result = made(last)
    for k in reversed(range(last)):
        result = selected(n, n.op("equal", place, k), made(k), result)
    return result


def without(n: NodeContext, x: Operand, flags: Operand, count: int) -> Operand:
    """x without the `count` axes whose truth values hold, which have one entry each."""
    kept = n.op("logical_not", flags)
    number = n.op("cumsum", n.cast(kept, "int64"), axis=0)
    place = np.arange(1, x.ndim - count + 1)[:, None]
    own = n.op("logical_and", n.op("equal", n.op("expand_dims", number, axis=(0,)), place), kept)
    extents = n.op("where", own, known_dims(x.shape), np.zeros((1, 1), np.int64))
    shape = n.op("max", extents, axis=(1,), keepdims=False)
    return n.reshape(x, n.dims(shape, "the extents"))


def with_new(n: NodeContext, x: Operand, axes: Operand, count: int) -> Operand:
    """x with `count` new axes, which have one entry each; `axes` are their places in the result."""
    rank = x.ndim + count
    new = listed(n, axes, rank)
    if not x.ndim:
        return n.reshape(x, (1,) * rank)
    before = n.op("subtract", n.op("cumsum", n.cast(n.op("logical_not", new), "int64"), axis=0), 1)
    old = n.op("take", known_dims(x.shape), n.op("clip", before, a_min=0, a_max=x.ndim - 1), axis=0)
    shape = n.op("where", new, np.ones(1, np.int64), old)
    return n.reshape(x, n.dims(shape, "the extents"))


def number_of(n: NodeContext, axes: Operand, what: str) -> int:
    """How many axes a list has, which decides the rank of a result."""
    count: Dim = axes.shape[0] if axes.ndim else 1
    if not isinstance(count, int):
        n.refuse(f"the number {count} of {what} decides the rank of the result\n  try:    shapes={{...}}")
    return count


def all_or_none(n: NodeContext, axes: Operand, flags: Operand, rank: int) -> Operand:
    """The truth values of a list that stands for all axes if it is empty."""
    empty = n.op("equal", n.number(axes.shape[0]), 0)
    every: Operand = n.op("logical_or", flags, n.op("broadcast_to", empty, shape=(rank,)))
    return every
