"""Exported operators mean in ONNX Runtime, and after import here, what the graph interpreter says."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.errors import UnsupportedOperator
from minitvm.expr import SizeVar
from minitvm.frontends.onnx import from_onnx
from minitvm.frontends.onnx.export.to_onnx import OPSET, exports, to_onnx
from minitvm.graph import Graph, GraphBuilder
from minitvm.graph.nodes import LOOP
from minitvm.reference import graph as reference
from minitvm.tools import models
from tests.fewer import examples
from tests.frontends.onnx.shape_arithmetic import shape_arithmetics

onnxruntime = pytest.importorskip("onnxruntime")

COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
LOGICAL = ("logical_and", "logical_or", "logical_xor")
IMAGE, ROWS = (2, 4, 9, 7), (3, 6)
# operator -> input shapes and attributes, several where they change what is written; of the attributes, "positive" is
# for all inputs, "opset" for the model, and "whole" has the dtype of some, the number below which their elements are,
# and the least one (0)
CASES: dict[str, list[tuple[list[tuple[int, ...]], dict[str, Any]]]] = {
    **{name: [([ROWS, (6,)], {})] for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum")},
    **{
        name: [([ROWS], {})]
        for name in (
            *("abs", "acos", "asin", "asinh", "atan", "atanh", "copy", "cos", "cosh", "erf", "exp", "isinf", "isnan"),
            *("negative", "reciprocal", "round", "sigmoid", "sin", "sinh", "tan", "tanh"),
            *("nn.hard_swish", "nn.relu", "nn.selu", "nn.silu", "nn.softplus", "nn.softsign"),
        )
    },
    "acosh": [([ROWS], {"positive": True})],
    "nn.mish": [([ROWS], {"opset": 18})],
    **{name: [([ROWS], {"alpha": 0.3})] for name in ("nn.celu", "nn.elu", "nn.thresholded_relu")},
    "nn.shrink": [([ROWS], {"lambd": 0.4, "bias": 0.1})],
    "nn.instance_norm": [([IMAGE, (4,), (4,)], {"epsilon": 1e-3})],
    **{
        name: [([ROWS, (6,)], {"opset": 18, "whole": {0: ("int32", 99), 1: ("int32", 99)}})]
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
    },
    "bitwise_not": [([ROWS], {"opset": 18, "whole": {0: ("int32", 99)}})],
    "nn.depth_to_space": [([(2, 8, 3, 2)], {"block_size": 2, "mode": mode}) for mode in ("DCR", "CRD")],
    "nn.space_to_depth": [([(2, 2, 6, 4)], {"block_size": 2})],
    **{name: [([ROWS], {"positive": True})] for name in ("sqrt", "log")},
    "power": [([ROWS, (6,)], {"positive": True})],
    "nn.matmul": [([(2, 3, 4), (4, 5)], {})],
    "nn.global_avg_pool": [([IMAGE], {})],
    "nn.global_max_pool": [([IMAGE], {})],
    "nn.conv1d": [([(1, 4, 9), (6, 2, 3)], {"groups": 2, "padding": 1})],
    "nn.conv2d": [
        ([IMAGE, (6, 4, 3, 3)], {"padding": (1, 0, 2, 1), "strides": 2}),
        ([IMAGE, (4, 1, 3, 1)], {"groups": 4, "dilation": (2, 1), "padding": (1, 0)}),
    ],
    "nn.conv3d": [([(1, 2, 4, 5, 6), (3, 2, 2, 3, 1)], {"padding": (1, 1, 0)})],
    "nn.max_pool1d": [([(1, 4, 9)], {"pool_size": 3, "strides": 2})],
    "nn.max_pool2d": [([IMAGE], {"pool_size": (3, 2), "strides": 2, "padding": 1, "ceil_mode": True})],
    "nn.max_pool3d": [([(1, 2, 4, 5, 6)], {"pool_size": 2, "dilation": 2})],
    "nn.avg_pool1d": [([(1, 4, 9)], {"pool_size": 3, "padding": 1})],
    "nn.avg_pool2d": [
        ([IMAGE], {"pool_size": 3, "padding": 1, "count_include_pad": included}) for included in (False, True)
    ],
    "nn.avg_pool3d": [([(1, 2, 4, 5, 6)], {"pool_size": 2, "strides": 2})],
    "nn.batch_norm": [([IMAGE, (4,), (4,), (4,), (4,)], {"epsilon": 1e-3, "positive": True})],
    "nn.bias_add": [([IMAGE, (4,)], {}), ([IMAGE, (7,)], {"axis": -1})],
    "nn.dense": [([ROWS, (5, 6)], {}), ([(2, 3, 6), (5, 6)], {})],
    "concatenate": [([(2, 3), (2, 4), (2, 1)], {"axis": -1})],
    "nn.softmax": [([IMAGE], {"axis": 1})],
    "nn.log_softmax": [([ROWS], {})],
    "transpose": [([IMAGE], {"axes": (0, 2, 3, 1)}), ([ROWS], {})],
    "reshape": [([IMAGE], {"newshape": (2, -1)})],
    "squeeze": [([(2, 1, 3)], {"axis": 1})],
    "expand_dims": [([ROWS], {"axis": 1})],
    "nn.batch_flatten": [([IMAGE], {})],
    "clip": [([ROWS], {"a_min": -0.5, "a_max": 0.25})],
    "nn.hard_sigmoid": [([ROWS], {"alpha": 1 / 6})],
    "nn.leaky_relu": [([ROWS], {"alpha": 0.1})],
    "nn.gelu": [([ROWS], {"approximate": form}) for form in ("none", "tanh")],
    "nn.layer_norm": [([ROWS, (6,), (6,)], {"epsilon": 1e-3}), ([(2, 3, 4), (3, 4), (3, 4)], {"axis": (1, 2)})],
    "nn.rms_norm": [([ROWS, (6,)], {"epsilon": 1e-3}), ([(2, 3, 4), (3, 4)], {"axis": (-2, -1)})],
    **{
        name: [
            ([IMAGE], {"axis": (1, -1), "keepdims": True}),
            ([ROWS], {}),
            ([ROWS], {"axis": ()}),
            ([ROWS], {"axis": (), "keepdims": True, "opset": 18}),
        ]
        for name in ("mean", "sum", "max", "min", "prod", "l1", "l2", "logsumexp", "sum_square")
    },
    "log_sum": [([ROWS], {"axis": 1, "positive": True}), ([ROWS], {"opset": 18, "positive": True})],
    "split": [([IMAGE], {"indices_or_sections": 2, "axis": -3}), ([IMAGE], {"indices_or_sections": (2, 5), "axis": 2})],
    "strided_slice": [
        ([IMAGE], {"begin": (0, 1), "end": (2, 4), "strides": (1, 2)}),
        ([IMAGE], {"begin": (-1, 2), "end": (1, 7), "strides": (-2, 3), "axes": (2, 3)}),
    ],
    "take": [([IMAGE, (2, 3)], {"axis": 1, "whole": {1: ("int64", 4)}}), ([ROWS, (5,)], {"whole": {1: ("int32", 18)}})],
    "broadcast_to": [
        (
            [
                (3, 1),
            ],
            {"shape": (2, 3, 4)},
        )
    ],
    "cast": [([ROWS], {"dtype": dtype}) for dtype in ("int32", "float64", "bool")],
    "where": [([ROWS, ROWS, (6,)], {"whole": {0: ("bool", 2)}})],
    "nn.pad": [
        ([IMAGE], {"pad_width": ((0, 0), (0, 1), (2, 0), (1, 3)), "pad_mode": mode, "pad_value": 0.5})
        for mode in ("constant", "edge", "reflect")
    ],
    "nn.conv2d_transpose": [
        ([IMAGE, (4, 3, 2, 3)], {"strides": 2, "padding": (0, 1), "output_padding": (1, 0), "groups": 2}),
    ],
    "nn.conv1d_transpose": [([(2, 4, 9), (4, 3, 3)], {"strides": 2, "padding": 1})],
    "nn.conv3d_transpose": [([(1, 2, 3, 4, 5), (2, 3, 2, 2, 2)], {"strides": (1, 2, 1)})],
    "gather": [([IMAGE, (2, 3, 9, 7)], {"axis": 1, "whole": {1: ("int64", 4)}})],
    "gather_nd": [
        ([IMAGE, (3, 2)], {"whole": {1: ("int64", 2)}}),
        ([IMAGE, (2, 5, 2)], {"batch_dims": 1, "whole": {1: ("int64", 4)}}),
    ],
    "scatter_elements": [
        ([ROWS, (1, 6), (1, 6)], {"axis": 0, "reduction": reduction, "whole": {1: ("int64", 3)}})
        for reduction in ("none", "add", "mul")
    ],
    "scatter_nd": [
        ([ROWS, (1, 1), (1, 6)], {"reduction": reduction, "opset": 18, "whole": {1: ("int64", 3)}})
        for reduction in ("none", "add", "max")
    ],
    **{
        name: [([IMAGE], {"axis": 1, "keepdims": True}), ([ROWS], {"axis": (-1,), "select_last_index": True})]
        for name in ("argmax", "argmin")
    },
    "cumsum": [([IMAGE], {"axis": 2, "exclusive": True}), ([ROWS], {"axis": -1, "reverse": True})],
    "topk": [([ROWS], {"k": 3}), ([ROWS], {"k": 2, "axis": 0, "is_ascend": True})],
    "tile": [([ROWS], {"reps": (2, 3)}), ([IMAGE], {"reps": (2, 1)})],
    "einsum": [([(2, 3, 4), (4, 5)], {"equation": "abc,cd->adb"})],
    "elementwise_sum": [([ROWS, (6,), (3, 1)], {})],
    "rsqrt": [([ROWS], {"positive": True})],
    "nn.prelu": [([IMAGE, (4,)], {}), ([ROWS, (6,)], {"axis": -1})],
    "nn.dropout": [([ROWS], {"rate": 0.3})],
    "mod": [([ROWS, (6,)], {}), ([ROWS, (6,)], {"whole": {0: ("int64", 9, -9), 1: ("int64", 4, 1)}})],
    "nn.batch_matmul": [
        ([(2, 3, 4), (2, 5, 4)], {}),
        ([(2, 4, 3), (1, 4, 5)], {"transpose_a": True, "transpose_b": False}),
    ],
    "image.resize": [
        ([IMAGE], {"size": (2, 4, 18, 10), "method": "nearest_neighbor", "rounding_method": rounding})
        for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    ]
    + [
        ([IMAGE], {"size": (2, 4, 13, 5), "method": method, "coordinate_transformation_mode": mode})
        for method in ("linear", "cubic")
        for mode in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
    ]
    + [([IMAGE], {"size": (2, 4, 13, 10), "scales": (1.0, 1.0, 1.5, 1.5)})],
    "qnn.quantize": [
        (
            [(2, 4, 3), (4,), (4,)],
            {"axis": 1, "out_dtype": "uint8", "positive": True, "whole": {2: ("uint8", 200)}},
        ),
        ([(2, 4, 3), (4,), (4,)], {"axis": 1, "positive": True, "whole": {2: ("int8", 100)}}),
    ],
    "qnn.dequantize": [
        ([(2, 4, 3), (4,), (4,)], {"axis": 1, "whole": {0: ("int8", 100), 2: ("int8", 100)}}),
    ],
    "qnn.lookup": [([ROWS, (256,)], {"whole": {0: (dtype, 100), 1: ("uint8", 200)}}) for dtype in ("int8", "uint8")],
    "nn.rnn": [
        ([(3, 2, 1, 4), (1, 4, 4), (1, 2, 4)], {"activations": ("elu",), "alpha": (0.7,), "direction": "reverse"})
    ],
    "nn.gru": [
        ([(3, 2, 2, 12), (2, 4, 12), (2, 2, 4)], {"direction": "bidirectional"}),
        ([(3, 2, 1, 12), (1, 4, 12), (1, 2, 4), (1, 4)], {"linear_before_reset": True, "clip": 0.5}),
    ],
    "nn.lstm": [
        (
            [(3, 2, 2, 16), (2, 4, 16), (2, 2, 4), (2, 2, 4), (2, 12)],
            {"direction": "bidirectional", "peepholes": True, "activations": ("hard_sigmoid", "tanh", "softsign")},
        ),
        (
            [(3, 2, 1, 16), (1, 4, 16), (1, 2, 4), (1, 2, 4), (2,)],
            {"lengths": True, "input_forget": True, "whole": {4: ("int64", 4)}},
        ),
    ],
    "argwhere": [([ROWS], {"whole": {0: ("int64", 2)}}), ([(5,)], {"whole": {0: ("bool", 2)}})],
    "unique": [
        ([(9,)], {"whole": {0: ("int64", 4)}}),
        ([(9,)], {"whole": {0: ("float32", 4)}, "sorted": False}),
        ([(7, 2)], {"whole": {0: ("float32", 2)}}),
    ],
    "vision.all_class_non_max_suppression": [
        (
            [(2, 6, 4), (2, 3, 6), (1,), (1,), (1,)],
            {
                "most": 3,
                "box_format": form,
                "positive": True,
                "whole": {2: ("int64", 5), 3: ("float32", 1), 4: ("float32", 2)},
            },
        )
        for form in ("corner", "center")
    ],
    "bind_size": [([()], {"size": SizeVar("n"), "most": 4, "whole": {0: ("int64", 4)}})],
    "leading": [([ROWS], {"size": 2}), ([ROWS], {"size": 0, "axis": 1})],
    "shape_to_tensor": [([], {"values": (3, 4, 5, 6), "shape": (2, 2), "dtype": "int32"})],
    "shape_of": [([IMAGE], {"dtype": "int64"})],
    "arange": [
        ([], {"start": 1, "stop": 3.2, "step": 0.5, "dtype": "float32"}),
        ([], {"start": 9, "stop": -4, "step": -3}),
    ],
    "reverse": [([IMAGE], {"axis": (1, -1)}), ([ROWS], {})],
    "floor_mod": [([ROWS, (6,)], {"whole": {0: ("int64", 9), 1: ("int64", 4, 1)}})],
    "full": [([], {"shape": (2, 3), "fill_value": 2.5, "dtype": "float32"})],
    "stack": [([ROWS, ROWS], {"axis": -1}), ([ROWS, ROWS, ROWS], {"axis": 0})],
    "nn.cache_update": [([(1, 5, 3), (1, 2, 3), (1,)], {"axis": 1, "whole": {2: ("int64", 4)}})],
    **{name: [([ROWS, (6,)], {"whole": {0: ("int64", 3), 1: ("int64", 3)}})] for name in COMPARISONS},
    **{name: [([ROWS, (6,)], {"whole": {0: ("bool", 2), 1: ("bool", 2)}})] for name in LOGICAL},
    "logical_not": [([ROWS], {"whole": {0: ("bool", 2)}})],
    **{name: [([ROWS], {})] for name in ("floor", "ceil", "sign")},
    "nn.lrn": [([IMAGE], {"size": 3, "bias": 1.5, "alpha": 0.1, "beta": 0.7})],
}


def _made(op: str, shapes: list[tuple[int, ...]], attrs: dict[str, Any]) -> tuple[Graph, dict[str, np.ndarray]]:
    settings = dict(attrs)
    positive = settings.pop("positive", False)
    settings.pop("opset", None)
    rng = np.random.default_rng(0)
    b = GraphBuilder()
    whole = settings.pop("whole", {})
    inputs = [b.input(f"x{k}", shape, whole.get(k, ("float32",))[0]) for k, shape in enumerate(shapes)]
    arrays = {v.name: rng.standard_normal(s).astype(np.float32) for v, s in zip(inputs, shapes, strict=True)}
    if positive:
        arrays = {name: np.abs(array) + np.float32(0.5) for name, array in arrays.items()}
    for k, (dtype, below, *least) in whole.items():
        arrays[f"x{k}"] = rng.integers(least[0] if least else 0, below, shapes[k]).astype(dtype)
    return b.build(b.op(op, *inputs, **settings)), arrays


def test_every_export_has_its_case() -> None:
    assert sorted(exports()) == sorted([*CASES, LOOP])  # which has tests of its own


@pytest.mark.parametrize(
    ("op", "shapes", "attrs"), [(op, *case) for op, cases in CASES.items() for case in cases], ids=lambda v: str(v)[:40]
)
def test_exported_operators_mean_the_same(op: str, shapes: list[tuple[int, ...]], attrs: dict[str, Any]) -> None:
    graph, arrays = _made(op, shapes, attrs)
    expected = reference.run(graph, arrays)
    model = to_onnx(graph, attrs.get("opset", OPSET))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for results in (session.run(None, arrays), reference.run(from_onnx(model), arrays)):
        for result, value in zip(results, expected, strict=True):
            assert result.dtype == value.dtype
            np.testing.assert_allclose(result, value, rtol=1e-4, atol=1e-5)


def test_results_that_data_count_are_written_without_the_zeros_behind_them() -> None:
    b = GraphBuilder()
    x, n = b.input("x", (2, 4)), SizeVar("n")
    places, count = b.op("argwhere", x)
    b.op("bind_size", count, size=n, most=8)
    columns = b.op("leading", b.op("transpose", x), size=n)
    graph = b.build([b.op("leading", places, size=n), b.op("nn.relu", columns), places])
    data = np.array([[0, 2, 0, 0], [-1, 0, 3, 0]], np.float32)
    model = to_onnx(graph)
    assert [node.op_type for node in model.graph.node].count("Slice") == 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for found in (session.run(None, {"x": data}), reference.run(from_onnx(model), {"x": data})):
        for result, value in zip(found, reference.run(graph, {"x": data}), strict=True):
            np.testing.assert_array_equal(result, value)


def test_names_open_dimensions_and_odd_outputs_are_kept() -> None:
    b = GraphBuilder("net")
    x = b.input("picture", (SizeVar("n"), 3))
    weight = b.constant(np.ones((4, 3), np.float32))
    y = b.op("nn.relu", b.op("nn.dense", x, weight), name="answer")
    model = to_onnx(b.build([y, x, weight, y]))
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "n"
    assert model.graph.output[0].name == "answer"
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    data = np.full((5, 3), 2, np.float32)
    first, second, third, again = session.run(None, {"picture": data})
    assert (first == 6).all()
    np.testing.assert_array_equal(again, first)
    np.testing.assert_array_equal(second, data)
    assert third.shape == (4, 3)
    onnx.checker.check_model(model, full_check=True)


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "message"),
    [
        ("atan2", [ROWS, ROWS], {}, "no ONNX operator is known for atan2"),
        (
            "image.resize",
            [ROWS],
            {"size": (1, 6), "scales": (0.6, 1.0), "coordinate_transformation_mode": "align_corners"},
            "programs differ in the corners",
        ),
        ("topk", [ROWS], {"k": 2, "dtype": "int32"}, "ONNX's indices are int64, found int32"),
        ("argmax", [ROWS], {}, "ONNX wants one axis and int64, found None and int64"),
        ("tile", [ROWS], {"reps": (2, 1, 1)}, "ONNX adds no axes"),
        ("scatter_nd", [ROWS, (1, 1), (1, 6)], {"reduction": "max", "whole": {1: ("int64", 3)}}, "no reduction max"),
        (
            "image.resize",
            [ROWS],
            {"size": (3, 6), "coordinate_transformation_mode": "half_pixel_symmetric"},
            "no mode half_pixel_symmetric in opset 17",
        ),
        ("nn.matmul", [(3, 4), (5, 4)], {"transpose_b": True}, "does not transpose"),
        ("nn.batch_norm", [(2, 4), (2,), (2,), (2,), (2,)], {"axis": 0}, "the channels on axis 1"),
        ("nn.lrn", [IMAGE], {"axis": 2}, "the channels on axis 1"),
        ("nn.layer_norm", [IMAGE, (4,), (4,)], {"axis": 1}, "over the last axes"),
        ("nn.pad", [ROWS], {"pad_width": ((1, 1), (0, 0)), "pad_mode": "wrap"}, "no wrapping pad"),
        ("nn.avg_pool2d", [IMAGE], {"pool_size": 2, "dilation": 2}, "no dilated average pooling"),
        ("nn.mish", [ROWS], {}, "ONNX has no Mish in opset 17\n  try:    to_onnx\\(graph, opset=...\\)"),
        ("floor", [ROWS], {"whole": {0: ("int32", 9)}}, "floor: ONNX's Floor of opset 17 takes no int32"),
        ("nn.instance_norm", [IMAGE, (7,), (7,)], {"axis": 3}, "ONNX's InstanceNormalization has no axis, found 3"),
    ],
)
def test_what_onnx_cannot_say_is_refused(
    op: str, shapes: list[tuple[int, ...]], attrs: dict[str, Any], message: str
) -> None:
    graph, _ = _made(op, shapes, attrs)
    with pytest.raises(UnsupportedOperator, match=message):
        to_onnx(graph)


def test_the_product_in_front_of_a_recurrent_layer_becomes_its_weights() -> None:
    model = to_onnx(models.lstm_tagger(shape=(2, 5), width=12, hidden=10, vocabulary=50))
    layer = next(node for node in model.graph.node if node.op_type == "LSTM")
    shapes = {weight.name: list(weight.dims) for weight in model.graph.initializer}
    assert [shapes[name] for name in layer.input[1:4] if name in shapes] == [[2, 40, 12], [2, 80]]
    assert sum(len(shape) == 2 and shape[1] == 12 for shape in shapes.values()) == 1  # the table of words: W is no more


@given(proto=shape_arithmetics(), shape=st.tuples(*[st.integers(1, 13)] * 3))
@examples(20, 60)
def test_arithmetic_on_open_dimensions_leaves_as_it_came(proto: onnx.ModelProto, shape: tuple[int, int, int]) -> None:
    x = np.zeros(shape, np.float32)
    graph = from_onnx(proto)
    model = to_onnx(graph)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for found in (session.run(None, {"x": x}), reference.run(from_onnx(model), {"x": x})):
        for result, value in zip(found, reference.run(graph, {"x": x}), strict=True):
            np.testing.assert_array_equal(result, value)


def test_dimensions_without_elements_are_no_copies_of_the_inputs() -> None:
    b = GraphBuilder("empty")
    n = SizeVar("n")
    graph = b.build(b.op("expand_dims", b.input("x", (n, 3)), axis=1))
    session = onnxruntime.InferenceSession(to_onnx(graph).SerializeToString(), providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": np.zeros((0, 3), "float32")})[0].shape == (0, 1, 3)
    b = GraphBuilder("both")
    graph = b.build(b.op("reshape", b.input("x", (0, 4)), newshape=(4, 0), allowzero=True))
    session = onnxruntime.InferenceSession(to_onnx(graph).SerializeToString(), providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": np.zeros((0, 4), "float32")})[0].shape == (4, 0)
