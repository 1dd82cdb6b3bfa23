"""RNN, GRU and LSTM by the equations of ONNX's standard: its own evaluator knows no activations but the defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

# Functions of v and of the parameters that they take: alpha, or alpha and beta.
ACTIVATIONS: dict[str, tuple[Callable[..., np.ndarray], int]] = {
    "Affine": (lambda v, a, b: a * v + b, 2), "Elu": (lambda v, a: np.where(v < 0, a * (np.exp(v) - 1), v), 1),
    "HardSigmoid": (lambda v, a, b: np.minimum(np.maximum(a * v + b, 0), 1), 2),
    "LeakyRelu": (lambda v, a: np.where(v < 0, a * v, v), 1), "Relu": (lambda v: np.maximum(v, 0), 0),
    "ScaledTanh": (lambda v, a, b: a * np.tanh(b * v), 2), "Sigmoid": (lambda v: 1 / (1 + np.exp(-v)), 0),
    "Softplus": (lambda v: np.log(1 + np.exp(v)), 0), "Softsign": (lambda v: v / (1 + np.abs(v)), 0),
    "Tanh": (np.tanh, 0), "ThresholdedRelu": (lambda v, a: np.where(v >= a, v, 0), 1),
}  # fmt: skip
DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}


def recurrence(op: str, inputs: Mapping[str, np.ndarray | None], attrs: Mapping[str, Any]) -> list[np.ndarray]:
    """The outputs, layout 0: Y [steps, directions, batch, hidden], then the last states [directions, batch, hidden]."""
    given = {k: None if v is None else v.astype(np.float64) for k, v in inputs.items()}
    x, hidden, directions = given["x"], attrs["hidden_size"], len(inputs["w"])  # type: ignore[arg-type]
    assert x is not None
    names = attrs.get("activations", DEFAULTS[op] * directions)
    each = len(DEFAULTS[op])
    every = _with_parameters(names, attrs)
    lens = given.pop("lens", None)
    lens = np.full(x.shape[1], len(x)) if lens is None else lens
    outputs, ends = [], []
    for k in range(directions):
        own = {name: None if v is None else v[k] for name, v in given.items() if name != "x"}
        functions = every[k * each : (k + 1) * each]
        backwards = attrs["direction"] == "reverse" or k == 1
        rows = np.zeros((*x.shape[:2], hidden))
        last = []
        for b, steps in enumerate(lens.astype(int)):
            one = {n: v[b : b + 1] if v is not None and n in ("h", "c") else v for n, v in own.items()}
            now = x[:steps, b : b + 1]
            results, states = _one_way(op, now[::-1] if backwards else now, one, functions, hidden, attrs)
            rows[:steps, b] = (results[::-1] if backwards else results)[:, 0]
            last.append(states if steps else [np.zeros_like(state) for state in states])  # as ONNX Runtime does
        outputs.append(rows)
        ends.append([np.concatenate(parts) for parts in zip(*last)])
    found = [np.stack(outputs, 1), *(np.stack(states) for states in zip(*ends))]
    return [y.astype(np.float32) for y in found]


def _with_parameters(names: Sequence[str], attrs: Mapping[str, Any]) -> list[Callable[[np.ndarray], np.ndarray]]:
    """The functions with alpha and beta, which those that take them get in turn."""
    alphas, betas = (iter(attrs.get(f"activation_{which}", ())) for which in ("alpha", "beta"))
    functions = []
    for name in names:
        function, count = ACTIVATIONS[name]
        parameters = [next(source) for source in (alphas, betas)[:count]]
        functions.append(lambda v, function=function, parameters=parameters: function(v, *parameters))
    return functions


def _one_way(op: str, x: np.ndarray, own: Mapping[str, np.ndarray | None], functions: Sequence[Any], hidden: int,
             attrs: Mapping[str, Any]) -> tuple[np.ndarray, list[np.ndarray]]:  # fmt: skip
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    w, r, b = own["w"], own["r"], own.get("b")
    assert w is not None and r is not None
    b = np.zeros(2 * gates * hidden) if b is None else b
    zero = np.zeros((x.shape[1], hidden))
    h, c = (zero if (v := own.get(name)) is None else v for name in "hc")
    p = np.zeros(3 * hidden) if (v := own.get("p")) is None else v
    pi, po, pf = np.split(p, 3)
    wb, rb = (np.split(half, gates) for half in np.split(b, 2))
    limit = attrs.get("clip", np.inf)

    def clipped(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
        return lambda v: function(np.minimum(np.maximum(v, -limit), limit))

    rows = []
    for now in x:
        xs = [now @ m.T + v for m, v in zip(np.split(w, gates), wb)]
        hs = [h @ m.T + v for m, v in zip(np.split(r, gates), rb)]
        if op == "RNN":
            h = clipped(functions[0])(xs[0] + hs[0])
        elif op == "GRU":
            f, g = map(clipped, functions)
            z, reset = f(xs[0] + hs[0]), f(xs[1] + hs[1])
            early = (reset * h) @ np.split(r, 3)[2].T + rb[2]
            new = g(xs[2] + (reset * hs[2] if attrs.get("linear_before_reset") else early))
            h = (1 - z) * new + z * h
        else:
            f, g, out = clipped(functions[0]), clipped(functions[1]), functions[2]
            i = f(xs[0] + hs[0] + pi * c)
            keep = 1 - i if attrs.get("input_forget") else f(xs[2] + hs[2] + pf * c)
            c = keep * c + i * g(xs[3] + hs[3])
            h = f(xs[1] + hs[1] + po * c) * out(c)
        rows.append(h)
    return np.reshape(rows, (len(x), *h.shape)), [h, c] if op == "LSTM" else [h]
