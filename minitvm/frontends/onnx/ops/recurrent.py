"""Convert RNN, GRU and LSTM: one product computes the input's part of all gates for all steps, and a loop over time the
rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....topi.recurrent import OF_CELLS
from ....topi.shapes import simple
from ...common.lengths import with_lengths
from ...common.operand import Operand
from ..context import NodeContext
from ..registry import converter

# ONNX's activations: the name of the function, and the defaults of its parameters alpha and beta.
ACTIVATIONS: dict[str, tuple[str, tuple[float, ...]]] = {
    "Affine": ("affine", (1.0, 0.0)),
    "ScaledTanh": ("scaled_tanh", (1.0, 1.0)),
    **{row.onnx.name: (name, tuple(row.attrs.values())) for name, row in OF_CELLS.items() if row.onnx},
}
Functions = tuple[tuple[str, float, float], ...]


@converter("RNN", since=7)
def rnn(n: NodeContext) -> Any:
    return _recurrent(n, "nn.rnn", ("Tanh",), states=1, gates=1)


@converter("GRU", since=7)
def gru(n: NodeContext) -> Any:
    """Convert a GRU. With `linear_before_reset`, the reset comes after the product with the state, whose bias is then
    separate.
    """
    late = bool(n.attr("linear_before_reset", 0))
    return _recurrent(
        n, "nn.gru", ("Sigmoid", "Tanh"), states=1, gates=3, apart=int(late), linear_before_reset=late
    )  # fmt: skip


@converter("LSTM", since=7)
def lstm(n: NodeContext) -> Any:
    forget = bool(n.attr("input_forget", 0))
    return _recurrent(
        n, "nn.lstm", ("Sigmoid", "Tanh", "Tanh"), states=2, gates=4, peepholes=n.optional(7), input_forget=forget
    )  # fmt: skip


def _recurrent(
    n: NodeContext, op: str, defaults: tuple[str, ...], *, states: int, gates: int, apart: int = 0,
    peepholes: Operand | None = None, **attrs: Any,
) -> list[Operand]:  # fmt: skip
    """Convert a recurrent layer. The state's bias of the last `apart` gates is a separate input of the operator."""
    layout = n.attr("layout", 0)
    direction, directions = direction_of(n)
    functions = functions_of(n, defaults, directions)
    x = n.op("transpose", n[0], axes=(1, 0, 2)) if layout else n[0]
    of_input, of_state = n[1], n[2]
    if x.ndim != 3:
        n.refuse(f"data of three dimensions are needed, found {x}")
    (steps, batch, size), hidden = x.shape, n.attr("hidden_size", of_state.shape[-1])
    if isinstance(hidden, int) and hidden < 1:
        n.refuse(f"a hidden size of {hidden} is not supported: wanted a number from 1")
    lengths = n.optional(4)
    if lengths is not None:
        x, lengths = with_lengths(n, x, lengths, 1, 0)
        attrs["lengths"] = True
    x = n.enough(x, steps, 1, "a sequence has no elements")
    of_input = n.fit(of_input, (directions, simple(gates * hidden), size), "the weights of the input")
    of_state = n.fit(of_state, (directions, simple(gates * hidden), hidden), "the weights of the state")
    bias, rest = biases(n, directions, gates * hidden, apart * hidden)
    projected = n.op("nn.dense", x, n.reshape(of_input, (directions * gates * hidden, size)))
    if bias is not None:
        projected = n.op("add", projected, n.reshape(bias, (-1,)))
    inputs = [
        n.reshape(projected, (steps, batch, directions, gates * hidden)),
        n.op("transpose", of_state, axes=(0, 2, 1)),
        *(initial(n, 5 + k, (directions, batch, hidden), layout, x) for k in range(states)),
    ]
    if apart:
        inputs.append(np.zeros((directions, apart * hidden), x.dtype.numpy) if rest is None else rest)
    if peepholes is not None:
        inputs.append(peepholes)
        attrs["peepholes"] = True
    attrs["clip"] = float(n.attr("clip", 0.0))
    # Directions with the same functions share a loop over time.
    if len(set(functions)) == 1:
        outputs = _layer(n, op, inputs, lengths, functions[0], direction=direction, **attrs)
    else:
        parts = [
            _layer(n, op, _of_direction(n, inputs, d), lengths, functions[d], direction=way, **attrs)
            for d, way in enumerate(("forward", "reverse"))
        ]
        whole, *ends = zip(*parts, strict=True)
        outputs = [n.op("concatenate", *whole, axis=1), *(n.op("concatenate", *end, axis=0) for end in ends)]
    if layout:
        y, *last = outputs
        outputs = [n.op("transpose", y, axes=(2, 0, 1, 3)), *(n.op("transpose", e, axes=(1, 0, 2)) for e in last)]
    return outputs


def direction_of(n: NodeContext) -> tuple[str, int]:
    """Return the attribute `direction`, and the number of directions."""
    direction = n.attr("direction", "forward")
    if direction not in ("forward", "reverse", "bidirectional"):
        n.refuse_attribute("direction")
    return direction, 2 if direction == "bidirectional" else 1


def _layer(
    n: NodeContext, op: str, inputs: list[Any], ends: Operand | None, functions: Functions, **attrs: Any
) -> list[Operand]:
    names, alpha, beta = zip(*functions, strict=True)
    others = [] if ends is None else [ends]
    return list(n.op(op, *inputs, *others, activations=names, alpha=alpha, beta=beta, **attrs))


def _of_direction(n: NodeContext, inputs: list[Any], d: int) -> list[Operand]:
    """Return each input's part for one direction, which is axis 2 of the first input and axis 0 of the others."""
    return [n.part(value, 0 if k else 2, d, d + 1) for k, value in enumerate(inputs)]


def biases(n: NodeContext, directions: int, columns: int, apart: int) -> tuple[Operand | None, Operand | None]:
    """Return Wb + Rb [directions, gates * hidden]. The last `apart` columns of Rb are returned separately."""
    both = n.optional(3)
    if both is None:
        return None, None
    both = n.fit(both, (directions, simple(2 * columns)), "the biases")
    of_input, of_state = n.part(both, 1, 0, columns), n.part(both, 1, columns, 2 * columns)
    if not apart:
        return n.op("add", of_input, of_state), None
    zeros = np.zeros((directions, apart), both.dtype.numpy)
    joined = n.op("concatenate", n.part(both, 1, columns, 2 * columns - apart), zeros, axis=1)
    return n.op("add", of_input, joined), n.part(both, 1, 2 * columns - apart, 2 * columns)


def initial(n: NodeContext, position: int, shape: tuple[Any, ...], layout: int, x: Operand) -> Operand:
    states = n.optional(position)
    state: Operand
    if states is None:
        state = n.op("full", shape=shape, fill_value=0.0, dtype=str(x.dtype))
    else:
        state = n.op("transpose", states, axes=(1, 0, 2)) if layout else states
    return state


def functions_of(n: NodeContext, defaults: tuple[str, ...], directions: int) -> list[Functions]:
    """Return the functions of each direction with alpha and beta; a function that takes one gets the next given
    value.
    """
    names = tuple(n.attr("activations", defaults * directions))
    if len(names) != len(defaults) * directions or any(name not in ACTIVATIONS for name in names):
        n.refuse_attribute("activations")
    given = [list(n.attr(f"activation_{which}", ())) for which in ("alpha", "beta")]
    functions = []
    for name in names:
        function, own = ACTIVATIONS[name]
        alpha, beta = ((given[k].pop(0) if given[k] else own[k]) if k < len(own) else 0.0 for k in (0, 1))
        functions.append((function, float(alpha), float(beta)))
    count = len(defaults)
    return [tuple(functions[d * count : (d + 1) * count]) for d in range(directions)]
