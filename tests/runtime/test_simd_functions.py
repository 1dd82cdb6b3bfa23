"""The stated errors of exp, log, log1p, tanh, sigmoid, erf, sin and cos, measured; and that the rest is libm's."""

from __future__ import annotations

from collections.abc import Callable
from math import erf
from typing import Any

import numpy as np
import pytest

from minitvm.runtime.vectors.lanes import ELEMENTS

RANGE = {
    "exp": (-110.0, 92.0),
    "log": (-1.0, 3e38),
    "log1p": (-1.1, 2.0),
    "tanh": (-12.0, 12.0),
    "sigmoid": (-110.0, 110.0),
    "erf": (-6.0, 6.0),
    "sin": (-1000.0, 1000.0),
    "cos": (-10.0, 10.0),
}
EXACT: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp, "log": np.log, "log1p": np.log1p, "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": np.vectorize(erf), "sin": np.sin, "cos": np.cos,
}  # fmt: skip
# Results below the least normal number are zero.
FLUSHED = {"exp", "sigmoid"}
ULPS = {"exp": 2, "log": 2, "log1p": 3, "tanh": 3, "sigmoid": 4, "erf": 4, "sin": 2, "cos": 2}


def vector_kernel(name: str, element: str = "f32", lanes: int = 16) -> str:
    value = f"{name}(load(A, i, {lanes}))" if lanes else f"{name}(A[i])"
    write = f"store(R, i, {value})" if lanes else f"R[i] = {value}"
    return (
        f"from minitvm.runtime.vectors.simd import load, pointer_{element}, store, {name}\n"
        f"def kernel(args, thread, threads):\n"
        f"    A = pointer_{element}(args[0])\n    R = pointer_{element}(args[1])\n"
        f"    for i in range(0, args[2], {lanes or 1}):\n        {write}\n"
    )


def samples(name: str) -> Any:
    """Random bit patterns, an even grid, and the neighbourhoods of special values."""
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 1 << 32, 400_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    low, high = RANGE[name]
    grid = np.linspace(low, high, 400_000, dtype=np.float32)
    special = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-45, 1.1754944e-38, 3.4e38, -3.4e38, 88.7229,
                        88.72283, -87.4, -87.33654, -87.33655, 0.625, 0.9375, 4.0, 0.70710677, 1.4142135],
                       np.float32)  # fmt: skip
    near_one = (1 + np.linspace(-1e-3, 1e-3, 1000)).astype(np.float32)
    x = np.concatenate([bits, grid, special, np.nextafter(special, np.float32(9)), near_one])
    return np.resize(x, len(x) // 16 * 16)


def ulps(found: Any, exact: Any) -> Any:
    """Error in units of the last place of the exact float64 result, as float32."""
    size = np.spacing(np.maximum(np.abs(exact), 2.0**-126).astype(np.float32)).astype(np.float64)
    return np.abs(found.astype(np.float64) - exact) / size


@pytest.mark.parametrize("name", list(EXACT))
def test_float32_error(kernel: Any, name: str) -> None:
    x = samples(name)
    found = np.empty_like(x)
    kernel(vector_kernel(name))(x, found, len(x))
    with np.errstate(all="ignore"):
        exact = EXACT[name](x.astype(np.float64))
        wanted = exact.astype(np.float32)
        if name in FLUSHED:
            wanted = np.where(exact < np.finfo(np.float32).tiny, np.float32(0), wanted)
            # No result is subnormal, not even for arguments that round to the bound.
            assert not ((found > 0) & (found < np.finfo(np.float32).tiny)).any()
    unlike = np.isnan(wanted) | np.isinf(wanted) | (wanted == 0)
    near_overflow = np.isinf(found) & (np.abs(exact) > 3.4028e38)
    ordinary = ~unlike & ~near_overflow
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_array_equal(found[np.isinf(wanted)], wanted[np.isinf(wanted)])
    assert (found[wanted == 0] == 0).all()
    worst = ulps(found[ordinary], exact[ordinary]).max()
    assert worst <= ULPS[name], f"{name}: {worst} ulp"


@pytest.mark.parametrize("name", list(EXACT))
def test_a_scalar_gives_the_same_bits_as_a_vector(kernel: Any, name: str) -> None:
    x = samples(name)[::101].copy()
    x = x[: len(x) // 16 * 16]
    one, sixteen = np.empty_like(x), np.empty_like(x)
    kernel(vector_kernel(name, lanes=0))(x, one, len(x))
    kernel(vector_kernel(name))(x, sixteen, len(x))
    np.testing.assert_array_equal(one, sixteen)


@pytest.mark.parametrize("element, rtol", [("f64", 1e-15), ("f32", 3e-7), ("f16", 1e-3), ("bf16", 1e-2)])
def test_libm(kernel: Any, element: str, rtol: float) -> None:
    references: dict[str, Callable[[Any], Any]] = {
        "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
        "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
        "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "atanh": np.arctanh,
        "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "erf": np.vectorize(erf), "exp10": lambda x: 10**x,
        "rsqrt": lambda x: 1 / np.sqrt(x),
    }  # fmt: skip
    dtype = np.dtype(ELEMENTS[element].dtype)
    x = np.linspace(0.05, 0.95, 16).astype(dtype)
    names = list(references)
    run = kernel(
        f"from minitvm.runtime.vectors.simd import load, pointer_{element}, store, {', '.join(names)}\n"
        f"def kernel(args, thread, threads):\n    A = pointer_{element}(args[0])\n    R = pointer_{element}(args[1])\n"
        + "".join(f"    store(R, {16 * k}, {name}(load(A, 0, 16)))\n" for k, name in enumerate(names))
    )
    found = np.empty((len(names), 16), dtype)
    run(x, found)
    for name, row in zip(names, found):
        np.testing.assert_allclose(
            row.astype(np.float64), references[name](x.astype(np.float64)), rtol=rtol, atol=rtol, err_msg=name
        )


def test_two_arguments(kernel: Any) -> None:
    run = kernel(
        "from minitvm.runtime.vectors.simd import atan2, f32x8, fma, fmod, hypot, load, pointer_f32, pow, store\n"
        "def kernel(args, thread, threads):\n"
        "    A = pointer_f32(args[0])\n    B = pointer_f32(args[1])\n    R = pointer_f32(args[2])\n"
        "    a = load(A, 0, 8)\n    b = load(B, 0, 8)\n"
        "    store(R, 0, pow(a, b))\n    store(R, 8, atan2(a, b))\n    store(R, 16, hypot(a, b))\n"
        "    store(R, 24, fmod(a, b))\n    store(R, 32, fma(a, b, f32x8(-1.0)))\n"
    )
    a = np.array([1, 2, 0.5, 3, 9, 1.0000001, 7, 2], np.float32)
    b = np.array([2, -1, 3, 0.5, 2, 1.0000001, 2.5, 10], np.float32)
    r = np.empty((5, 8), np.float32)
    run(a, b, r)
    wide = a.astype(np.float64), b.astype(np.float64)
    for row, f in zip(r, (np.power, np.arctan2, np.hypot, np.fmod)):
        np.testing.assert_allclose(row, f(*wide), rtol=2e-7)
    np.testing.assert_array_equal(r[4], (wide[0] * wide[1] - 1).astype(np.float32))  # rounded once
