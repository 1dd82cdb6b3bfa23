"""A language model that continues several texts at once, each in a slot of the caches."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .... import build
from ..model import CONTEXT
from ..source import open_model

CHUNK = 128  # tokens of a prompt in a run, at most


class SlotModel:
    """A model in a GGUF file, or in a folder of Hugging Face, with caches for `slots` texts.

        logits = model.read(2, tokens, 0)                     # a prompt begins, in slot 2
        rows = model.step([(2, 15, 904), (0, 31, 77)])        # tokens 904 and 77, at positions 15 and 31

    A row of `step` has the same bits whatever the other rows are: each operator computes a row from that row alone, and
    the kernels sum in an order that does not depend on the number of rows. A text is therefore continued in the same
    way alone and together with others.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, slots: int = 8, context: int | None = None,
        cache_dtype: str = "float32", threads: int | None = None,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> None:  # fmt: skip
        source = open_model(path)
        self.name, self.template, self.tokenizer = source.name, source.template, source.tokenizer
        self.context = min(CONTEXT, *source.lengths) if context is None else context
        self.slots = slots
        options: dict[str, Any] = {"max_length": self.context, "cache_dtype": cache_dtype, "threads": threads}
        self._batch, self._prompt = (
            build(source.model, shapes={"tokens": shape}, slots=slots, progress=progress, **options)
            for shape in (("batch", 1), (1, "length"))
        )
        self._prompt.share_states(self._batch)
        self.vocabulary = int(self._batch.executable.outputs[0].shape[1])
        self._logits = np.zeros((slots, self.vocabulary), np.float32)

    @property
    def threads(self) -> int:
        return self._batch.threads

    def read(self, slot: int, tokens: Sequence[int], position: int) -> np.ndarray:
        """Write tokens of a text into a slot, from a position on. Return the logits after the last of them."""
        rows = self._prompt(tokens=_ints([tokens]), positions=_ints([position]), slots=_ints([slot]))
        logits: np.ndarray = rows[0]
        return logits

    def step(self, rows: Sequence[tuple[int, int, int]]) -> np.ndarray:
        """Write one token of each text, (slot, position, token). Return the logits after them, float32 [rows,
        vocabulary], which the next step overwrites.
        """
        table = _ints(rows)
        logits = self._logits[: len(rows)]
        slots, positions, tokens = (np.ascontiguousarray(table[:, k]) for k in range(3))
        self._batch(tokens=tokens[:, None], positions=positions, slots=slots, out=logits)
        return logits


def _ints(numbers: Any) -> np.ndarray:
    return np.array(numbers, np.int32)
