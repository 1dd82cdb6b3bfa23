"""The stated errors of elementary functions, in float32 and float64, and C's results for special values."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from math import erf
from typing import Any

import mpmath
import numpy as np
import pytest

from minitvm.machines.simd.vectors.lanes import ELEMENTS

WIDE = np.longdouble
FLUSHED = {"exp", "sigmoid"}  # results below the least normal number are zero
# Where a grid of arguments lies, beside random bit patterns.
RANGE = {
    "exp": (-110.0, 92.0), "exp2": (-152.0, 129.0), "exp10": (-46.0, 39.0), "expm1": (-50.0, 90.0),
    "log": (-1.0, 9.0), "log2": (0.0, 9.0), "log10": (0.0, 1000.0), "log1p": (-1.1, 2.0),
    "tanh": (-22.0, 22.0), "sinh": (-92.0, 92.0), "cosh": (-92.0, 92.0), "sigmoid": (-110.0, 110.0), "erf": (-6.0, 6.0),
    "sin": (-1000.0, 1000.0), "cos": (-10.0, 10.0), "tan": (-20.0, 20.0), "asin": (-1.0, 1.0), "acos": (-1.0, 1.0),
    "atan": (-5.0, 5.0), "asinh": (-5.0, 5.0), "acosh": (0.9, 5.0), "atanh": (-1.0, 1.0),
}  # fmt: skip
EXACT: dict[str, Callable[[Any], Any]] = {
    **{name: getattr(np, name) for name in RANGE if hasattr(np, name)},
    "exp10": lambda x: np.power(WIDE(10), x), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh,
}  # fmt: skip
ULPS = {
    "exp": 2, "exp2": 1, "exp10": 2, "expm1": 2, "log": 2, "log2": 1, "log10": 1, "log1p": 3, "tanh": 3, "sinh": 3,
    "cosh": 2, "sigmoid": 4, "sin": 2, "cos": 2, "tan": 3, "asin": 2, "acos": 2, "atan": 2, "asinh": 3, "acosh": 3,
    "atanh": 3,
}  # fmt: skip
ULPS_OF_TWO = {"pow": 2, "atan2": 2, "hypot": 2}
EXACT_OF_TWO = {"pow": np.power, "atan2": np.arctan2, "hypot": np.hypot, "fmod": np.fmod}
FORMATS = {"f32": (np.float32, np.uint32), "f64": (np.float64, np.uint64)}
SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 2.5, 1e30, -1e30, 1e-30)


def vector_kernel(name: str, element: str = "f32", lanes: int = 16) -> str:
    value = f"{name}(load(A, i, {lanes}))" if lanes else f"{name}(A[i])"
    write = f"store(R, i, {value})" if lanes else f"R[i] = {value}"
    return (
        f"from minitvm.machines.simd.vectors.simd import load, pointer_{element}, store, {name}\n"
        f"def kernel(args, thread, threads):\n"
        f"    A = pointer_{element}(args[0])\n    R = pointer_{element}(args[1])\n"
        f"    for i in range(0, args[2], {lanes or 1}):\n        {write}\n"
    )


def kernel_of_two(name: str, element: str = "f32", lanes: int = 8) -> str:
    value = f"{name}(load(A, i, {lanes}), load(B, i, {lanes}))" if lanes else f"{name}(A[i], B[i])"
    write = f"store(R, i, {value})" if lanes else f"R[i] = {value}"
    return (
        f"from minitvm.machines.simd.vectors.simd import load, pointer_{element}, store, {name}\n"
        f"def kernel(args, thread, threads):\n"
        f"    A = pointer_{element}(args[0])\n    B = pointer_{element}(args[1])\n    R = pointer_{element}(args[2])\n"
        f"    for i in range(0, args[3], {lanes or 1}):\n        {write}\n"
    )


def specials(dtype: Any) -> Any:
    """Numbers at which a format or a function changes its course."""
    info = np.finfo(dtype)
    edges = [info.max, info.smallest_normal, info.smallest_subnormal, info.eps, 88.7229, 88.72283, 87.4,
             87.33654, 87.33655, 709.78, 708.3964185322641, 708.396418532264, 0.625, 0.9375, 4.0,
             0.70710677, 1.4142135, 0.41421356, 2.41421356, np.pi / 2, np.pi, 2.0**30, 2.0**31, 1e22]  # fmt: skip
    x = np.array([*SPECIAL, *edges, *(-e for e in edges)], WIDE).astype(dtype)
    return np.concatenate([x, np.nextafter(x, dtype(9)), np.nextafter(x, dtype(-9))])


def samples(name: str, element: str = "f32", count: int = 200_000) -> Any:
    """Random bit patterns, an even grid, and the neighbourhoods of special values."""
    dtype, bits = FORMATS[element]
    rng = np.random.default_rng(3)
    patterns = rng.integers(0, np.iinfo(bits).max, count, dtype=bits, endpoint=True).view(dtype)
    low, high = RANGE[name]
    scale = 8 if element == "f64" and high > 30 and name not in ("sin", "log10") else 1  # the exponents reach further
    grid = np.linspace(low * scale, high * scale, count).astype(dtype)
    near_one = (1 + np.linspace(-1e-3, 1e-3, 1000)).astype(dtype)
    magnitudes = (2.0 ** rng.uniform(-30, 31, count // 4) * rng.choice([-1, 1], count // 4)).astype(dtype)
    x = np.concatenate([patterns, grid, magnitudes, specials(dtype), near_one])
    return np.resize(x, len(x) // 16 * 16)


def exact_of(name: str, x: Any) -> Any:
    """The function's values in extended precision; `mpmath` knows an exact `erf`, and sines of large arguments."""
    with np.errstate(all="ignore"):
        return EXACT[name](x.astype(WIDE))


def ulps(found: Any, exact: Any) -> Any:
    """Error in units of the last place of the exact result, subnormals included."""
    info = np.finfo(found.dtype)
    size = np.spacing(np.maximum(np.abs(exact), info.smallest_normal).astype(found.dtype)).astype(WIDE)
    return np.abs(found.astype(WIDE) - exact) / size


def check(name: str, found: Any, exact: Any, most: float) -> None:
    """Ordinary results within so many ulps; NaN, infinities and the signs of zeros as they are."""
    dtype = found.dtype
    if name in FLUSHED:
        least = np.finfo(dtype).smallest_normal
        assert not ((found > 0) & (found < least)).any()  # not even for arguments that round to the bound
        assert (found[exact < least] == 0).all()
        exact = np.where(exact < least, WIDE(0), exact)
    with np.errstate(all="ignore"):
        rounded = exact.astype(dtype)
        largest = np.finfo(dtype).max
        near_overflow = (np.abs(exact) > largest * WIDE(1 - 1e-6)) & (np.abs(exact) < largest * WIDE(1 + 1e-6))
        special = np.isnan(rounded) | np.isinf(rounded) | near_overflow
        np.testing.assert_array_equal(np.isnan(found), np.isnan(rounded))
        infinite = np.isinf(rounded) & ~near_overflow
        np.testing.assert_array_equal(found[infinite], rounded[infinite])
        zero = exact == 0
        np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(rounded[zero]))
        worst = ulps(found[~special], exact[~special]).max()
    assert worst <= most, f"{name}: {worst} ulp"


@pytest.mark.parametrize("element", FORMATS)
@pytest.mark.parametrize("name", list(ULPS))
def test_error(kernel: Any, name: str, element: str) -> None:
    x = samples(name, element)
    found = np.empty_like(x)
    kernel(vector_kernel(name, element))(x, found, len(x))
    check(name, found, exact_of(name, x), ULPS[name])


def near_multiples(element: str) -> Any:
    """Numbers next to multiples of pi/2, where argument reduction cancels most, for each exponent from 0 on.

    They are best approximations: a number m 2^e is near n pi/2 if m/n is a convergent of pi / 2^(e+1). Those of
    16367173 * 2^72 and 6381956970095103 * 2^797 are the nearest of all in float32 and float64 (Muller).
    """
    dtype = FORMATS[element][0]
    info = np.finfo(dtype)
    numbers: list[float] = [float(np.pi / 2 * n) for n in (1, 2, 3, 11, 355, 710, 103993, 10**8, 5 * 10**8)]
    with mpmath.workdps(700):
        for exponent in range(-info.nmant, info.maxexp - info.nmant):
            rest, before, m = mpmath.pi / mpmath.mpf(2) ** (exponent + 1), 0, 1
            while m < 2 << info.nmant:  # convergents of the continued fraction
                if m >= 1 << info.nmant:  # the others occur with another exponent
                    numbers.append(float(mpmath.ldexp(m, exponent)))
                before, m = m, int(rest) * m + before
                rest = 1 / (rest - int(rest))
    x = np.array(numbers, WIDE).astype(dtype)
    x = x[np.abs(x) >= 1]
    assert dtype(16367173 * 2**72 if element == "f32" else 6381956970095103 * 2.0**797) in x
    return np.resize(np.concatenate([x, -x]), -(-2 * len(x) // 16) * 16)


@pytest.mark.parametrize("element", FORMATS)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_nearest_to_a_multiple_of_half_pi(kernel: Any, name: str, element: str) -> None:
    x = near_multiples(element)
    with mpmath.workdps(400):
        exact = np.array([WIDE(mpmath.nstr(getattr(mpmath, name)(mpmath.mpf(float(v))), 25)) for v in x])
    actual = np.empty_like(x)
    kernel(vector_kernel(name, element))(x, actual, len(x))
    assert ulps(actual, exact).max() <= ULPS[name]


@pytest.mark.parametrize("element", FORMATS)
def test_erf(kernel: Any, element: str) -> None:
    dtype = FORMATS[element][0]
    x = np.resize(np.concatenate([np.linspace(-6.2, 6.2, 8000).astype(dtype), specials(dtype)]), 8160)
    found = np.empty_like(x)
    kernel(vector_kernel("erf", element))(x, found, len(x))
    with mpmath.workdps(30):
        exact = np.array([WIDE(mpmath.nstr(mpmath.erf(mpmath.mpf(float(v))), 25)) if v == v else WIDE(v) for v in x])
    exact = np.copysign(exact, x)
    if element == "f64":
        check("erf", found, exact, 2)
    else:
        np.testing.assert_array_equal(np.isnan(found), np.isnan(x))
        ordinary = ~np.isnan(x)
        assert ulps(found[ordinary], exact[ordinary]).max() <= 4
        assert np.abs(found[ordinary] - exact[ordinary]).max() <= 2e-7


@pytest.mark.parametrize("element", FORMATS)
@pytest.mark.parametrize("name", list(ULPS_OF_TWO))
def test_error_of_two(kernel: Any, name: str, element: str) -> None:
    dtype, bits = FORMATS[element]
    rng = np.random.default_rng(5)
    patterns = [rng.integers(0, np.iinfo(bits).max, 100_000, dtype=bits, endpoint=True).view(dtype) for _ in "xy"]
    ordinary = [(2.0 ** rng.uniform(-20, 20, 200_000)).astype(dtype), rng.uniform(-60, 60, 200_000).astype(dtype)]
    near_one = [(1 + rng.uniform(-1e-3, 1e-3, 50_000)).astype(dtype), rng.uniform(-1e5, 1e5, 50_000).astype(dtype)]
    whole = [rng.uniform(-9, 9, 50_000).astype(dtype), rng.integers(-20, 20, 50_000).astype(dtype)]
    pairs = np.array(list(itertools.product(specials(dtype), repeat=2)), dtype).T
    x, y = (
        np.resize(np.concatenate(parts), 450_000)
        for parts in zip(patterns, ordinary, near_one, whole, pairs, strict=True)
    )
    found = np.empty_like(x)
    kernel(kernel_of_two(name, element))(x, y, found, len(x))
    with np.errstate(all="ignore"):
        exact = EXACT_OF_TWO[name](x.astype(WIDE), y.astype(WIDE))
    check(name, found, exact, ULPS_OF_TWO[name])


@pytest.mark.parametrize("element", FORMATS)
@pytest.mark.parametrize("exponent", [2.0, 1.0, 0.5, -0.5, -1.0, 3.0])
def test_powers_with_an_exponent_that_is_known(kernel: Any, exponent: float, element: str) -> None:
    x = samples("log", element, 20_000)
    found = np.empty_like(x)
    source = vector_kernel("pow", element).replace("16))", f"16), {element}x16({exponent}))")
    kernel(source.replace("store, pow", f"store, pow, {element}x16"))(x, found, len(x))
    with np.errstate(all="ignore"):
        check("pow", found, np.power(x.astype(WIDE), WIDE(exponent)), 2)


@pytest.mark.parametrize("lanes", [0, 8])
@pytest.mark.parametrize("element", FORMATS)
def test_fmod_is_exact(kernel: Any, element: str, lanes: int) -> None:
    dtype, bits = FORMATS[element]
    rng = np.random.default_rng(6)
    patterns = [rng.integers(0, np.iinfo(bits).max, 100_000, dtype=bits, endpoint=True).view(dtype) for _ in "xy"]
    ordinary = [rng.uniform(-1000, 1000, 200_000).astype(dtype), rng.uniform(-9, 9, 200_000).astype(dtype)]
    # Multiples of the divisor and their neighbours: the quotient rounds to an integer that it does not reach.
    divisors = rng.uniform(0.1, 9, 100_000).astype(dtype)
    multiples = (divisors.astype(WIDE) * rng.integers(1, 1 << 20, 100_000)).astype(dtype)
    pairs = np.array(list(itertools.product(specials(dtype), repeat=2)), dtype).T
    x = np.concatenate([patterns[0], ordinary[0], multiples, np.nextafter(multiples, dtype(0)), pairs[0]])
    y = np.concatenate([patterns[1], ordinary[1], divisors, divisors, pairs[1]])
    x, y = np.resize(x, len(x) // 8 * 8), np.resize(y, len(x) // 8 * 8)
    found = np.empty_like(x)
    kernel(kernel_of_two("fmod", element, lanes))(x, y, found, len(x))
    with np.errstate(all="ignore"):
        exact = np.fmod(x, y)
    np.testing.assert_array_equal(found, exact)
    numbers = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(exact[numbers]))


@pytest.mark.parametrize("element", FORMATS)
@pytest.mark.parametrize("name", [*ULPS, "erf"])
def test_a_scalar_gives_the_same_bits_as_a_vector(kernel: Any, name: str, element: str) -> None:
    x = samples(name if name != "erf" else "tanh", element)[::101].copy()
    x = x[: len(x) // 16 * 16]
    one, sixteen = np.empty_like(x), np.empty_like(x)
    kernel(vector_kernel(name, element, lanes=0))(x, one, len(x))
    kernel(vector_kernel(name, element))(x, sixteen, len(x))
    np.testing.assert_array_equal(one, sixteen)


@pytest.mark.parametrize("element, rtol", [("f64", 1e-15), ("f32", 3e-7), ("f16", 1e-3), ("bf16", 1e-2)])
def test_every_dtype(kernel: Any, element: str, rtol: float) -> None:
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
        f"from minitvm.machines.simd.vectors.simd import load, pointer_{element}, store, {', '.join(names)}\n"
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
        "from minitvm.machines.simd.vectors.simd import atan2, f32x8, fma, fmod, hypot, load, pointer_f32, pow, store\n"
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
