"""Puts rows of attention together from random parts in random orders, and compares with the definition."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lessons.grading import attempt, cases, require

SCORES = st.one_of(
    st.integers(-5, 5).map(float),
    st.sampled_from([-np.inf, -np.inf, 10000.0, -10000.0, -20000.0, 700.0, -750.0, -1e7, -1e100]),
)


def expected(scores: list[float], values: np.ndarray) -> np.ndarray:
    """The definition, the largest score taken off."""
    seen = [k for k, s in enumerate(scores) if s > -np.inf]
    if not seen:
        return np.zeros(values.shape[1])
    s = np.array([scores[k] for k in seen])
    weights = np.exp(s - s.max())
    row: np.ndarray = weights @ values[seen] / weights.sum()
    return row


def size_after(module: ModuleType, keys: int) -> int:
    """Bytes of the state after so many keys, each added by itself."""
    held = attempt("start(2)", module.start, 2)
    for _ in range(keys):
        held = attempt("add", module.add, held, np.ones(1), np.ones((1, 2)))
    return len(pickle.dumps(held))


def check(module: ModuleType) -> None:
    """Raises AssertionError with a few small parts whose row is wrong."""

    @cases(1, keys=st.just(1000))
    def a_state_has_a_fixed_size(keys: int) -> None:
        few, many = (size_after(module, n) for n in (1, keys))
        require(
            many <= 2 * few + 200,
            f"a state of 1 key takes {few} bytes, and a state of {keys} keys takes {many}; wanted the same size",
        )

    @cases(200, parts=st.lists(st.lists(SCORES, max_size=3), max_size=4), joined=st.integers(0, 4), twice=st.booleans())
    def rows_from_parts(parts: list[list[float]], joined: int, twice: bool) -> None:
        scores = [s for part in parts for s in part]
        values = np.arange(2.0 * len(scores)).reshape(-1, 2) % 7 - 3
        case = f"the parts {parts}" + (f", the first {joined} of them merged with the others," if joined else "")

        case += " (each call made twice, the first answer thrown away: states stay as they are)" if twice else ""

        def call(what: str, function: Callable[..., Any], *args: Any) -> Any:
            for _ in range(twice):
                attempt(what, function, *args)
            return attempt(what, function, *args)

        def state(chosen: list[list[float]], first: int) -> Any:
            held = call("start(2)", module.start, 2)
            for part in chosen:
                last = first + len(part)
                held = call(f"add(..., {part})", module.add, held, np.array(part), values[first:last])
                first = last
            return held

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            held = state(parts[:joined], 0)
            if joined:
                rest = state(parts[joined:], sum(map(len, parts[:joined])))
                held = call("merge", module.merge, held, rest)
            else:
                held = state(parts, 0)
            row = call("result", module.result, held)
        require(
            isinstance(row, np.ndarray) and (row.dtype, row.shape) == ("float64", (2,)),
            f"{case} give {row!r}; wanted an array of float64, of shape (2,)",
        )
        wanted = expected(scores, values)
        close = bool(np.allclose(row, wanted, rtol=1e-9, atol=1e-12))
        require(close, f"{case} with the values {values.tolist()} give {row.tolist()}; wanted {wanted.tolist()}")
