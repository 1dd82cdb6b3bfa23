"""Types of few bits as inputs, results and between nodes: int4, uint4, int2, uint2, float8 of four kinds, float4."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import minitvm
from minitvm.frontends.onnx import backend as onnx_backend

KINDS = {
    "int4": TensorProto.INT4, "uint4": TensorProto.UINT4, "float8_e4m3fn": TensorProto.FLOAT8E4M3FN,
    "float8_e4m3fnuz": TensorProto.FLOAT8E4M3FNUZ, "float8_e5m2": TensorProto.FLOAT8E5M2,
    "float8_e5m2fnuz": TensorProto.FLOAT8E5M2FNUZ, "float4_e2m1fn": TensorProto.FLOAT4E2M1,
}  # fmt: skip
FLOATS = [kind for kind in KINDS if kind.startswith("float8")]
CODES = {code: kind for kind, code in KINDS.items()}
OF = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "float64": TensorProto.DOUBLE,
      "int32": TensorProto.INT32, "uint8": TensorProto.UINT8}  # fmt: skip


def dtype(kind: str) -> Any:
    return np.dtype(getattr(ml_dtypes, kind, None) or kind)


def numbers(kind: str, *shape: int, seed: int = 0) -> np.ndarray:
    """Numbers of a type: halves between its neighbours, limits and more than that for a float."""
    rng = np.random.default_rng(seed)
    if kind.startswith(("int", "uint")):
        info = ml_dtypes.iinfo(dtype(kind))
        return rng.integers(int(info.min), int(info.max) + 1, shape).astype(dtype(kind))
    return (rng.standard_normal(shape) * 2.0 ** rng.integers(-20, 13, shape)).astype(dtype(kind))


def proto(nodes: Sequence[onnx.NodeProto], inputs: dict[str, np.ndarray], constants: dict[str, np.ndarray],
          result: int) -> onnx.ModelProto:  # fmt: skip
    code = helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        list(nodes), "few_bits",
        [helper.make_tensor_value_info(n, code(a.dtype), a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info("y", result, None)],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)


def assert_as_evaluated(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> None:
    (wanted,) = ReferenceEvaluator(model).run(None, inputs)
    (found,) = onnx_backend.run_model(model, list(inputs.values()))
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))
    zeros = wanted.astype(np.float32) == 0
    np.testing.assert_array_equal(
        np.signbit(found.astype(np.float32))[zeros], np.signbit(wanted.astype(np.float32))[zeros]
    )


@pytest.mark.parametrize("source", ["float32", "float16", "float64", "int32"])
@pytest.mark.parametrize("kind", KINDS)
def test_casts_to(kind: str, source: str) -> None:
    x = numbers(source, 300) if source != "int32" else np.arange(-150, 150, dtype=np.int32)
    if not kind.startswith("float"):
        x = np.clip(x, -1000, 1000)
    elif kind == "float4_e2m1fn" and source == "int32":
        x = np.abs(x)
    node = helper.make_node("Cast", ["x"], ["y"], to=KINDS[kind])
    assert_as_evaluated(proto([node], {"x": x}, {}, KINDS[kind]), {"x": x})


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("kind", FLOATS)
def test_numbers_beyond_the_largest(kind: str, saturate: int) -> None:
    largest = float(ml_dtypes.finfo(dtype(kind)).max)
    x = np.array([largest, largest * 1.03, largest * 1.0625, largest * 1.25, 1e9, np.inf, np.nan, 0, 1e-30], np.float32)
    x = np.concatenate([x, -x])
    node = helper.make_node("Cast", ["x"], ["y"], to=KINDS[kind], saturate=saturate)
    assert_as_evaluated(proto([node], {"x": x}, {}, KINDS[kind]), {"x": x})


@pytest.mark.parametrize("kind", KINDS)
def test_casts_from_inputs(kind: str) -> None:
    x = numbers(kind, 4, 9)
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)
    assert_as_evaluated(proto([node], {"x": x}, {}, TensorProto.FLOAT), {"x": x})


@pytest.mark.parametrize("kind", KINDS)
def test_cast_like_an_input_that_is_moved(kind: str) -> None:
    """The type reaches the cast through a Reshape and a Transpose."""
    x, like = numbers("float32", 2, 3, seed=3) % 7, numbers(kind, 2, 3)
    nodes = [helper.make_node("Reshape", ["like", "shape"], ["flat"]), helper.make_node("Identity", ["flat"], ["same"]),
             helper.make_node("CastLike", ["x", "same"], ["y"])]  # fmt: skip
    model = proto(nodes, {"x": x, "like": like}, {"shape": np.array([6])}, KINDS[kind])
    assert_as_evaluated(model, {"x": x, "like": like})


@pytest.mark.parametrize("shared", ["all", "axis", "blocks"])
@pytest.mark.parametrize("kind", ["int4", "uint4", *FLOATS])
def test_quantised_and_back(kind: str, shared: str) -> None:
    """By one scale, by one for each place of an axis, and in blocks; the data of both nodes are inputs."""
    scale_shape = {"all": (), "axis": (4,), "blocks": (2, 6)}[shared]
    attrs = {"all": {}, "axis": {"axis": 0}, "blocks": {"axis": 0, "block_size": 2}}[shared]
    scale = np.random.default_rng(1).choice(np.array([0.5, 2, 4], np.float32), scale_shape)
    zero = np.zeros(scale_shape, dtype(kind))
    x = np.asarray(numbers("float32", 4, 6), np.float32) % 99
    forth = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], **attrs)
    assert_as_evaluated(proto([forth], {"x": x, "s": scale}, {"z": zero}, KINDS[kind]), {"x": x, "s": scale})
    stored = numbers(kind, 4, 6)
    back = helper.make_node("DequantizeLinear", ["x", "s"], ["y"], **attrs)
    assert_as_evaluated(proto([back], {"x": stored, "s": scale}, {}, TensorProto.FLOAT), {"x": stored, "s": scale})


def test_a_module_takes_and_gives_what_holds_the_numbers() -> None:
    """A float8 comes as float16, an integer of four bits as a byte."""
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT4)
    model = proto([node], {"x": numbers("float8_e5m2", 3)}, {}, TensorProto.INT4)
    y = minitvm.build(model, threads=1)(np.array([1.75, -3, 9], np.float16))
    assert (y.dtype, y.tolist()) == (np.int8, [1, -3, -7])
