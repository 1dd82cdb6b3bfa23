"""Numbers that a run computes, their bound by `frontends.common.bounds`, and what a run makes of both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minitvm.executable.evaluation import evaluate
from minitvm.expr import Expr, SizeVar
from minitvm.frontends.common.bounds import Computed
from minitvm.graph import GraphBuilder
from minitvm.graph.nodes import Dim, Graph, Value
from minitvm.reference import graph as interpreter
from tests.drawing import Drawing

N, M = SizeVar("n"), SizeVar("m")
_PLAIN = ("add", "subtract", "multiply", "minimum", "maximum", "divide")


@dataclass
class Bounded:
    """A graph whose output has a bound, or None, over inputs x [n, m] (float32) and k [n] (int64)."""

    graph: Graph
    most: Dim | None

    def difference(self, rng: np.random.Generator) -> str:
        """What is more than the bound, at random sizes; "" if nothing is."""
        if self.most is None:
            return ""
        n, m = int(rng.integers(1, 6)), int(rng.integers(1, 4))
        inputs = {
            "x": (rng.standard_normal((n, m)) * 9).astype(np.float32),
            "k": rng.integers(-20, 20, n),
        }
        (found,) = interpreter.run(self.graph, inputs)
        bound = evaluate(self.most, {N: n, M: m}) if isinstance(self.most, Expr) else self.most
        largest = np.floor(found.astype(np.float64).max(initial=-np.inf))
        return "" if largest <= bound else f"{largest} is more than {bound}, which is {self.most} at n={n}, m={m}"


def drawn_numbers(d: Drawing) -> Bounded:
    """A chain of operators behind the inputs or what follows from sizes."""
    b = GraphBuilder()
    x, k = b.input("x", (N, M), "float32"), b.input("k", (N,), "int64")
    sizes = b.op("shape_to_tensor", values=(N, N * 2 + M), shape=(2,), dtype="int64")
    value = d.one(
        b.op("sigmoid", x), b.op("nn.relu", x), b.op("cast", b.op("greater", x, 0.0), dtype="int64"),
        b.op("clip", k, a_min=d.int(-3, 2), a_max=d.int(2, 9)), sizes, b.op("clip", x, a_min=-1.5, a_max=6.5),
    )  # fmt: skip
    for _ in range(d.int(1, 5)):
        value = _step(b, d, value)
    most = Computed(b.nodes, b.data).most(value)
    return Bounded(b.build(value), most)


def _step(b: GraphBuilder, d: Drawing, value: Value) -> Value:
    kind = d.one(
        *_PLAIN, "again", "clip", "cumsum", "sum", "cast", "round", "move", "where", "floor_divide", "stack", "rounded"
    )
    if kind in _PLAIN:
        number = d.one(-2, 1, 2, 3, 0.5) if value.dtype.is_float else d.int(-2, 4)
        number = abs(number) or 1 if kind == "divide" else number
        result: Value = b.op(kind, value, number)
    elif kind == "again":
        result = b.op(d.one("add", "subtract", "minimum", "maximum", "multiply"), value, value)
    elif kind == "clip":
        result = b.op("clip", value, a_min=d.int(-2, 1), a_max=d.int(1, 5))
    elif kind == "cumsum":
        result = b.op("cumsum", value, axis=d.int(0, value.ndim - 1)) if value.ndim else value
    elif kind == "sum" and value.ndim:
        result = b.op("sum", value, axis=d.one(None, (d.int(0, value.ndim - 1),)), keepdims=d.flag())
    elif kind == "cast":
        result = b.op("cast", value, dtype=d.one("int64", "float32", "int32"))
    elif kind in ("round", "rounded") and value.dtype.is_float:
        result = b.op(d.one("floor", "ceil", "round"), value)
    elif kind == "move" and value.ndim:
        result = b.op(d.one("max", "min"), value, axis=(0,), keepdims=True)
    elif kind == "where":
        result = b.op("where", b.op("greater", value, 1), value, np.array(d.int(-1, 3), value.dtype.numpy))
    elif kind == "floor_divide" and value.dtype.is_int:
        result = b.op("floor_divide", value, d.int(1, 4))
    else:
        result = b.op("concatenate", value, value, axis=0) if value.ndim else value
    return result
