"""Conversations: messages of a user and a model, written as the model's template wants them."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn, Protocol

from ...errors import InputError, MinitvmError, ModelError, missing_extra
from .model import LanguageModel
from .sampling import Sampling
from .tokenizer import Tokenizer

_UNUSED = 0xFDD0  # the first code that Unicode gives no character


class _Model(Protocol):
    """A model that formats conversations."""

    name: str
    template: Any
    tokenizer: Tokenizer


class Conversation:
    """A conversation with a model.

        chat = Conversation(LanguageModel("model.gguf"))
        for piece in chat.answer("What is a compiler?"):
            print(piece, end="", flush=True)

    `messages` are dictionaries with a role ("system", "user", "assistant") and a content, in order. An answer that is
    interrupted remains as far as it was yielded.

    When the context is full, `answer` raises an error. With `forget`, it drops the oldest messages instead: those from
    one message of the user to the next. The messages before the first one of the user, such as the system's, remain.
    An answer that fills the context alone loses its older half. `forgotten` counts the tokens that were dropped.
    """

    def __init__(
        self, model: LanguageModel, sampling: Sampling = Sampling(), system: str | None = None, *, forget: bool = False
    ) -> None:
        self.model, self.sampling, self.forget = model, sampling, forget
        self.messages: list[dict[str, str]] = [] if system is None else [{"role": "system", "content": system}]
        self.forgotten = 0
        self._choose = sampling.chooser()

    def answer(self, text: str, count: int | None = None) -> Iterator[str]:
        """Yield the answer to a message piece by piece, at most `count` tokens.

        Raises `InputError` if the context is full; the answer so far remains in `messages`. A message that the template
        refuses, or for which there is no room, leaves `messages` unchanged.
        """
        messages = [*self.messages, {"role": "user", "content": text}]
        prompt = tokens_of(self.model, messages)
        length = len(prompt)
        if self.forget:
            messages, prompt = self._remaining(messages, prompt, self.model.context)
        self.model.require_room(prompt)
        self.messages = messages
        self.forgotten += length - len(prompt)
        pieces: list[str] = []
        most = self.model.context if count is None else count
        tokens = self.model.generate(prompt, self._choose, most, self._shortened if self.forget else None)
        try:
            for piece in self.model.tokenizer.stream(tokens):
                pieces.append(piece)
                yield piece
        finally:
            self.messages.append({"role": "assistant", "content": "".join(pieces)})

    def _remaining(
        self, messages: list[dict[str, str]], prompt: list[int], limit: int
    ) -> tuple[list[dict[str, str]], list[int]]:
        """Return messages and their tokens without the oldest turns: at most `limit` tokens, or only the last turn."""
        while len(prompt) > limit:
            users = [number for number, message in enumerate(messages) if message["role"] == "user"]
            if len(users) < 2:
                break
            messages = messages[: users[0]] + messages[users[1] :]
            prompt = tokens_of(self.model, messages)
        return messages, prompt

    def _shortened(self, answer: list[int]) -> list[int]:
        """Return the tokens from which a long answer goes on. If turns can be dropped, a quarter of the context is free
        then.
        """
        prompt, context = tokens_of(self.model, self.messages), self.model.context
        self.messages, prompt = self._remaining(self.messages, prompt, context * 3 // 4 - len(answer))
        room = context - len(prompt)
        if room < 2:
            self.model.require_room([*prompt, *answer])
        end = answer if len(answer) <= room else answer[-(room // 2) :]
        self.forgotten += context + 1 - len(prompt) - len(end)
        return [*prompt, *end]


def tokens_of(model: _Model, messages: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the tokens of a conversation, up to where the model answers.

    The names of special tokens in messages are plain text, so that no message can end itself and begin another one.
    Raises the errors of `prompt_of`.
    """
    used = set(json.dumps([messages, str(model.template)], ensure_ascii=False, default=str))
    mark = next(chr(code) for code in range(_UNUSED, 0x110000) if chr(code) not in used)
    return model.tokenizer.encode(prompt_of(model, _marked(messages, model.tokenizer, mark)), mark)


def _marked(value: Any, tokenizer: Tokenizer, mark: str) -> Any:
    """Return a message, or a part of one, with a mark in the names of special tokens."""
    if isinstance(value, str):
        return tokenizer.marked(value, mark)
    if isinstance(value, Mapping):
        return {key: _marked(part, tokenizer, mark) for key, part in value.items()}
    return [_marked(part, tokenizer, mark) for part in value] if isinstance(value, list | tuple) else value


def prompt_of(model: _Model, messages: Sequence[Mapping[str, Any]]) -> str:
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
