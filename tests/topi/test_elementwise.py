"""Element-wise and broadcasting operators against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm import te, topi
from minitvm.errors import InputError, TypeMismatch
from minitvm.expr import SizeVar
from minitvm.reference.te import evaluate

Run = Callable[..., Any]


def softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(x, 0)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


UNARY: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp, "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "atan": np.arctan, "sigmoid": sigmoid, "erf": np.vectorize(math.erf), "negative": np.negative,
    "abs": np.abs, "sign": np.sign, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.round,
    "reciprocal": np.reciprocal, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "identity": np.array,
    "relu": lambda x: np.maximum(x, 0), "softplus": softplus, "softsign": lambda x: x / (1 + np.abs(x)),
    "silu": lambda x: x * sigmoid(x), "mish": lambda x: x * np.tanh(softplus(x)),
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1), "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)), "hard_sigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
    "shrink": lambda x: np.where(x < -0.5, x, np.where(x > 0.5, x, 0)),
    "thresholded_relu": lambda x: np.where(x > 1, x, 0), "celu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
}  # fmt: skip
POSITIVE: dict[str, Callable[[Any], Any]] = {
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "acosh": lambda x: np.arccosh(x),
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary(run: Run, rng: np.random.Generator, name: str) -> None:
    x = (rng.standard_normal((3, 5)) * 3).astype("float32")
    np.testing.assert_allclose(run(getattr(topi, name), x), UNARY[name](x.astype("float64")), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("name", POSITIVE)
def test_unary_of_numbers_from_one(run: Run, rng: np.random.Generator, name: str) -> None:
    x = (1 + rng.random((3, 5)) * 3).astype("float32")
    np.testing.assert_allclose(run(getattr(topi, name), x), POSITIVE[name](x.astype("float64")), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["asin", "acos", "atanh"])
def test_unary_of_fractions(run: Run, rng: np.random.Generator, name: str) -> None:
    x = (rng.random((3, 5)) * 1.8 - 0.9).astype("float32")
    wanted = getattr(np, name.replace("a", "arc", 1))(x.astype("float64"))
    np.testing.assert_allclose(run(getattr(topi, name), x), wanted, rtol=2e-5)


@pytest.mark.parametrize("name", ["relu", "clip", "sign", "softplus", "leaky_relu", "hard_sigmoid", "gelu"])
def test_nan_stays_nan(run: Run, name: str) -> None:
    attrs = {"a_min": -1.0, "a_max": 1.0} if name == "clip" else {}
    assert np.isnan(run(getattr(topi, name), np.array([np.nan], "float32"), **attrs)).all()


def test_softplus_does_not_overflow(run: Run) -> None:
    np.testing.assert_allclose(
        run(topi.softplus, np.array([-1000, 0, 1000], "float32")), [0, math.log(2), 1000], rtol=1e-6
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", ["abs", "sign", "relu", "floor", "negative", "clip"])
def test_other_dtypes_are_kept(run: Run, dtype: str, name: str) -> None:
    low = 0 if dtype.startswith("u") else -3
    x = np.arange(low, 4).astype(dtype)
    functions = {**UNARY, "clip": lambda v: np.clip(v, 1, 2)}
    attrs = {"a_min": 1, "a_max": 2} if name == "clip" else {}
    found = run(getattr(topi, name), x, **attrs)
    np.testing.assert_array_equal(found, functions[name](x).astype(dtype))


def test_cast_truncates_and_wraps(run: Run) -> None:
    x = np.array([-1.7, 0.0, 2.9], "float32")
    np.testing.assert_array_equal(run(topi.cast, x, dtype="int32"), [-1, 0, 2])
    np.testing.assert_array_equal(run(topi.cast, x, dtype="bool"), [True, False, True])
    np.testing.assert_array_equal(run(topi.cast, np.array([257, -1], "int32"), dtype="uint8"), [1, 255])


def test_prelu_has_a_slope_a_channel(run: Run, rng: np.random.Generator) -> None:
    x, alpha = rng.standard_normal((2, 3, 4)).astype("float32"), np.array([0.1, 0.5, 2], "float32")
    np.testing.assert_allclose(run(topi.prelu, x, alpha), np.where(x > 0, x, x * alpha[:, None]), rtol=1e-6)


BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "maximum": np.maximum,
    "minimum": np.minimum, "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal, "floor_divide": np.floor_divide, "mod": np.fmod,
    "floor_mod": np.mod, "atan2": np.arctan2,
}  # fmt: skip


@st.composite
def broadcastable(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes that broadcast."""
    full = draw(st.lists(st.integers(1, 4), max_size=4))
    shapes = []
    for _ in range(2):
        kept = full[draw(st.integers(0, len(full))) :]
        shapes.append(tuple(1 if draw(st.booleans()) else d for d in kept))
    return shapes[0], shapes[1]


@given(broadcastable(), st.sampled_from(sorted(BINARY)), st.integers(0, 99))
def test_binary_broadcasts_as_numpy_does(run: Run, shapes: Any, name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(1, 9, s).astype("float32") * rng.choice([-1, 1], s).astype("float32") for s in shapes)
    a, b = np.asarray(a, "float32"), np.asarray(b, "float32")
    np.testing.assert_allclose(run(getattr(topi, name), a, b), BINARY[name](a, b), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["floor_divide", "floor_mod", "mod"])
def test_integer_division_of_every_sign(run: Run, name: str) -> None:
    a, b = np.array([7, -7, 7, -7], "int32"), np.array([2, 2, -2, -2], "int32")
    np.testing.assert_array_equal(run(getattr(topi, name), a, b), BINARY[name](a, b))


def test_integer_divide_goes_toward_zero(run: Run) -> None:
    a, b = np.array([7, -7, 7, -7], "int64"), np.array([2, 2, -2, -2], "int64")
    np.testing.assert_array_equal(run(topi.divide, a, b), [3, -3, -3, 3])


def test_integer_power(run: Run) -> None:
    a, b = np.array([2, -3, 7], "int64"), np.array([10, 3, 0], "int64")
    np.testing.assert_array_equal(run(topi.power, a, b), [1024, -27, 1])


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logic(run: Run, name: str) -> None:
    a, b = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    np.testing.assert_array_equal(run(getattr(topi, name), a, b), getattr(np, name)(a, b))


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"])
def test_bits(run: Run, name: str) -> None:
    a, b = np.array([12, 255, 1], "uint8"), np.array([3, 2, 5], "uint8")
    np.testing.assert_array_equal(run(getattr(topi, name), a, b), getattr(np, name)(a, b))


def test_where_and_sums(run: Run, rng: np.random.Generator) -> None:
    c, x, y = np.array([[True], [False]]), *(rng.standard_normal((2, 3)).astype("float32") for _ in range(2))
    np.testing.assert_array_equal(run(topi.where, c, x, y), np.where(c, x, y))
    np.testing.assert_allclose(run(topi.elementwise_sum, x, y, x), x + y + x)


@pytest.mark.parametrize("start, stop, step", [(0, 5, 1), (7, 1, -2), (1, 2, 0.3), (5, 1, 1)])
def test_arange(run: Run, start: float, stop: float, step: float) -> None:
    dtype = "float32" if isinstance(step, float) else "int64"
    found = run(topi.arange, start=start, stop=stop, step=step, dtype=dtype)
    np.testing.assert_allclose(found, np.arange(start, stop, step, dtype), rtol=1e-6)


@pytest.mark.parametrize("step", [1, 2, 3, -1, -2, -3])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_arange_with_symbolic_ends(step: int, n: int) -> None:
    """From n - 1 to 2n up, from n - 1 to -n down."""
    size = SizeVar("n")
    x = te.placeholder((size,), name="x")
    places = topi.arange(start=size - 1, stop=2 * size if step > 0 else -size, step=step)
    (found,) = evaluate([places], {x: np.zeros(n, "float32")})
    np.testing.assert_array_equal(found, np.arange(n - 1, 2 * n if step > 0 else -n, step))


def test_arange_refuses_a_symbolic_end_with_a_fraction() -> None:
    with pytest.raises(InputError, match="needs an integer step, found 0.5"):
        topi.arange(stop=SizeVar("n"), step=0.5, dtype="float32")


def test_errors_name_the_operands() -> None:
    a, b = te.placeholder((2, 3)), te.placeholder((4,))
    with pytest.raises(TypeMismatch, match=r"shapes \(2, 3\) and \(4\) do not broadcast: 3 beside 4"):
        topi.add(a, b)
    with pytest.raises(TypeMismatch, match="add: the operands differ in dtype: float32 and int32"):
        topi.add(a, te.placeholder((3,), "int32"))
    with pytest.raises(TypeMismatch, match="bias_add: wanted a bias of shape"):
        topi.bias_add(a, b)
    with pytest.raises(InputError, match="gelu: approximate"):
        topi.gelu(a, approximate="maybe")
    with pytest.raises(InputError, match="does not become"):
        topi.broadcast_to(a, shape=(2, 1))


def test_a_number_beside_a_tensor_takes_its_dtype(run: Run) -> None:
    x = np.array([[1, -2], [3, 4]], "int16")
    for found, wanted in (
        (run(lambda t: topi.add(t, 1), x), x + 1),
        (run(lambda t: topi.subtract(5, t), x), 5 - x),
        (run(lambda t: topi.maximum(t, te.max_value("int16")), x), np.full((2, 2), 32767)),
        (run(lambda t: topi.less(t, 3), x), x < 3),
    ):
        np.testing.assert_array_equal(found, wanted)
    with pytest.raises(InputError, match="add: wanted a tensor, found int and float"):
        topi.add(1, 2.0)
