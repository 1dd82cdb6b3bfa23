"""Models of one If, whose branches cut and join the rows of a matrix, under conditions on data and on sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from minitvm.errors import InputError
from minitvm.frontends import from_onnx
from minitvm.reference import graph as interpreter

from .models import model

F32, BOOL = TensorProto.FLOAT, TensorProto.BOOL
N = helper.make_node
Nodes = Sequence[onnx.NodeProto]

# A branch as nodes that compute `y` from x [n, m], with the sizes n and m as data of shape [1].
BRANCHES: dict[str, Nodes] = {
    "all": [N("Exp", ["x"], ["y"])],
    "first": [N("Slice", ["x", "zero", "one", "zero"], ["y"])],
    "two": [N("Slice", ["x", "zero", "two", "zero"], ["y"])],
    "none": [N("Slice", ["x", "zero", "zero", "zero"], ["y"])],
    "twice": [N("Concat", ["x", "x"], ["y"], axis=0)],
    "column": [N("Slice", ["x", "zero", "one", "one"], ["y"])],
    "pairs": [N("Reshape", ["x", "halves"], ["p"]), N("ReduceMax", ["p", "zero"], ["y"], keepdims=0)],  # n is even
    "only": [N("Squeeze", ["x", "zero"], ["s"]), N("Unsqueeze", ["s", "zero"], ["y"])],  # n is 1
}
CONDITIONS = {
    "data": [N("Identity", ["f"], ["c"])],
    "n = 1": [N("Equal", ["n", "one"], ["c"])],
    "n < 3": [N("Less", ["n", "three"], ["c"])],
    "n is even": [N("Mod", ["n", "two"], ["odd"]), N("Equal", ["odd", "zero"], ["c"])],
    "m > n": [N("Greater", ["m", "n"], ["c"])],
    "positive": [N("Greater", ["count", "zero"], ["c"])],
}
SIZES = [
    N("Shape", ["x"], ["n"], end=1),
    N("Shape", ["x"], ["m"], start=1),
    N("Div", ["n", "two"], ["half"]),
    N("Concat", ["two", "half", "m"], ["halves"], axis=0),
    N("Greater", ["x", "nought"], ["above"]),
    N("NonZero", ["above"], ["places"]),
    N("Shape", ["places"], ["count"], start=1),
]
CONSTANTS = {
    **{name: np.array([value]) for name, value in {"zero": 0, "one": 1, "two": 2, "three": 3}.items()},
    "nought": np.float32(0),
}


def choosing(condition: str, then: Nodes, other: Nodes, behind: Nodes = (), shape: Sequence[Any] = ("n", "m")) -> Any:
    branches = [
        helper.make_graph(list(nodes), name, [], [onnx.ValueInfoProto(name=nodes[-1].output[0])])
        for name, nodes in (("then", then), ("other", other))
    ]
    choice = N("If", ["c"], ["z"], name="choice", then_branch=branches[0], else_branch=branches[1])
    nodes = [*SIZES, *CONDITIONS[condition], choice, *behind]
    return model(nodes, [("x", F32, list(shape)), ("f", BOOL, [])], [nodes[-1].output[0]], CONSTANTS)


def inputs(n: int, m: int, flag: bool = True, sign: int = 1) -> dict[str, np.ndarray]:
    return {"x": sign * np.random.default_rng(n).random((n, m), np.float32) + np.float32(sign), "f": np.array(flag)}


def wanted(proto: onnx.ModelProto, given: Mapping[str, np.ndarray]) -> np.ndarray:
    """The standard's result; the evaluator's If runs one branch."""
    result: np.ndarray = ReferenceEvaluator(proto).run(None, dict(given))[0]
    return result


@dataclass(frozen=True)
class Case:
    """Two branches, a condition, and what a run is called on."""

    condition: str
    then: str
    other: str
    n: int
    m: int
    flag: bool
    sign: int

    @property
    def taken(self) -> str:
        holds = {
            "data": self.flag, "n = 1": self.n == 1, "n < 3": self.n < 3, "n is even": self.n % 2 == 0,
            "m > n": self.m > self.n, "positive": self.sign > 0,
        }[self.condition]  # fmt: skip
        return self.then if holds else self.other

    def difference(self) -> str:
        """Where the graph's interpreter differs from the standard; "" for nowhere.

        Only the branch that is taken may refuse a run: `pairs` of an odd number of rows, `only` of several.
        """
        proto = choosing(self.condition, BRANCHES[self.then], BRANCHES[self.other])
        graph, arrays = from_onnx(proto), inputs(self.n, self.m, self.flag, self.sign)
        refused = (self.taken == "pairs" and self.n % 2) or (self.taken == "only" and self.n > 1)
        try:
            (found,) = interpreter.run(graph, arrays)
        except InputError as error:
            return "" if refused else f"{self} is refused: {error}"
        if refused:
            return f"{self} is not refused"
        expected = wanted(proto, arrays)
        same = found.shape == expected.shape and np.allclose(found, expected, rtol=1e-6)
        return "" if same else f"{self}: found {found.shape}, wanted {expected.shape}"


def random_case(rng: np.random.Generator) -> Case:
    """A case for a number generator."""
    condition, then, other = (str(rng.choice(list(t))) for t in (CONDITIONS, BRANCHES, BRANCHES))
    n, m = (int(v) for v in rng.integers(1, 6, 2))
    return Case(condition, then, other, n, m, bool(rng.integers(2)), int(rng.choice([1, -1])))
