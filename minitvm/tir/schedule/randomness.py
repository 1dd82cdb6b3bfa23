"""A small random number generator for sampling primitives. It is the same on every machine, and its state is a single
number.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from ...errors import InputError

_MULTIPLIER, _MODULUS = 48271, 2**31 - 1


class RandomNumbers:
    """The minimal standard generator (Park and Miller; C++'s `minstd_rand`). `state` is its entire state."""

    __slots__ = ("state",)

    def __init__(self, seed: int | None) -> None:
        if not (seed is None or isinstance(seed, int)):
            raise InputError(f"a seed is a whole number, or -1 or None for any; found {seed!r}")
        # As in TVM, no seed means a different one each time. It does not use Python's own generator, whose state tests
        # set.
        start = 1 + secrets.randbelow(_MODULUS - 1) if seed is None or seed == -1 else seed
        self.state = start % _MODULUS or 1  # 0 would stay 0 for ever

    def next(self) -> int:
        """Return the next number, which is from 1 to 2^31 - 2."""
        self.state = self.state * _MULTIPLIER % _MODULUS
        return self.state

    def below(self, count: int) -> int:
        """Return a number from 0 to `count` - 1. `count` must be small compared with 2^31."""
        # The high bits are the better ones of such a generator.
        return self.next() * count // _MODULUS

    def weighted(self, weights: Sequence[float]) -> int:
        """Return a random position, where each position has a probability proportional to its weight."""
        aim = self.next() / _MODULUS * sum(weights)
        for position, weight in enumerate(weights):
            aim -= weight
            if aim < 0:
                return position
        return max(p for p, w in enumerate(weights) if w > 0)  # rounding of the sum can lead here

    def fork(self) -> int:
        """Return a seed for another generator whose numbers are independent of the numbers of this generator."""
        return self.next() * 32767 % 1999999973
