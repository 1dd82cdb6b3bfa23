"""Models that contradict themselves, and tensors without elements: each is an error that says so, or a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import minitvm
from minitvm.errors import InputError, MinitvmError, ModelError
from minitvm.graph import GraphBuilder
from minitvm.machines.scratchpad.strategy.convolution import tile_sizes
from minitvm.strategy.blocks import divisors


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def node(
    op: str, inputs: Sequence[Any], outputs: int = 1, opset: int = 18, dtype: int = TensorProto.FLOAT, **attrs: Any
) -> onnx.ModelProto:
    """A model of one node; an input is a shape, or an array, which is a constant."""
    names, results = [f"x{k}" for k in range(len(inputs))], [f"y{k}" for k in range(outputs)]
    free = [
        helper.make_tensor_value_info(name, dtype, one)
        for name, one in zip(names, inputs, strict=True)
        if not isinstance(one, np.ndarray)
    ]
    constants = [
        numpy_helper.from_array(one, name)
        for name, one in zip(names, inputs, strict=True)
        if isinstance(one, np.ndarray)
    ]
    graph = helper.make_graph(
        [helper.make_node(op, names, results, **attrs)],
        "model",
        free,
        [onnx.ValueInfoProto(name=name) for name in results],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


PICTURE, WEIGHT = [1, 3, 8, 8], [4, 3, 3, 3]
CONTRADICTIONS: Mapping[str, onnx.ModelProto] = {
    "a stride of 0": node("Conv", [PICTURE, WEIGHT], strides=[0, 0]),
    "a stride of 0 with automatic padding": node("Conv", [PICTURE, WEIGHT], strides=[0, 1], auto_pad="SAME_UPPER"),
    "a stride that is a float": node("Conv", [PICTURE, WEIGHT], strides=1.5),
    "a dilation of 0": node("Conv", [PICTURE, WEIGHT], dilations=[0, 1]),
    "no groups": node("Conv", [PICTURE, WEIGHT], group=0),
    "a pad for four": node("Conv", [PICTURE, WEIGHT], pads=[1]),
    "another kernel than the weight's": node("Conv", [PICTURE, WEIGHT], kernel_shape=[5, 5]),
    "a transposed convolution of another kernel": node("ConvTranspose", [PICTURE, [3, 4, 3, 3]], kernel_shape=[2, 2]),
    "a window of 0": node("MaxPool", [PICTURE], kernel_shape=[0, 0]),
    "blocks of 0": node("DepthToSpace", [[1, 4, 2, 2]], blocksize=0),
    "channels that are no blocks": node("DepthToSpace", [[1, 4, 2, 2]], blocksize=3),
    "pixels that are no blocks": node("SpaceToDepth", [[1, 4, 3, 2]], blocksize=2),
    "neighbours that are none": node("LRN", [PICTURE], size=0),
    "0 groups of channels": node("GroupNormalization", [[1, 4, 4], [4], [4]], opset=21, num_groups=0),
    "parts that are more than the whole": node("Split", [[4], ints(3, 3)], 2),
    "a part that is negative": node("Split", [[4], ints(5, -1)], 2),
    "pads for one side": node("Pad", [[3], ints(1)]),
    "-1 beside 0": node("Reshape", [[0, 4], ints(0, -1)]),
    "a range that never ends": node("Range", [np.array(0), np.array(3), np.array(0)]),
    "a range of petabytes": node("Range", [np.array(0), np.array(2**50), np.array(1)]),
    "a constant of terabytes": node("ConstantOfShape", [ints(2**40)]),
    "a result beyond any memory": node("Tile", [[3], ints(2**60)]),
    "more dimensions than arrays have": node("Relu", [[1] * 70]),
    "an input beyond any memory": node("Relu", [[2**62]]),
    "a cast to nothing": node("Cast", [[2]]),
    "an equation of two operands": node("Einsum", [[2, 3]], equation="ij,jk->ik"),
    "a shift to the top": node("BitShift", [[3], np.ones(3, np.uint32)], dtype=TensorProto.UINT32, direction="UP"),
    "a triangle of a line": node("Trilu", [[3]]),
    "a scale that is not a number": node("Resize", [PICTURE, np.ones(0, "f4"), np.array([1, 1, np.nan, 2], "f4")]),
    "a scale of 0": node("Resize", [PICTURE, np.ones(0, "f4"), np.array([1, 1, 0, 2], "f4")]),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_contradiction_is_reported_with_the_node(name: str) -> None:
    with pytest.raises(MinitvmError) as error:
        minitvm.lower(CONTRADICTIONS[name], stop_at="graph")
    assert CONTRADICTIONS[name].graph.node[0].op_type in str(error.value) or "x0" in str(error.value)


def test_an_initializer_fits_its_shape() -> None:
    for change in (b"", b"1234" * 7):
        model = node("Add", [[2], np.ones(2, np.float32)])
        model.graph.initializer[0].raw_data = change
        with pytest.raises(ModelError, match="initializer x1: its contents do not fit float32"):
            minitvm.lower(model, stop_at="graph")
    model.graph.initializer[0].dims[0] = -7
    with pytest.raises(ModelError, match="negative extent"):
        minitvm.lower(model, stop_at="graph")


@pytest.mark.parametrize(
    "op,attrs",
    [
        ("nn.conv2d", {"strides": 0}),
        ("nn.conv2d", {"dilation": (1, 0)}),
        ("nn.conv2d", {"groups": 0}),
        ("nn.conv2d_transpose", {"strides": (0, 1)}),
    ],
)
def test_a_graph_by_hand_is_asked_the_same(op: str, attrs: dict[str, Any]) -> None:
    b = GraphBuilder()
    x, w = b.input("x", (1, 3, 8, 8)), b.input("w", (3, 3, 3, 3))
    with pytest.raises(InputError, match="wanted an integer from 1"):
        b.op(op, x, w, **attrs)


def test_a_huge_picture_is_compiled_as_fast_as_a_small_one() -> None:
    """Choices enumerate divisors and tiles, not pixels."""
    model = node("Conv", [[1, 3, 2**31, 8], WEIGHT], pads=[1, 1, 1, 1])
    assert minitvm.lower(model, stop_at="schedule")


def test_divisors_and_sizes_of_tiles_by_definition() -> None:
    for n in range(1, 150):
        assert tile_sizes(n) == sorted({-(-n // k) for k in range(1, n + 1)})
        for limit in range(n + 2):
            expected = [d for d in range(min(n, max(limit, 1)), 0, -1) if n % d == 0]
            assert divisors(n, limit) == expected


Shape = tuple[int, ...]
EMPTY: Sequence[tuple[str, Sequence[Any], dict[str, Any], Shape]] = [
    ("MatMul", [[2, 3], [3, 0]], {}, (2, 0)),
    ("MatMul", [[16, 8], [8, 0]], {}, (16, 0)),
    ("MatMul", [[4, 0], [0, 5]], {}, (4, 5)),
    ("MatMul", [[7, 5, 3], [7, 3, 0]], {}, (7, 5, 0)),
    ("Gemm", [[0, 3], [3, 4], [4]], {}, (0, 4)),
    ("Gemm", [[8, 8], [8, 0], [1]], {}, (8, 0)),
    ("Conv", [[0, 3, 8, 8], WEIGHT], {}, (0, 4, 6, 6)),
    ("Conv", [PICTURE, [0, 3, 3, 3]], {}, (1, 0, 6, 6)),
    ("Expand", [[1, 3], ints(0, 3)], {}, (0, 3)),
    ("Expand", [[3], ints(2, 0, 3)], {}, (2, 0, 3)),
    ("Expand", [[0, 3], ints(1, 3)], {}, (0, 3)),
    ("Softmax", [[3, 0]], {"axis": 1}, (3, 0)),
    ("ReduceSum", [[2, 0], ints(1)], {}, (2, 1)),
]


@pytest.mark.parametrize("op,inputs,attrs,shape", EMPTY)
def test_tensors_without_elements(
    op: str, inputs: Sequence[Any], attrs: dict[str, Any], shape: tuple[int, ...]
) -> None:
    module = minitvm.build(node(op, inputs, **attrs))
    result = module(*(np.ones(one, np.float32) for one in inputs if not isinstance(one, np.ndarray)))
    assert result.shape == shape
    assert np.array_equal(result, np.zeros(shape))  # sums of nothing
