"""Convert LSTMs. Their states are variable tensors, which a run leaves for the next one.

The inputs are numbered as in LiteRT (`lstm_shared.h`). An input of four gates is followed by those of the other gates,
in the order input, forget, cell, output.

    0                  the data
    1 to 4             the weights of the data
    5 to 8             the weights of the state
    9 to 11            the peepholes of the gates input, forget and output
    12 to 15           the biases
    16, 17             the projection and its bias
    18, 19             the state and the memory
    20 to 23           the norms
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...common.operand import Operand
from ..context import NodeContext
from ..registry import converter

_DATA, _STATE, _PEEPHOLES, _BIASES, _PROJECTION, _OLD, _NORMS = 1, 5, 9, 12, 16, 18, 20
_INPUT, _FORGET, _CELL, _OUTPUT = range(4)
_TANH = 4
_FUNCTIONS = {0: "affine", 1: "relu", _TANH: "tanh"}
_EPSILON = 1e-8  # that LiteRT adds to the variance


@converter("UNIDIRECTIONAL_SEQUENCE_LSTM", "LSTM")
def lstm(n: NodeContext) -> Any:
    """Run an LSTM over [batch, steps, k], or [steps, batch, k] with the option `TimeMajor`, or for one step (LSTM)."""
    single = n.node.name == "LSTM"
    if single and n.option("KernelType", 0):
        n.refuse("the kernel with five inputs is not supported")
    number = n.option("FusedActivationFunction", _TANH)
    if number not in _FUNCTIONS:
        n.refuse(f"the activation function {number} is not supported")
    turned = not single and not n.option("TimeMajor", False)
    x = n.op("expand_dims", n[0], axis=(0,)) if single else n.moved(n[0], (1, 0, 2)) if turned else n[0]
    has_own_loop = n.has(_PROJECTION) or n.has(_NORMS + _FORGET)
    y, *left = (_looped if has_own_loop else _layer)(n, x, _FUNCTIONS[number])
    for k, state in enumerate(left):
        n.leave(_OLD + k, n.reshape(state, n[_OLD + k].shape))
    if single:
        return n.reshape(y, left[0].shape[-2:])
    return n.moved(y, (1, 0, 2)) if turned else y


def _gates(n: NodeContext) -> list[int]:
    """Return the gates that have weights. A layer with coupled gates has no input gate: it is 1 - the forget gate."""
    return [_INPUT, _FORGET, _CELL, _OUTPUT] if n.has(_DATA) else [_FORGET, _CELL, _OUTPUT]


def _layer(n: NodeContext, x: Operand, function: str) -> Sequence[Operand]:
    """Return all states [steps, batch, hidden], the last one, and the last memory."""
    coupled = not n.has(_DATA)

    def joined(first: int, gates: Sequence[int]) -> Operand:
        # 1 - sigmoid(x) = sigmoid(-x), so a coupled input gate has the negative weights of the forget gate, and our
        # layer computes the forget gate as 1 - the input gate.
        parts = [
            n.op("negative", n[first + _FORGET]) if coupled and gate == _INPUT else n[first + gate] for gate in gates
        ]
        result: Operand = n.op("concatenate", *parts, axis=0)
        return result

    ours = (_INPUT, _OUTPUT, _FORGET, _CELL)
    of_state = joined(_STATE, ours)
    (steps, batch, _), hidden, columns = x.shape, of_state.shape[1], n.size(of_state, 0)
    sums = n.op("add", n.op("nn.dense", x, joined(_DATA, ours)), joined(_BIASES, ours))
    recurrent = n.reshape(n.moved(of_state, (1, 0)), (1, hidden, columns))
    begin = [n.reshape(n[_OLD + k], (1, batch, hidden)) for k in (0, 1)]
    peepholes = []
    if n.has(_PEEPHOLES + _FORGET):
        names = {_INPUT: 0, _FORGET: 1, _OUTPUT: 2}
        own = [n.op("negative", n[_PEEPHOLES + 1]) if coupled and gate == _INPUT else n[_PEEPHOLES + names[gate]]
               for gate in (_INPUT, _OUTPUT, _FORGET)]  # fmt: skip
        peepholes = [n.reshape(n.op("concatenate", *own, axis=0), (1, -1))]
    y, h, c = n.op(
        "nn.lstm", n.reshape(sums, (steps, batch, 1, columns)), recurrent, *begin, *peepholes,
        activations=("sigmoid", function, function), cell_clip=float(n.option("CellClip", 0.0)), input_forget=coupled,
        peepholes=bool(peepholes),
    )  # fmt: skip
    return n.reshape(y, (steps, batch, hidden)), h, c


def _looped(n: NodeContext, x: Operand, function: str) -> Sequence[Operand]:
    """Return the same for a layer with a projection or norms, whose loop over time is a loop of the graph."""
    cell, gates, steps = _LstmCell(n, function), _gates(n), x.shape[0]
    sums = n.op("nn.dense", x, n.op("concatenate", *(n[_DATA + gate] for gate in gates), axis=0))
    of_state = n.op("concatenate", *(n[_STATE + gate] for gate in gates), axis=0)
    if not cell.has_norms:  # otherwise the biases are added after the norms
        sums = n.op("add", sums, n.op("concatenate", *(n[_BIASES + gate] for gate in gates), axis=0))

    def iteration(number: Operand, *before: Operand) -> tuple[Operand, list[Operand], list[Operand]]:
        state, memory = before
        own = n.op("add", n.op("take", sums, number, axis=0), n.op("nn.dense", state, of_state))
        parts = n.op("split", own, indices_or_sections=len(gates), axis=1)
        new = cell.step(dict(zip(gates, parts, strict=True)), memory)
        return Operand.known(np.array(True)), list(new), [new[0]]

    _, state, memory, rows = n.builder.loop(
        iteration, [n[_OLD], n[_OLD + 1]], n.number(steps, ()), None, steps, n.where
    )
    return rows, state, memory


@dataclass(frozen=True, slots=True)
class _LstmCell:
    """One step of a layer with a projection or norms."""

    n: NodeContext
    function: str

    @property
    def has_norms(self) -> bool:
        return self.n.has(_NORMS + _FORGET)

    def step(self, sums: dict[int, Operand], memory: Operand) -> tuple[Operand, Operand]:
        """Return the next state and memory, from the sums [batch, cells] of the gates that have weights."""
        n = self.n
        forget = n.op("sigmoid", self._gate(_FORGET, sums, memory))
        if _INPUT in sums:
            come = n.op("sigmoid", self._gate(_INPUT, sums, memory))
        else:
            come = n.op("subtract", 1.0, forget)
        cell = self._applied(self._gate(_CELL, sums, None))
        new = self._limited(n.op("add", n.op("multiply", forget, memory), n.op("multiply", come, cell)), "CellClip")
        state = n.op("multiply", n.op("sigmoid", self._gate(_OUTPUT, sums, new)), self._applied(new))
        if n.has(_PROJECTION):
            state = n.op("nn.dense", state, n[_PROJECTION])
            state = n.op("add", state, n[_PROJECTION + 1]) if n.has(_PROJECTION + 1) else state
            state = self._limited(state, "ProjClip")
        return state, new

    def _gate(self, gate: int, sums: dict[int, Operand], memory: Operand | None) -> Operand:
        n, total = self.n, sums[gate]
        if memory is not None and n.has(_PEEPHOLES + _FORGET):
            position = _PEEPHOLES + {_INPUT: 0, _FORGET: 1, _OUTPUT: 2}[gate]
            total = n.op("add", total, n.op("multiply", memory, n[position]))
        if self.has_norms:
            total = n.op("nn.layer_norm", total, n[_NORMS + gate], n[_BIASES + gate], axis=(-1,), epsilon=_EPSILON)
        return total

    def _applied(self, x: Operand) -> Operand:
        operators = {"relu": "nn.relu", "tanh": "tanh"}
        return self.n.op(operators[self.function], x) if self.function in operators else x

    def _limited(self, x: Operand, option: str) -> Operand:
        limit = float(self.n.option(option, 0.0))
        result: Operand = self.n.op("clip", x, a_min=-limit, a_max=limit) if limit > 0 else x
        return result
