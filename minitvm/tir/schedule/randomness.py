"""The random numbers behind sampling primitives: small, the same on every machine, and a value that can be kept."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from ...errors import InputError

_MULTIPLIER, _MODULUS = 48271, 2**31 - 1


class RandomNumbers:
    """The minimal standard generator (Park and Miller; C++'s `minstd_rand`). `state` is its whole state."""

    __slots__ = ("state",)

    def __init__(self, seed: int | None) -> None:
        if not (seed is None or isinstance(seed, int)):
            raise InputError(f"a seed is a whole number, or -1 or None for any; found {seed!r}")
        # As in TVM, no seed means a different one each time; not from Python's own generator, whose state is a test's.
        start = 1 + secrets.randbelow(_MODULUS - 1) if seed is None or seed == -1 else seed
        self.state = start % _MODULUS or 1  # 0 would stay 0 for ever

    def next(self) -> int:
        """The next number, from 1 to 2^31 - 2."""
        self.state = self.state * _MULTIPLIER % _MODULUS
        return self.state

    def below(self, count: int) -> int:
        """A number from 0 to count - 1; `count` is small beside 2^31."""
        # The high bits are the better ones of such a generator.
        return self.next() * count // _MODULUS

    def weighted(self, weights: Sequence[float]) -> int:
        """The position of one of the weights, each as likely as it is heavy."""
        aim = self.next() / _MODULUS * sum(weights)
        for position, weight in enumerate(weights):
            aim -= weight
            if aim < 0:
                return position
        return max(p for p, w in enumerate(weights) if w > 0)  # the sum was rounded

    def fork(self) -> int:
        """A seed for another generator, whose numbers have nothing to do with this one's."""
        return self.next() * 32767 % 1999999973
