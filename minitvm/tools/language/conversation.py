"""Conversations: messages of a user and a model, written as the model's template wants them."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from ...errors import InputError, MinitvmError, ModelError, missing_extra
from .model import LanguageModel
from .sampling import Sampling


class Conversation:
    """A conversation with a model.

        chat = Conversation(LanguageModel("model.gguf"))
        for piece in chat.answer("What is a compiler?"):
            print(piece, end="", flush=True)

    `messages` are dictionaries with a role ("system", "user", "assistant") and a content, in order. An answer that is
    interrupted remains as far as it was yielded.
    """

    def __init__(self, model: LanguageModel, sampling: Sampling = Sampling(), system: str | None = None) -> None:
        self.model, self.sampling = model, sampling
        self.messages: list[dict[str, str]] = [] if system is None else [{"role": "system", "content": system}]
        self._choose = sampling.chooser()

    def answer(self, text: str, count: int | None = None) -> Iterator[str]:
        """Yield the answer to a message piece by piece, at most `count` tokens.

        Raises `InputError` if the context is full; the answer so far remains in `messages`. A message that the template
        refuses, or for which there is no room, leaves `messages` unchanged.
        """
        messages = [*self.messages, {"role": "user", "content": text}]
        prompt = self.model.tokenizer.encode(prompt_of(self.model, messages))
        self.model.require_room(prompt)
        self.messages = messages
        pieces: list[str] = []
        try:
            most = self.model.context if count is None else count
            for piece in self.model.tokenizer.stream(self.model.generate(prompt, self._choose, most)):
                pieces.append(piece)
                yield piece
        finally:
            self.messages.append({"role": "assistant", "content": "".join(pieces)})


def prompt_of(model: LanguageModel, messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of a conversation, up to where the model answers, by the template in its file.

    Raises `InputError` if the file has no template, or if the template refuses the messages. Raises `ModelError` for a
    template that is not correct, and `MissingExtra` without the package `jinja2`.
    """
    try:
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise missing_extra("jinja2", "language") from None
    if not isinstance(model.template, str):
        raise InputError(
            f"{model.name} has no template for conversations (tokenizer.chat_template)\n"
            "  try:    a text that the model continues: --raw"
        )
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    tokenizer = model.tokenizer
    try:
        return environment.from_string(model.template).render(
            messages=list(messages), add_generation_prompt=True, bos_token=tokenizer.text(tokenizer.begin),
            eos_token=tokenizer.text(tokenizer.end),
        )  # fmt: skip
    except MinitvmError:
        raise
    except Exception as error:  # a template is a program, which may fail in any way
        raise ModelError(f"the template for conversations of {model.name} cannot be used: {error}") from error


def _refuse(reason: str) -> NoReturn:
    raise InputError(f"the template for conversations refuses these messages: {reason}")
