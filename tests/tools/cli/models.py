"""Small ONNX models for the tests of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save


def tiny(path: Path, batch: int | str = 2, op: str = "Relu") -> Path:
    """`y = op(x @ w + b)` with x: float32[batch, 8] and y: float32[batch, 4]."""
    generator = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(generator.standard_normal((8, 4)).astype("float32"), "w"),
        numpy_helper.from_array(np.arange(4, dtype="float32"), "b"),
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["a"]),
        helper.make_node(op, ["a"], ["y"]),
    ]
    shape: list[Any] = [batch, 8]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 4])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model)
    save(model, str(path))
    return path


def open_determinant(path: Path, columns: int = 8) -> Path:
    """A determinant of n rows: the terms of a known size are written while the model is read."""
    node = helper.make_node("Det", ["x"], ["y"])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", columns])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [])
    save(helper.make_model(helper.make_graph([node], "det", [x], [y])), str(path))
    return path


def reference(x: np.ndarray) -> np.ndarray:
    """What `tiny` computes with Relu."""
    weight = np.random.default_rng(0).standard_normal((8, 4)).astype("float32")
    return np.maximum(x @ weight + np.arange(4, dtype="float32"), 0)
