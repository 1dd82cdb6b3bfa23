"""Holds the learner's functions against exact fractions, on small tensors."""

from __future__ import annotations

import warnings
from fractions import Fraction
from math import floor
from types import ModuleType

import numpy as np
from hypothesis import strategies as st

from lessons.grading import attempt, cases, require


def check(module: ModuleType) -> None:
    """Raises AssertionError with a small tensor that becomes other bytes."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        narrowing(module)
        adding(module)
        choosing(module)


def narrowing(module: ModuleType) -> None:
    near = st.builds(lambda n, k, d: (n << k) + d, st.integers(-300, 300), st.integers(0, 8), st.integers(-1, 1))
    sums = st.one_of(near, st.sampled_from([2**31 - 1, -(2**31), 2**24 + 1, -(2**24) - 3]))

    @cases(300, total=st.lists(sums, min_size=1, max_size=3), places=st.integers(-16, 30))
    def rounds(total: list[int], places: int) -> None:
        call = f"narrow({total}, {places})"
        answer = attempt(call, module.narrow, np.array(total, "int32"), places)
        same(call, answer, [nearest(Fraction(n) / Fraction(2) ** places) for n in total])


def adding(module: ModuleType) -> None:
    byte = st.integers(-128, 127)
    units = st.integers(0, 8)

    @cases(200, a=byte, b=byte, ea=units, eb=units, e=units)
    def sums(a: int, b: int, ea: int, eb: int, e: int) -> None:
        call = f"add([{a}], {ea}, [{b}], {eb}, {e})"
        answer = attempt(call, module.add, np.array([a], "int8"), ea, np.array([b], "int8"), eb, e)
        exact = (Fraction(a, 2**ea) + Fraction(b, 2**eb)) * 2**e
        same(call, answer, [nearest(exact)])


def choosing(module: ModuleType) -> None:
    values = st.one_of(
        st.sampled_from([0.0, 0.1, -0.3, 1.0, 127.5, 127.6, 255.0]), st.integers(-999, 999).map(lambda n: n / 64)
    )

    @cases(200, x=st.lists(values, min_size=1, max_size=4), copies=st.sampled_from([1, 50]))
    def chooses(x: list[float], copies: int) -> None:
        tensor = np.array([*x[:1], *x[1:] * copies])
        call = f"exponent({x[:1]} + {copies} * {x[1:]})"
        answer = attempt(call, module.exponent, tensor)
        require(isinstance(answer, int | np.integer), f"{call} returned {answer!r}, wanted an int")
        errors = {e: error(tensor, e) for e in exponents(tensor)}
        wanted = min(errors, key=lambda e: (errors[e], e))
        told = ", ".join(f"{float(value):.4g} with {e}" for e, value in errors.items())
        require(int(answer) == wanted, f"{call} returned {answer}, wanted {wanted}: the squared errors are {told}")


def exponents(x: np.ndarray) -> list[int]:
    """The one that covers everything, and two above it."""
    largest = Fraction(float(abs(x).max()))
    if largest == 0:
        return [0]
    e = -20
    while largest * Fraction(2) ** (e + 1) <= Fraction(255, 2):
        e += 1
    return [e, e + 1, e + 2]


def error(x: np.ndarray, e: int) -> float:
    rounded = np.clip(np.rint(np.ldexp(x, e)), -128, 127)
    return float(np.square(np.ldexp(rounded, -e) - x).sum())


def nearest(value: Fraction) -> int:
    return min(max(floor(value + Fraction(1, 2)), -128), 127)


def same(call: str, answer: object, wanted: list[int]) -> None:
    good = isinstance(answer, np.ndarray) and answer.dtype == "int8" and answer.shape == (len(wanted),)
    require(good, f"{call} returned {answer!r}, wanted int8 of shape ({len(wanted)},)")
    require(answer.tolist() == wanted, f"{call} returned {answer.tolist()}, wanted {wanted}")  # type: ignore[attr-defined]
