"""What random nodes and calls of operators are drawn with: choices, shapes, axes and small data.

`Drawing` draws with Hypothesis, which shrinks what fails. `Seeded` draws from one seed, all choices alike often:
Hypothesis repeats parts of its earlier examples, so that rare pairs of attributes take it many more of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]


class Drawing:
    """Draws with Hypothesis; data come from a generator whose seed is drawn."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.rng = np.random.default_rng(draw(st.integers(0, 2**16)))

    def one(self, *values: Any) -> Any:
        return self.draw(st.sampled_from(values))

    def int(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def flag(self) -> bool:
        return self.draw(st.booleans())

    def permuted(self, values: Sequence[Any]) -> list[Any]:
        """The values in any order."""
        return list(self.draw(st.permutations(values)))

    def data(self, shape: Sequence[int], dtype: str = "float32", low: int = -4, high: int = 4) -> np.ndarray:
        """Integers from low to high in that dtype; not below 0 in an unsigned one."""
        least = max(low, 0) if np.dtype(dtype).kind == "u" else low
        return self.rng.integers(least, high + 1, tuple(shape)).astype(dtype)

    def shape(self, least: int = 1, most: int = 4) -> list[int]:
        """So many extents, at most 5 each."""
        return [self.one(1, 2, 3, 4, 5) for _ in range(self.int(least, most))]

    def axis(self, rank: int) -> int:
        """One axis, counted from either end."""
        return self.int(-rank, rank - 1)

    def axes(self, rank: int, least: int = 1) -> list[int]:
        """Different axes in any order, each counted from either end."""
        some = self.permuted(range(rank))[: self.int(least, rank)]
        return [a - rank if self.flag() else a for a in some]

    def attrs(self, **given: Any) -> dict[str, Any]:
        """Some of these attributes: those that are None, and some by chance, are left to their defaults."""
        return {k: v for k, v in given.items() if v is not None and self.int(0, 4)}


class Seeded(Drawing):
    """Draws from a seed, evenly."""

    def __init__(self, *seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def one(self, *values: Any) -> Any:
        return values[self.rng.integers(len(values))]

    def int(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high, endpoint=True))

    def flag(self) -> bool:
        return bool(self.rng.integers(2))

    def permuted(self, values: Sequence[Any]) -> list[Any]:
        return [values[k] for k in self.rng.permutation(len(values))]
