"""Quotients and remainders of integers at the edges of their dtypes, and of floats that are nearly multiples."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.runtime.conftest import compiled

INTEGERS = [f"{k}{n}" for k in "iu" for n in (8, 16, 32, 64)]
OPERATIONS = ("truncdiv", "truncmod", "floordiv", "floormod")


def pairs(element: str) -> tuple[Any, Any]:
    """Every pair of numbers at edges, and random ones of all lengths: eight at a time."""
    bits, signed = int(element[1:]), element[0] == "i"
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    near = [p + d for e in range(bits) for p in (1 << e, -(1 << e)) for d in (-1, 0, 1)]
    edges = sorted({e for e in (*near, low, high, low + 1, high - 1, 7, -7, 100) if low <= e <= high})
    dtype = f"{'' if signed else 'u'}int{bits}"
    a, b = np.array(list(itertools.product(edges, repeat=2)), dtype).T
    return np.resize(a, len(a) // 8 * 8), np.resize(b, len(b) // 8 * 8)


def exact(operation: str, a: Any, b: Any) -> Any:
    """Python's integers; x / 0 and x mod 0 are 0, and results wrap."""
    results = []
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        floor, rest = divmod(x, y) if y else (0, 0)
        away = y and rest and (x < 0) != (y < 0)  # rounding towards zero is rounding up
        quotient, left = (floor + 1, rest - y) if operation.startswith("trunc") and away else (floor, rest)
        results.append(quotient if operation.endswith("div") else left)
    return np.array([r & ((1 << 8 * a.itemsize) - 1) for r in results], f"uint{8 * a.itemsize}").view(a.dtype)


def _divided(operation: str, element: str, a: Any, b: Any, lanes: int) -> Any:
    both = f"load(A, i, {lanes}), load(B, i, {lanes})" if lanes else "A[i], B[i]"
    write = f"store(R, i, {operation}({both}))" if lanes else f"R[i] = {operation}({both})"
    run = compiled(
        f"from minitvm.machines.simd.vectors.simd import load, pointer_{element}, store, {operation}\n"
        f"def kernel(args, thread, threads):\n    A = pointer_{element}(args[0])\n    B = pointer_{element}(args[1])\n"
        f"    R = pointer_{element}(args[2])\n    for i in range(0, args[3], {lanes or 1}):\n        {write}\n"
    )
    r = np.empty_like(a)
    run(a, b, r, len(a))
    return r


def quotients(elements: Any = ("i64", "u64"), operations: Any = ("truncdiv",), lanes: Any = (8,)) -> None:
    for element in elements:
        a, b = pairs(element)
        for operation in operations:
            for count in lanes:
                np.testing.assert_array_equal(_divided(operation, element, a, b, count), exact(operation, a, b))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("element", INTEGERS)
def test_quotients(element: str, operation: str) -> None:
    quotients([element], [operation], (0, 8))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("divisor", [7, -3, 1, -1, 0, 2, 16, -16, 1 << 30, -1 << 31])
def test_divisors_that_are_known(operation: str, divisor: int) -> None:
    a, _ = pairs("i32")
    run = compiled(
        f"from minitvm.machines.simd.vectors.simd import load, pointer_i32, store, {operation}\n"
        "def kernel(args, thread, threads):\n    A = pointer_i32(args[0])\n    R = pointer_i32(args[1])\n"
        f"    for i in range(0, args[2], 8):\n        store(R, i, {operation}(load(A, i, 8), {divisor}))\n"
    )
    r = np.empty_like(a)
    run(a, r, len(a))
    np.testing.assert_array_equal(r, exact(operation, a, np.full_like(a, divisor)))


def remainders() -> None:
    """Multiples of a divisor and their neighbours: a quotient rounds to an integer that it does not reach."""
    rng = np.random.default_rng(0)
    b = rng.uniform(0.1, 9, 4096).astype("float32")
    multiples = (b * rng.integers(1, 1 << 20, 4096)).astype("float32")
    for a in (multiples, np.nextafter(multiples, np.float32(0))):
        np.testing.assert_array_equal(_divided("truncmod", "f32", a, b, 8), np.fmod(a, b))


def test_remainders() -> None:
    remainders()
