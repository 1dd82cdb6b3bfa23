"""Choose the next token from logits: the best one, or a random one of the likely ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How tokens are drawn.

    Logits are divided by `temperature`; 0 means the most likely token. Of the tokens, the `top_k` most likely ones
    remain (0: all), and of these the fewest whose probabilities sum to at least `top_p` (Holtzman et al. 2020). The
    same `seed` draws the same tokens. Raises `InputError` for numbers that have no meaning.
    """

    temperature: float = 0.0
    top_k: int = 40
    top_p: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        for name, number, fits, limits in (
            ("temperature", self.temperature, 0 <= self.temperature < float("inf"), "a number from 0"),
            ("top-k", self.top_k, self.top_k >= 0, "a number from 0"),
            ("top-p", self.top_p, 0 < self.top_p <= 1, "a number above 0 and at most 1"),
            ("seed", self.seed, self.seed >= 0, "a number from 0"),
        ):
            if not fits:
                raise InputError(f"{name} is {number}, wanted {limits}")

    def chooser(self) -> Callable[[np.ndarray], int]:
        """Return a function from logits [vocabulary] to a token. It has a random generator of its own."""
        rng = np.random.default_rng(self.seed)
        return lambda logits: self._choice(logits, rng)

    def _choice(self, logits: np.ndarray, rng: np.random.Generator) -> int:
        best = int(np.argmax(logits))
        if not np.isfinite(logits[best]):
            raise InputError(f"the model computes no numbers: the logit of token {best} is {logits[best]}")
        if self.temperature == 0:
            return best
        tokens = self._likeliest(logits)
        with np.errstate(over="ignore"):  # at tiny temperatures, the less likely tokens get the probability 0
            likely = np.exp((logits[tokens] - logits[best].astype(np.float64)) / self.temperature)
        if self.top_p < 1:
            most = self.top_p * likely.sum()
            # All tokens with less than this have together less than 1 - top_p, so the others have enough.
            large = likely >= (likely.sum() - most) / len(likely)
            tokens, likely = tokens[large], likely[large]
            order = np.argsort(-logits[tokens], kind="stable")
            tokens, likely = tokens[order], likely[order]
            before = np.cumsum(likely) - likely  # the sum of the more likely ones
            tokens, likely = tokens[before < most], likely[before < most]
        return int(rng.choice(tokens, p=likely / likely.sum()))

    def _likeliest(self, logits: np.ndarray) -> np.ndarray:
        """Return the `top_k` likeliest tokens in order, or all tokens. Of equal ones, the lower token comes first."""
        if not 0 < self.top_k < len(logits):
            return np.arange(len(logits))
        least = np.partition(logits, -self.top_k)[-self.top_k]
        tokens = np.flatnonzero(logits >= least)  # without a sort of the whole vocabulary
        return tokens[np.argsort(-logits[tokens], kind="stable")][: self.top_k]
