"""Recurrent layers: one step after the other, each row of the batch up to its own length, in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .activation import sigmoid, softplus
from .table import operator, wide

Function = Callable[[np.ndarray], np.ndarray]

# A function of x, alpha and beta, and the default alpha and beta.
_FUNCTIONS: dict[str, tuple[Callable[..., Any], float, float]] = {
    "affine": (lambda x, a, b: a * x + b, 1.0, 0.0),
    "elu": (lambda x, a, _: np.where(x > 0, x, a * np.expm1(x)), 1.0, 0.0),
    "hard_sigmoid": (lambda x, a, b: np.clip(a * x + b, 0, 1), 0.2, 0.5),
    "leaky_relu": (lambda x, a, _: np.where(x > 0, x, a * x), 0.01, 0.0),
    "relu": (lambda x, *_: np.maximum(x, 0), 0.0, 0.0),
    "scaled_tanh": (lambda x, a, b: a * np.tanh(b * x), 1.0, 1.0),
    "sigmoid": (lambda x, *_: sigmoid(x), 0.0, 0.0),
    "softplus": (lambda x, *_: softplus(x), 0.0, 0.0),
    "softsign": (lambda x, *_: x / (1 + np.abs(x)), 0.0, 0.0),
    "tanh": (lambda x, *_: np.tanh(x), 0.0, 0.0),
    "thresholded_relu": (lambda x, a, _: np.where(x > a, x, 0), 1.0, 0.0),
}  # fmt: skip


def _functions(
    activations: Sequence[str], alpha: Sequence[float], beta: Sequence[float], clip: float
) -> list[Function]:
    def of(number: int, name: str) -> Function:
        function, *defaults = _FUNCTIONS[name]
        given = [values[number] if values else default for values, default in zip((alpha, beta), defaults, strict=True)]
        limit = clip if clip and number < 2 else np.inf  # the third is no gate's
        return lambda x: np.asarray(function(np.clip(x, -limit, limit), *given))

    return [of(number, name) for number, name in enumerate(activations)]


# A cell computes the next states from x, the weights r and the states of one row and one direction.
Cell = Callable[[np.ndarray, np.ndarray, list[np.ndarray], int], list[np.ndarray]]


def _layer(
    x: np.ndarray, r: np.ndarray, states: Sequence[np.ndarray], lengths: np.ndarray | None, direction: str, cell: Cell
) -> list[np.ndarray]:
    steps, batch, directions, _ = x.shape
    y = np.zeros((steps, directions, batch, r.shape[1]))
    last = [wide(state).copy() for state in states]
    for d in range(directions):
        backwards = direction == "reverse" or d == 1
        for b in range(batch):
            length = steps if lengths is None else min(steps, max(0, int(lengths[b])))
            own = [state[d, b] for state in last]
            for t in reversed(range(length)) if backwards else range(length):
                own = cell(wide(x[t, b, d]), wide(r[d]), own, d)
                y[t, d, b] = own[0]
            empty = lengths is not None and lengths[b] <= 0
            for state, end in zip(last, own, strict=True):
                state[d, b] = 0 if empty else end
    return [array.astype(x.dtype) for array in (y, *last)]


@operator("nn.rnn")
def rnn(
    x: np.ndarray, r: np.ndarray, h: np.ndarray, *others: np.ndarray, direction: str, lengths: bool, **functions: Any
) -> list[np.ndarray]:
    (f,) = _functions(**functions)
    return _layer(x, r, [h], others[-1] if lengths else None, direction, lambda now, w, s, _: [f(now + s[0] @ w)])


@operator("nn.gru")
def gru(
    x: np.ndarray, r: np.ndarray, h: np.ndarray, *others: np.ndarray, direction: str, lengths: bool,
    linear_before_reset: bool, **functions: Any,
) -> list[np.ndarray]:  # fmt: skip
    f, g = _functions(**functions)

    def cell(now: np.ndarray, w: np.ndarray, states: list[np.ndarray], d: int) -> list[np.ndarray]:
        (old,) = states
        (xz, xr, xh), (wz, wr, wh) = np.split(now, 3), np.split(w, 3, axis=1)
        z, reset = f(xz + old @ wz), f(xr + old @ wr)
        candidate = reset * (old @ wh + wide(others[0][d])) if linear_before_reset else (reset * old) @ wh
        return [(1 - z) * g(xh + candidate) + z * old]

    return _layer(x, r, [h], others[-1] if lengths else None, direction, cell)


@operator("nn.lstm")
def lstm(
    x: np.ndarray, r: np.ndarray, h: np.ndarray, c: np.ndarray, *others: np.ndarray, direction: str, lengths: bool,
    input_forget: bool, peepholes: bool, cell_clip: float, **functions: Any,
) -> list[np.ndarray]:  # fmt: skip
    f, g, act = _functions(**functions)

    def cell(now: np.ndarray, w: np.ndarray, states: list[np.ndarray], d: int) -> list[np.ndarray]:
        old, memory = states
        i, o, forget, new = np.split(now + old @ w, 4)
        pi, po, pf = np.split(wide(others[0][d]), 3) if peepholes else (0.0, 0.0, 0.0)
        i = f(i + pi * memory)
        kept = 1 - i if input_forget else f(forget + pf * memory)
        memory = kept * memory + i * g(new)
        memory = np.clip(memory, -cell_clip, cell_clip) if cell_clip else memory
        return [f(o + po * memory) * act(memory), memory]

    return _layer(x, r, [h, c], others[-1] if lengths else None, direction, cell)
