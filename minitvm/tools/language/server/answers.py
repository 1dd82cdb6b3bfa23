"""A text that a client wants continued, and its answer: tokens become text, until a stop string or a limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..tokenizer import TextDecoder


class StopText:
    """The part of a text before the first of some stop strings. The text comes in pieces.

    The stop string that ends first counts, and of several that end there the longest one. The result does not depend on
    where the pieces end. Text that may be the beginning of a stop string is returned later.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._rest = ""
        self.is_stopped = False

    def push(self, piece: str) -> str:
        """Return the text that is certain after a further piece."""
        text = self._rest + piece
        ends = [(begin + len(stop), begin) for stop in self._stops if (begin := text.find(stop)) >= 0]
        if ends:
            self.is_stopped, self._rest = True, ""
            return text[: min(ends)[1]]
        most = min(max(map(len, self._stops), default=1) - 1, len(text))
        count = next((n for n in range(most, 0, -1) if any(s.startswith(text[-n:]) for s in self._stops)), 0)
        cut = len(text) - count
        self._rest = text[cut:]
        return text[:cut]

    def end(self) -> str:
        """Return the text that was not certain, since no more pieces follow."""
        rest, self._rest = self._rest, ""
        return rest


@dataclass(eq=False, slots=True)
class Answer:
    """A request for the continuation of `prompt` by at most `count` tokens, and its state.

    `choose` returns the next token from logits. An answer ends for a `reason`: "stop" at a token of `ends` or at a stop
    string, or "length". If it ends by an error, `error` is its text. `reused` tokens of the prompt were in the caches.
    """

    prompt: list[int]
    count: int
    choose: Callable[[np.ndarray], int]
    ends: frozenset[int]
    decoder: TextDecoder
    stop: StopText
    pieces: list[str] = field(default_factory=list)
    tokens: int = 0
    reused: int = 0
    reason: str = ""
    error: str = ""
    is_cancelled: bool = False

    @property
    def is_over(self) -> bool:
        return bool(self.reason or self.error)

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def go_on(self, logits: np.ndarray) -> tuple[int, str]:
        """Choose the next token. Return it, and the text that is certain now."""
        token = self.choose(logits)
        if token in self.ends:
            self.reason = "stop"
            return token, self._add(self.stop.push(self.decoder.end()) + self.stop.end())
        self.tokens += 1
        piece = self.stop.push(self.decoder.push(token))
        if self.stop.is_stopped:
            self.reason = "stop"
        elif self.tokens >= self.count:
            self.reason = "length"
            piece += self.stop.push(self.decoder.end())
            piece += self.stop.end()
        return token, self._add(piece)

    def _add(self, piece: str) -> str:
        if piece:
            self.pieces.append(piece)
        return piece
