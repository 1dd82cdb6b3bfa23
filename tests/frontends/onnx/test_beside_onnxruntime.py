"""Operators that exporters write, beside what ONNX Runtime computes, with open sizes where that matters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import minitvm as tvm
from minitvm.errors import UnsupportedOperator
from minitvm.frontends import from_onnx
from minitvm.reference import graph as interpreter

ort = pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(0)
MS, ML = "com.microsoft", "ai.onnx.ml"
N = helper.make_node


def f(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values)


def proto(nodes: Sequence[onnx.NodeProto], feeds: dict[str, tuple[np.ndarray, Sequence[Any]]],
          constants: dict[str, np.ndarray], outputs: Sequence[str]) -> onnx.ModelProto:  # fmt: skip
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), dims)
        for name, (value, dims) in feeds.items()
    ]
    graph = helper.make_graph(
        list(nodes), "test", infos, [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )  # fmt: skip
    operators = {node.op_type for node in nodes}
    version = 20 if "AffineGrid" in operators else 16 if "LayerNormalization" in operators else 18
    ml = 4 if any(a.name == "keys_tensor" for node in nodes for a in node.attribute) else 3
    versions = [helper.make_opsetid(*v) for v in (("", version), (MS, 1), (ML, ml))]
    return helper.make_model(graph, opset_imports=versions, ir_version=10)


IMAGE = f(2, 3, 7, 9)
OPEN = ["n", 3, "h", "w"]
BOXES = np.array([[0, 0, 6, 5], [1.5, 2, 9, 8], [-3, -2, 4, 4]], np.float32)
ROWS = f(4, 3)
SIZES = {"classlabels_ints": [3, 5, 9], "coefficients": f(9).tolist(), "intercepts": f(3).tolist()}

# Nodes from x (and constants) to y; the array and its declared dimensions; constants; outputs.
CASES: dict[str, tuple[list[onnx.NodeProto], np.ndarray, Sequence[Any], dict[str, np.ndarray], list[str]]] = {
    "AveragePool, upper": (
        [N("AveragePool", ["x"], ["y"], kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_UPPER")],
        IMAGE, OPEN, {}, ["y"],
    ),
    "AveragePool, lower": (
        [N("AveragePool", ["x"], ["y"], kernel_shape=[2, 4], strides=[2, 3], auto_pad="SAME_LOWER")],
        IMAGE, OPEN, {}, ["y"],
    ),
    "ConvTranspose": (
        [N("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], auto_pad="SAME_UPPER")], IMAGE, OPEN,
        {"w": f(3, 2, 3, 3)}, ["y"],
    ),
    "ConvTranspose of a given size": (
        [N("ConvTranspose", ["x", "w"], ["y"], strides=[2, 3], output_shape=[13, 25])], IMAGE, OPEN,
        {"w": f(3, 2, 3, 4)}, ["y"],
    ),
    **{
        f"AffineGrid, align {align}": (
            [N("AffineGrid", ["x", "size"], ["y"], align_corners=align)], f(2, 2, 3), ["n", 2, 3],
            {"size": ints(2, 3, 4, 5)}, ["y"],
        )
        for align in (0, 1)
    },
    "AffineGrid of three axes and an open batch": (
        [N("Shape", ["x"], ["n"], end=1), N("Concat", ["n", "rest"], ["size"], axis=0),
         N("AffineGrid", ["x", "size"], ["y"])], f(1, 3, 4), ["n", 3, 4], {"rest": ints(3, 4, 2, 5)}, ["y"],
    ),
    "CenterCropPad": (
        [N("Shape", ["x"], ["s"]), N("Slice", ["s", "two", "three"], ["w"]), N("Concat", ["w", "w"], ["s2"], axis=0),
         N("CenterCropPad", ["x", "s2"], ["z"], axes=[-1, 2]), N("CenterCropPad", ["z", "odd"], ["y"], axes=[3, 0])],
        IMAGE, OPEN, {"two": ints(2), "three": ints(3), "odd": ints(4, 5)}, ["y"],
    ),
    "Expand by one row": (
        [N("Slice", ["x", "zero", "one"], ["r"]), N("Shape", ["r"], ["s"]), N("Expand", ["x", "s"], ["y"])],
        ROWS, ["n", 3], {"zero": ints(0), "one": ints(1)}, ["y"],
    ),
    "RoiAlign": (
        [N("RoiAlign", ["x", "boxes", "batch"], ["y"], output_height=2, output_width=3, sampling_ratio=2)], IMAGE, OPEN,
        {"boxes": BOXES, "batch": ints(0, 1, 0)}, ["y"],
    ),
    "RoiAlign, max": (
        [N("RoiAlign", ["x", "boxes", "batch"], ["y"], output_height=2, output_width=3, sampling_ratio=1, mode="max",
           coordinate_transformation_mode="output_half_pixel")], IMAGE, OPEN,
        {"boxes": BOXES, "batch": ints(0, 1, 0)}, ["y"],
    ),
    "split and concatenated": (
        [N("SplitToSequence", ["x", "sizes"], ["s"], axis=0), N("SequenceAt", ["s", "one"], ["a"]),
         N("SequenceErase", ["s", "one"], ["t"]), N("SequenceInsert", ["t", "a", "zero"], ["u"]),
         N("ConcatFromSequence", ["u"], ["y"], axis=0), N("SequenceLength", ["u"], ["l"])],
        ROWS, ["n", "m"], {"sizes": ints(1, 2, 1), "one": np.array(1), "zero": np.array(0)}, ["y", "l"],
    ),
    "entries stacked": (
        [N("SplitToSequence", ["x"], ["s"], axis=1, keepdims=0),
         N("ConcatFromSequence", ["s"], ["y"], axis=0, new_axis=1)],
        ROWS, ["n", 3], {}, ["y"],
    ),
    "parts of one size": (
        [N("SplitToSequence", ["x", "two"], ["s"], axis=1), N("SequenceAt", ["s", "last"], ["y"])],
        ROWS, ["n", 3], {"two": np.array(2), "last": np.array(-1)}, ["y"],
    ),
    "constructed": (
        [N("SequenceEmpty", [], ["e"]), N("SequenceConstruct", ["x", "x"], ["s"]),
         N("SequenceInsert", ["e", "x"], ["t"]),
         N("SequenceAt", ["t", "last"], ["a"]), N("SequenceInsert", ["s", "a"], ["u"]),
         N("ConcatFromSequence", ["u"], ["y"], axis=1)],
        ROWS, ["n", "m"], {"last": np.array(-1)}, ["y"],
    ),
    "LinearRegressor": (
        [N("LinearRegressor", ["x"], ["y"], domain=ML, targets=2, coefficients=f(6).tolist(), intercepts=[0.5, -1.0])],
        ROWS, ["n", 3], {}, ["y"],
    ),
    "LinearClassifier": (
        [N("LinearClassifier", ["x"], ["l", "y"], domain=ML, **SIZES, post_transform="SOFTMAX")], ROWS, ["n", 3], {},
        ["l", "y"],
    ),
    "LinearClassifier, logistic": (
        [N("LinearClassifier", ["x"], ["l", "y"], domain=ML, **SIZES, post_transform="LOGISTIC", multi_class=1)],
        ROWS, ["n", 3], {}, ["l", "y"],
    ),
    "Scaler": ([N("Scaler", ["x"], ["y"], domain=ML, offset=[1.0, 2.0, 0.0], scale=[0.5, 3.0, 1.0])],
        ROWS, ["n", 3], {}, ["y"]),
    "Scaler, one": ([N("Scaler", ["x"], ["y"], domain=ML, offset=[1.0], scale=[0.5])], ROWS, ["n", 3], {}, ["y"]),
    **{
        f"Normalizer, {norm}": (
            [N("Normalizer", ["x"], ["y"], domain=ML, norm=norm)], ROWS * np.array([[1], [1], [0], [-2]], np.float32),
            ["n", 3], {}, ["y"],
        )
        for norm in ("MAX", "L1", "L2")
    },
    **{
        f"SVMRegressor, {kind}": (
            [N("SVMRegressor", ["x"], ["y"], domain=ML, coefficients=f(5).tolist(), kernel_params=[0.3, 0.2, 3.0],
               kernel_type=kind, n_supports=5, rho=[0.3], support_vectors=f(15).tolist(), one_class=one_class)],
            ROWS, ["n", 3], {}, ["y"],
        )
        for one_class, kind in ((0, "LINEAR"), (0, "POLY"), (0, "RBF"), (0, "SIGMOID"), (1, "RBF"))
    },
    "SVMRegressor without vectors": (
        [N("SVMRegressor", ["x"], ["y"], domain=ML, coefficients=f(3).tolist(), kernel_params=[0.0, 0.0, 0.0],
           kernel_type="LINEAR", rho=[0.3])], ROWS, ["n", 3], {}, ["y"],
    ),
    "Imputer, NaN": (
        [N("Imputer", ["x"], ["y"], domain=ML, imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=np.nan)],
        np.where(ROWS > 0, ROWS, np.nan), ["n", 3], {}, ["y"],
    ),
    "Imputer, a number": (
        [N("Imputer", ["x"], ["y"], domain=ML, imputed_value_int64s=[7], replaced_value_int64=-1)],
        RNG.integers(-1, 2, (4, 3)), ["n", 3], {}, ["y"],
    ),
    "OneHotEncoder": (
        [N("OneHotEncoder", ["x"], ["y"], domain=ML, cats_int64s=[3, 0, 5])], RNG.integers(0, 6, (4, 2)), ["n", 2], {},
        ["y"],
    ),
    "OneHotEncoder of floats": (
        [N("OneHotEncoder", ["x"], ["y"], domain=ML, cats_int64s=[0, 1], zeros=1)], 2 * ROWS, ["n", 3], {}, ["y"],
    ),
    "FeatureVectorizer": (
        [N("FeatureVectorizer", ["x", "x", "x"], ["y"], domain=ML, inputdimensions=[3, 2, 5])],
        RNG.integers(-5, 5, (4, 3)), ["n", 3], {}, ["y"],
    ),
    "LabelEncoder of floats": (
        [N("LabelEncoder", ["x"], ["y"], domain=ML, keys_floats=[0.5, np.nan, 2.0], values_int64s=[7, 8, 9],
           default_int64=-3)], np.array([2, 0.5, np.nan, 1], np.float32), ["n"], {}, ["y"],
    ),
    "LabelEncoder, version 4": (
        [N("LabelEncoder", ["x"], ["y"], domain=ML, keys_tensor=numpy_helper.from_array(np.float32([0.5, np.nan])),
           values_tensor=numpy_helper.from_array(ints(7, 8)), default_tensor=numpy_helper.from_array(ints(-3)))],
        np.array([2, 0.5, np.nan, 1], np.float32), ["n"], {}, ["y"],
    ),
    "LabelEncoder of integers": (
        [N("LabelEncoder", ["x"], ["y"], domain=ML, keys_int64s=[4, 2, 4], values_floats=[0.5, 1.5, 2.5])],
        np.array([[4, 2], [3, 4]]), ["n", 2], {}, ["y"],
    ),
    "LayerNormalization of an old opset": (
        [N("LayerNormalization", ["x", "s"], ["y"])], ROWS, ["n", 3], {"s": f(3)}, ["y"],
    ),
    "contrib Range": (
        [N("Range", ["a", "b", "c"], ["r"], domain=MS), N("Add", ["x", "r"], ["y"])], ROWS, ["n", 3],
        {"a": np.float32(1), "b": np.float32(4), "c": np.float32(1)}, ["y"],
    ),
    "contrib ExpandDims": ([N("ExpandDims", ["x", "a"], ["y"], domain=MS)],
        ROWS, ["n", 3], {"a": np.array(-1, np.int32)}, ["y"]),
    "contrib Pad": (
        [N("Pad", ["x", "p", "v"], ["y"], domain=MS)], ROWS, ["n", 3], {"p": ints(0, 1, 2, 0), "v": f(1)}, ["y"],
    ),
    "contrib Trilu": ([N("Trilu", ["x", "k"], ["y"], domain=MS, upper=0)],
        ROWS, ["n", "m"], {"k": np.array(-1)}, ["y"]),
    "contrib GridSample": (
        [N("GridSample", ["x", "g"], ["y"], domain=MS, padding_mode="border")], IMAGE, [2, 3, "h", "w"],
        {"g": np.clip(f(2, 4, 5, 2), -1, 1)}, ["y"],
    ),
    "contrib Unique": (
        [N("Unique", ["x"], ["y", "i", "c"], domain=MS)],
        np.array([3, 1, 3, 2, 1], np.float32), ["n"], {}, ["y", "i", "c"],
    ),
    "contrib NhwcMaxPool": (
        [N("NhwcMaxPool", ["x"], ["y"], domain=MS, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 0])],
        RNG.integers(-99, 99, (1, 6, 5, 4)).astype(np.int8), [1, "h", "w", 4], {}, ["y"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_onnx_runtime_computes(name: str) -> None:
    nodes, x, dims, constants, outputs = CASES[name]
    model = proto(nodes, {"x": (x, dims)}, constants, outputs)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = interpreter.run(from_onnx(model), {"x": x})
    for a, b in zip(found, session.run(None, {"x": x}), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


SCALES = [0.3, 0.7, 1.0 / 3.0, 1.1, 1.2345678, 2.1, 2.3]


@pytest.mark.alike("rounding", "mode", most=2)
@pytest.mark.parametrize("mode", ["half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners"])
@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil", ""])
def test_resizing_by_any_scale(rounding: str, mode: str) -> None:
    """Lengths are products in float32, rounded down, and so are positions: 10 * 0.7 is 7, of which none is a tie."""
    attrs = {"mode": "nearest", "nearest_mode": rounding} if rounding else {"mode": "linear"}
    node = N("Resize", ["x", "", "scales"], ["y"], coordinate_transformation_mode=mode, axes=[0], **attrs)
    for scale in SCALES if rounding or mode != "align_corners" else [2.0]:  # ONNX Runtime rounds the length
        model = proto([node], {"x": (ROWS, ["n", 2])}, {"scales": np.array([scale], np.float32)}, ["y"])
        session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        graph = from_onnx(model)
        for length in (10, 20, 33):
            x = np.stack([np.arange(length), -np.arange(length)], 1).astype(np.float32)
            (wanted,) = session.run(None, {"x": x})
            at_size = from_onnx(model, shapes={"x": x.shape})
            for found in (interpreter.run(one, [x])[0] for one in (graph, at_size)):
                np.testing.assert_allclose(found, wanted, atol=1e-4 if not rounding else 0, err_msg=f"{scale} {length}")


@pytest.mark.parametrize("lengths", [(6, 14), (13, 7), (17, 33), (3, 7), (40, 43)])
def test_the_nearest_of_other_sizes(lengths: tuple[int, int]) -> None:
    """The scale is a quotient in float32."""
    nodes = [N("Shape", ["z"], ["s"]), N("Resize", ["x", "", "", "s"], ["y"], mode="nearest", nearest_mode="floor",
                                         coordinate_transformation_mode="asymmetric")]  # fmt: skip
    x, z = (np.stack([np.arange(n)] * 2).astype(np.float32) for n in lengths)
    model = proto(nodes, {"x": (x, [2, "n"]), "z": (z, [2, "m"])}, {}, ["y"])
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(interpreter.run(from_onnx(model), [x, z])[0], session.run(None, {"x": x, "z": z})[0])


ATTENTION: dict[str, dict[str, Any]] = {
    "window": {"local_window_size": 2},
    "cap": {"softcap": 0.7},
    "smooth": {"smooth_softmax": 1},
    "all": {"local_window_size": 3, "softcap": 1.5, "smooth_softmax": 1},
}


@pytest.mark.parametrize("length, before", [(1, 5), (4, 0)], ids=["token", "prompt"])
@pytest.mark.parametrize("name", [*ATTENTION, "sink"])
def test_attention_of_windows_caps_and_sinks(name: str, length: int, before: int) -> None:
    attrs = {"num_heads": 4, "kv_num_heads": 2, **ATTENTION.get(name, {})}
    inputs = ["x", "k", "v", "pk", "pv", "last", "total", *(["", "", "", "", "sink"] if name == "sink" else [])]
    node = N("GroupQueryAttention", inputs, ["y", "ck", "cv"], domain=MS, **attrs)
    arrays = {
        "x": f(1, length, 32),
        "k": f(1, length, 16),
        "v": f(1, length, 16),
        "pk": f(1, 2, 8, 8),
        "pv": f(1, 2, 8, 8),
    }
    places = {"last": np.array([before + length - 1], np.int32), "total": np.array([before + length], np.int32)}
    feeds = {**arrays, **places}
    model = proto([node], {k: (v, v.shape) for k, v in feeds.items()}, {"sink": f(4)}, ["y"])
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, feeds)
    np.testing.assert_allclose(interpreter.run(from_onnx(model), feeds)[0], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shared", [False, True], ids=["grows", "has room"])
def test_attention_with_a_past_of_open_length(shared: bool) -> None:
    """Rows of a batch may be of different lengths; the past is as long as the longest, or has room for more."""
    names = ["x", "k", "v", "pk", "pv", "last", "total"]
    node = N("GroupQueryAttention", names, ["y", "ck", "cv"], domain=MS, num_heads=4, kv_num_heads=2)
    dims = [["b", "s", 32], ["b", "s", 16], ["b", "s", 16], ["b", 2, "p", 8], ["b", 2, "p", 8], ["b"], []]
    graph = None
    for length, lasts in ((1, [5]), (1, [2, 6]), (3, [2])):
        batch, total = len(lasts), max(lasts) + 1
        past = 9 if shared else total - length
        arrays = [f(batch, length, 32), f(batch, length, 16), f(batch, length, 16), f(batch, 2, past, 8),
                  f(batch, 2, past, 8), np.array(lasts, np.int32), np.array(total, np.int32)]  # fmt: skip
        feeds = dict(zip(names, arrays, strict=True))
        model = proto([node], {k: (v, d) for (k, v), d in zip(feeds.items(), dims, strict=True)}, {}, ["y", "ck", "cv"])
        graph = from_onnx(model) if graph is None else graph
        session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        y, *caches = interpreter.run(graph, feeds)
        wanted, *others = session.run(None, feeds)
        np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5)
        for cache, other in zip(caches, others, strict=True):
            assert cache.shape == other.shape
            for row, last in enumerate(lasts):
                np.testing.assert_allclose(cache[row, :, : last + 1], other[row, :, : last + 1], rtol=1e-5)


def test_means_of_sums_that_are_normalised() -> None:
    """ONNX Runtime fills neither of these outputs on CPUs: here they are what the contract says."""
    node = N("SkipLayerNormalization", ["x", "x", "g"], ["y", "mean", "inverse"], domain=MS, epsilon=1e-5)
    graph = from_onnx(proto([node], {"x": (ROWS, ["n", 3])}, {"g": np.ones(3, np.float32)}, ["y", "mean", "inverse"]))
    y, mean, inverse = interpreter.run(graph, [ROWS])
    np.testing.assert_allclose((2 * ROWS - mean) * inverse, y, rtol=1e-5, atol=1e-6)


def test_compiled_sequences_leave_nothing_and_are_no_outputs() -> None:
    nodes, x, dims, constants, outputs = CASES["entries stacked"]
    module = tvm.build(proto(nodes, {"x": (x, dims)}, constants, outputs), threads=1)
    np.testing.assert_array_equal(module(x), x.T)
    with pytest.raises(UnsupportedOperator, match="a sequence of 3 tensors is wanted as a tensor s: a sequence is"):
        from_onnx(proto(nodes, {"x": (x, dims)}, constants, ["s"]))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("dtype", "columns"), [("int8", False), ("uint8", True)])
@pytest.mark.parametrize("ends", [False, True])
def test_an_lstm_of_bytes(direction: str, dtype: str, columns: bool, ends: bool) -> None:
    """The factors of the bytes are rounded to bytes, too: the sequence as a whole, the state in each step."""
    ways, hidden, size = 1 + (direction == "bidirectional"), 5, 3
    # On CPUs without VNNI ONNX Runtime's sums of two products saturate with signed weights of more than 7 bits.
    low, high = (-64, 63) if dtype == "int8" else (0, 255)
    scaled = (ways, 4 * hidden) if columns else (ways,)
    constants: dict[str, np.ndarray] = {}
    for name, depth in (("w", size), ("r", hidden)):
        constants[name] = RNG.integers(low, high + 1, (ways, depth, 4 * hidden)).astype(dtype)
        constants[f"{name}_scale"] = RNG.uniform(0.002, 0.004, scaled).astype(np.float32)
        constants[f"{name}_zero"] = np.full(scaled, 0 if dtype == "int8" else 128, dtype)
    bias = 0.1 * f(ways, 8 * hidden)
    x = f(6, 2, size)
    names = ["", "", "", ""]
    if ends:  # sequences of different lengths, first states, and peepholes
        names = ["lengths", "state", "memory", "peepholes"]
        constants |= {"lengths": np.array([6, 3], np.int32), "peepholes": 0.3 * f(ways, 3 * hidden)}
        constants |= {name: f(ways, 2, hidden) for name in ("state", "memory")}
    quantized = N(
        "DynamicQuantizeLSTM", ["x", "w", "r", "bias", *names, "w_scale", "w_zero", "r_scale", "r_zero"],
        ["y", "h", "c"], domain=MS, hidden_size=hidden, direction=direction,
    )  # fmt: skip
    model = proto([quantized], {"x": (x, x.shape)}, {**constants, "bias": bias}, ["y", "h", "c"])
    wanted = _by_runtime(model, x)
    module = tvm.build(model, threads=1)
    for found in (interpreter.run(from_onnx(model), [x]), module(x)):
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_an_lstm_whose_bytes_are_computed_is_refused() -> None:
    x, stored = f(6, 2, 3), np.zeros((1, 3, 20), np.int8)
    node = N(
        "DynamicQuantizeLSTM", ["x", "w", "r", "", "", "", "", "", "s", "z", "s", "z"], ["y"], domain=MS, hidden_size=5
    )
    constants = {"r": np.zeros((1, 5, 20), np.int8), "s": np.ones(1, np.float32), "z": np.zeros(1, np.int8)}
    model = proto([node], {"x": (x, x.shape), "w": (stored, stored.shape)}, constants, ["y"])
    with pytest.raises(UnsupportedOperator, match="weights, their scales and zero points are constants here"):
        from_onnx(model)


def _by_runtime(model: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1  # with more of them each quantises its own rows of a batch
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results: list[np.ndarray] = session.run(None, {"x": x})
    return results
