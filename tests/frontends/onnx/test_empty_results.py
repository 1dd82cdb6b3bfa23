"""Results without elements, of sizes that are known and open: valid models, whatever their operators would read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import minitvm
from minitvm.errors import InputError
from minitvm.frontends import from_onnx
from minitvm.reference import graph as interpreter

from .one_node import Seeded

onnxruntime = pytest.importorskip("onnxruntime")


def f(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


NONE, REPEATS = np.zeros(0, np.int64), np.array([1, 2, 3])
MODELS: dict[str, tuple[str, dict[str, np.ndarray], dict[str, Any], Sequence[str], int]] = {
    "NonZero": ("NonZero", {"x": f(3, 0, 2)}, {}, (), 1),
    "Hardmax": ("Hardmax", {"x": f(3, 0)}, {"axis": 0}, (), 1),
    "ArgMax": ("ArgMax", {"x": f(0, 4)}, {"axis": 1}, (), 1),
    "Tile": ("Tile", {"x": f(0, 0, 2), "repeats": REPEATS}, {}, ("repeats",), 1),
    "Gather": ("Gather", {"x": f(0, 8), "i": NONE}, {}, (), 1),
    "Reshape": ("Reshape", {"x": f(0, 1, 2, 0), "s": np.array([0, 0])}, {"allowzero": 1}, ("s",), 1),
    "Unique": ("Unique", {"x": f(0, 3)}, {}, (), 4),
    "Compress": ("Compress", {"x": f(0, 3), "c": np.zeros(0, bool)}, {"axis": 0}, (), 1),
}


@pytest.mark.parametrize("opened", [None, 0, (0, 1)])
@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_read(name: str, opened: Any) -> None:
    """One axis is open, and the other may be known to have no elements."""
    op, inputs, attrs, known, outputs = MODELS[name]
    node = Seeded(0).node(op, inputs, attrs, known=known, outputs=outputs)
    axes = {} if opened is None else {"x": [a % inputs["x"].ndim for a in np.atleast_1d(opened)]}
    model = node.model(axes)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, node.arrays)
    results = minitvm.build(model, threads=1)(**node.arrays)
    listed = list(results) if isinstance(results, list | tuple) else [results]
    for found in (interpreter.run(from_onnx(model), node.arrays), listed):
        assert [(np.shape(a), a.dtype) for a in found] == [(b.shape, b.dtype) for b in wanted]


def test_what_would_be_read_of_nothing_is_refused_in_a_run() -> None:
    """The number of indices is open: a run with some of them has nothing to gather."""
    node = helper.make_node("Gather", ["x", "i"], ["y"], name="from_nothing")
    infos = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [0, 3]),
             helper.make_tensor_value_info("i", onnx.TensorProto.INT64, ["k"])]  # fmt: skip
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name="y")])
    module = minitvm.build(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), threads=1)
    assert module(f(0, 3), NONE).shape == (0, 3)
    with pytest.raises(InputError, match="from_nothing.* does not take these sizes: k == 0 must hold"):
        module(f(0, 3), np.zeros(2, np.int64))


def test_values_of_open_length_are_two() -> None:
    node = Seeded(0).node("OneHot", {"i": np.array([0, 2, -1]), "d": np.array(4), "v": np.array([0, 2], np.float32)},
                          known=("d",))  # fmt: skip
    model = node.model({"v": [0]})
    wanted = np.eye(4, dtype=np.float32)[[0, 2, 3]] * 2
    np.testing.assert_array_equal(interpreter.run(from_onnx(model), node.arrays)[0], wanted)
    np.testing.assert_array_equal(minitvm.build(model, threads=1)(**node.arrays), wanted)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("opened", [{}, {"x": [2, 3]}])
def test_lp_pool_rounds_the_number_of_windows_up(p: int, opened: dict[str, list[int]]) -> None:
    x = np.random.default_rng(p).standard_normal((1, 2, 5, 7)).astype(np.float32)
    attrs = {"kernel_shape": [2, 3], "strides": [2, 3], "pads": [0, 1, 1, 0], "ceil_mode": 1, "p": p}
    model = Seeded(0).node("LpPool", {"x": x}, attrs).model(opened)
    (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(interpreter.run(from_onnx(model), [x])[0], wanted, rtol=1e-5)
    np.testing.assert_allclose(minitvm.build(model, threads=1)(x), wanted, rtol=1e-5)


@pytest.mark.parametrize("dims", [["a", "b", "c"], [2, "a", "b", "b"]])
def test_places_in_a_product_of_open_sizes(dims: list[Any]) -> None:
    """The product of three sizes of 31 bits is more than 64 bits hold; a tensor's number of elements is not."""
    x = np.ones((2, 3, 2, 2)[: len(dims)], np.float32)
    node = Seeded(0).node("NonZero", {"x": x})
    model = node.model({"x": [k for k, d in enumerate(dims) if isinstance(d, str)]})
    np.testing.assert_array_equal(minitvm.build(model, threads=1)(x), np.array(np.nonzero(x)))
