"""The body of a request in OpenAI's interface, checked field by field. Nothing that a client wants is ignored silently:
an option that would change the answer and is not supported is an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from ....errors import InputError, nearest
from ..sampling import Sampling

_STOPS, _STOP = 4, 256  # stop strings, and characters of each
_SEED = 2**63

# Fields that do not change an answer of this server.
_IDLE = frozenset({
    "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
    "parallel_tool_calls",
})  # fmt: skip
# Options that are supported only with these values.
_ONLY: dict[str, tuple[Any, ...]] = {
    "n": (1,), "best_of": (1,), "echo": (False,), "suffix": ("",), "logprobs": (False,), "top_logprobs": (0,),
    "presence_penalty": (0,), "frequency_penalty": (0,), "logit_bias": ({},), "tools": ([],),
    "tool_choice": ("none", "auto"), "functions": ([],), "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},), "modalities": (["text"],),
}  # fmt: skip
_SHARED = frozenset({"model", "stream", "stream_options", "temperature", "top_p", "top_k", "seed", "stop"})
_OWN = {"chat": frozenset({"messages", "max_tokens", "max_completion_tokens"}),
        "text": frozenset({"prompt", "max_tokens"})}  # fmt: skip
_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


class RequestError(InputError):
    """A request that is refused: the HTTP `status`, the field `param`, and OpenAI's `code` for such an error."""

    def __init__(self, text: str, param: str | None = None, *, status: int = 400, code: str | None = None) -> None:
        super().__init__(text)
        self.param, self.status, self.code = param, status, code


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """The request of a client: `messages` or a `prompt` (a text or tokens), and how it is continued.

    `count` is the number of tokens at most, or None for the default.
    """

    messages: list[dict[str, str]] | None = None
    prompt: str | list[int] = ""
    count: int | None = None
    sampling: Sampling
    stops: tuple[str, ...] = ()
    streams: bool = False
    streams_usage: bool = False


def parsed(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body. Raises `RequestError`."""
    try:
        fields = json.loads(body, parse_constant=_constant)
    except (ValueError, RecursionError) as error:  # no UTF-8, no JSON, or too deeply nested
        raise RequestError(f"the body is not valid JSON: {error}") from None
    if not isinstance(fields, dict):
        raise RequestError("the body is not a JSON object")
    return fields


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def checked(fields: Mapping[str, Any], kind: str, model: str) -> Fields:
    """Return what a client wants of a server for one `model`. `kind` is "chat" or "text". Raises `RequestError`."""
    names = _SHARED | _OWN[kind]
    for name, value in fields.items():
        if name in _ONLY:
            if value is not None and not any(type(value) in _like(v) and value == v for v in _ONLY[name]):
                values = " or ".join(json.dumps(v) for v in _ONLY[name])
                raise RequestError(f"{name} is not supported, except as {values}", name, code="unsupported_value")
        elif name not in names and name not in _IDLE:
            name = _short(name)
            raise RequestError(f"there is no option {name!r}; {nearest(name, sorted(names))}", name)
    read = _FieldReader(fields)
    name = read.required("model", str, "a text")
    if name != model:
        raise RequestError(
            f"the model {_short(name)!r} does not exist; this server has {model!r}", "model", status=404,
            code="model_not_found",
        )  # fmt: skip
    content: dict[str, Any] = {"messages": _messages(read)} if kind == "chat" else {"prompt": _prompt(read)}
    counts = [read.integer(n, 1, 2**31) for n in ("max_completion_tokens", "max_tokens") if n in names]
    options = read.value("stream_options", dict, "an object", {})
    streams = read.value("stream", bool, "true or false", False)
    if options and not streams:
        raise RequestError("stream_options are for stream=true", "stream_options")
    for name in options:
        if name not in ("include_usage", "include_obfuscation"):
            raise RequestError(f"there is no option stream_options.{_short(name)}", "stream_options")
    usage = _FieldReader(options, "stream_options").value("include_usage", bool, "true or false", False)
    count = next((count for count in counts if count is not None), 16 if kind == "text" else None)
    return Fields(
        **content, count=count, sampling=_sampling(read), stops=_stops(read), streams=streams, streams_usage=usage
    )


def _like(value: Any) -> tuple[type, ...]:
    return (int, float) if type(value) is int else (type(value),)


class _FieldReader:
    """Fields with their types. null is the same as a field that is missing."""

    def __init__(self, fields: Mapping[str, Any], param: str | None = None) -> None:
        self.fields, self.param = fields, param

    def value(self, name: str, kind: type, what: str, default: Any = None) -> Any:
        value = self.fields.get(name)
        if value is None:
            return default
        if type(value) is not kind:
            raise RequestError(f"{name} must be {what}, not {_text(value)}", self.param or name)
        return value

    def required(self, name: str, kind: type, what: str) -> Any:
        value = self.value(name, kind, what)
        if value is None:
            raise RequestError(f"{name} is missing", name)
        return value

    def integer(self, name: str, least: int, most: int) -> int | None:
        value = self.value(name, int, "an integer")
        if value is not None and not least <= value <= most:
            raise RequestError(f"{name} must be from {least} to {most}, not {_text(value)}", name)
        return value if value is None else int(value)

    def number(self, name: str, default: float, fits: Callable[[float], bool], what: str) -> float:
        value = self.fields.get(name)
        if value is None:
            return default
        if type(value) not in (int, float) or not fits(value):
            raise RequestError(f"{name} must be {what}, not {_text(value)}", name)
        return float(value)


def _text(value: Any) -> str:
    return _short(json.dumps(value, ensure_ascii=True))


def _short(text: str) -> str:
    """Return a text of a client as an error quotes it."""
    return text if len(text) <= 60 else f"{text[:57]}..."


def _sampling(read: _FieldReader) -> Sampling:
    """Return how tokens are drawn. Defaults are those of OpenAI; without a seed, each answer is another one."""
    seed = read.integer("seed", -_SEED, _SEED - 1)
    return Sampling(
        temperature=read.number("temperature", 1.0, lambda t: 0 <= t <= 2, "a number from 0 to 2"),
        top_p=read.number("top_p", 1.0, lambda p: 0 < p <= 1, "a number above 0 and at most 1"),
        top_k=read.integer("top_k", 0, 2**31) or 0,
        seed=int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed % (2 * _SEED),
    )


def _stops(read: _FieldReader) -> tuple[str, ...]:
    stops = read.fields.get("stop")
    stops = [] if stops is None else [stops] if isinstance(stops, str) else stops
    texts = isinstance(stops, list) and all(isinstance(s, str) and 0 < len(s) <= _STOP for s in stops)
    if not texts or len(stops) > _STOPS:
        raise RequestError(f"stop must be up to {_STOPS} texts of 1 to {_STOP} characters", "stop")
    return tuple(stops)


def _messages(read: _FieldReader) -> list[dict[str, str]]:
    messages = read.required("messages", list, "a list of messages")
    if not messages:
        raise RequestError("messages is empty", "messages")
    return [_message(message, f"messages[{k}]") for k, message in enumerate(messages)]


def _message(message: Any, where: str) -> dict[str, str]:
    if not isinstance(message, dict):
        raise RequestError(f"{where} must be an object", where)
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise RequestError(f"{where}.role must be one of {', '.join(_ROLES)}, not {_text(role)}", f"{where}.role")
    for name, value in message.items():
        if name not in ("role", "content", "name", "refusal") and value is not None and value != []:
            name = _short(name)
            raise RequestError(f"{where}.{name} is not supported", f"{where}.{name}")
    content = message.get("content")
    if isinstance(content, list):
        parts = []
        for k, part in enumerate(content):
            if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
                place = f"{where}.content[{k}]"
                raise RequestError(f"{place} must be a text: {{'type': 'text', 'text': ...}}", place)
            parts.append(part["text"])
        content = "".join(parts)
    if not isinstance(content, str):
        raise RequestError(f"{where}.content must be a text, not {_text(content)}", f"{where}.content")
    return {"role": _ROLES[role], "content": content}


def _prompt(read: _FieldReader) -> str | list[int]:
    prompt = read.fields.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, list) and all(type(token) is int for token in prompt):
        return prompt
    several = isinstance(prompt, list) and all(isinstance(part, str | list) for part in prompt)
    what = "one prompt in a request, please" if several else "a text or a list of tokens"
    raise RequestError(f"prompt must be {what}, not {_text(prompt)}", "prompt")
