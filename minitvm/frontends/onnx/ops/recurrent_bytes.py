"""Convert DynamicQuantizeLSTM of ONNX Runtime: products of bytes whose scales follow from the data.

The sequence is quantised as a whole, and the state before each step. Both products are summed in integers. All other
arithmetic is that of a float LSTM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....topi.recurrent import OF_CELLS
from ...common.byte_products import integer_product
from ...common.lengths import reversed_sequences, with_lengths
from ...common.operand import Operand
from ..context import NodeContext
from ..registry import converter
from .quantization import dynamically_quantized
from .recurrent import Functions, biases, direction_of, functions_of, initial

_GATES = 4


@converter("DynamicQuantizeLSTM", domain="com.microsoft")
def dynamic_quantize_lstm(n: NodeContext) -> Any:
    """Convert an LSTM with weights in bytes: each matrix is transposed, with one scale per direction or per column."""
    direction, directions = direction_of(n)
    functions = functions_of(n, ("Sigmoid", "Tanh", "Tanh"), directions)
    x = n[0]
    if x.ndim != 3:
        n.refuse(f"data of three dimensions are needed, found {x}")
    (_, batch, size), hidden = x.shape, n.attr("hidden_size", n[2].shape[1])
    weights, states = (_Weights.of(n, k, (directions, rows, _GATES * hidden)) for k, rows in ((1, size), (2, hidden)))
    bias, _ = biases(n, directions, _GATES * hidden, 0)
    begin = [initial(n, 5 + k, (directions, batch, hidden), 0, x) for k in range(2)]
    quantized = dynamically_quantized(n, x)
    results = []
    for d in range(directions):
        projected = weights.product(n, quantized, d)
        projected = projected if bias is None else n.op("add", projected, n.entry(bias, d))
        peepholes = n.optional(7)
        cell = _Cell(n, functions[d], None if peepholes is None else n.entry(peepholes, d), hidden)
        back = direction == "reverse" or d == 1
        results.append(_through_time(n, cell, projected, states, d, [n.entry(s, d) for s in begin], back))
    rows, last, memory = zip(*results, strict=True)
    return [n.op("stack", *rows, axis=1), n.op("stack", *last, axis=0), n.op("stack", *memory, axis=0)]


@dataclass(frozen=True, slots=True)
class _Weights:
    """Constant bytes [directions, rows, columns], with scales and zero points [directions] or [directions, columns]."""

    stored: np.ndarray
    scale: np.ndarray
    zero: np.ndarray

    @staticmethod
    def of(n: NodeContext, position: int, shape: tuple[Any, ...]) -> _Weights:
        at = 8 + 2 * (position - 1)
        n.fit(n[position], shape, "the weights")
        stored, scale, zero = (n[k].data for k in (position, at, at + 1))
        if stored is None or scale is None or zero is None:
            n.refuse("weights, their scales and zero points are constants here")
        for k in (at, at + 1):
            n.fit(n[k], shape[:1] if n[k].ndim == 1 else (shape[0], shape[2]), "scales and zero points of weights")
        return _Weights(stored, scale.astype(np.float32), zero)

    def product(self, n: NodeContext, quantized: tuple[Operand, Operand, Operand], d: int) -> Operand:
        """Return the data times the weights of a direction, as floats."""
        data, scale, zero = quantized
        total = integer_product(n, data, zero, Operand.known(self.stored[d]), Operand.known(self.zero[d]))
        result: Operand = n.op("multiply", n.cast(total, "float32"), n.op("multiply", scale, self.scale[d]))
        return result


@dataclass(frozen=True, slots=True)
class _Cell:
    """One step of an LSTM: from the sums of its gates to its states."""

    n: NodeContext
    functions: Functions
    peepholes: Operand | None
    hidden: int

    def step(self, gates: Operand, memory: Operand) -> tuple[Operand, Operand]:
        """Return the next state and memory, from gates [batch, 4 * hidden] in the order input, output, forget, cell."""
        n = self.n
        i, o, f, g = (n.part(gates, 1, k * self.hidden, (k + 1) * self.hidden) for k in range(_GATES))
        if self.peepholes is not None:  # in the order input, output, forget
            i, f = self._seen(i, memory, 0), self._seen(f, memory, 2)
        i = self._applied(0, i)
        f = n.op("subtract", 1.0, i) if n.attr("input_forget", 0) else self._applied(0, f)
        new = n.op("add", n.op("multiply", f, memory), n.op("multiply", i, self._applied(1, g)))
        if self.peepholes is not None:
            o = self._seen(o, new, 1)
        return n.op("multiply", self._applied(0, o), self._applied(2, new)), new

    def _seen(self, gate: Operand, memory: Operand, k: int) -> Operand:
        n = self.n
        peephole = n.part(self.peepholes, 0, k * self.hidden, (k + 1) * self.hidden)  # type: ignore[arg-type]
        result: Operand = n.op("add", gate, n.op("multiply", memory, peephole))
        return result

    def _applied(self, position: int, v: Operand) -> Operand:
        n, (name, alpha, beta) = self.n, self.functions[position]
        limit = float(n.attr("clip", 0.0))
        v = n.op("clip", v, a_min=-limit, a_max=limit) if limit else v
        if name == "affine":
            return n.op("add", n.op("multiply", v, alpha), beta)
        if name == "scaled_tanh":
            return n.op("multiply", n.op("tanh", n.op("multiply", v, beta)), alpha)
        operator = OF_CELLS[name]
        attrs = {key: value for key, value in (("alpha", alpha), ("beta", beta)) if key in operator.attrs}
        result: Operand = n.op(operator.name, v, **attrs)
        return result


def _through_time(
    n: NodeContext, cell: _Cell, projected: Operand, states: _Weights, d: int, begin: list[Operand], back: bool
) -> tuple[Operand, Operand, Operand]:
    """Return all states [steps, batch, hidden], the last one, and the last memory.

    After the end of a sequence, its state and memory stay the same. Its rows are 0, and so is the next product's
    operand.
    """
    steps, lengths = projected.shape[0], n.optional(4)
    count = n.number(steps, ())
    if lengths is not None:
        projected, lengths = with_lengths(n, projected, lengths, 1, 0)
    ends = None if lengths is None else n.op("expand_dims", n.cast(lengths, "int64"), axis=(1,))

    def turned(x: Operand) -> Operand:
        if not back:
            return x
        if lengths is not None:
            return reversed_sequences(n, x, lengths, 1, 0)
        reverse: Operand = n.op("reverse", x, axis=0)
        return reverse

    inputs = turned(projected)

    def iteration(number: Operand, *before: Operand) -> tuple[Operand, list[Operand], list[Operand]]:
        last_row, state, memory = before
        of_state = states.product(n, dynamically_quantized(n, last_row), d)
        row, kept = cell.step(n.op("add", n.op("take", inputs, number, axis=0), of_state), memory)
        new = row
        if ends is not None:
            runs = n.op("greater", ends, number)
            new, kept = n.op("where", runs, row, state), n.op("where", runs, kept, memory)
            row = n.op("where", runs, row, np.array(0, np.float32))
        return Operand.known(np.array(True)), [row, new, kept], [row]

    _, _, last, memory, rows = n.builder.loop(iteration, [begin[0], *begin], count, None, steps, n.where)
    return turned(rows), last, memory
