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
    # Next to a half of 2^places: a float32 rounds them to the half itself.
    halves = st.builds(lambda k, d: ((1 << k) + d, k + 1), st.integers(24, 30), st.integers(-1, 1))

    def rounds(total: list[int], places: int) -> None:
        call = f"narrow({total}, {places})"
        answer = attempt(call, module.narrow, np.array(total, "int32"), places)
        same(call, answer, [nearest(Fraction(n) / Fraction(2) ** places) for n in total])

    cases(250, total=st.lists(sums, min_size=1, max_size=3), places=st.integers(-16, 40))(rounds)

    @cases(20, half=halves)
    def rounds_next_to_halves(half: tuple[int, int]) -> None:
        rounds([half[0]], half[1])


def adding(module: ModuleType) -> None:
    byte, ends = st.integers(-128, 127), st.sampled_from([-128, 127])
    units = st.integers(0, 8)

    def sums(a: int, b: int, ea: int, eb: int, e: int) -> None:
        call = f"add([{a}], {ea}, [{b}], {eb}, {e})"
        answer = attempt(call, module.add, np.array([a], "int8"), ea, np.array([b], "int8"), eb, e)
        exact = (Fraction(a, 2**ea) + Fraction(b, 2**eb)) * 2**e
        same(call, answer, [nearest(exact)])

    cases(200, a=byte, b=byte, ea=units, eb=units, e=units)(sums)
    far = st.sampled_from([0, 8])
    cases(50, a=ends, b=ends, ea=far, eb=far, e=units)(sums)


def choosing(module: ModuleType) -> None:
    special = [0.0, 0.1, -0.3, 1.0, -1.0, -0.5, 127.5, 127.6, 255.0]
    values = st.one_of(
        st.sampled_from(special),
        st.integers(-999, 999).map(lambda n: n / 64),
        st.integers(-99, 99).map(lambda n: n / 100),
    )

    def chooses(x: list[float], copies: int) -> None:
        tensor = np.array([*x[:1], *x[1:] * copies])
        call = f"exponent({x[:1]} + {copies} * {x[1:]})" if copies > 1 and x[1:] else f"exponent({x})"
        answer = attempt(call, module.exponent, tensor)
        require(isinstance(answer, int | np.integer), f"{call} returned {answer!r}, wanted an int")
        errors = {e: error(tensor, e) for e in exponents(tensor)}
        wanted = min(errors, key=lambda e: (errors[e], e))
        told = ", ".join(f"{float(value):.4g} with {e}" for e, value in errors.items())
        best, yours = errors[wanted], errors.get(int(answer), np.inf)
        is_near = best < yours <= best * (1 + 1e-9)  # a sum of floats in another order
        message = f"{call} returned {answer}, wanted {wanted}: the squared errors are {told}"
        require(int(answer) == wanted or is_near, message)

    # Cutting off one large value is worth two doublings if so many small ones gain from it.
    chooses([63.8, 0.25], 20000)
    few, scales = st.lists(values, min_size=1, max_size=4), st.sampled_from([1.0, 1.0, 2.0**-60, 2.0**40])
    scaled = st.builds(lambda x, scale: [value * scale for value in x], few, scales)
    cases(350, x=scaled, copies=st.sampled_from([1, 50]))(chooses)


def exponents(x: np.ndarray) -> list[int]:
    """The one that covers everything, and two above it."""
    largest = Fraction(float(abs(x).max()))
    if largest == 0:
        return [0]
    e = -120
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
