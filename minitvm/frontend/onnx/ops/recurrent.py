"""RNN, GRU and LSTM, one step of time after the other; the number of steps is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..context import NodeContext
from ..operand import Operand
from ..registry import converter

State = tuple[Operand, ...]
Step = Callable[[Operand, State], State]

_ACTIVATIONS = {"Sigmoid": "sigmoid", "Tanh": "tanh", "Relu": "nn.relu"}


class _Cells:
    """The weights of one direction; gates stand in `order` along the rows of W and R."""

    def __init__(self, n: NodeContext, direction: int, gates: int, hidden: int) -> None:
        self.n, self.hidden = n, hidden
        self.w = [self._rows(n[1], direction, g) for g in range(gates)]
        self.r = [self._rows(n[2], direction, g) for g in range(gates)]
        bias = n.optional(3)
        self.wb = [None if bias is None else self._rows(bias, direction, g) for g in range(gates)]
        self.rb = [None if bias is None else self._rows(bias, direction, gates + g) for g in range(gates)]

    def _rows(self, weights: Operand, direction: int, gate: int) -> Operand:
        begin, end = (direction, gate * self.hidden), (direction + 1, (gate + 1) * self.hidden)
        part = self.n.op("strided_slice", weights, begin=begin, end=end, strides=(1, 1), axes=(0, 1))
        rows: Operand = self.n.op("squeeze", part, axis=(0,))
        return rows

    def of_input(self, x: Operand, gate: int) -> Operand:
        """x W' + Wb."""
        return self._affine(x, self.w[gate], self.wb[gate])

    def of_state(self, h: Operand, gate: int) -> Operand:
        """h R' + Rb."""
        return self._affine(h, self.r[gate], self.rb[gate])

    def both(self, x: Operand, h: Operand, gate: int) -> Operand:
        total: Operand = self.n.op("add", self.of_input(x, gate), self.of_state(h, gate))
        return total

    def _affine(self, x: Operand, weights: Operand, bias: Operand | None) -> Operand:
        product: Operand = self.n.op("nn.dense", x, weights)
        return product if bias is None else self.n.op("add", product, bias)


def _activations(n: NodeContext, defaults: tuple[str, ...], directions: int) -> list[list[str]]:
    n.ignore("activation_alpha", "activation_beta")
    if n.has("activation_alpha") or n.has("activation_beta") or n.attr("clip", None) is not None:
        n.refuse("attributes activation_alpha, activation_beta and clip are not supported")
    names = tuple(n.attr("activations", defaults * directions))
    for name in names:
        if name not in _ACTIVATIONS:
            n.refuse(f"attribute activations={names!r} is not supported")
    count = len(defaults)
    return [[_ACTIVATIONS[a] for a in names[d * count : (d + 1) * count]] for d in range(directions)]


def _recurrent(n: NodeContext, gates: int, states: int, defaults: tuple[str, ...], step_of: Any) -> list[Operand]:
    """`step_of(cells, activations, direction)` gives a function from (x, states) to states; the first is the output."""
    direction, layout = n.attr("direction", "forward"), n.attr("layout", 0)
    if direction not in ("forward", "reverse", "bidirectional"):
        n.refuse_attribute("direction")
    directions = 2 if direction == "bidirectional" else 1
    names = _activations(n, defaults, directions)
    if n.optional(4) is not None:
        n.refuse("sequence_lens is not supported")
    x = n.op("transpose", n[0], axes=(1, 0, 2)) if layout else n[0]
    steps, batch = x.shape[:2]
    if not isinstance(steps, int):
        n.refuse(f"the number of steps {steps} is symbolic")
    hidden = n.attr("hidden_size", n[2].shape[-1])
    outputs, last = [], []
    for d in range(directions):
        cells = _Cells(n, d, gates, hidden)
        step = step_of(cells, names[d], d)
        state = tuple(_initial(n, 5 + k, d, batch, hidden, layout, x) for k in range(states))
        backwards = direction == "reverse" or d == 1
        rows: list[Operand] = []
        for t in reversed(range(steps)) if backwards else range(steps):
            now = n.op("strided_slice", x, begin=(t,), end=(t + 1,), strides=(1,), axes=(0,))
            state = step(n.op("squeeze", now, axis=(0,)), state)
            rows.append(n.op("expand_dims", state[0], axis=(0, 1)))
        rows = rows[::-1] if backwards else rows
        outputs.append(rows[0] if len(rows) == 1 else n.op("concatenate", *rows, axis=0))
        last.append([n.op("expand_dims", s, axis=(0,)) for s in state])
    whole = outputs[0] if directions == 1 else n.op("concatenate", *outputs, axis=1)
    ends = [parts[0] if directions == 1 else n.op("concatenate", *parts, axis=0) for parts in zip(*last, strict=True)]
    if layout:
        whole, ends = n.op("transpose", whole, axes=(2, 0, 1, 3)), [n.op("transpose", e, axes=(1, 0, 2)) for e in ends]
    return [whole, *ends]


def _initial(n: NodeContext, position: int, d: int, batch: Any, hidden: int, layout: int, x: Operand) -> Operand:
    states = n.optional(position)
    state: Operand
    if states is None:
        state = n.op("full", shape=(batch, hidden), fill_value=0.0, dtype=str(x.dtype))
        return state
    axis = 1 if layout else 0
    part = n.op("strided_slice", states, begin=(d,), end=(d + 1,), strides=(1,), axes=(axis,))
    state = n.op("squeeze", part, axis=(axis,))
    return state


@converter("RNN", since=7)
def rnn(n: NodeContext) -> Any:
    def step_of(cells: _Cells, names: list[str], _: int) -> Step:
        return lambda x, state: (n.op(names[0], cells.both(x, state[0], 0)),)

    return _recurrent(n, 1, 1, ("Tanh",), step_of)


@converter("GRU", since=7)
def gru(n: NodeContext) -> Any:
    """Gates z, r, h; `linear_before_reset` resets after the product with the state instead of before."""
    late = bool(n.attr("linear_before_reset", 0))

    def step_of(cells: _Cells, names: list[str], _: int) -> Step:
        def step(x: Operand, state: State) -> State:
            (h,) = state
            z, r = (n.op(names[0], cells.both(x, h, gate)) for gate in (0, 1))
            if late:
                recurrent = n.op("multiply", r, cells.of_state(h, 2))
            else:
                recurrent = cells.of_state(n.op("multiply", r, h), 2)
            new = n.op(names[1], n.op("add", cells.of_input(x, 2), recurrent))
            kept = n.op("multiply", z, h)
            return (n.op("add", n.op("multiply", n.op("subtract", np.ones((), h.dtype.numpy), z), new), kept),)

        return step

    return _recurrent(n, 3, 1, ("Sigmoid", "Tanh"), step_of)


@converter("LSTM", since=7)
def lstm(n: NodeContext) -> Any:
    """Gates i, o, f, c; with peepholes the gates also see the cell."""
    if n.attr("input_forget", 0):
        n.refuse_attribute("input_forget")
    peepholes = n.optional(7)
    hidden = n.attr("hidden_size", n[2].shape[-1])

    def step_of(cells: _Cells, names: list[str], d: int) -> Step:
        def peep(cell: Operand, k: int) -> Operand | None:
            if peepholes is None:
                return None
            begin, end = (d, k * hidden), (d + 1, (k + 1) * hidden)
            weights = n.op("strided_slice", peepholes, begin=begin, end=end, strides=(1, 1), axes=(0, 1))
            result: Operand = n.op("multiply", cell, weights)
            return result

        def gate(x: Operand, h: Operand, number: int, seen: Operand | None, name: str) -> Operand:
            total = cells.both(x, h, number)
            result: Operand = n.op(name, total if seen is None else n.op("add", total, seen))
            return result

        def step(x: Operand, state: State) -> State:
            h, c = state
            i = gate(x, h, 0, peep(c, 0), names[0])
            f = gate(x, h, 2, peep(c, 2), names[0])
            new = n.op(names[1], cells.both(x, h, 3))
            cell = n.op("add", n.op("multiply", f, c), n.op("multiply", i, new))
            o = gate(x, h, 1, peep(cell, 1), names[0])
            return (n.op("multiply", o, n.op(names[2], cell)), cell)

        return step

    return _recurrent(n, 4, 2, ("Sigmoid", "Tanh", "Tanh"), step_of)
