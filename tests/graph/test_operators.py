"""Every operator: its te against its NumPy meaning in the interpreter, inferred types against actual ones, its fold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minitvm.graph import GraphBuilder, registry, verify_graph
from minitvm.reference import graph as interpreter

from .graphs import by_te

RNG = np.random.default_rng(0)
Case = tuple[list[np.ndarray], dict[str, Any]]


def f(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def p(*shape: int) -> np.ndarray:
    return (np.abs(f(*shape)) + 1.1).astype("float32")


def i(low: int, high: int, *shape: int) -> np.ndarray:
    return RNG.integers(low, high, shape)


CASES: dict[str, list[Case]] = {
    "cast": [([f(3)], {"dtype": "int32"}), ([i(0, 2, 3)], {"dtype": "bool"})],
    "clip": [([f(9)], {"a_min": -0.5, "a_max": 0.5}), ([f(9)], {"a_max": 0.0})],
    "nn.gelu": [([f(9)], {}), ([f(9)], {"approximate": "tanh"})],
    "where": [([np.array([True, False]), f(3, 2), f(2)], {})],
    "nn.bias_add": [([f(2, 3, 4), f(3)], {}), ([f(2, 3), f(3)], {"axis": -1})],
    "nn.prelu": [([f(2, 3, 4), f(3)], {})],
    "elementwise_sum": [([f(3, 1), f(4), f(3, 4)], {})],
    "broadcast_to": [([f(3, 1)], {"shape": (2, 3, 4)})],
    "full": [([], {"shape": (2, 3), "fill_value": 1.5})],
    "arange": [([], {"start": 2, "stop": 9, "step": 3}), ([], {"start": 5, "stop": 0, "step": -2})],
    "nn.conv1d": [([f(2, 4, 9), f(6, 2, 3)], {"groups": 2, "padding": (1, 2)})],
    "nn.conv2d": [([f(1, 3, 7, 6), f(4, 3, 3, 2)], {"strides": (2, 1), "padding": 1, "dilation": (1, 2)}),
                  ([f(1, 4, 5, 5), f(8, 1, 3, 3)], {"groups": 4})],
    "nn.conv3d": [([f(1, 2, 4, 5, 4), f(3, 2, 2, 3, 1)], {"strides": 2})],
    "nn.conv1d_transpose": [([f(1, 3, 5), f(3, 2, 3)], {"strides": 2, "output_padding": 1})],
    "nn.conv2d_transpose": [([f(1, 4, 3, 4), f(4, 2, 3, 2)], {"strides": (2, 3), "padding": (1, 0), "groups": 2})],
    "nn.conv3d_transpose": [([f(1, 2, 2, 3, 2), f(2, 3, 2, 2, 2)], {"strides": 2})],
    "nn.dense": [([f(2, 3, 4), f(5, 4)], {})],
    "nn.matmul": [([f(2, 1, 3, 4), f(3, 4, 5)], {}), ([f(4, 3), f(5, 4)], {"transpose_a": True, "transpose_b": True})],
    "nn.batch_matmul": [([f(2, 3, 4), f(2, 5, 4)], {})],
    "einsum": [([f(2, 3), f(3, 4)], {"equation": "ij,jk->ki"})],
    "nn.max_pool1d": [([f(1, 2, 9)], {"pool_size": 3, "strides": 2, "padding": 1})],
    "nn.max_pool2d": [([f(1, 2, 7, 8)], {"pool_size": (3, 2), "strides": 2, "ceil_mode": True, "padding": 1})],
    "nn.max_pool3d": [([f(1, 2, 4, 5, 4)], {"pool_size": 2})],
    "nn.avg_pool1d": [([f(1, 2, 9)], {"pool_size": 3, "strides": 2, "padding": 1})],
    "nn.avg_pool2d": [([f(1, 2, 7, 8)], {"pool_size": (3, 2), "strides": 2, "ceil_mode": True, "padding": 1}),
                      ([f(1, 2, 7, 8)], {"pool_size": 3, "padding": 1, "count_include_pad": True, "strides": 3})],
    "nn.avg_pool3d": [([f(1, 2, 4, 5, 4)], {"pool_size": 2})],
    "nn.global_avg_pool": [([f(2, 3, 4, 5)], {})],
    "nn.global_max_pool": [([f(2, 3, 4)], {})],
    "nn.batch_norm": [([f(2, 3, 4), f(3), f(3), f(3), p(3)], {})],
    "nn.layer_norm": [([f(2, 3, 4), f(3, 4), f(3, 4)], {"axis": (1, 2)}), ([f(2, 4), f(4)], {})],
    "nn.rms_norm": [([f(2, 4), f(4)], {})],
    "nn.instance_norm": [([f(2, 3, 4), f(3), f(3)], {})],
    "nn.group_norm": [([f(2, 4, 5), f(4), f(4)], {"num_groups": 2})],
    "nn.l2_normalize": [([f(2, 4)], {"axis": 1})],
    "nn.lrn": [([f(1, 7, 3)], {"size": 4, "alpha": 0.1})],
    "nn.softmax": [([f(2, 5)], {}), ([f(2, 5)], {"axis": 0})],
    "nn.log_softmax": [([f(2, 5)], {})],
    "argmax": [([f(2, 5)], {"axis": 1}), ([f(2, 5)], {"keepdims": True})],
    "argmin": [([f(2, 5)], {"axis": 0, "select_last_index": True})],
    "log_sum": [([p(2, 5)], {"axis": 1})],
    "cumsum": [([f(3, 4)], {"axis": 1, "exclusive": True, "reverse": True})],
    "cumprod": [([f(3, 4)], {"axis": 1, "exclusive": True, "reverse": True})],
    "image.grid_sample": [([f(1, 2, 4, 5), f(1, 3, 2, 2)], {"padding_mode": "reflection"})],
    "reinterpret": [([f(3)], {"dtype": "int32"})],
    "nn.batch_flatten": [([f(2, 3, 4)], {})],
    "layout_transform": [([f(2, 3, 4, 5)], {"src_layout": "NCHW", "dst_layout": "NHWC"})],
    "concatenate": [([f(2, 3), f(2, 1)], {"axis": 1})],
    "stack": [([f(2, 3), f(2, 3)], {"axis": 1})],
    "expand_dims": [([f(2, 3)], {"axis": 1, "num_newaxis": 2}), ([f(2, 3)], {"axis": (0, -1)})],
    "squeeze": [([f(1, 3, 1)], {}), ([f(1, 3, 1)], {"axis": -1})],
    "reshape": [([f(2, 3, 4)], {"newshape": (0, -1, 2)})],
    "transpose": [([f(2, 3, 4)], {}), ([f(2, 3, 4)], {"axes": (1, 2, 0)})],
    "reverse": [([f(2, 3)], {"axis": 1})],
    "repeat": [([f(2, 3)], {"repeats": 2, "axis": 1})],
    "tile": [([f(2, 3)], {"reps": (2, 1, 2)})],
    "split": [([f(2, 6)], {"indices_or_sections": 3, "axis": 1}), ([f(6)], {"indices_or_sections": (1, 4)})],
    "strided_slice": [([f(4, 6)], {"begin": (3, 1), "end": (-99, 5), "strides": (-2, 2)}),
                      ([f(4, 6)], {"begin": (1,), "end": (99,), "axes": (-1,)})],
    "shape_of": [([f(2, 3)], {})],
    "trilu": [([f(3, 4)], {"k": 1})],
    "one_hot": [([i(-2, 4, 3)], {"depth": 4, "axis": 0})],
    "take": [([f(3, 4), i(-4, 4, 2, 2)], {"axis": 1}), ([f(3, 4), i(0, 12, 2)], {})],
    "gather": [([f(3, 4), i(-3, 3, 2, 4)], {"axis": 0})],
    "gather_nd": [([f(3, 4, 2), np.array([[0, -1], [2, 1]])], {}), ([f(2, 4, 2), i(0, 4, 2, 3, 1)], {"batch_dims": 1})],
    "scatter_elements": [([f(3, 4), np.array([[2, 0, 1, 1]]), f(1, 4)], {}),
                         ([f(3, 4), i(0, 4, 3, 2), f(3, 2)], {"axis": 1, "reduction": "add"})],
    "scatter_nd": [([f(3, 4), np.array([[0], [2]]), f(2, 4)], {}),
                   ([f(3, 4), np.array([[0], [0]]), f(2, 4)], {"reduction": "max"})],
    "argsort": [([f(3, 5)], {"axis": 0}), ([f(5)], {"is_ascend": False})],
    "topk": [([f(3, 5)], {"k": 2})],
    "nn.pad": [([f(3, 4)], {"pad_width": ((1, 2), (0, 3)), "pad_value": 2.0}),
               ([f(3, 4)], {"pad_width": ((1, 2), (0, 3)), "pad_mode": "reflect"})],
    "nn.depth_to_space": [([f(1, 8, 2, 3)], {"block_size": 2}), ([f(1, 8, 2, 3)], {"block_size": 2, "mode": "CRD"})],
    "nn.space_to_depth": [([f(1, 2, 4, 6)], {"block_size": 2})],
    "image.resize": [([f(1, 1, 4, 5)], {"size": (1, 1, 7, 3)}),
                     ([f(1, 1, 4, 5)], {"size": (1, 1, 7, 3), "method": "cubic", "cubic_exclude": True}),
                     ([f(4, 5)], {"size": (8, 3), "method": "nearest_neighbor"})],
    "image.resize2d": [([f(1, 2, 4, 5)], {"size": (7, 3), "coordinate_transformation_mode": "align_corners"})],
    "qnn.quantize": [([f(2, 3) * 30, np.array(0.4, "float32"), np.array(7, "uint8")], {}),
                     ([f(2, 3) * 30, p(3)], {"axis": 1, "out_dtype": "int8"})],
    "qnn.dequantize": [([i(0, 9, 2, 3).astype("int8"), np.array(0.4, "float32"), np.array(7, "int8")], {})],
}  # fmt: skip
for _name in ("acos", "asin", "atanh"):
    CASES[_name] = [([f(5).clip(-0.9, 0.9)], {})]
for _name in ("acosh", "log", "log10", "log1p", "log2", "rsqrt", "sqrt", "reciprocal"):
    CASES[_name] = [([p(2, 3)], {})]
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"):
    CASES[_name] = [([i(0, 9, 2, 3), i(0, 4, 3)], {})]
for _name in ("logical_and", "logical_or", "logical_xor"):
    CASES[_name] = [([i(0, 2, 2, 3) > 0, i(0, 2, 3) > 0], {})]
for _name in ("all", "any"):
    CASES[_name] = [([i(0, 2, 2, 3) > 0], {"axis": 1})]
for _name in ("max", "min", "sum", "prod", "mean", "l1", "l2", "logsumexp", "sum_square", "variance"):
    CASES[_name] = [([f(2, 3, 4)], {"axis": (0, -1)}), ([f(2, 3)], {"keepdims": True})]
for _name in ("add", "subtract", "multiply", "maximum", "minimum", "equal", "less", "greater",
              "not_equal",
              "less_equal", "greater_equal", "divide", "floor_divide", "mod", "floor_mod"):  # fmt: skip
    CASES[_name] = [([f(2, 3), p(3)], {}), ([i(-9, 9, 2, 3), i(1, 5, 2, 1)], {})]
CASES["power"] = [([p(2, 3), f(3)], {}), ([i(-3, 4, 3), i(0, 4, 3)], {})]
CASES["atan2"] = [([f(4), f(4)], {})]
CASES["logical_not"] = [([i(0, 2, 4) > 0], {})]
CASES["bitwise_not"] = [([i(0, 9, 4)], {})]
_BLOCKED = ("layout.", "nn.contrib_")  # tested with the pass that makes them
for _name in registry.names():
    if _name not in CASES and not _name.startswith(_BLOCKED):
        CASES[_name] = [([f(3, 4) * 2], {})]  # element-wise


def test_every_case_is_an_operator() -> None:
    assert set(CASES) <= set(registry.names())


@pytest.mark.parametrize("name, number", [(n, k) for n in sorted(CASES) for k in range(len(CASES[n]))])
def test_operator(name: str, number: int) -> None:
    arrays, attrs = CASES[name][number]
    b = GraphBuilder()
    inputs = [b.input(f"x{k}", a.shape, a.dtype.name) for k, a in enumerate(arrays)]
    graph = b.build(b.op(name, *inputs, **attrs))
    verify_graph(graph)
    given = {v.name: a for v, a in zip(inputs, arrays, strict=True)}
    wanted = interpreter.run(graph, given)  # refuses results whose type is not the inferred one
    found = by_te(graph, given)
    operator, node = registry.get(name), graph.nodes[0]
    for value, a, b_ in zip(graph.outputs, found, wanted, strict=True):
        assert a.shape == value.shape
        assert a.dtype == value.dtype.numpy
        np.testing.assert_allclose(a, b_, rtol=1e-4, atol=1e-5)
    if operator.fold is None:
        return
    with np.errstate(all="ignore"):
        folded = operator.fold(*arrays, **node.attrs)
    results = folded if isinstance(folded, tuple) else (folded,)
    for value, a, b_ in zip(graph.outputs, results, wanted, strict=True):
        assert np.shape(a) == value.shape
        np.testing.assert_allclose(np.asarray(a).astype(value.dtype.numpy), b_, rtol=1e-4, atol=1e-5)
