"""Convert plain recurrent layers. Their states are variable tensors, which a run leaves for the next one."""

from __future__ import annotations

from typing import Any

from ...common.operand import Operand
from ..context import NodeContext
from ..layouts import Laid
from ..registry import converter
from .activations import activated

_TANH = 4
_RNN_FUNCTIONS = {0: "affine", 1: "relu", _TANH: "tanh"}


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
