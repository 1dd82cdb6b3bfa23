"""Compute networks of int8 whose scales are powers of two in integers only.

A machine without floats, such as VTA, adds in int32, and shifts a sum to the scale of the next layer:

    quantize(relu(conv2d(x * 2^-a, w * 2^-b) + c), 2^-e)
        ->  int8(clip((qnn.conv2d(x, w) + round(c * 2^(a + b)) + half) >> (a + b - e), 0, 127))

`half` is 2^(a + b - e - 1), so ties are rounded up, while `qnn.quantize` rounds them to even. Except for ties and for
the rounding of `c`, the result is the same as with floats. This follows TVM's `relay.quantize` (Jain et al., "Efficient
execution of quantized deep learning models", 2020) and VTA (Moreau et al., 2018).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..builder import GraphBuilder
from ..nodes import Graph, OpNode, Value
from ..pattern import GraphFacts, Match, matches, op
from ..rewrite import RewriteRule, rewrite
from .dead_code import dead_code
from .integer_products import PRODUCT, BytesProduct, bytes_product

# Operators that only move or choose elements: they do the same to integers as to the values that these represent.
_MOVES = frozenset(("concatenate", "expand_dims", "nn.max_pool2d", "reshape", "squeeze", "strided_slice", "transpose"))
_BITS = 31  # bits for the magnitude of an int32
_BYTE = 1 << 7  # the greatest magnitude of an int8

Emit = Callable[[GraphBuilder], Value]


@dataclass(frozen=True, slots=True)
class _Sum:
    """A sum in int32. `emit` adds the operators that compute its elements, to which `offset` must still be added; both
    are in units of 2^-exponent.

    No element is larger than `bound`.
    """

    emit: Emit
    exponent: int
    bound: int
    offset: np.ndarray

    def shifted(self, places: int) -> _Sum:
        """Return the same sum in units that are smaller by a factor of 2^places."""
        if not places:
            return self

        def emit(b: GraphBuilder) -> Value:
            moved: Value = b.op("left_shift", self.emit(b), b.constant(np.int32(places), "shift"))
            return moved

        return _Sum(emit, self.exponent + places, self.bound << places, self.offset << places)

    def total(self, b: GraphBuilder, more: int = 0) -> Value:
        """Return the elements plus the offset and `more`, as an int32 value."""
        result, offset = self.emit(b), self.offset + more
        if offset.any():
            result = b.op("add", result, b.constant(offset.astype(np.int32), "offset"))
        return result


def shifted_scales(graph: Graph) -> Graph:
    """Use integer arithmetic between a `qnn.dequantize` and a `qnn.quantize` whose scales are powers of two.

    A product whose result is not quantised again is computed in integers and converted to floats.

    before:
        x = b.input("x", (2, 8), "int8")
        y = b.op("qnn.dequantize", x, np.float32(0.5), np.int8(0))
        z = b.op("nn.relu", y)
        return b.op("qnn.quantize", z, 2.0, np.int8(0), out_dtype="int8")
    after:
        def main(x: int8[2, 8]):
            offset = constant(int32[])  # 2
            shift = constant(int32[])  # 2
            cast: int32[2, 8] = cast(x, dtype='int32')
            add: int32[2, 8] = add(cast, offset)
            right_shift: int32[2, 8] = right_shift(add, shift)
            clip: int32[2, 8] = clip(right_shift, a_min=0, a_max=127)
            quantize: int8[2, 8] = cast(clip, dtype='int8')
            return quantize
    """
    integers = _Integers(graph)

    def planned(b: GraphBuilder, match: Match) -> Value | None:
        plan = integers.plan(match.root)
        return None if plan is None else plan(b)

    return dead_code(rewrite(graph, [RewriteRule(op(("qnn.quantize", *PRODUCT.ops), ...), planned)]))


def exponent_of(scale: np.ndarray) -> int | None:
    """Return e if the scale is 2^-e, or None for any other scale, or if there is one scale per channel."""
    if scale.size != 1:
        return None
    mantissa, exponent = math.frexp(float(scale.reshape(())))
    return 1 - exponent if mantissa == 0.5 else None


class _Integers(GraphFacts):
    """Plans which computations can be done in integers."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.sums: dict[Value, _Sum | None] = {}

    def plan(self, item: OpNode) -> Emit | None:
        """Return a plan for computing the result of an operator in integers, or None if the operator stays as it is."""
        if item.op == "qnn.quantize":
            exponent = self._scale(item)
            return None if exponent is None else self._quantized(item.inputs[0], exponent)
        if self._product(item) is None:
            return None
        product = self._sum(item.output)
        return None if product is None else lambda b: _as_floats(b, product.total(b), product.exponent)

    def _quantized(self, value: Value, exponent: int) -> Emit | None:
        """Plan how to compute a float value as int8 elements in units of 2^-exponent. Returns None if that is not
        possible.
        """
        low, high = -_BYTE, _BYTE - 1
        item = self.producers.get(value)
        while item is not None and item.op in ("nn.relu", "clip"):
            least, most = (0.0, None) if item.op == "nn.relu" else (item.attrs["a_min"], item.attrs["a_max"])
            low = low if least is None else min(max(low, _units(least, exponent)), _BYTE - 1)
            high = high if most is None else max(min(high, _units(most, exponent)), -_BYTE)
            value = item.inputs[0]
            item = self.producers.get(value)
        total = self._sum(value)
        if total is not None:
            return _narrowed(total, exponent, low, max(low, high))
        clamped = (low, high) != (-_BYTE, _BYTE - 1)
        return None if clamped or item is None or item.op not in _MOVES else self._moved(item, exponent)

    def _moved(self, item: OpNode, exponent: int) -> Emit | None:
        """Plan how to move int8 elements instead of floats. All moved data get the same scale.

        Returns None if some input has no plan.
        """
        parts = [self._quantized(value, exponent) for value in item.inputs]
        emits = [part for part in parts if part is not None]
        if len(emits) < len(parts):
            return None

        def emit(b: GraphBuilder) -> Value:
            moved: Value = b.op(item.op, *(part(b) for part in emits), **item.attrs)
            return moved

        return emit

    def _sum(self, value: Value) -> _Sum | None:
        if value not in self.sums:
            item = self.producers.get(value)
            result = None if item is None else self._sum_of(item)
            self.sums[value] = result if result is None or result.bound < 1 << _BITS else None
        return self.sums[value]

    def _sum_of(self, item: OpNode) -> _Sum | None:
        if item.op == "qnn.dequantize":
            return self._dequantized(item)
        if item.op in ("add", "nn.bias_add"):
            return self._added(item)
        product = self._product(item)
        return None if product is None else _product_sum(product)

    def _product(self, item: OpNode) -> BytesProduct | None:
        match = next(matches(PRODUCT, item, self), None)
        return None if match is None else bytes_product(match, grouped=True)

    def _dequantized(self, item: OpNode) -> _Sum | None:
        exponent, stored = self._scale(item), item.inputs[0]
        if exponent is None or stored in self.arrays:
            return None

        def emit(b: GraphBuilder) -> Value:
            wide: Value = b.op("cast", stored, dtype="int32")
            return wide

        return _Sum(emit, exponent, _BYTE, np.zeros((), np.int64))

    def _added(self, item: OpNode) -> _Sum | None:
        known = [value in self.arrays for value in item.inputs]
        if not any(known):
            return self._both(item)
        data, constant = item.inputs if known[1] else item.inputs[::-1]
        total = self._sum(data)
        if total is None or all(known) or item.output.shape != data.shape:
            return None
        offset = self.arrays[constant].astype(np.float64)
        if item.op == "nn.bias_add":
            after = data.ndim - 1 - item.attrs["axis"] % data.ndim
            offset = offset.reshape(-1, *[1] * after)
        units = np.rint(np.ldexp(offset, total.exponent))
        if not (np.abs(units) < 1 << _BITS).all():
            return None
        largest = int(np.abs(units).max(initial=0))
        return _Sum(total.emit, total.exponent, total.bound + largest, total.offset + units.astype(np.int64))

    def _both(self, item: OpNode) -> _Sum | None:
        """Return the sum of two tensors in the smaller of their two units, or None if it cannot be computed in
        integers.
        """
        first, second = (self._sum(value) for value in item.inputs)
        if item.op != "add" or first is None or second is None or abs(first.exponent - second.exponent) > _BITS:
            return None
        if first.offset.any() or second.offset.any():  # a bias would have to follow a broadcast
            return None
        finest = max(first.exponent, second.exponent)
        a, b_ = (one.shifted(finest - one.exponent) for one in (first, second))

        def emit(b: GraphBuilder) -> Value:
            added: Value = b.op("add", a.emit(b), b_.emit(b))
            return added

        return _Sum(emit, finest, a.bound + b_.bound, a.offset)

    def _scale(self, item: OpNode) -> int | None:
        """Return the exponent of the scale of a quantisation, or None if the quantisation does not have the supported
        form.

        The bytes must be int8 with one power-of-two scale, and the zero point must be 0.
        """
        parameters = [self.arrays.get(value) for value in item.inputs[1:]]
        stored = item.output if item.op == "qnn.quantize" else item.inputs[0]
        floats = item.inputs[0] if item.op == "qnn.quantize" else item.output
        if stored.dtype != "int8" or floats.dtype != "float32" or parameters[0] is None:
            return None
        zero = parameters[1] if len(parameters) > 1 else np.zeros(1)
        return exponent_of(parameters[0]) if zero is not None and not zero.any() else None


def _product_sum(product: BytesProduct) -> _Sum | None:
    exponent = exponent_of(np.unique(product.scale))
    if exponent is None or product.zero_point or product.data.dtype != "int8":
        return None

    def emit(b: GraphBuilder) -> Value:
        weight = b.constant(product.weight, "weight_bytes")
        total: Value = b.op(product.op, product.data, weight, **product.attrs)
        return total

    terms = np.abs(product.weight.astype(np.int64)).sum(axis=tuple(range(1, product.weight.ndim)))
    return _Sum(emit, exponent, _BYTE * int(terms.max(initial=0)), np.zeros((), np.int64))


def _narrowed(total: _Sum, exponent: int, low: int, high: int) -> Emit | None:
    """Plan how to shift elements to units of 2^-exponent, clip them to [low, high], and convert them to int8.

    Returns None if an intermediate result might overflow.
    """
    places = total.exponent - exponent
    half = 1 << (places - 1) if places > 0 else 0
    if places > _BITS or places < -_BITS or (total.bound + half) << max(-places, 0) >= 1 << _BITS:
        return None

    def emit(b: GraphBuilder) -> Value:
        result = total.total(b, half)
        if places:
            count = b.constant(np.int32(abs(places)), "shift")
            result = b.op("right_shift" if places > 0 else "left_shift", result, count)
        limited = b.op("clip", result, a_min=low, a_max=high)
        narrow: Value = b.op("cast", limited, dtype="int8")
        return narrow

    return emit


def _as_floats(b: GraphBuilder, total: Value, exponent: int) -> Value:
    unit = b.constant(np.float32(math.ldexp(1.0, -exponent)), "scale")
    floats: Value = b.op("multiply", b.op("cast", total, dtype="float32"), unit)
    return floats


def _units(limit: float, exponent: int) -> int:
    """Convert a float limit to units of 2^-exponent, clipped to a range that is wider than int8."""
    scaled = math.ldexp(float(limit), exponent)
    return round(min(max(scaled, -4.0 * _BYTE), 4.0 * _BYTE))
