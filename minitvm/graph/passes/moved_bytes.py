"""Move bytes instead of floats in operators that only move or select elements, if their data or result is quantised.

    move(dequantize(x, s, z))                  ->  dequantize(move(x), s, z)
    quantize(dequantize(x, s, z), s, z)        ->  x
    quantize(concatenate(a, b), s, z)          ->  concatenate(quantize(a, s, z), quantize(b, s, z))

An element is a fourth as large before it is dequantised, and a pool reads it several times. All three rules require one
scale for all elements. The first one is legal because dequantisation is one increasing function for all elements. The
second one is legal to the last bit: the relative error of (x - z) * s is at most 2^-24, that of its quotient at most
2^-23, and |x - z| <= 255, so the nearest integer is x - z. The third one allows each part to be quantised where it is
computed. This follows ONNX Runtime's propagation of QDQ pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...topi.shapes import paddings, per_axis
from ..forms import Forms
from ..nodes import Graph, OpNode, Value

# Scales with which neither products nor quotients leave the normal numbers.
_LEAST, _MOST = 1e-30, 1e30


def moved_bytes(graph: Graph) -> Graph:
    """Move bytes instead of floats where the data were dequantised before the move or are quantised after it.

    before:
        x = b.input("x", (2, 8), "uint8")
        y = b.op("qnn.dequantize", x, np.float32(0.5), np.uint8(3))
        return b.op("transpose", y)
    after:
        def main(x: uint8[2, 8]):
            const_2 = constant(float32[])  # 0.5
            const_3 = constant(uint8[])  # 3
            transpose: uint8[8, 2] = transpose(x)
            transpose_1: float32[8, 2] = qnn.dequantize(transpose, const_2, const_3, axis=0)
            return transpose_1
    """
    if not any(item.op in ("qnn.quantize", "qnn.dequantize") for item in graph.nodes):
        return graph
    return _Moving(graph).result()


@dataclass(frozen=True, slots=True)
class _Step:
    """The parameters of a quantisation. A byte of `dtype` represents the float (byte - zero) * scale, for all
    elements.
    """

    dtype: str
    scale: float
    zero: int
    floats: str


class _Moving(Forms):
    """Copies a graph node by node, moving bytes instead of floats where it can.

    It records which values exist as floats, as the bytes that represent them, or as a postponed move.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.stored: dict[Value, tuple[Value, _Step]] = {}
        self.waiting: dict[Value, OpNode] = {}

    def rewrite(self, item: OpNode) -> bool:
        rule = _RULES.get(item.op)
        return rule is not None and rule(self, item)

    def made_plain(self, value: Value) -> Value:
        if value in self.waiting:
            self.keep(self.waiting[value])
            return self.plain[value]
        data, step = self.stored[value]
        scale, zero = self.b.constant(np.float32(step.scale)), self.b.constant(np.array(step.zero, step.dtype))
        floats: Value = self.b.op("qnn.dequantize", data, scale, zero, name=value.name, axis=0, out_dtype=step.floats)
        return floats

    def step(self, item: OpNode, dtype: str, floats: str) -> _Step | None:
        """Return the parameters of a quantisation or dequantisation between bytes of `dtype` and floats of the dtype
        `floats`.

        Returns None if the pass cannot use them, for example because they are not constant or differ between elements.
        """
        parameters = [self.arrays.get(v) for v in item.inputs[1:]]
        if dtype not in ("int8", "uint8") or any(p is None or p.size != 1 for p in parameters):
            return None
        scale, zero = (float(p.reshape(())) if p is not None else 0.0 for p in (*parameters, None)[:2])
        if not _LEAST < scale < _MOST or item.inputs[1].dtype != "float32" or item.attrs["block_size"]:
            return None
        return _Step(dtype, scale, int(zero), floats)

    def dequantize(self, item: OpNode) -> bool:
        data = item.inputs[0]
        step = self.step(item, str(data.dtype), str(item.output.dtype))
        if step is None or item.output.dtype != "float32":
            return False
        self.stored[item.output] = self.as_plain(data), step
        return True

    def quantize(self, item: OpNode) -> bool:
        data = item.inputs[0]
        step = self.step(item, str(item.output.dtype), str(data.dtype))
        if step is None or data.dtype != "float32":
            return False
        self.plain[item.output] = self.quantized(data, item, step)
        return True

    def quantized(self, value: Value, item: OpNode, step: _Step) -> Value:
        """Return the bytes of a value: those that it was dequantised from, or the result of the quantisation `item`."""
        if value in self.stored and self.stored[value][1] == step:
            return self.stored[value][0]
        move = self.waiting.get(value)
        if move is not None and value not in self.plain:
            parts = [self.quantized(v, item, step) for v in move.inputs]
            moved: Value = self.b.op(move.op, *parts, name=value.name, **move.attrs)
            return moved
        made: Value = self.b.op(
            item.op, self.as_plain(value), *map(self.as_plain, item.inputs[1:]), name=item.output.name, **item.attrs
        )
        return made

    def move(self, item: OpNode) -> bool:
        """Handle an operator that moves elements of its first input to places given by its other inputs; return whether
        the bytes were moved.
        """
        return self.moved(item, item.inputs[:1]) or self.waits(item)

    def concatenate(self, item: OpNode) -> bool:
        return self.moved(item, item.inputs) or self.waits(item)

    def max_pool(self, item: OpNode) -> bool:
        """Handle a maximum pool. Return False if a window might contain only padding, or if the data are not
        quantised.
        """
        rank = item.output.ndim - 2
        before, after = paddings(item.attrs["padding"], rank)
        window = per_axis(item.attrs["pool_size"], rank, "pool_size")
        if item.attrs["ceil_mode"] or any(max(b, a) >= k for b, a, k in zip(before, after, window, strict=True)):
            return False
        return self.moved(item, item.inputs)

    def moved(self, item: OpNode, data: tuple[Value, ...]) -> bool:
        """Move the bytes if all of the data were dequantised with the same scale and zero point; return whether the
        bytes were moved.
        """
        steps = {self.stored[v][1] if v in self.stored else None for v in data}
        if len(steps) != 1 or None in steps:
            return False
        inputs = [*(self.stored[v][0] for v in data), *map(self.as_plain, item.inputs[len(data) :])]
        results = self.b.op(item.op, *inputs, name=item.outputs[0].name, **item.attrs)
        (step,) = steps
        assert step is not None
        for value, made in zip(item.outputs, results if isinstance(results, tuple) else (results,), strict=True):
            self.stored[value] = made, step
        return True

    def waits(self, item: OpNode) -> bool:
        """Postpone a move of floats that only one operator reads, and return whether it was postponed.

        If this reader is a quantisation, bytes are moved instead.
        """
        if item.op not in _REVERSIBLE or item.output.dtype != "float32" or self.only_reader(item.output) is None:
            return False
        self.waiting[item.output] = item
        return True


# Operators that move each element once: their data may also be quantised before the move.
_REVERSIBLE = frozenset(("concatenate", "expand_dims", "reshape", "squeeze", "transpose"))

_RULES: dict[str, Callable[[_Moving, OpNode], bool]] = {
    "qnn.dequantize": _Moving.dequantize,
    "qnn.quantize": _Moving.quantize,
    "concatenate": _Moving.concatenate,
    **dict.fromkeys(("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"), _Moving.max_pool),
    **dict.fromkeys(
        (
            "expand_dims", "gather", "nn.batch_flatten", "nn.depth_to_space", "nn.global_max_pool", "nn.space_to_depth",
            "reshape", "reverse", "split", "squeeze", "strided_slice", "take", "transpose",
        ),
        _Moving.move,
    ),
}  # fmt: skip
