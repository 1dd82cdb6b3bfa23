"""Derive facts about numbers that are computed at run time: which elements of a vector are known, and bounds of the
others.

A data-dependent shape is often known in part: its other dimensions come from shapes and are appended by Concat. And the
memory for such a tensor needs a bound on the shape. Both follow from the operators that compute the shape. For example,
`clip(x, 1, 8)` is at most 8, and a sum of n such numbers is at most 8 n. This is interval arithmetic (Moore, 1966), in
which an upper end may be an expression of dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...expr import Expr, as_expr, match
from ...expr import Max as MaxOf
from ...expr import Min as MinOf
from ...graph.nodes import Dim, OpNode, Value
from ...topi.shapes import may_exceed, product, simple

Element = Dim | float | tuple[Value, int]  # a number, or the place of one that a run computes
End = int | float | Expr | None  # None: no bound is known
Interval = tuple[int | float | None, End]

_ANY: Interval = (None, None)
_TRUTH: Interval = (0, 1)


class Computed:
    """The values of a graph under construction, with the operators that compute them."""

    def __init__(self, nodes: Sequence[OpNode], constants: Callable[[Value], np.ndarray | None]) -> None:
        self._producers: Mapping[Value, OpNode] = {v: item for item in nodes for v in item.outputs}
        self._constant = constants

    # --- elements ---

    def elements(self, value: Value) -> list[Element]:
        """Return the elements of a tensor of known size, in order."""
        size = product(value.shape)
        assert isinstance(size, int)
        unknown: list[Element] = [(value, k) for k in range(size)]
        data = self._constant(value)
        if data is not None:
            return list(data.reshape(-1).tolist()) if data.dtype.kind in "iuf" else unknown
        item = self._producers.get(value)
        if (
            item is None
            or not (value.dtype.is_int or value.dtype.is_float)
            or not all(isinstance(product(v.shape), int) for v in item.inputs)
        ):
            return unknown
        attrs = item.attrs
        match item.op:
            case "shape_to_tensor":
                return [simple(v) for v in attrs["values"]]
            case "reshape" | "expand_dims" | "squeeze" | "copy" | "match_cast":
                return self.elements(item.inputs[0])
            case "cast" if item.inputs[0].dtype.is_int:
                return self.elements(item.inputs[0])
            case "concatenate" if value.ndim == 1:
                return [element for part in item.inputs for element in self.elements(part)]
            case "take" if value.ndim <= 1 and item.inputs[0].ndim == 1:
                index = self._constant(item.inputs[1])
                own = self.elements(item.inputs[0])
                return unknown if index is None else [own[int(k)] for k in index.reshape(-1).tolist()]
            case "strided_slice" if value.ndim == 1 and self._is_plain(attrs):
                return self.elements(item.inputs[0])[attrs["begin"][0] : attrs["end"][0]]
        return unknown

    @staticmethod
    def _is_plain(attrs: Mapping[str, Any]) -> bool:
        ends = (*attrs["begin"], *attrs["end"])
        return len(ends) == 2 and all(isinstance(e, int) for e in ends) and set(attrs["strides"] or (1,)) == {1}

    # --- bounds ---

    def most(self, value: Value) -> Dim | None:
        """Return an upper bound of all elements of a tensor, or None."""
        end = self._interval(value)[1]
        if end is None or isinstance(end, Expr):
            return end
        return math.floor(end) if math.isfinite(end) else None

    def at_least(self, value: Value, least: int) -> bool:
        """Return whether all elements of a tensor are at least `least`."""
        low = self._interval(value)[0]
        return low is not None and low >= least

    def _interval(self, value: Value) -> Interval:
        data = self._constant(value)
        if data is not None:
            numbers = data.size and data.dtype.kind in "iufb" and not np.isnan(data.astype(float)).any()
            return (data.min().item(), data.max().item()) if numbers else _ANY
        item = self._producers.get(value)
        if item is None:
            return _TRUTH if value.dtype.is_bool else _ANY
        if item.op == "shape_to_tensor":
            ends = [simple(v) for v in item.attrs["values"]]
            positive = all(not may_exceed(0, v) for v in ends)
            return (0 if positive else None), _largest(ends)
        if item.op in _FIRST:
            return self._interval(item.inputs[0])
        if item.op in _ALL:
            return _hull([self._interval(v) for v in item.inputs[_ALL[item.op] :]])
        if item.op in _RULES:
            return _RULES[item.op](item, [self._interval(v) for v in item.inputs])
        return _TRUTH if value.dtype.is_bool else _ANY


# Operators whose results are among the elements of their first operand, and those whose results are among those of all
# operands from a position on.
_FIRST = frozenset({
    "broadcast_to", "copy", "expand_dims", "gather", "gather_nd", "leading", "match_cast", "max", "min", "repeat",
    "reshape", "reverse", "split", "squeeze", "strided_slice", "take", "tile", "transpose",
})  # fmt: skip
_ALL = {"concatenate": 0, "stack": 0, "where": 1}


def _largest(ends: Sequence[End]) -> End:
    """Return the maximum of some ends, or None if one of them is not known."""
    total: End = ends[0] if ends else None
    for end in ends[1:]:
        if total is None or end is None:
            return None
        if isinstance(total, Expr) or isinstance(end, Expr):
            total = _of_both(MaxOf, total, end)
        else:
            total = max(total, end)
    return total


def _of_both(kind: Callable[[Expr, Expr], Expr], a: int | float | Expr, b: int | float | Expr) -> End:
    whole = [x if isinstance(x, Expr) else math.ceil(x) for x in (a, b)]
    return simple(kind(*match(*map(as_expr, whole))))


def _hull(intervals: Sequence[Interval]) -> Interval:
    low = [a for a, _ in intervals]
    return (None if None in low else min(a for a in low if a is not None)), _largest([b for _, b in intervals])


def _clip(item: OpNode, operands: Sequence[Interval]) -> Interval:
    (low, high), (least, most) = operands[0], (item.attrs["a_min"], item.attrs["a_max"])
    return _maximum(item, [_minimum(item, [(low, high), (most, most)]), (least, least)])


def _minimum(_: OpNode, operands: Sequence[Interval]) -> Interval:
    (a, b), (c, d) = operands
    low = None if a is None or c is None else min(a, c)
    if b is None or d is None:
        return low, d if b is None else b
    if isinstance(b, Expr) or isinstance(d, Expr):
        return low, _of_both(MinOf, b, d)
    return low, min(b, d)


def _maximum(_: OpNode, operands: Sequence[Interval]) -> Interval:
    (a, b), (c, d) = operands
    low = c if a is None else a if c is None else max(a, c)
    return low, _largest([b, d])


def _add(_: OpNode, operands: Sequence[Interval]) -> Interval:
    (a, b), (c, d) = operands
    return (None if a is None or c is None else a + c), _sum(b, d)


def _subtract(_: OpNode, operands: Sequence[Interval]) -> Interval:
    (a, b), (c, d) = operands
    low = None if a is None or d is None or isinstance(d, Expr) else a - d
    return low, _sum(b, None if c is None else -c)


def _sum(a: End, b: End) -> End:
    if a is None or b is None:
        return None
    if isinstance(a, Expr) or isinstance(b, Expr):
        return simple(as_expr(_whole(a)) + _whole(b))
    return a + b


def _whole(end: int | float | Expr) -> Dim:
    return end if isinstance(end, Expr) else math.ceil(end)


def _multiply(_: OpNode, operands: Sequence[Interval]) -> Interval:
    (a, b), (c, d) = operands
    if a is None or c is None or a < 0 or c < 0:
        return _ANY
    if b is None or d is None:
        return a * c, None
    if isinstance(b, Expr) or isinstance(d, Expr):
        return a * c, product([_whole(b), _whole(d)])
    return a * c, b * d


def _divide(_: OpNode, operands: Sequence[Interval]) -> Interval:
    """Return the interval of a quotient. A divisor of at least 1 moves a number towards 0."""
    (a, b), (c, _most) = operands
    if c is None or c <= 0:
        return _ANY
    if c < 1:
        return (0, None) if a is not None and a >= 0 else _ANY
    low = None if a is None else min(math.floor(a), 0)
    if b is None or isinstance(b, Expr):
        return low, _largest([b, 0])
    return low, max(b / c, 0)


def _rounded(_: OpNode, operands: Sequence[Interval]) -> Interval:
    low, high = operands[0]
    return (None if low is None else math.floor(low)), high if high is None or isinstance(high, Expr) else _up(high)


def _up(end: int | float) -> int | float:
    return math.ceil(end) if math.isfinite(end) else end


def _cast(item: OpNode, operands: Sequence[Interval]) -> Interval:
    low, high = operands[0]
    source, target = item.inputs[0].dtype, item.output.dtype
    if target.is_bool:
        return _TRUTH
    fits = source.is_bool or source.is_int or source.is_float
    if not fits or (target.is_int and target.bits < 32):
        return _ANY  # it may wrap
    return (None if low is None or not math.isfinite(low) else math.floor(low)), high


def _added_up(item: OpNode, operands: Sequence[Interval]) -> Interval:
    """Return the interval of a sum, or of partial sums, along some axes."""
    low, high = operands[0]
    if low is None or low < 0 or high is None:
        return _ANY
    before = item.inputs[0].shape
    if item.op == "cumsum":
        axis = item.attrs["axis"]
        count = product(before) if axis is None else before[axis]
    else:
        axes = item.attrs["axis"]
        listed = range(len(before)) if axes is None else (axes,) if isinstance(axes, int) else axes
        count = product([before[a] for a in listed]) if not item.attrs.get("exclude") else product(before)
    return 0, product([_whole(high), count])


_RULES: dict[str, Callable[[OpNode, Sequence[Interval]], Interval]] = {
    "add": _add,
    "cast": _cast,
    "ceil": _rounded,
    "clip": _clip,
    "cumsum": _added_up,
    "divide": _divide,
    "floor": _rounded,
    "floor_divide": _divide,
    "maximum": _maximum,
    "minimum": _minimum,
    "multiply": _multiply,
    "nn.relu": lambda item, operands: _maximum(item, [operands[0], (0, 0)]),
    "nn.softmax": lambda _, operands: (0, 1),
    "round": _rounded,
    "sigmoid": lambda _, operands: (0, 1),
    "subtract": _subtract,
    "sum": _added_up,
}
