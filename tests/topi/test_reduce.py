"""Reductions against NumPy, over axes that Hypothesis draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm import te, topi
from minitvm.errors import InputError
from minitvm.reference import te as te_reference
from tests.fewer import examples

Run = Callable[..., Any]


def log_sum_exp(x: np.ndarray, **kw: Any) -> Any:
    return np.log(np.exp(x).sum(**kw))


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "mean": np.mean, "variance": np.var,
    "l1": lambda x, **kw: np.abs(x).sum(**kw), "l2": lambda x, **kw: np.sqrt((x**2).sum(**kw)),
    "sum_square": lambda x, **kw: (x**2).sum(**kw), "logsumexp": log_sum_exp,
}  # fmt: skip


@st.composite
def reductions(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[str, Any]]:
    """A shape, and axis and keepdims for it."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    axes = draw(st.lists(st.sampled_from(range(len(shape))), min_size=1, unique=True))
    axis = draw(st.sampled_from([None, tuple(axes), axes[0], axes[0] - len(shape)]))
    return shape, {"axis": axis, "keepdims": draw(st.booleans())}


@pytest.mark.parametrize("name", REDUCTIONS)
@examples(15)
@given(reductions(), st.integers(0, 99))
def test_reductions(run: Run, name: str, drawn: Any, seed: int) -> None:
    shape, attrs = drawn
    x = np.random.default_rng(seed).standard_normal(shape).astype("float32")
    wanted = REDUCTIONS[name](x.astype("float64"), **attrs)
    np.testing.assert_allclose(run(getattr(topi, name), x, **attrs), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["any", "all", "max", "min"])
@given(reductions(), st.integers(0, 99))
def test_reductions_of_bools(run: Run, name: str, drawn: Any, seed: int) -> None:
    shape, attrs = drawn
    x = np.random.default_rng(seed).random(shape) < 0.5
    np.testing.assert_array_equal(run(getattr(topi, name), x, **attrs), getattr(np, name)(x, **attrs))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@given(reductions(), st.integers(0, 99))
def test_index_of_the_first_or_last_of_equals(run: Run, name: str, drawn: Any, seed: int) -> None:
    shape, attrs = drawn
    axis = attrs["axis"] if isinstance(attrs["axis"], int) else None
    x = np.random.default_rng(seed).integers(-2, 3, shape).astype("float32")
    found = run(getattr(topi, name), x, axis=axis, keepdims=attrs["keepdims"])
    np.testing.assert_array_equal(found, getattr(np, name)(x, axis=axis, keepdims=attrs["keepdims"]))
    if axis is None:
        return
    last = run(getattr(topi, name), x, axis=axis, keepdims=True, select_last_index=True)
    turned = getattr(np, name)(np.flip(x, axis), axis=axis, keepdims=True)
    np.testing.assert_array_equal(last, x.shape[axis] - 1 - turned)


def test_argmax_of_infinities(run: Run) -> None:
    x = np.array([[-np.inf, -np.inf], [np.inf, -np.inf]], "float32")
    np.testing.assert_array_equal(run(topi.argmax, x, axis=1), [0, 0])
    np.testing.assert_array_equal(run(topi.argmin, x, axis=0), [0, 0])


def test_maximum_of_minus_infinity_and_nan(run: Run) -> None:
    assert run(topi.max, np.full(3, -np.inf, "float32")) == -np.inf
    assert np.isnan(run(topi.max, np.array([1, np.nan, 2], "float32")))


def test_logsumexp_does_not_overflow(run: Run) -> None:
    x = np.array([1000, 1000], "float32")
    np.testing.assert_allclose(run(topi.logsumexp, x), 1000 + np.log(2), rtol=1e-6)
    assert run(topi.logsumexp, np.full(3, -np.inf, "float32")) == -np.inf


def test_no_axes_is_no_reduction(run: Run) -> None:
    x = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(run(topi.sum, x, axis=()), x)
    np.testing.assert_array_equal(run(topi.sum_square, x, axis=()), x**2)


def test_integers_keep_their_dtype(run: Run) -> None:
    x = np.array([[1, -2, 5], [7, 0, -9]], "int64")
    np.testing.assert_array_equal(run(topi.sum, x, axis=1), [4, -2])
    np.testing.assert_array_equal(run(topi.mean, x, axis=1), [1, 0])


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumsum(run: Run, exclusive: bool, reverse: bool) -> None:
    x = np.arange(1, 13, dtype="float32").reshape(3, 4)
    turned = np.flip(x, 1) if reverse else x
    wanted = np.cumsum(turned, 1) - (turned if exclusive else 0)
    found = run(topi.cumsum, x, axis=1, exclusive=exclusive, reverse=reverse)
    np.testing.assert_array_equal(found, np.flip(wanted, 1) if reverse else wanted)


def test_errors() -> None:
    x = te.placeholder((2, 3))
    with pytest.raises(InputError, match="axis 2 is out of range for 2 dimensions"):
        topi.sum(x, axis=2)
    with pytest.raises(InputError, match="comes twice"):
        topi.sum(x, axis=(1, -1))


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "l1", "l2", "sum_square", "all", "any", "mean"])
def test_over_no_axes_it_is_what_one_element_comes_to(name: str) -> None:
    x = te.placeholder((2, 3), "float32", name="x")
    array = np.array([[-2, 0, 1], [3, -1, 0]], np.float32)
    (found,) = te_reference.evaluate(getattr(topi, name)(x, axis=()), {x: array})
    wanted = {"l1": np.abs, "l2": np.abs, "sum_square": np.square, "all": np.bool_, "any": np.bool_}
    np.testing.assert_array_equal(found, wanted.get(name, np.float32)(array))
    assert found.dtype == wanted.get(name, np.float32)(array).dtype
