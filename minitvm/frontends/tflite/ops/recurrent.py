"""Convert recurrent layers. Their states are variable tensors, which a run leaves for the next one."""

from __future__ import annotations

from typing import Any

from ...common.operand import Operand
from ..context import NodeContext
from ..layouts import Laid
from ..registry import converter
from .activations import activated

_TANH = 4
_RNN_FUNCTIONS = {0: "affine", 1: "relu", _TANH: "tanh"}


@converter("UNIDIRECTIONAL_SEQUENCE_LSTM")
def lstm(n: NodeContext) -> Any:
    """Run an LSTM over [batch, steps, k], or [steps, batch, k] with the option `TimeMajor`.

    Inputs 1 to 4 are the weights of the data and 5 to 8 those of the state, of the gates i, f, g and o; 12 to 15 their
    biases; 18 and 19 the states. Peepholes (9 to 11), projections (16, 17) and norms (20 to 23) are refused.
    """
    for position, what in ((9, "peepholes"), (10, "peepholes"), (16, "a projection"), (20, "norms"), (21, "norms")):
        if n.has(position):
            n.refuse(f"{what} are not supported")
    if not n.has(1):
        n.refuse("coupled gates are not supported")
    if n.option("FusedActivationFunction", _TANH) != _TANH or n.option("ProjClip", 0.0):
        n.refuse("another function than tanh, or a limit of projections, is not supported")
    if n.option("CellClip", 0.0):
        n.refuse("a limit of cells is not supported")
    x = n[0] if n.option("TimeMajor", False) else n.moved(n[0], (1, 0, 2))
    order = (0, 3, 1, 2)  # our gates are i, o, f, g
    of_data, of_state = (n.op("concatenate", *(n[first + k] for k in order), axis=0) for first in (1, 5))
    bias = n.op("concatenate", *(n[12 + k] for k in order), axis=0)
    (steps, batch, _), hidden = x.shape, of_state.shape[1]
    gates = n.reshape(n.op("add", n.op("nn.dense", x, of_data), bias), (steps, batch, 1, 4 * n.size(of_state, 1)))
    recurrent = n.reshape(n.moved(of_state, (1, 0)), (1, hidden, 4 * n.size(of_state, 1)))
    begin = [n.reshape(n[k], (1, batch, hidden)) for k in (18, 19)]
    y, h, c = n.op("nn.lstm", gates, recurrent, *begin)
    for position, state in ((18, h), (19, c)):
        n.leave(position, n.reshape(state, (batch, hidden)))
    y = n.reshape(y, (steps, batch, hidden))
    return y if n.option("TimeMajor", False) else n.moved(y, (1, 0, 2))


@converter("UNIDIRECTIONAL_SEQUENCE_RNN", "RNN")
def rnn(n: NodeContext) -> Any:
    """Run a plain recurrent layer, h' = f(W x + R h + b), over a sequence, or for one step (RNN)."""
    number, single = n.option("FusedActivationFunction", 0), n.node.name == "RNN"
    if number not in _RNN_FUNCTIONS:
        n.refuse(f"the activation function {number} is not supported")
    x, weights, recurrent, bias = n[0], n[1], n[2], n[3]
    turned = not single and not n.option("TimeMajor", False)
    x = n.op("expand_dims", x, axis=(0,)) if single else n.moved(x, (1, 0, 2)) if turned else x
    (steps, batch, _), hidden = x.shape, weights.shape[0]
    sums = n.reshape(n.op("add", n.op("nn.dense", x, weights), bias), (steps, batch, 1, hidden))
    state = n.reshape(n[4], (1, batch, hidden))
    y, last = n.op(
        "nn.rnn", sums, n.reshape(n.moved(recurrent, (1, 0)), (1, hidden, hidden)), state,
        activations=(_RNN_FUNCTIONS[number],),
    )  # fmt: skip
    last = n.reshape(last, (batch, hidden))
    n.leave(4, last)
    if single:
        return last
    y = n.reshape(y, (steps, batch, hidden))
    return n.moved(y, (1, 0, 2)) if turned else y


@converter("SVDF")
def svdf(n: NodeContext) -> Any:
    """Filter features over time: the last `memory` features of each filter, weighted, and summed by `rank` filters.

    The features of a run are the data times weights [filters, k]; the state holds the last ones, [batch, filters *
    memory].
    """
    x, of_features, of_time, rank = n[0], n[1], n[2], int(n.option("Rank", 1))
    (filters, memory), batch = n.sizes(of_time), x.shape[0]
    feature = n.reshape(n.op("nn.dense", x, of_features), (batch, filters, 1))
    past: Operand = n.reshape(n[4], (batch, filters, memory))
    past = n.op("concatenate", n.part(past, 2, 1, memory), feature, axis=2) if memory > 1 else feature
    n.leave(4, n.reshape(past, (batch, filters * memory)))
    response = n.op("sum", n.op("multiply", past, of_time), axis=(2,))
    result = n.op("sum", n.reshape(response, (batch, filters // rank, rank)), axis=(2,))
    if n.has(3):
        result = n.op("add", result, n[3])
    return activated(n, Laid(result))
