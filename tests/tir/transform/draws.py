"""What the makers of random programs draw with: a seed, and favourites of each program."""

from __future__ import annotations

from random import Random
from typing import Any

from minitvm.expr import Var


class Draws:
    """Draws of one program, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.weights: dict[str, float] = {}
        self.names = 0

    def int(self, low: int, high: int) -> int:
        """A number between two, both ends possible."""
        return self.random.randint(low, high)

    def one(self, *values: Any) -> Any:
        """One of some values."""
        return self.random.choice(values)

    def chance(self, some: int, of: int) -> bool:
        """True in `some` of `of` cases."""
        return self.random.randrange(of) < some

    def kind(self, *kinds: str) -> str:
        """One of some kinds. Each program has its own favourites and does almost without others, so that what needs
        several of one kind, or the same again, meets (Groce et al., "Swarm testing", 2012)."""
        weights = [self.weights.setdefault(k, self.random.choice((0.1, 1, 1, 5))) for k in kinds]
        return self.random.choices(kinds, weights)[0]

    def var(self, letter: str = "i") -> Var:
        """A variable with a name of its own."""
        self.names += 1
        return Var(f"{letter}{self.names}")
