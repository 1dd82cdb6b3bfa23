"""Ensembles of decision trees: what ONNX Runtime computes, for random forests."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import minitvm
from minitvm.errors import UnsupportedOperator
from minitvm.frontends import from_onnx
from minitvm.reference import graph as interpreter

ort = pytest.importorskip("onnxruntime")

FEATURES = 4


class Grown:
    """Attributes of random trees; thresholds are eighths, which data hit exactly.

    Every leaf speaks of all outputs, or, where there are as many trees, of one for each tree in turn.
    """

    def __init__(self, seed: int, trees: int, outputs: int, modes: tuple[str, ...], column: int | None = None) -> None:
        self.column = column
        self.rng = np.random.default_rng(seed)
        self.modes, self.outputs = modes, outputs
        self.one_each = trees >= outputs and self.rng.random() < 0.5
        self.nodes: dict[str, list[Any]] = {
            name: []
            for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
                         "missing_value_tracks_true")
        }  # fmt: skip
        self.leaves: dict[str, list[Any]] = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
        for tree in range(trees):
            self.count = 0
            self._grow(tree, int(self.rng.integers(0, 4)))

    def _grow(self, tree: int, depth: int) -> int:
        own, self.count = self.count, self.count + 1
        inner = depth > 0 and self.rng.random() < 0.8
        row = len(self.nodes["treeids"])
        mode = str(self.rng.choice(self.modes)) if inner else "LEAF"
        values = (tree, own, int(self.rng.integers(FEATURES)) if inner else 0,
                  float(self.rng.integers(-8, 9)) / 8 if inner else 0.0, mode, 0, 0,
                  int(self.rng.integers(2)) if inner else 0)  # fmt: skip
        for name, value in zip(self.nodes, values, strict=True):
            self.nodes[name].append(value)
        if inner:
            self.nodes["truenodeids"][row] = self._grow(tree, depth - 1)
            self.nodes["falsenodeids"][row] = self._grow(tree, depth - 1)
            return own
        spoken = [tree % self.outputs] if self.one_each else range(self.outputs)
        for output in spoken if self.column is None else [self.column]:
            for name, value in zip(self.leaves, (tree, own, int(output), float(self.rng.integers(-8, 9)) / 8)):
                self.leaves[name].append(value)
        return own

    def attributes(self, kind: str) -> dict[str, Any]:
        nodes = {f"nodes_{name}": values for name, values in self.nodes.items()}
        return nodes | {f"{kind}_{name}": values for name, values in self.leaves.items()}


def model(op: str, attributes: dict[str, Any], outputs: list[tuple[str, int]]) -> onnx.ModelProto:
    results = [helper.make_tensor_value_info(name, dtype, None) for name, dtype in outputs]
    node = helper.make_node(op, ["x"], [name for name, _ in outputs], name="forest", domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph(
        [node], "forest", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", FEATURES])], results
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def rows(seed: int, missing: bool) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = (rng.integers(-12, 13, (9, FEATURES)) / 8).astype(np.float32)
    if missing:
        x[rng.random(x.shape) < 0.2] = np.nan
    return x


def alike(proto: onnx.ModelProto, x: np.ndarray) -> None:
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, {"x": x})
    for found, want in zip(interpreter.run(from_onnx(proto), {"x": x}), wanted, strict=True):
        assert found.dtype == want.dtype and found.shape == want.shape
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize(
    "modes", [("BRANCH_LEQ",), ("BRANCH_LT", "BRANCH_GTE"), ("BRANCH_EQ", "BRANCH_NEQ", "BRANCH_GT")]
)
def test_regressors(modes: tuple[str, ...], aggregate: str) -> None:
    for seed in range(6):
        outputs = seed % 3 + 1
        attributes = Grown(seed, 1 + seed, outputs, modes).attributes("target")
        attributes |= {"n_targets": outputs, "aggregate_function": aggregate}
        if seed % 2:
            attributes["base_values"] = [0.5] * outputs
        alike(model("TreeEnsembleRegressor", attributes, [("y", TensorProto.FLOAT)]), rows(seed, seed % 3 == 0))


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("classes", [3, 4])
def test_classifiers(classes: int, post: str) -> None:
    for seed in range(6):
        attributes = Grown(seed, 2 + seed, classes, ("BRANCH_LEQ",)).attributes("class")
        attributes |= {"classlabels_int64s": list(range(10, 10 + classes)), "post_transform": post}
        proto = model("TreeEnsembleClassifier", attributes, [("label", TensorProto.INT64), ("p", TensorProto.FLOAT)])
        alike(proto, rows(seed, False))


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("positive", [False, True])
def test_two_classes_with_one_score(positive: bool, post: str) -> None:
    for seed in range(6):
        attributes = Grown(seed, 1 + seed, 1, ("BRANCH_LEQ",)).attributes("class")
        if positive:
            attributes["class_weights"] = [abs(w) / 8 for w in attributes["class_weights"]]
        attributes |= {
            "classlabels_int64s": [0, 1],
            "post_transform": post,
        }
        proto = model("TreeEnsembleClassifier", attributes, [("label", TensorProto.INT64), ("p", TensorProto.FLOAT)])
        alike(proto, rows(seed, False))


def test_compiled_forests_of_any_number_of_rows() -> None:
    attributes = Grown(3, 20, 2, ("BRANCH_LEQ",)).attributes("target") | {"n_targets": 2}
    proto = model("TreeEnsembleRegressor", attributes, [("y", TensorProto.FLOAT)])
    module, graph = minitvm.build(proto), from_onnx(proto)
    for count in (1, 9):
        x = rows(1, True)[:count]
        np.testing.assert_allclose(np.asarray(module(x)), interpreter.run(graph, {"x": x})[0], rtol=1e-6)


def test_labels_that_are_strings_are_refused() -> None:
    attributes = Grown(0, 2, 2, ("BRANCH_LEQ",)).attributes("class") | {"classlabels_strings": ["a", "b"]}
    proto = model("TreeEnsembleClassifier", attributes, [("label", TensorProto.STRING), ("p", TensorProto.FLOAT)])
    with pytest.raises(UnsupportedOperator, match="string"):
        from_onnx(proto)
