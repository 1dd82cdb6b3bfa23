"""RNN, GRU and LSTM by the equations of ONNX's standard: its own evaluator knows no activations but the defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Sigmoid": lambda v: 1 / (1 + np.exp(-v)), "Tanh": np.tanh, "Relu": lambda v: np.maximum(v, 0),
}  # fmt: skip
DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}


def recurrence(op: str, inputs: Mapping[str, np.ndarray | None], attrs: Mapping[str, Any]) -> list[np.ndarray]:
    """The outputs, layout 0: Y [steps, directions, batch, hidden], then the last states [directions, batch, hidden]."""
    given = {k: None if v is None else v.astype(np.float64) for k, v in inputs.items()}
    x, hidden, directions = given["x"], attrs["hidden_size"], len(inputs["w"])  # type: ignore[arg-type]
    assert x is not None
    names = attrs.get("activations", DEFAULTS[op] * directions)
    each = len(DEFAULTS[op])
    outputs, ends = [], []
    for k in range(directions):
        own = {name: None if v is None else v[k] for name, v in given.items() if name != "x"}
        functions = [ACTIVATIONS[name] for name in names[k * each : (k + 1) * each]]
        backwards = attrs["direction"] == "reverse" or k == 1
        rows, last = _one_way(op, x[::-1] if backwards else x, own, functions, hidden, attrs)
        outputs.append(rows[::-1] if backwards else rows)
        ends.append(last)
    found = [np.stack(outputs, 1), *(np.stack(states) for states in zip(*ends))]
    return [y.astype(np.float32) for y in found]


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
    rows = []
    for now in x:
        xs = [now @ m.T + v for m, v in zip(np.split(w, gates), wb)]
        hs = [h @ m.T + v for m, v in zip(np.split(r, gates), rb)]
        if op == "RNN":
            h = functions[0](xs[0] + hs[0])
        elif op == "GRU":
            f, g = functions
            z, reset = f(xs[0] + hs[0]), f(xs[1] + hs[1])
            early = (reset * h) @ np.split(r, 3)[2].T + rb[2]
            new = g(xs[2] + (reset * hs[2] if attrs.get("linear_before_reset") else early))
            h = (1 - z) * new + z * h
        else:
            f, g, out = functions
            keep = f(xs[2] + hs[2] + pf * c)
            c = keep * c + f(xs[0] + hs[0] + pi * c) * g(xs[3] + hs[3])
            h = f(xs[1] + hs[1] + po * c) * out(c)
        rows.append(h)
    return np.stack(rows), [h, c] if op == "LSTM" else [h]
