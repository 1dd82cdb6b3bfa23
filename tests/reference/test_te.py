"""Tensor expressions: slow and fast agree in bits, and with the loop programs that they become."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm import te, tir
from minitvm.errors import ExecutionError, InputError
from minitvm.reference import te as reference
from minitvm.reference import tir as loops


def both(outputs: Any, inputs: Any) -> list[np.ndarray]:
    slow, fast = reference.evaluate(outputs, inputs, mode="slow"), reference.evaluate(outputs, inputs, mode="fast")
    for a, b in zip(slow, fast):
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()
    return fast


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 6), st.sampled_from(["float32", "float16", "int8"]))
def test_matmul(m: int, n: int, k: int, dtype: str) -> None:
    a, b = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
    axis = te.reduce_axis((0, k), name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, axis] * b[axis, j], axis=axis), name="C")
    rng = np.random.default_rng(0)
    left, right = (rng.integers(-4, 5, s).astype(dtype) for s in ((m, k), (k, n)))
    (found,) = both([c], {a: left, b: right})
    with np.errstate(all="ignore"):
        assert (found == left @ right).all()
    program = te.create_prim_func([a, b, c])
    for mode in ("slow", "fast"):
        result = np.empty((m, n), dtype)
        loops.run(program, left, right, result, mode=mode)
        assert result.tobytes() == found.tobytes()


def test_chain_with_padding_softmax_and_symbolic_size() -> None:
    n = te.var("n")
    data = te.placeholder((3, n), name="X")
    padded = te.compute((3, n + 2), lambda i, j: te.if_then_else(te.all(j >= 1, j <= n), data[i, j - 1], 0.0), name="P")
    k, q = te.reduce_axis((0, n + 2), name="k"), te.reduce_axis((0, n + 2), name="q")
    top = te.compute((3,), lambda i: te.max(padded[i, k], axis=k), name="top")
    powers = te.compute((3, n + 2), lambda i, j: te.exp(padded[i, j] - top[i]), name="powers")
    total = te.compute((3,), lambda i: te.sum(powers[i, q], axis=q), name="total")
    result = te.compute((3, n + 2), lambda i, j: powers[i, j] / total[i], name="softmax")
    array = np.random.default_rng(0).standard_normal((3, 5)).astype("float32")
    (found,) = both([result], {data: array})
    wide = np.pad(array, ((0, 0), (1, 1))).astype(np.float64)
    np.testing.assert_allclose(found, np.exp(wide) / np.exp(wide).sum(1, keepdims=True), rtol=1e-6)
    program = te.create_prim_func([data, result])
    lowered = np.empty((3, 7), "float32")
    loops.run(program, array, lowered)
    assert lowered.tobytes() == found.tobytes()


def test_argmax_with_a_tuple_reducer() -> None:
    def combine(a: Any, b: Any) -> Any:
        better = te.any(a[1] > b[1], te.all(a[1] == b[1], a[0] < b[0]))
        return tir.Select(better, a[0], b[0]), tir.Select(better, a[1], b[1])

    argmax = te.comm_reducer(combine, lambda i, v: (tir.const(-1, i), te.min_value(v)), name="argmax")
    data = te.placeholder((4, 6), name="X")
    k = te.reduce_axis((0, 6), name="k")
    where, value = te.compute((4,), lambda i: argmax((k.var, data[i, k]), axis=k), name="argmax")
    array = np.random.default_rng(3).integers(-3, 3, (4, 6)).astype("float32")
    found, largest = both([where, value], {data: array})
    assert found.tolist() == array.argmax(1).tolist()
    assert largest.tolist() == array.max(1).tolist()


def test_reads_outside_of_a_tensor() -> None:
    data = te.placeholder((4,), name="X")
    shifted = te.compute((4,), lambda i: data[i + 1], name="Y")
    for mode in ("slow", "fast"):
        with pytest.raises(ExecutionError) as caught:
            reference.evaluate([shifted], {data: np.zeros(4, "float32")}, mode=mode)
        assert str(caught.value) == (
            "out of bounds: X[i + 1] at index (4)\n  wanted: 0 <= i + 1 < 4 in dimension 0 of X\n  found:  4"
        )


def test_arrays_that_do_not_fit() -> None:
    n = te.var("n")
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    c = te.compute((n,), lambda i: a[i] + b[i], name="C")
    with pytest.raises(InputError, match="B: dimension 0 does not fit"):
        reference.evaluate([c], {a: np.zeros(3, "float32"), b: np.zeros(4, "float32")})
    with pytest.raises(InputError, match="A takes an array of"):
        reference.evaluate([c], {a: np.zeros(3, "float64"), b: np.zeros(3, "float32")})
    with pytest.raises(InputError, match="no array was given for B"):
        reference.evaluate([c], {a: np.zeros(3, "float32")})


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("reduce", [te.sum, te.prod])
def test_a_reduction_of_integers_is_data_and_wraps(reduce: Any, dtype: str) -> None:
    a, axis = te.placeholder((4,), dtype, name="A"), te.reduce_axis((0, 4), name="k")
    c = te.compute((1,), lambda i: reduce(a[axis], axis=axis), name="C")
    program, least = te.create_prim_func([a, c]), np.iinfo(dtype).min
    for values in ([least, least, 3, 1], [-1 - least, 1, 5, 7]):
        (found,) = both([c], {a: np.array(values, dtype)})
        result = np.empty((1,), dtype)
        loops.run(program, np.array(values, dtype), result)
        assert result.tobytes() == found.tobytes()
