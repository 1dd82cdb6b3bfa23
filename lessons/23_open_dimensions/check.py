"""Compares the learner's shapes with the rule, and with NumPy at sizes that the guards allow."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lessons.grading import attempt, cases, require

SIZES = {"n": 3, "k": 3, "m": 5, "l": 3}


def expected(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[tuple[Any, Any]]] | None:
    """The rule of the exercise; None for shapes that do not fit."""
    shape, guards = [], []
    for place in range(-max(len(a), len(b)), 0):
        p = a[place] if -place <= len(a) else 1
        q = b[place] if -place <= len(b) else 1
        numbers = [d for d in (p, q) if isinstance(d, int) and d != 1]
        names = [d for d in (p, q) if isinstance(d, str)]
        if len(set(numbers)) > 1:
            return None
        shape.append(numbers[0] if numbers else names[0] if names else 1)
        if len(set(numbers + names)) > 1 and (p, q) not in guards:
            guards.append((p, q))
    return tuple(shape), guards


def check(module: ModuleType) -> None:
    """Raises AssertionError with small shapes for which the answer is wrong."""
    dims = st.sampled_from([1, 1, 3, 5, 0, "n", "n", "k", "m", "l"])
    shapes = st.lists(dims, max_size=3).map(tuple)
    names = st.lists(st.sampled_from(["n", "k", 3]), min_size=3, max_size=4).map(tuple)

    def sums(a: tuple[Any, ...], b: tuple[Any, ...]) -> None:
        case, wanted = f"broadcast({a}, {b})", expected(a, b)
        if wanted is None:
            try:
                answer = module.broadcast(a, b)
            except ValueError:
                return
            raise AssertionError(f"{case} returned {answer!r}, wanted a ValueError: two numbers do not fit")
        answer = attempt(case, module.broadcast, a, b)
        require(isinstance(answer, tuple) and len(answer) == 2, f"{case} returned {answer!r}, wanted (shape, guards)")
        shape, guards = answer
        require(tuple(shape) == wanted[0], f"{case}: the shape is {shape!r}, wanted {wanted[0]!r}")
        require(list(guards) == wanted[1], f"{case}: the guards are {guards!r}, wanted {wanted[1]!r}")
        held = all(SIZES.get(p, p) == SIZES.get(q, q) for p, q in guards)
        if held:
            sizes = [tuple(SIZES.get(d, d) for d in s) for s in (a, b, shape)]
            real = np.broadcast_shapes(*sizes[:2])
            require(real == sizes[2], f"{case} where {SIZES}: NumPy says {real}, the shape says {sizes[2]}")

    cases(400, a=shapes, b=shapes)(sums)
    cases(100, a=names, b=names)(sums)  # several pairs of names, some of them again
