"""Compares the learner's rotation with the definition, pair by pair, on small random heads."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lessons.grading import attempt, cases, require

TOLERANCE = 1e-4  # the rounding of float32 is a thousandth of it


@st.composite
def heads(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    """Heads of small whole numbers [heads, length, width], and how many features are rotated."""
    rotated = 2 * draw(st.integers(1, 3))
    shape = draw(st.integers(1, 2)), draw(st.integers(1, 3)), rotated + draw(st.integers(0, 3))
    numbers = draw(st.lists(st.integers(-3, 3), min_size=math.prod(shape), max_size=math.prod(shape)))
    return np.array(numbers, "float32").reshape(shape), rotated


def check(module: ModuleType) -> None:
    """Raises AssertionError with a small head, one of whose features is wrong."""

    @cases(150, case=heads(), start=st.sampled_from([0, 1, 2, 5, 60_000]), base=st.sampled_from([4, 10, 10_000]),
           interleaved=st.booleans())  # fmt: skip
    def every_feature_is_right(case: tuple[np.ndarray, int], start: int, base: int, interleaved: bool) -> None:
        x, rotated = case
        call = f"rotate({x.tolist()}, start={start}, base={base}, rotated={rotated}, interleaved={interleaved})"
        y = attempt(call, module.rotate, x, start, float(base), rotated, interleaved)
        kind = f"{y.dtype} of shape {y.shape}" if isinstance(y, np.ndarray) else repr(y)
        require(kind == f"float32 of shape {x.shape}", f"{call} returned {kind}, wanted float32 of shape {x.shape}")
        for place in np.ndindex(x.shape):
            one_feature(call, place, x, float(y[place]), start, base, rotated, interleaved)


def one_feature(
    call: str, place: tuple[int, ...], x: np.ndarray, value: float, start: int, base: int, rotated: int,
    interleaved: bool,
) -> None:  # fmt: skip
    """Raises AssertionError unless the feature at a place [head, row, feature] of the result is right."""
    head, row, feature = place
    name = f"{call}: in head {head}, row {row}, feature {feature} is {value:.4g}"
    if feature >= rotated:
        stays = float(x[place])
        require(value == stays, f"{name}, wanted {stays:g}: only the first {rotated} features are rotated")
        return
    half = rotated // 2
    pair, is_second = (feature // 2, feature % 2) if interleaved else (feature % half, feature // half)
    first, second = (2 * pair, 2 * pair + 1) if interleaved else (pair, pair + half)
    values: Any = x[head, row].tolist()
    a, b = values[first], values[second]
    angle = (start + row) * base ** (-2 * pair / rotated)
    turned = a * math.sin(angle) + b * math.cos(angle) if is_second else a * math.cos(angle) - b * math.sin(angle)
    require(
        abs(value - turned) <= TOLERANCE,
        f"{name}, wanted {turned:.4g}\npair {pair} has the features {first} and {second}, which are {a:g} and {b:g}; "
        f"at position {start + row} it is turned by {start + row} * {base}^(-{2 * pair}/{rotated}) = {angle:.6g}",
    )
