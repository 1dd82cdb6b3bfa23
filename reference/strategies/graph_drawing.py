"""Helpers to draw a random graph: choose suitable values, add inputs, and keep facts about each value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from minitvm.expr import SizeVar
from minitvm.graph import GraphBuilder, Value

from ..meaning.scalar import evaluate

EXACT_BELOW = {"bfloat16": 2.0**8, "float16": 2.0**11, "float32": 2.0**24, "float64": 2.0**53}
CHANNELS = (1, 3, 4, 5, 8, 16, 24)
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17)
LARGEST = 3000  # elements a value
LARGEST_DIM = 6  # a symbolic dimension is at most this


def fixed(dim: Any) -> int:
    """Return a dimension that is known to be an integer."""
    return int(dim)


@dataclass(frozen=True)
class Fact:
    """A fact about a value: |value| <= peak, also for partial sums; and whether it is exact or rounded."""

    peak: float
    exact: bool = True


class Drawing:
    """A graph that is being drawn."""

    def __init__(self, draw: st.DrawFn, symbolic: bool, empty: bool) -> None:
        self.draw: Callable[[st.SearchStrategy[Any]], Any] = draw
        self.empty = empty
        self.n = SizeVar("n") if symbolic else None
        self.size = draw(st.integers(0 if empty else 1, LARGEST_DIM)) if symbolic else 0
        self.rng = np.random.default_rng(draw(st.integers(0, 2**16)))
        self.b = GraphBuilder()
        self.facts: dict[Value, Fact] = {}
        self.arrays: dict[str, np.ndarray] = {}
        self.returned: list[Value] = []  # what the graph returns beside its last value

    # -- draws

    def one_of(self, options: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def flag(self) -> bool:
        return bool(self.draw(st.booleans()))

    def extent(self) -> int:
        if self.empty and self.draw(st.integers(0, 7)) == 7:
            return 0
        return int(self.one_of(EXTENTS))

    def pick(self, suits: Callable[[Value], bool] = lambda v: True) -> Value:
        """Draw a value for which `suits` is true, preferring new values; a new input if there is none."""
        fitting = [v for v in self.facts if suits(v) and self.elements(v.shape) <= LARGEST]
        if not fitting:
            return self.fresh([self.extent() for _ in range(self.draw(st.integers(1, 3)))], "float32")
        return fitting[-1] if self.flag() else self.one_of(fitting)

    def floats(self, exact: bool = False) -> Value:
        return self.pick(lambda v: v.dtype.is_float and (self.facts[v].exact or not exact))

    # -- values

    def data(self, shape: Sequence[Any], dtype: str, low: int, high: int) -> np.ndarray:
        concrete = [self.extent_of(d, self.size) for d in shape]
        if dtype == "bool":
            return self.rng.integers(0, 2, concrete).astype(bool)
        return self.rng.integers(max(low, 0) if dtype.startswith("u") else low, high + 1, concrete).astype(dtype)

    def fresh(
        self, shape: Sequence[Any], dtype: str, low: int = -3, high: int = 3, constant: bool | None = None
    ) -> Value:
        """Add a new input, or a constant."""
        array = self.data(shape, dtype, low, high)
        fixed = all(isinstance(d, int) for d in shape)
        if fixed and (self.flag() if constant is None else constant):
            value = self.b.constant(array)
        else:
            value = self.b.input(f"x{len(self.arrays)}", shape, dtype)
            self.arrays[value.name] = array
        self.facts[value] = Fact(max(abs(low), abs(high)))
        return value

    def holding(self, array: Any, peak: float | None = None, constant: bool | None = None) -> Value:
        """Add an input or a constant with these elements. Without a `peak`, no later move uses it, so it may have any
        size.
        """
        array = np.asarray(array)
        if self.flag() if constant is None else constant:
            value = self.b.constant(array)
        else:
            value = self.b.input(f"x{len(self.arrays)}", list(array.shape), array.dtype.name)
            self.arrays[value.name] = array
        if peak is not None:
            self.facts[value] = Fact(peak)
        return value

    def elements(self, shape: Sequence[Any]) -> int:
        return int(np.prod([self.extent_of(d, LARGEST_DIM) for d in shape]))

    def extent_of(self, dim: Any, n: int) -> int:
        """Return the value of a dimension (a number, n, or an expression of n) for this n."""
        if isinstance(dim, int):
            return dim
        assert self.n is not None, f"{dim} in a graph without symbolic dimensions"
        return int(evaluate(dim, {self.n: n}))

    def bounded(self, x: Value, factor: float = 1.0, square: bool = False) -> Value:
        """Return x, clipped if `factor` times x (or its square) would leave the exact range of its dtype."""
        fact = self.facts[x]
        limit = EXACT_BELOW.get(str(x.dtype), 2.0**62) / max(factor, 1.0)
        reached = fact.peak**2 if square else fact.peak
        if not x.dtype.is_float or reached <= limit:
            return x
        top = max(1, min(8, int(limit**0.5)))
        return self.op("clip", x, peak=top, a_min=-float(top), a_max=float(top))

    def op(self, name: str, *inputs: Any, peak: float, exact: bool = True, **attrs: Any) -> Any:
        """Add an operator and return its output (or outputs); store the facts about them."""
        results = self.b.op(name, *inputs, **attrs)
        facts = [self.facts[v] for v in inputs if isinstance(v, Value) and v in self.facts]
        fact = Fact(float(peak), exact and all(f.exact for f in facts))
        for value in results if isinstance(results, tuple) else (results,):
            self.facts[value] = fact
        return results

    def peak(self, *values: Value) -> float:
        return max(self.facts[v].peak for v in values)

    def shape_like(self, x: Value) -> list[Any]:
        """Draw a shape that broadcasts to the shape of x."""
        shape = [1 if self.draw(st.integers(0, 3)) == 3 else d for d in x.shape]
        return shape[self.draw(st.integers(0, len(shape))) if self.draw(st.integers(0, 2)) == 2 else 0 :]

    def alike(self, x: Value) -> list[Value]:
        """Return the values with the shape and dtype of x, including x."""
        return [v for v in self.facts if v.dtype == x.dtype and list(map(str, v.shape)) == list(map(str, x.shape))]

    def partner(self, x: Value, low: int = -3, high: int = 3) -> Value:
        """Draw a value with the dtype of x that broadcasts to x."""
        if self.flag():
            return self.one_of(self.alike(x))
        return self.fresh(self.shape_like(x), str(x.dtype), low, high)

    def image(self, exact: bool = False) -> Value:
        """Draw a float value of rank 4; a new input if there is none."""
        fitting = [
            v for v in self.facts
            if v.ndim == 4 and str(v.dtype) == "float32" and all(isinstance(d, int) for d in v.shape[1:])
            and 0 not in v.shape and (self.facts[v].exact or not exact)
        ]  # fmt: skip
        if fitting and self.draw(st.integers(0, 3)):
            return fitting[-1]
        batch = self.n if self.n is not None else self.one_of([1, 1, 2])
        size = st.integers(1, 8)
        return self.fresh([batch, self.one_of(CHANNELS), self.draw(size), self.draw(size)], "float32", constant=False)
