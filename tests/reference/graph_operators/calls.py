"""Example calls of every operator: inputs and attributes, several where an attribute changes what is computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minitvm.expr import DType, SizeVar
from minitvm.topi.formats import FORMATS


@dataclass(frozen=True)
class Call:
    """An operator on arrays; `exact` where the te computation and the interpreter must agree to the bit."""

    op: str
    inputs: tuple[np.ndarray, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    exact: bool = False

    def __str__(self) -> str:
        types = ",".join(f"{a.dtype}{list(a.shape)}".replace(" ", "") for a in self.inputs)
        attrs = ",".join(f"{k}={v}".replace(" ", "") for k, v in self.attrs.items())
        return f"{self.op}({types};{attrs})" if attrs else f"{self.op}({types})"


def f(*shape: int, low: float = -2.0, high: float = 2.0, dtype: str = "float32") -> np.ndarray:
    """Floats."""
    rng = np.random.default_rng([7, *shape])
    return rng.uniform(low, high, shape).astype(dtype)


def i(*shape: int, low: int = -9, high: int = 9, dtype: str = "int32") -> np.ndarray:
    """Integers from low to high, both included."""
    rng = np.random.default_rng([11, *shape])
    return rng.integers(low, high + 1, shape).astype(dtype)


def word(*shape: int) -> np.ndarray:
    """Words of four bytes."""
    return i(*shape, low=-(2**31), high=2**31 - 1, dtype="int64").astype("int32")


def pair(*shape: int) -> np.ndarray:
    """Words of two bfloat16, whole numbers."""
    return i(*shape, 2, low=-4, high=4, dtype="int64").astype(DType("bfloat16").numpy).view(np.int32)[..., 0]


def b(*shape: int) -> np.ndarray:
    """Bools."""
    return np.random.default_rng([13, *shape]).integers(0, 2, shape).astype(bool)


_DOMAINS = {
    "acos": (-1, 1), "acosh": (1, 4), "asin": (-1, 1), "atanh": (-0.9, 0.9), "log": (0.1, 4), "log10": (0.1, 4),
    "log1p": (-0.9, 4), "log2": (0.1, 4), "reciprocal": (0.5, 3), "rsqrt": (0.1, 4), "sqrt": (0, 4),
}  # fmt: skip
_FLOAT_UNARY = [
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "log", "log10", "log1p", "log2",
    "nn.hard_swish", "nn.mish", "nn.silu", "nn.softplus", "nn.softsign", "reciprocal", "rsqrt", "sigmoid", "sin",
    "sinh", "sqrt", "tan", "tanh",
]  # fmt: skip
_SPECIAL = np.array([0.0, -0.0, 1.5, -1.5, 2.5, -2.5, np.inf, -np.inf, np.nan], np.float32)


def _unary() -> list[Call]:
    calls = [
        Call(op, (f(3, 5, low=_DOMAINS.get(op, (-2, 2))[0], high=_DOMAINS.get(op, (-2, 2))[1]),)) for op in _FLOAT_UNARY
    ]
    for op in ("abs", "ceil", "floor", "isfinite", "isinf", "isnan", "nn.relu", "round", "sign", "trunc", "copy"):
        calls += [Call(op, (_SPECIAL,), exact=True), Call(op, (i(7),), exact=True)]
    calls += [Call("negative", (a,), exact=True) for a in (_SPECIAL, i(7))]
    calls += [
        Call("logical_not", (b(5),), exact=True),
        Call("bitwise_not", (i(5, dtype="uint8", low=0),), exact=True),
        Call("nn.dropout", (f(3),), {"rate": 0.3}, exact=True),
        Call("cast", (f(9, low=-5, high=5),), {"dtype": "int32"}, exact=True),
        Call("cast", (i(9, low=-300, high=300),), {"dtype": "int8"}, exact=True),
        Call("cast", (f(9),), {"dtype": "bool"}, exact=True),
        Call("cast", (i(9, low=-1, high=1),), {"dtype": "bool"}, exact=True),
        Call("cast", (f(9),), {"dtype": "float16"}, exact=True),
        Call("clip", (f(9),), {"a_min": -1.0, "a_max": 0.5}, exact=True),
        Call("clip", (i(9),), {"a_min": -3}, exact=True),
        Call("clip", (f(9),), {"a_max": 0.5}, exact=True),
        Call("nn.celu", (f(9),), {"alpha": 0.7}),
        Call("nn.elu", (f(9),), {"alpha": 0.7}),
        Call("nn.gelu", (f(9),)),
        Call("nn.gelu", (f(9),), {"approximate": "tanh"}),
        Call("nn.hard_sigmoid", (f(9),), {"alpha": 0.3, "beta": 0.4}),
        Call("nn.leaky_relu", (f(9),), {"alpha": 0.25}),
        Call("nn.selu", (f(9),)),
        Call("nn.shrink", (f(9),), {"lambd": 0.7, "bias": 0.25}),
        Call("nn.thresholded_relu", (f(9),), {"alpha": 0.5}, exact=True),
        Call("nn.prelu", (f(2, 3, 4), f(3)), {"axis": 1}),
        Call("nn.prelu", (f(2, 3, 4), f(4)), {"axis": 2}),
    ]
    return calls


def _binary() -> list[Call]:
    calls = []
    for op in ("add", "subtract", "multiply", "maximum", "minimum", "equal", "not_equal", "less", "less_equal",
               "greater", "greater_equal"):  # fmt: skip
        calls += [Call(op, (f(2, 3, 4), f(3, 1)), exact=True), Call(op, (i(2, 1), i(3)), exact=True)]
    for op in ("divide", "floor_divide", "mod", "floor_mod"):
        calls += [
            Call(op, (f(20, low=-9, high=9), f(20, low=1, high=3))),
            Call(op, (i(20), i(20, low=1, high=5)), exact=True),
            Call(op, (i(20), i(20, low=-5, high=-1)), exact=True),
        ]
    for op in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        calls.append(Call(op, (i(3, 4), i(4)), exact=True))
    for op in ("left_shift", "right_shift"):
        calls.append(Call(op, (i(8, low=0, high=200, dtype="uint8"), i(8, low=0, high=7, dtype="uint8")), exact=True))
    for op in ("logical_and", "logical_or", "logical_xor"):
        calls.append(Call(op, (b(4, 5), b(5)), exact=True))
    return [
        *calls,
        Call("power", (f(9, low=0.1, high=3), f(9))),
        Call("power", (i(9), i(9, low=0, high=4)), exact=True),
        Call("atan2", (f(9), f(9))),
        Call("where", (b(2, 1, 4), f(3, 1), f(4)), exact=True),
        Call("elementwise_sum", (f(2, 3), f(3), f(2, 1))),
        Call("nn.bias_add", (f(2, 3, 4), f(3)), {"axis": 1}, exact=True),
        Call("nn.bias_add", (f(2, 3, 4), f(4)), {"axis": -1}, exact=True),
        Call("broadcast_to", (f(3, 1),), {"shape": (2, 3, 4)}, exact=True),
        Call("full", (), {"shape": (2, 3), "fill_value": 1.5}, exact=True),
        Call("full", (), {"shape": (2,), "fill_value": True, "dtype": "bool"}, exact=True),
        Call("arange", (), {"start": 2, "stop": 11, "step": 3}, exact=True),
        Call("arange", (), {"start": 5, "stop": 0, "step": -2}, exact=True),
        Call("arange", (), {"start": 1.0, "stop": -1.0, "step": -0.25, "dtype": "float32"}, exact=True),
    ]


def _rearranging() -> list[Call]:
    x = f(2, 3, 4)
    rows: list[tuple[str, tuple[np.ndarray, ...], dict[str, Any]]] = [
        ("nn.batch_flatten", (x,), {}),
        ("concatenate", (f(2, 3), f(2, 1), f(2, 4)), {"axis": 1}),
        ("concatenate", (f(2, 3),), {"axis": -1}),
        ("expand_dims", (x,), {"axis": 1, "num_newaxis": 2}),
        ("expand_dims", (x,), {"axis": (0, 4)}),
        ("expand_dims", (x,), {"axis": (0, -1)}),
        ("nn.depth_to_space", (f(1, 8, 2, 3),), {"block_size": 2}),
        ("nn.depth_to_space", (f(1, 8, 2, 3),), {"block_size": 2, "mode": "CRD"}),
        ("nn.interleave", (f(2, 12, 2, 3),), {"strides": (2, 3), "size": (4, 8)}),
        ("nn.interleave", (f(2, 12, 2, 3),), {"strides": (2, 3), "size": (4, 9), "phases_last": True}),
        ("nn.space_to_depth", (f(1, 2, 4, 6),), {"block_size": 2}),
        ("nn.pad", (f(3, 4),), {"pad_width": ((1, 2), (0, 3)), "pad_value": 1.5}),
        ("nn.pad", (f(3, 4), f()), {"pad_width": ((1, 2), (0, 3))}),
        ("nn.pad", (f(4, 4),), {"pad_width": ((-1, 2), (0, -2))}),
        ("match_cast", (x,), {"dims": ((3, 3),), "where": "here"}),
        ("nn.pad", (f(3, 4),), {"pad_width": ((2, 1), (0, 3)), "pad_mode": "edge"}),
        ("nn.pad", (f(3, 4),), {"pad_width": ((2, 1), (0, 3)), "pad_mode": "reflect"}),
        ("nn.pad", (f(3, 4),), {"pad_width": ((2, 1), (0, 3)), "pad_mode": "wrap"}),
        ("repeat", (x,), {"repeats": 2, "axis": 1}),
        ("reshape", (x,), {"newshape": (4, 6)}),
        ("reshape", (x,), {"newshape": (0, -1)}),
        ("reshape", (f(0, 3),), {"newshape": (3, 0), "allowzero": True}),
        ("reverse", (x,), {"axis": (0, 2)}),
        ("shape_of", (x,), {}),
        ("shape_to_tensor", (), {"values": (3, 0, 7, 5), "shape": (2, 2)}),
        ("split", (f(6, 2),), {"indices_or_sections": 3}),
        ("split", (f(2, 7),), {"indices_or_sections": (2, 3), "axis": 1}),
        ("squeeze", (f(1, 3, 1),), {}),
        ("squeeze", (f(1, 3, 1),), {"axis": (2,)}),
        ("squeeze", (f(1, 3, 1),), {"axis": -1}),
        ("stack", (f(2, 3), f(2, 3)), {"axis": 1}),
        ("strided_slice", (x,), {"begin": (0, 1), "end": (2, 3)}),
        ("strided_slice", (x,), {"begin": (3, -1), "end": (-99, -99), "strides": (-2, -1), "axes": (2, 1)}),
        ("strided_slice", (x,), {"begin": (-3,), "end": (99,), "strides": (2,), "axes": (2,)}),
        ("strided_slice", (x,), {"begin": (1,), "end": (99,), "axes": (-1,)}),
        ("tile", (f(2, 3),), {"reps": (2, 1, 3)}),
        ("transpose", (x,), {}),
        ("transpose", (x,), {"axes": (1, 2, 0)}),
        ("trilu", (f(2, 4, 3),), {"k": 1}),
        ("trilu", (f(4, 3),), {"k": -1, "upper": False}),
    ]
    return [Call(op, inputs, attrs, exact=True) for op, inputs, attrs in rows]


def _indexing() -> list[Call]:
    data = f(3, 4, 2)
    unique = np.array([[0, 2, 1, 2], [2, 0, 0, 1]])[:, :, None].repeat(2, 2)
    points = np.array([[0, 1], [2, 3], [-1, -2]])
    ties = np.array([[3, 1, 3, 2], [0, 0, 5, 5]], np.float32)
    rows: list[tuple[str, tuple[np.ndarray, ...], dict[str, Any]]] = [
        ("take", (data, i(2, 2, low=-3, high=2)), {"axis": 0}),
        ("take", (data, i(5, low=0, high=23)), {}),
        ("take", (data, np.array(1)), {"axis": -1}),
        ("gather", (data, i(2, 4, 2, low=-3, high=2)), {"axis": 0}),
        ("gather", (data, i(3, 2, 2, low=0, high=3)), {"axis": 1}),
        ("gather_nd", (data, points), {}),
        ("gather_nd", (data, i(3, 2, 1, low=0, high=3)), {"batch_dims": 1}),
        ("scatter_elements", (data, unique, f(2, 4, 2)), {"axis": 0}),
        ("scatter_elements", (data, i(3, 2, 2, low=-4, high=3), f(3, 2, 2)), {"axis": 1, "reduction": "max"}),
        ("scatter_nd", (data, points, f(3, 2)), {}),
        ("scatter_nd", (data, np.array([[0], [0]]), f(2, 4, 2)), {"reduction": "min"}),
        ("one_hot", (i(2, 3, low=-3, high=4),), {"depth": 4}),
        ("one_hot", (i(3),), {"depth": 3, "axis": 0, "on_value": 5, "off_value": -1, "dtype": "int64"}),
        ("argsort", (ties,), {}),
        ("argsort", (ties,), {"axis": 0, "is_ascend": False}),
        ("topk", (ties,), {"k": 3}),
        ("topk", (ties,), {"k": 1, "axis": 0, "is_ascend": True}),
    ]
    sums = [
        Call("scatter_elements", (data, i(3, 3, 2, low=0, high=3), f(3, 3, 2)), {"axis": 1, "reduction": "add"}),
        Call("scatter_nd", (data, np.array([[1], [1]]), f(2, 4, 2)), {"reduction": "mul"}),
    ]
    return [Call(op, inputs, attrs, exact=True) for op, inputs, attrs in rows] + sums


def _reducing() -> list[Call]:
    x = f(2, 3, 4)
    calls = []
    for op in ("sum", "prod", "mean", "max", "min", "l1", "l2", "sum_square", "logsumexp", "variance"):
        calls += [Call(op, (x,)), Call(op, (x,), {"axis": (0, -1), "keepdims": True}), Call(op, (x,), {"axis": 1})]
    for op in ("sum", "prod", "mean", "max", "min", "l1", "l2", "sum_square"):
        calls.append(Call(op, (i(3, 4),), {"axis": 1}, exact=True))
    for op in ("argmax", "argmin"):
        ties = i(3, 4, low=0, high=2)
        calls += [
            Call(op, (ties,), {"axis": 1}, exact=True),
            Call(op, (ties,), {"axis": 0, "keepdims": True, "select_last_index": True}, exact=True),
            Call(op, (ties,), {"dtype": "int32"}, exact=True),
        ]
    for op in ("all", "any"):
        calls += [Call(op, (b(3, 4),), {"axis": 1}, exact=True), Call(op, (b(3, 4),), {"keepdims": True}, exact=True)]
    for op in ("max", "min"):
        calls.append(Call(op, (b(3, 4),), {"axis": 1}, exact=True))
    for attrs in ({}, {"exclusive": True}, {"reverse": True}, {"axis": 1, "exclusive": True, "reverse": True}):
        calls += [Call("cumsum", (f(4, 5),), attrs), Call("cumsum", (i(4, 5),), attrs, exact=True)]
    return [
        *calls,
        Call("log_sum", (f(2, 3, low=0.5, high=2),), {"axis": 1}),
        Call("variance", (x,), {"axis": 2, "unbiased": True}),
        Call("nn.global_avg_pool", (f(2, 3, 4, 5),)),
        Call("nn.global_max_pool", (f(2, 3, 4, 5),), exact=True),
        Call("nn.global_max_pool", (f(2, 3, 4),), exact=True),
    ]


def _linear() -> list[Call]:
    return [
        Call("nn.dense", (f(4, 5), f(3, 5))),
        Call("nn.dense", (f(2, 4, 5), f(3, 5))),
        Call("nn.dense", (i(4, 5, dtype="int8"), i(3, 5, dtype="int8")), {"out_dtype": "int32"}, exact=True),
        Call("nn.matmul", (f(4, 5), f(5, 3))),
        Call("nn.matmul", (f(2, 1, 4, 5), f(3, 5, 2))),
        Call("nn.matmul", (f(5), f(5))),
        Call("nn.matmul", (f(2, 5, 4), f(3, 5)), {"transpose_a": True, "transpose_b": True}),
        Call("nn.batch_matmul", (f(2, 4, 5), f(2, 3, 5))),
        Call("nn.batch_matmul", (f(2, 4, 5), f(1, 5, 3)), {"transpose_b": False}),
        Call("einsum", (f(2, 3, 4), f(2, 4, 5)), {"equation": "bij,bjk->bik"}),
        Call("einsum", (f(3, 3),), {"equation": "ii"}),
        Call("einsum", (f(3, 4),), {"equation": "ij->ji"}),
    ]


def _convolving() -> list[Call]:
    return [
        Call("nn.conv1d", (f(2, 3, 9), f(4, 3, 3)), {"strides": 2, "padding": (1, 0)}),
        Call("nn.conv1d", (f(2, 4, 9), f(6, 2, 3)), {"groups": 2, "padding": (1, 2)}),
        Call("nn.conv2d", (f(1, 3, 7, 6), f(4, 3, 3, 2)), {"strides": (2, 1), "padding": (1, 0, 2, 1)}),
        Call("nn.conv2d", (f(1, 4, 8, 8), f(6, 2, 3, 3)), {"groups": 2, "dilation": (2, 1), "padding": 1}),
        Call("nn.conv2d", (f(1, 4, 5, 5), f(8, 1, 3, 3)), {"groups": 4, "padding": (1, 1)}),
        Call("nn.conv2d", (i(1, 2, 4, 4), i(3, 2, 1, 1)), {}, exact=True),
        Call("nn.conv3d", (f(1, 2, 4, 5, 4), f(3, 2, 2, 3, 1)), {"padding": (1, 0, 0)}),
        Call("nn.conv3d", (f(1, 2, 4, 5, 4), f(3, 2, 2, 3, 1)), {"strides": 2}),
        Call("nn.conv1d_transpose", (f(1, 3, 4), f(3, 2, 3)), {"strides": 2, "output_padding": 1}),
        Call("nn.conv2d_transpose", (f(1, 4, 3, 4), f(4, 3, 3, 2)), {"strides": (2, 3), "padding": (1, 0, 0, 1)}),
        Call("nn.conv2d_transpose", (f(1, 4, 3, 3), f(4, 2, 2, 2)), {"groups": 2, "dilation": 2}),
        Call("nn.conv3d_transpose", (f(1, 2, 2, 3, 2), f(2, 2, 2, 2, 2)), {"strides": 2}),
    ]


def _pooling() -> list[Call]:
    calls = []
    for op, exact in (("nn.max_pool", True), ("nn.avg_pool", False)):
        calls += [
            Call(f"{op}1d", (f(1, 2, 9),), {"pool_size": 3, "strides": 2, "padding": 1}, exact),
            Call(f"{op}2d", (f(1, 2, 7, 6),), {"pool_size": (3, 2), "strides": (2, 1), "padding": (1, 0, 1, 1)}, exact),
            Call(f"{op}2d", (f(1, 2, 8, 8),), {"pool_size": 3, "strides": 3, "ceil_mode": True, "padding": 1}, exact),
            Call(f"{op}2d", (f(1, 1, 8, 8),), {"pool_size": 2, "dilation": (2, 3)}, exact),
            Call(f"{op}3d", (f(1, 1, 4, 5, 4),), {"pool_size": 2, "strides": 2}, exact),
        ]
    counted = {"pool_size": 3, "strides": 2, "padding": (1, 1), "count_include_pad": True, "ceil_mode": True}
    return [
        *calls,
        Call("nn.avg_pool2d", (f(1, 1, 7, 8),), counted),
        Call("nn.avg_pool2d", (i(1, 1, 4, 4),), {"pool_size": 2, "strides": 2}, exact=True),
        Call("nn.max_pool2d", (i(1, 1, 4, 4, dtype="int8"),), {"pool_size": 3, "padding": 1}, exact=True),
        Call("nn.max_pool1d", (f(1, 2, 5),), {"pool_size": 2, "padding": (0, 4), "ceil_mode": True}, exact=True),
        Call("nn.avg_pool3d", (f(1, 2, 4, 5, 4),), {"pool_size": 2}),
    ]


def _normalizing() -> list[Call]:
    x = f(2, 4, 3, 2)
    c = (f(4), f(4, low=0.5), f(4, low=-1), f(4, low=0.5, high=2))
    return [
        Call("nn.softmax", (x,)),
        Call("nn.softmax", (x,), {"axis": 1}),
        Call("nn.log_softmax", (x,), {"axis": 2}),
        Call("nn.batch_norm", (x, *c), {"epsilon": 1e-3}),
        Call("nn.batch_norm", (f(2, 3, 4), *c), {"axis": 2}),
        Call("nn.layer_norm", (x, f(2), f(2))),
        Call("nn.layer_norm", (x, f(3, 2)), {"axis": (2, 3), "epsilon": 1e-2}),
        Call("nn.instance_norm", (x, f(4), f(4, low=0))),
        Call("nn.group_norm", (x, f(4), f(4, low=0)), {"num_groups": 2}),
        Call("nn.group_norm", (x, f(4, 2), f(4, 2, low=0)), {"num_groups": 2, "axis": (1, -1)}),
        Call("nn.rms_norm", (x, f(2))),
        Call("nn.rms_norm", (x, f(3, 2)), {"axis": (-2, -1), "epsilon": 0.1}),
        Call("nn.l2_normalize", (x,), {"axis": (1,)}),
        Call("nn.l2_normalize", (x,), {"axis": (2, 3), "ord": 1}),
        Call("nn.lrn", (f(1, 7, 2, 2),), {"size": 3, "alpha": 0.1}),
        Call("nn.lrn", (f(1, 3, 5),), {"size": 4, "axis": 2, "alpha": 0.2, "beta": 0.5, "bias": 1.0}),
    ]


def _quantizing() -> list[Call]:
    scale, scales = np.array(0.1, np.float32), np.array([0.1, 0.2, 0.3], np.float32)
    q = i(2, 3, 4, low=0, high=255, dtype="uint8")
    return [
        Call("qnn.quantize", (f(2, 3, 4, low=-30, high=30), scale), exact=True),
        Call(
            "qnn.requantize",
            (
                i(2, 3, 4, low=-40000, high=40000, dtype="int32"),
                i(3, 1, low=1 << 30, high=(1 << 31) - 1, dtype="int32"),
                i(3, 1, low=0, high=12, dtype="int32"),
            ),
            {"zero_point": -5, "a_min": -100},
            exact=True,
        ),
        Call(
            "qnn.requantize",
            (
                i(9, low=-(1 << 31), high=(1 << 31) - 1, dtype="int32"),
                np.array(1 << 30, np.int32),
                np.array(31, np.int32),
            ),
            {"zero_point": 128, "a_max": 1 << 20, "out_dtype": "uint8"},
            exact=True,
        ),
        Call("qnn.lookup", (i(3, 5, low=0, high=255, dtype="uint8"), i(256, dtype="int8")), exact=True),
        Call("qnn.lookup", (i(7, low=-128, high=127, dtype="int8"), i(256, low=0, dtype="uint8")), exact=True),
        Call("qnn.quantize", (f(2, 3, 4), scales, np.array([1, 2, 3], np.uint8)), exact=True),
        Call("qnn.quantize", (f(2, 3), scale, np.array(-3, np.int8)), exact=True),
        Call("qnn.dequantize", (q, scale, np.array(100, np.uint8))),
        Call("qnn.dequantize", (q, scales), {"axis": 1}),
        Call("qnn.dequantize", (i(2, 3, dtype="int8"), scale, np.array(7, np.int8))),
        Call("qnn.dequantize", (q, f(2, 2, 4)), {"axis": 1, "block_size": 2}),
        *(
            Call(
                "qnn.conv2d",
                (x, i(4, 3, 2, 3, low=-128, high=127, dtype="int8")),
                {"zero_point": zero, "strides": (1, 2), "padding": (1, 0, 2, 1)},
                exact=True,
            )
            for x, zero in ((i(1, 3, 5, 6, low=0, high=255, dtype="uint8"), 130), (i(1, 3, 5, 6, dtype="int8"), -7))
        ),
        Call("qnn.conv2d", (q[None], i(2, 1, 2, 3, dtype="int8")), {"zero_point": 3, "groups": 2}, exact=True),
        Call("qnn.dense", (q, i(5, 4, low=-128, high=127, dtype="int8")), {"zero_point": 200}, exact=True),
        Call("qnn.dense", (i(3, 4, dtype="int8"), i(5, 4, dtype="int8")), exact=True),
        Call("qnn.quantize", (f(4, 5, low=-9), f(4, 2, low=0.1)), {"axis": 1, "block_size": 3}, exact=True),
    ]


def _resizing() -> list[Call]:
    x = f(1, 2, 4, 5)
    calls = []
    modes = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric")
    for mode in modes:
        for method in ("nearest_neighbor", "linear", "cubic"):
            attrs = {"size": (1, 2, 7, 3), "method": method, "coordinate_transformation_mode": mode}
            calls.append(Call("image.resize", (x,), attrs))
    for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        attrs = {"size": (1, 2, 8, 4), "method": "nearest_neighbor", "rounding_method": rounding}
        calls.append(Call("image.resize", (x,), attrs, exact=True))
    crop = {"size": (1, 2, 3, 3), "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.0}
    doubled = {"size": (1, 2, 8, 10), "scales": (1.0, 1.0, 2.0, 2.0), "rounding_method": "floor"}
    doubled["method"] = "nearest_neighbor"
    inside = {"method": "cubic", "cubic_exclude": True, "cubic_alpha": -0.5}
    return [
        *calls,
        Call("image.resize", (x,), {**crop, "roi": (0.0, 0.0, 0.4, -0.2, 1.0, 1.0, 0.6, 1.2)}),
        Call(
            "image.resize", (x,), {"size": (1, 2, 6, 7), "method": "cubic", "cubic_exclude": True, "cubic_alpha": -0.5}
        ),
        Call(
            "image.resize",
            (x,),
            {**doubled, "coordinate_transformation_mode": "asymmetric", "rounding_method": "floor"},
        ),
        Call("image.resize", (f(4, 5),), {"size": (8, 3), "method": "nearest_neighbor"}),
        Call("image.resize2d", (x,), {"size": (8, 3)}),
        Call("image.interpolate", (f(3, 4), i(2, 5, low=-5, high=5), f(2, 5)), {"axis": 1}),
        Call("image.resize2d", (x,), {"size": (2, 9), "method": "nearest_neighbor"}),
    ]


def _sampling() -> list[Call]:
    x, grid = f(2, 2, 4, 5), f(2, 3, 2, 2, low=-1.6, high=1.6)
    calls = []
    for method in ("nearest", "linear", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            for align in (False, True):
                attrs = {"method": method, "padding_mode": padding, "align_corners": align}
                calls.append(Call("image.grid_sample", (x, grid), attrs))
            places = f(2, 3, 2, 2, low=-2.0, high=7.0)
            attrs = {"method": method, "padding_mode": padding, "in_elements": True}
            calls.append(Call("image.grid_sample", (x, places), attrs))
    for one, axis in (("cummax", 0), ("cummax", 1), ("cummin", 0), ("cummin", 1)):
        calls += [Call(one, (f(4, 5),), {"axis": axis}), Call(one, (i(4, 5),), {"axis": axis}, exact=True)]
    for attrs in ({}, {"exclusive": True}, {"reverse": True}, {"axis": 1, "exclusive": True, "reverse": True}):
        calls += [Call("cumprod", (f(4, 5),), attrs), Call("cumprod", (i(4, 5, low=-3, high=3),), attrs, exact=True)]
    return [
        *calls,
        Call("image.grid_sample", (f(1, 2, 3, 4, 3), f(1, 2, 2, 2, 3, low=-1.3, high=1.3))),
        Call("reinterpret", (f(5),), {"dtype": "int32"}, exact=True),
        *(Call("round_to_format", (f(40, low=-9, high=9),), {"format": name}, exact=True) for name in FORMATS),
        Call("reinterpret", (i(5, dtype="int8"),), {"dtype": "uint8"}, exact=True),
    ]


def _layouts() -> list[Call]:
    nhwc = {"data_layout": "NHWC", "kernel_layout": "HWIO", "strides": (2, 1), "padding": (1, 0, 2, 1)}
    sums = {"out_dtype": "int32", "padding": 1}
    window = {"pool_size": (3, 2), "strides": 2, "padding": 1, "ceil_mode": True}
    changes = [("NCHW", "NHWC"), ("NHWC", "NCHW"), ("NCHW", "NCHW4c"), ("NCHW", "NCHW2h8c"), ("NCHW", "4cWNHC")]
    back = [("NCHW4c", "NCHW2c"), ("NCHW4c", "NHWC"), ("CNHW4c", "NCHW")]
    return [
        Call("nn.conv2d", (f(2, 7, 6, 3), f(3, 2, 3, 4)), nhwc),
        Call("nn.conv2d", (f(2, 7, 6, 4), f(3, 3, 8, 1)), {**nhwc, "kernel_layout": "HWOI", "groups": 4}),
        Call("nn.conv2d", (f(3, 5, 6, 2), f(4, 2, 2, 3)), {"data_layout": "CHWN", "kernel_layout": "OHWI"}),
        Call("nn.conv2d", (i(1, 3, 5, 5, dtype="int8"), i(4, 3, 3, 3, low=0, dtype="uint8")), sums, exact=True),
        Call("nn.max_pool2d", (f(1, 7, 8, 2),), {**window, "layout": "NHWC"}),
        Call("nn.avg_pool2d", (f(7, 1, 2, 8),), {**window, "layout": "HNCW", "count_include_pad": True}),
        *(
            Call("layout_transform", (x,), {"src_layout": a, "dst_layout": b}, exact=True)
            for x, pairs in ((f(2, 8, 4, 6), changes), (f(2, 2, 3, 5, 4), back))
            for a, b in pairs
        ),
    ]


_SUMS = {"out_dtype": "float32"}


def byte(*shape: int) -> np.ndarray:
    return i(*shape, low=-128, high=127, dtype="int8")


def _blocked() -> list[Call]:
    x, w = f(1, 2, 5, 5, 4), f(2, 2, 3, 3, 4, 8)
    attrs = {"strides": (2, 1), "padding": (1, 1)}
    return [
        Call("layout.block_axis", (f(2, 7, 3),), {"axis": 1, "block": 4}, exact=True),
        Call("layout.unblock_axis", (f(2, 2, 3, 4),), {"axis": 1, "extent": 7}, exact=True),
        Call("layout.pack_weights", (f(5, 3, 2, 2),), {"in_block": 2, "out_block": 4}, exact=True),
        Call("nn.contrib_conv2d_NCHWc", (x, w), attrs),
        Call("nn.contrib_conv2d_NCHWc", (x, w), {**attrs, "channels": 7}),
        Call("nn.contrib_conv2d_NCHWc", (f(1, 4, 5, 5, 4), w), {**attrs, "groups": 2}),
        Call(
            "nn.contrib_conv3d_NCHWc",
            (f(1, 2, 4, 5, 5, 4), f(2, 2, 2, 3, 3, 4, 8)),
            {"strides": (1, 2, 1), "padding": (1, 0, 1), "dilation": (2, 1, 2), "channels": 6},
        ),
        Call("nn.contrib_depthwise_conv2d_NCHWc", (x, f(2, 3, 3, 4)), attrs),
        *(
            Call(
                "nn.contrib_conv2d_elements",
                (byte(2, 2, 5, 4, 2, 4), byte(3, 2, size, size, 8, 4)),
                {"stride": stride, "padding": size // 2},
                exact=True,
            )
            for size, stride in ((3, 1), (3, 2), (1, 2))
        ),
        Call(
            "nn.contrib_requantize_elements",
            (i(1, 2, 3, 3, 1, 4, low=-40000, high=40000, dtype="int32"),),
            {"shift": 6, "least": -100},
            exact=True,
        ),
        Call(
            "nn.contrib_requantize_elements",
            (i(1, 1, 2, 3, 1, 4, low=-40000, high=40000, dtype="int32"),),
            {"shift": 3, "offset": 4},
            exact=True,
        ),
        Call(
            "nn.contrib_add_elements",
            (byte(1, 2, 3, 3, 2, 4), byte(1, 2, 3, 3, 2, 4)),
            {"left_a": 2},
            exact=True,
        ),
        *(
            Call(
                "nn.contrib_depthwise_conv2d_elements",
                (byte(2, 2, 5, 4, 2, 4), byte(1, 2, 3, 3, 2, 4)),
                {"stride": stride, "padding": padding},
                exact=True,
            )
            for stride, padding in ((1, 1), (2, 0))
        ),
        Call(
            "nn.contrib_max_pool2d_elements",
            (byte(1, 2, 5, 4, 1, 4),),
            {"size": 3, "stride": 2, "padding": 1},
            exact=True,
        ),
        Call("nn.contrib_depthwise_conv2d_rows", (f(1, 3, 5, 7), f(3, 1, 3, 3)), {**attrs, "lanes": 4, "tile": 2}),
        *(
            Call(f"nn.contrib_{kind}_pool_rows", (f(1, 2, *extents),), {**window, "lanes": 4, "tile": 3}, exact=exact)
            for kind, exact in (("max", True), ("avg", False))
            for extents in ((9,), (7, 9), (3, 5, 6))
            for window in ({"pool_size": 3, "strides": 2, "padding": 1}, {"pool_size": 2, "ceil_mode": True})
        ),
        Call("nn.contrib_dense_packed", (f(3, 5), f(2, 5, 4))),
        Call("nn.contrib_dense_packed", (f(2, 3, 3, 5), f(2, 3, 2, 5, 4)), {"units": 7}),
        Call("layout.words", (i(2, 8, low=0, high=255, dtype="uint8"),), exact=True),
        Call("layout.words", (i(3, 4, low=-128, high=127, dtype="int8"),), exact=True),
        Call(
            "qnn.contrib_conv2d_NCHWc",
            (word(1, 2, 5, 5, 2), word(2, 2, 3, 3, 2, 8)),
            {**attrs, "pad_value": 200},
            exact=True,
        ),
        Call("qnn.contrib_dense_packed", (word(3, 5), word(2, 5, 4)), {"units": 7}, exact=True),
        Call("layout.words", (f(2, 6, dtype="bfloat16"),), exact=True),
        Call("nn.contrib_dense_packed", (f(3, 5, dtype="bfloat16"), f(2, 5, 4, dtype="bfloat16")), _SUMS),
        Call("nn.contrib_dense_packed_words", (pair(3, 5), pair(2, 5, 4)), {"units": 7}, exact=True),
        Call("nn.contrib_conv2d_NCHWc_words", (pair(1, 2, 5, 5, 2), pair(2, 2, 3, 3, 2, 8)), attrs, exact=True),
        Call("nn.contrib_matmul_words", (pair(3, 5), pair(4, 5)), exact=True),
        Call("nn.contrib_matmul_words", (pair(2, 1, 3, 5), pair(3, 4, 5)), exact=True),
        Call(
            "qnn.contrib_dense_of_blocks",
            (word(3, 2, 4), f(3, 2), f(3, 2), word(2, 2, 2, 4), f(2, 2, 4), f(2, 2, 4)),
            {"units": 7},
        ),
        Call(
            "qnn.contrib_dense_of_blocks",
            (word(3, 2, 4), f(3, 2), i(3, 2), word(2, 2, 4, 4), f(2, 2, 4, dtype="float16")),
            {"bits": 8},
        ),
        Call(
            "qnn.contrib_dense_of_blocks",
            (
                word(3, 4, 8),
                f(3, 4),
                f(3, 4),
                word(2, 4, 5, 4),
                i(2, 4, 4, high=63, dtype="uint8"),
                i(2, 4, 4, high=63, dtype="uint8"),
                f(2, 2, 4, dtype="float16"),
                f(2, 2, 4, dtype="float16"),
            ),
            {"bits": 5},
        ),
        Call(
            "qnn.contrib_dense_of_blocks",
            (
                word(3, 4, 4),
                f(3, 4),
                i(3, 4),
                word(2, 4, 3, 4),
                i(2, 4, 4, low=-128, high=127, dtype="int8"),
                f(2, 1, 4, dtype="float16"),
            ),
            {"bits": 6, "units": 7},
        ),
        Call(
            "qnn.contrib_depthwise_conv2d_NCHWc",
            (i(1, 2, 6, 5, 4, low=0, high=255, dtype="uint8"), i(2, 3, 2, 4, dtype="int8")),
            {"zero_point": 7, "strides": (1, 2), "padding": (1, 0, 2, 1)},
            exact=True,
        ),
        *(
            Call(
                "nn.contrib_winograd_conv2d_NCHWc",
                (f(1, 2, 7, 5, 4), f(2, t, t, 2, 4, 3, 8, low=-0.02, high=0.02)),
                {"tile": t - 2, "padding": dilation, "dilation": dilation, "channels": channels},
            )
            for t, dilation, channels in ((4, 1, 0), (6, 1, 0), (4, 2, 7))
        ),
    ]


def _recurrent() -> list[Call]:
    """One direction and two, one row and several groups of rows, all that an operator may take besides."""

    def inputs(gates: int, directions: int, batch: int, hidden: int, states: int) -> tuple[np.ndarray, ...]:
        shapes = [(3, batch, directions, gates * hidden), (directions, hidden, gates * hidden)]
        shapes += [(directions, batch, hidden)] * states
        return tuple(f(*shape) for shape in shapes)

    both, some = {"direction": "bidirectional"}, np.array([3, 0, 1, 2, 3], np.int64)
    return [
        Call("nn.rnn", inputs(1, 1, 1, 4, 1)),
        Call("nn.rnn", (*inputs(1, 1, 5, 2, 1), some), {"direction": "reverse", "lengths": True, "clip": 0.5}),
        *(Call("nn.rnn", inputs(1, 1, 2, 2, 1), {"activations": (name,), "alpha": (0.6,), "beta": (0.4,)})
          for name in ("affine", "elu", "hard_sigmoid", "leaky_relu", "relu", "scaled_tanh", "sigmoid", "softplus",
                       "softsign", "thresholded_relu")),
        Call("nn.gru", inputs(3, 1, 1, 3, 1)),
        Call("nn.gru", inputs(3, 2, 5, 2, 1), both),
        Call("nn.gru", (*inputs(3, 2, 5, 2, 1), f(2, 2), some),
             {**both, "linear_before_reset": True, "lengths": True}),
        Call("nn.lstm", inputs(4, 1, 1, 3, 2)),
        Call("nn.lstm", (*inputs(4, 2, 5, 2, 2), f(2, 6), some), {**both, "peepholes": True, "lengths": True}),
        Call("nn.lstm", (*inputs(4, 1, 2, 2, 2), f(1, 6)),
             {"peepholes": True, "input_forget": True, "clip": 0.5, "cell_clip": 0.5,
              "activations": ("hard_sigmoid", "relu", "elu")}),
    ]  # fmt: skip


def _caches() -> list[Call]:
    """Rows written at a position, in a circle, by another axis and to slots; grouped heads, several queries, uneven
    widths.
    """
    cache, at = f(2, 2, 6, 3), np.array([0, 4], np.int32)
    keys, values, long = f(1, 2, 20, 16), f(1, 2, 20, 5), f(2, 1, 290, 3)
    three = np.array([0, 5, 4], np.int32)
    half, half_long = (x.astype(np.float16) for x in (keys, long))
    return [
        Call("nn.cache_update", (cache, f(2, 2, 2, 3), at), exact=True),
        Call("nn.cache_update", (cache, f(2, 2, 4, 3), at.astype(np.int64)), {"mode": "circular"}, exact=True),
        Call("nn.cache_update", (cache, f(2, 1, 6, 3), np.array([1, 0])), {"axis": 1}, exact=True),
        Call("nn.cached_attention", (f(1, 4, 1, 16), keys, values, np.array([17], np.int32)), {"scale": 0.25}),
        Call("nn.cached_attention", (f(1, 2, 3, 16), keys, values, np.array([0], np.int64)), {"scale": 0.5}),
        Call("nn.cached_attention", (f(2, 6, 2, 3), cache, cache, at), {"scale": 1.0}),
        Call("nn.cached_attention", (f(1, 6, 19, 16), keys, values, np.array([1], np.int32)), {"scale": 0.25}),
        Call("nn.cached_attention", (f(2, 5, 17, 3), long, long, np.array([0, 273], np.int64)), {"scale": 0.5}),
        Call("nn.cached_attention", (f(1, 4, 1, 16), half, half, np.array([17], np.int32)), {"scale": 0.25}),
        Call("nn.cached_attention", (f(2, 5, 17, 3), half_long, half_long, np.array([0, 273])), {"scale": 0.5}),
        Call("nn.cache_update", (cache, f(3, 2, 1, 3), three, np.array([1, 0, 1], np.int32)), exact=True),
        Call("nn.cached_attention", (f(3, 4, 1, 3), cache, cache, three, np.array([1, 0, 1])), {"scale": 0.5}),
        Call("nn.cached_attention", (f(1, 2, 17, 3), long, long, three[1:2], np.array([1], np.int32)), {"scale": 0.5}),
    ]


def _counted() -> list[Call]:
    """Places that data decide: none of them, some, all; rows that are equal; boxes that overlap, and equal scores."""
    boxes = np.array([[0, 0, 1, 1], [0.1, 0, 1.1, 1], [1, 1, 0, 0.1], [3, 3, 2, 2], [2, 2, 2, 3]], np.float32)
    scores = np.array([[0.9, 0.75, 0.6, 0.95, 0.5], [0.5, 0.5, 0.5, 0.1, 0.5]], np.float32)
    two = np.stack([boxes, boxes[::-1] + 0.25]), np.stack([scores, scores[::-1, ::-1]])
    limits = np.array([2], np.int64), np.array([0.5], np.float32), np.array(0.3, np.float32)
    words = np.array([3.0, np.nan, -1.0, 3.0, np.nan, -1.0, 0.0], np.float32)
    suppress = "vision.all_class_non_max_suppression"
    rows: list[tuple[str, tuple[np.ndarray, ...], dict[str, Any]]] = [
        ("argwhere", (b(7),), {}),
        ("argwhere", (i(2, 3, 4, low=0, high=1),), {}),
        ("argwhere", (np.zeros((2, 2), np.float32),), {}),
        ("bind_size", (np.array(3),), {"size": SizeVar("n"), "most": 3}),
        ("leading", (f(4, 3),), {"size": 2}),
        ("leading", (f(4, 3),), {"size": 0, "axis": -1}),
        ("unique", (i(9, low=0, high=3),), {}),
        ("unique", (i(9, low=0, high=3),), {"sorted": False}),
        ("unique", (words,), {}),
        ("unique", (i(8, 2, low=0, high=1),), {}),
        ("unique", (f(5, 1),), {"sorted": False}),
        (suppress, (*two, *limits), {"most": 5}),
        (suppress, (*two, *limits), {"most": 1}),
        (suppress, (np.abs(two[0]), two[1], np.array([0]), *limits[1:]), {"most": 3, "box_format": "center"}),
        (suppress, (np.abs(two[0]), two[1], np.array([9]), *limits[1:]), {"most": 3, "box_format": "center"}),
    ]
    return [Call(op, inputs, attrs, exact=True) for op, inputs, attrs in rows]


CALLS = [
    *_unary(), *_binary(), *_rearranging(), *_indexing(), *_reducing(), *_linear(), *_convolving(), *_pooling(),
    *_normalizing(), *_quantizing(), *_resizing(), *_sampling(), *_layouts(), *_blocked(),
    *_recurrent(), *_caches(), *_counted(),
]  # fmt: skip
