"""Operators of StableHLO. LiteRT has kernels for few of them, so NumPy says what they compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from minitvm.frontends import from_tflite
from minitvm.frontends.tflite import registry
from minitvm.reference import graph as interpreter

from .writing import Case, Graph, Node, Tensor, constant, written

Row = tuple[list[Tensor], list[Tensor], str, Mapping[str, Any], Callable[..., Any]]

_X, _POSITIVE = Tensor((2, 3)), {0: (0.5, 3.0), 1: (0.5, 3.0)}
_FLAGS, _WHOLE = Tensor((2, 3), "bool"), Tensor((2, 3), "int32")
_MAPS: dict[str, Callable[..., Any]] = {
    "ABS": np.abs, "COSINE": np.cos, "EXPONENTIAL": np.exp, "FLOOR": np.floor, "LOG": np.log, "NEGATE": np.negative,
    "LOGISTIC": lambda x: 1 / (1 + np.exp(-x)), "RSQRT": lambda x: x**-0.5, "TANH": np.tanh, "CBRT": np.cbrt,
}  # fmt: skip
_PAIRS: dict[str, Callable[..., Any]] = {
    "ADD": np.add, "DIVIDE": np.divide, "MAXIMUM": np.maximum, "MINIMUM": np.minimum, "MULTIPLY": np.multiply,
    "POWER": np.power, "REMAINDER": np.fmod, "SUBTRACT": np.subtract,
}  # fmt: skip
_COMPARISONS = (np.equal, np.not_equal, np.greater_equal, np.greater, np.less_equal, np.less)

_ROWS: dict[str, Row] = {
    **{name: ([_X], [_X], "", {}, function) for name, function in _MAPS.items()},
    **{name: ([_X, _X], [_X], "", {}, function) for name, function in _PAIRS.items()},
    **{
        f"COMPARE {k}": ([_X, _X], [_FLAGS], "StablehloCompareOptions", {"comparisonDirection": k}, function)
        for k, function in enumerate(_COMPARISONS)
    },
    "AND": ([_FLAGS, _FLAGS], [_FLAGS], "", {}, np.logical_and),
    "OR": ([_WHOLE, _WHOLE], [_WHOLE], "", {}, np.bitwise_or),
    "SHIFT_LEFT": ([_WHOLE, constant(np.full((2, 3), 2, "int32"))], [_WHOLE], "", {}, lambda x: x << 2),
    "SELECT": ([_FLAGS, _X, _X], [_X], "", {}, np.where),
    "CLAMP": ([constant(np.float32(0.7)), _X, constant(np.float32(1.4))], [_X], "", {}, lambda x: np.clip(x, 0.7, 1.4)),
    "CONVERT": ([_X], [_WHOLE], "", {}, lambda x: x.astype("int32")),
    "CONCATENATE": (
        [_X, _X], [Tensor((2, 6))], "StablehloConcatenateOptions", {"dimension": 1},
        lambda x, y: np.concatenate([x, y], 1),
    ),
    "RESHAPE": ([_X], [Tensor((3, 2))], "", {}, lambda x: x.reshape(3, 2)),
    "TRANSPOSE": ([_X], [Tensor((3, 2))], "StablehloTransposeOptions", {"permutation": [1, 0]}, np.transpose),
    "BROADCAST_IN_DIM": (
        [_X, constant([0, 2], "int64")], [Tensor((2, 4, 3))], "", {},
        lambda x: np.broadcast_to(x[:, None], (2, 4, 3)),
    ),
    "SLICE": (
        [_X], [Tensor((1, 2))], "StablehloSliceOptions",
        {"startIndices": [1, 0], "limitIndices": [2, 3], "strides": [1, 2]}, lambda x: x[1:2, 0:3:2],
    ),
    "IOTA": (
        [], [_WHOLE], "StablehloIotaOptions", {"iotaDimension": 1},
        lambda: np.broadcast_to(np.arange(3, dtype="int32"), (2, 3)),
    ),
    "PAD": (
        [_X, constant(np.float32(9))], [Tensor((3, 6))], "StablehloPadOptions",
        {"edgePaddingLow": [1, 0], "edgePaddingHigh": [0, 1], "interiorPadding": [0, 1]},
        lambda x: np.pad(np.insert(x, [1, 2], 9, axis=1), ((1, 0), (0, 1)), constant_values=9),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _ROWS)
def test_one_operator(name: str) -> None:
    inputs, outputs, table, options, function = _ROWS[name]
    ranges = _POSITIVE if all(tensor.dtype == "float32" for tensor in inputs) else {}
    case = Case(f"STABLEHLO_{name.split()[0]}", inputs, outputs, table, options, ranges)
    arrays = case.arrays(3)
    (array,) = interpreter.run(from_tflite(case.model()), arrays)
    expected = function(*arrays)
    assert array.dtype == expected.dtype and array.shape == expected.shape
    np.testing.assert_allclose(array, expected, rtol=1e-6)


def test_a_loop() -> None:
    x, flag = Tensor((2,)), Tensor((), "bool")
    table = {"condSubgraphIndex": 1, "bodySubgraphIndex": 2}
    main = Graph([x, x], [Node("STABLEHLO_WHILE", [0], [1], "StablehloWhileOptions", table)], [0], [1])
    total, limit = Tensor(()), constant(np.float32(100))
    going = Graph(
        [x, constant([0], "int32"), total, limit, flag],
        [Node("SUM", [0, 1], [2], "ReducerOptions"), Node("LESS", [2, 3], [4], "LessOptions")], [0], [4],
    )  # fmt: skip
    body = Graph([x, x], [Node("ADD", [0, 0], [1], "AddOptions")], [0], [1])
    (doubled,) = interpreter.run(from_tflite(written(main, going, body)), [np.array([3, 4], "float32")])
    np.testing.assert_array_equal(doubled, [48, 64])


def test_every_operator_has_a_case() -> None:
    names = {name.removeprefix("STABLEHLO_") for name in registry.converters() if name.startswith("STABLEHLO_")}
    assert names == {name.split()[0] for name in _ROWS} | {"WHILE"}
