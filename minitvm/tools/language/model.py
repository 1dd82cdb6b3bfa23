"""A language model that is ready to run: a program for prompts, a program for single tokens, and their caches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ... import build
from ...errors import InputError, report
from ...executable.nodes import CallKernel, ConstantRef
from .source import open_model
from .tokenizer import check_tokens

CONTEXT = 2048  # tokens for which caches have memory by default
CHUNK = 256  # tokens of a prompt in a run, at most
_FEW = 2  # tokens that are faster one by one


class LanguageModel:
    """A model in a GGUF file, or in a folder of Hugging Face, with its vocabulary.

        model = LanguageModel("model.gguf")
        tokens = model.tokenizer.encode("The capital of France is")
        for token in model.generate(tokens, Sampling().chooser(), 20): ...

    `context` is the number of tokens for which the caches have memory: the text and the answer together. The caches
    are float32, or float16 (`cache_dtype`), which takes half of the memory. `tokens` are those whose keys and values
    the caches hold. A text that begins with them costs only its rest.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, context: int | None = None, cache_dtype: str = "float32",
        threads: int | None = None, progress: Callable[[str, int, int], None] | None = None,
    ) -> None:  # fmt: skip
        source = open_model(path)
        self.name, self.template, self.tokenizer = source.name, source.template, source.tokenizer
        self.context = min(CONTEXT, *source.lengths) if context is None else context
        options: dict[str, Any] = {"max_length": self.context, "cache_dtype": cache_dtype, "threads": threads}
        lengths = (1, "length")
        self._one, self._many = (
            build(source.model, shapes={"tokens": (1, n)}, progress=progress, **options) for n in lengths
        )
        self._many.share_states(self._one)
        self.vocabulary = int(self._one.executable.outputs[0].shape[1])
        self.tokens: list[int] = []

    @property
    def weight_bytes(self) -> int:
        """The bytes of the constants that are read for every token. Of a table that is indexed by `take`, such as the
        embedding, a token reads only a row, so these tables do not count.
        """
        executable = self._one.executable
        read = {
            argument.index
            for step in executable.steps
            if isinstance(step, CallKernel) and step.operator.partition("_")[0] != "take"
            for argument in step.args
            if isinstance(argument, ConstantRef)
        }
        return sum(constant.data.nbytes for k, constant in enumerate(executable.constants) if k in read)

    @property
    def threads(self) -> int:
        return self._one.threads

    def logits(self, text: Sequence[int]) -> np.ndarray:
        """Return the logits after a text, float32 [vocabulary]. The caches hold the text then.

        Raises `InputError` if the text is empty, or longer than the context.
        """
        text = list(text)
        if not text:
            raise InputError("a text has at least one token")
        same = self._cached_length(text)
        check_tokens(text[same:], self.vocabulary)
        self.require_room(text)
        at = min(same, len(text) - 1)  # the last token is computed in any case, as its logits are wanted
        self.tokens = text[:at]
        while at < len(text):
            left = len(text) - at
            program, length = (self._one, 1) if left <= _FEW else (self._many, min(left, CHUNK))
            rows = program(tokens=np.array([text[at : at + length]], np.int32), positions=np.array([at], np.int32))
            at += length
            self.tokens = text[:at]
        result: np.ndarray = rows[0]
        return result

    def _cached_length(self, text: list[int]) -> int:
        """Return how many tokens at the beginning of a text the caches hold. While a model generates, these are all but
        the last one, so this case is found without a loop in Python.
        """
        cached = len(self.tokens)
        if text[:cached] == self.tokens:
            return cached
        return next((k for k, (a, b) in enumerate(zip(self.tokens, text, strict=False)) if a != b), len(text))

    def require_room(self, text: Sequence[int]) -> None:
        """Raise `InputError` if a text is longer than the context."""
        if len(text) > self.context:
            raise InputError(
                report(
                    "the context is full",
                    wanted=f"at most {self.context} tokens",
                    found=f"{len(text)} tokens",
                    tries=("a larger context", "a shorter text"),
                )
            )

    def generate(
        self, text: Sequence[int], choose: Callable[[np.ndarray], int], count: int,
        shortened: Callable[[list[int]], list[int]] | None = None,
    ) -> Iterator[int]:  # fmt: skip
        """Yield up to `count` tokens after a text. The end of the answer is not yielded.

        When the context is full, the model goes on from the text `shortened(answer)`, where `answer` has the tokens so
        far. Without `shortened`, a full context raises `InputError`.
        """
        tokens, answer = list(text), list[int]()
        for _ in range(count):
            if shortened is not None and len(tokens) > self.context:
                tokens = shortened(answer)
            token = choose(self.logits(tokens))
            if token in self.tokenizer.ends:
                return
            tokens.append(token)
            answer.append(token)
            yield token
