"""NaN, infinities, zeros of both signs, wrapping integers and empty tensors: compiled code against the interpreter.

One graph holds all operators of a group, so that a group is compiled at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm.errors import InputError
from minitvm.graph import GraphBuilder
from minitvm.reference import graph as interpreter

Call = tuple[str, tuple[np.ndarray, ...], dict[str, Any]]

SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1, -1, 2.5, -2.5, 3e38, -3e38, 1e-45], np.float32)
LEFT, RIGHT = np.repeat(SPECIAL, 12), np.tile(SPECIAL, 12)


def table() -> np.ndarray:
    """Random numbers with NaN, both infinities and a negative zero among them, in rows longer than any vector."""
    x = np.random.default_rng(0).standard_normal((13, 150)).astype("float32")
    x[3, 5] = x[3, 77] = x[9, 5] = np.nan
    x[7, 1], x[7, 2], x[0, 0], x[5] = np.inf, -np.inf, -0.0, -np.inf
    return x


def floats(dtype: str) -> list[Call]:
    with np.errstate(over="ignore"):
        one, left, right = SPECIAL.astype(dtype), LEFT.astype(dtype), RIGHT.astype(dtype)
    unary = ("nn.relu", "abs", "negative", "sign", "ceil", "floor", "round", "trunc", "isnan", "isinf", "isfinite")
    binary = ("maximum", "minimum", "add", "subtract", "multiply", "divide", "floor_mod", "equal", "less", "greater")
    calls: list[Call] = [(op, (one,), {}) for op in unary]
    calls += [(op, (left, right), {}) for op in binary]
    return [*calls, ("clip", (one,), {"a_min": -1.0, "a_max": 1.0})]


def reductions() -> list[Call]:
    calls: list[Call] = []
    for axis in (0, 1):
        calls += [(op, (table(),), {"axis": axis}) for op in ("max", "min", "argmax", "argmin")]
        calls.append(("argmax", (table(),), {"axis": axis, "select_last_index": True}))
    picture = np.where(np.random.default_rng(1).random((1, 3, 9, 9)) < 0.1, np.nan, -np.inf).astype("float32")
    return [
        *calls,
        ("nn.max_pool2d", (picture,), {"pool_size": 3, "padding": 1}),
        ("nn.global_max_pool", (picture,), {}),
        ("argmin", (np.arange(256, dtype="uint64").reshape(8, 32),), {"axis": 1}),
        ("sum", (np.ones((4, 3000), "float16"),), {"axis": 1}),
        ("mean", (np.full((2, 3000), 100, "float16"),), {"axis": 1}),
        ("sum", (np.full((4, 3000), 7, "int8"),), {"axis": 1}),
    ]


def integers(dtype: str) -> list[Call]:
    info = np.iinfo(dtype)
    edge = np.array([info.min, info.min + 1, 0, 1, 2, 7, info.max - 1, info.max]).astype(dtype)
    signed = [-7, -3, -1] if info.min else []
    divisors = np.array([*signed, 1, 2, 3, 7]).astype(dtype)
    a, b = np.repeat(edge, len(divisors)), np.tile(divisors, len(edge))
    keep = ~((a == info.min) & (b == -1)) if info.min else np.ones(len(a), bool)
    calls: list[Call] = [(op, (a[keep], b[keep]), {}) for op in ("divide", "floor_divide", "mod", "floor_mod")]
    wide = np.arange(200).astype(dtype)
    calls += [(op, (wide, np.roll(wide, 7)), {}) for op in ("add", "subtract", "multiply", "maximum", "less")]
    amounts = (np.arange(200) % 100).astype(dtype)  # also farther than there are bits
    calls += [(op, (wide, amounts), {}) for op in ("left_shift", "right_shift")]
    return [*calls, ("negative", (edge,), {}), ("abs", (edge,), {})]


def empty() -> list[Call]:
    none, no_columns = np.zeros((3, 0), "float32"), np.zeros((0, 4), "float32")
    return [
        ("sum", (none,), {"axis": 1}),
        ("sum", (none,), {"axis": 0}),
        ("max", (none,), {"axis": 1}),
        ("nn.matmul", (none, no_columns), {}),
        ("nn.dense", (none, np.zeros((4, 0), "float32")), {}),
        ("nn.conv2d", (np.zeros((1, 0, 4, 4), "float32"), np.zeros((4, 0, 3, 3), "float32")), {}),
        ("nn.conv2d", (np.zeros((0, 3, 4, 4), "float32"), np.zeros((4, 3, 3, 3), "float32")), {}),
        ("nn.softmax", (none,), {}),
        ("negative", (none,), {}),
        ("cumsum", (none,), {"axis": 1, "exclusive": True}),
        ("cumsum", (none,), {"axis": 0}),
        ("add", (np.array(1, "float32"), np.array(2, "float32")), {}),
    ]


GROUPS: dict[str, list[Call]] = {
    "float32": floats("float32"), "float64": floats("float64"), "float16": floats("float16"),
    "reductions": reductions(), "int8": integers("int8"), "uint8": integers("uint8"), "int32": integers("int32"),
    "int64": integers("int64"), "empty": empty(),
}  # fmt: skip


@pytest.mark.parametrize("group", GROUPS)
def test_compiled_values_are_those_of_the_interpreter(group: str) -> None:
    b = GraphBuilder()
    inputs: dict[str, np.ndarray] = {}
    outputs = []
    for op, arrays, attrs in GROUPS[group]:
        values = [b.input(f"x{len(inputs) + k}", a.shape, a.dtype.name) for k, a in enumerate(arrays)]
        inputs.update({v.name: a for v, a in zip(values, arrays, strict=True)})
        outputs.append(b.op(op, *values, **attrs))
    graph = b.build(outputs)
    wanted = interpreter.run(graph, inputs)
    found = tvm.build(graph, threads=2)(**inputs)
    for (op, arrays, attrs), a, w in zip(GROUPS[group], found, wanted, strict=True):
        assert a.dtype == w.dtype
        np.testing.assert_array_equal(a, w, err_msg=f"{op} {[x.dtype.name for x in arrays]} {attrs}")


REFUSED: list[tuple[str, tuple[np.ndarray, ...], dict[str, Any], str]] = [
    ("argmax", (np.zeros((3, 0), "float32"),), {"axis": 1}, "wanted entries along axis 1 to choose from, found none"),
    ("subtract", (np.ones(3, bool), np.ones(3, bool)), {}, "found bool"),
    ("mean", (np.ones(3, bool),), {}, "found bool"),
    ("nn.conv2d", (np.zeros((1, 3, 2, 2), "f"), np.zeros((4, 3, 3, 3), "f")), {}, "larger than the padded input"),
]


@pytest.mark.parametrize("op, arrays, attrs, text", REFUSED, ids=[r[0] for r in REFUSED])
def test_what_has_no_meaning_is_refused(op: str, arrays: Any, attrs: Any, text: str) -> None:
    b = GraphBuilder()
    with pytest.raises(InputError, match=text):
        b.op(op, *(b.input(f"x{k}", a.shape, a.dtype.name) for k, a in enumerate(arrays)), **attrs)


def test_constant_indices_out_of_bounds_are_an_error_that_names_the_operator() -> None:
    b = GraphBuilder()
    graph = b.build(b.op("take", b.constant(np.ones((3, 4), "float32")), b.constant(np.array([5])), axis=0))
    with pytest.raises(InputError, match="take.*out of bounds"):
        tvm.build(graph)
