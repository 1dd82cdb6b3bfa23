"""The fields of requests: what is refused, and with which words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.tools.language.server.fields import RequestError, checked, parsed

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
TEXT: dict[str, Any] = {"model": "m", "prompt": "Hi"}


def test_defaults_are_those_of_openai() -> None:
    chat, text = checked(CHAT, "chat", "m"), checked(TEXT, "text", "m")
    assert (chat.count, text.count, text.prompt) == (None, 16, "Hi")
    assert (chat.sampling.temperature, chat.sampling.top_p, chat.sampling.top_k) == (1.0, 1.0, 0)
    assert checked(CHAT, "chat", "m").sampling.seed != chat.sampling.seed, "without a seed, answers differ"
    nulls = {"temperature": None, "stop": None, "n": None, "tools": None, "stream_options": None, "seed": None}
    assert checked({**CHAT, **nulls}, "chat", "m").stops == ()
    assert checked({**TEXT, "prompt": [[3, 4]]}, "text", "m").prompt == [3, 4]
    assert checked({**CHAT, "seed": -1}, "chat", "m").sampling.seed == 2**64 - 1


def test_contents_are_texts_or_lists_of_texts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    messages = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": parts, "name": "x"}]
    expected = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "ab"}]
    assert checked({**CHAT, "messages": messages}, "chat", "m").messages == expected


@pytest.mark.parametrize(
    ("change", "text", "param"),
    [
        ({"model": 3}, "model must be a text, not 3", "model"),
        ({"model": None}, "model is missing", "model"),
        ({"n": 2}, "n is not supported, except as 1", "n"),
        ({"n": True}, "n is not supported", "n"),
        ({"tools": [{}]}, r"tools is not supported, except as \[\]", "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format is not supported", "response_format"),
        ({"presence_penalty": 0.5}, "presence_penalty is not supported, except as 0", "presence_penalty"),
        ({"temprature": 1}, "there is no option 'temprature'; did you mean temperature?", "temprature"),
        ({"temperature": "hot"}, 'temperature must be a number from 0 to 2, not "hot"', "temperature"),
        ({"temperature": 2.5}, "temperature must be a number from 0 to 2, not 2.5", "temperature"),
        ({"top_p": 0}, "top_p must be a number above 0 and at most 1, not 0", "top_p"),
        ({"top_k": -1}, "top_k must be from 0 to 2147483648, not -1", "top_k"),
        ({"seed": 2**63}, "seed must be from", "seed"),
        ({"max_tokens": 0}, "max_tokens must be from 1", "max_tokens"),
        ({"max_tokens": 1.0}, "max_tokens must be an integer, not 1.0", "max_tokens"),
        ({"stop": ["a"] * 5}, "stop must be up to 4 texts", "stop"),
        ({"stop": [""]}, "stop must be up to 4 texts of 1 to 256 characters", "stop"),
        ({"stop": 3}, "stop must be", "stop"),
        ({"stream": "yes"}, 'stream must be true or false, not "yes"', "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options are for stream=true", "stream_options"),
        ({"stream": True, "stream_options": {"x": 1}}, "there is no option stream_options.x", "stream_options"),
        ({"messages": []}, "messages is empty", "messages"),
        ({"messages": "Hi"}, 'messages must be a list of messages, not "Hi"', "messages"),
        ({"messages": ["Hi"]}, r"messages\[0\] must be an object", "messages[0]"),
        ({"messages": [{"role": "king"}]}, r"messages\[0\].role must be one of .*, not \"king\"", "messages[0].role"),
        ({"messages": [{"role": ["user"]}]}, r"messages\[0\].role must be", "messages[0].role"),
        ({"messages": [{"role": "user"}]}, r"messages\[0\].content must be a text, not null", "messages[0].content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            r"content\[0\] must be a text", "messages[0].content[0]",
        ),
        (
            {"messages": [{"role": "assistant", "content": "", "tool_calls": [{}]}]},
            "tool_calls is not supported", "messages[0].tool_calls",
        ),
    ],
)  # fmt: skip
def test_refusals(change: dict[str, Any], text: str, param: str) -> None:
    with pytest.raises(RequestError, match=text) as caught:
        checked({**CHAT, **change}, "chat", "m")
    assert (caught.value.param, caught.value.status) == (param, 400)


LONG = "x" * 10**5


@pytest.mark.parametrize(
    "change",
    [{LONG: 1}, {"model": LONG}, {"temperature": LONG}, {"stream": True, "stream_options": {LONG: 1}}]
    + [{"messages": [message]} for message in ({"role": LONG}, {"role": "user", "content": "", LONG: 1})],
)  # fmt: skip
def test_errors_quote_only_the_beginning_of_a_long_text(change: dict[str, Any]) -> None:
    with pytest.raises(RequestError) as caught:
        checked({**CHAT, **change}, "chat", "m")
    assert len(f"{caught.value} {caught.value.param}") < 500


@pytest.mark.parametrize("prompt", [3, None, [1.0], [True], {"a": 1}, ["a", "b"], [[1], [2]]])
def test_prompts_are_a_text_or_tokens(prompt: Any) -> None:
    with pytest.raises(RequestError, match="prompt must be"):
        checked({**TEXT, "prompt": prompt}, "text", "m")


def test_another_model_does_not_exist() -> None:
    with pytest.raises(RequestError, match="the model 'gpt' does not exist; this server has 'm'") as caught:
        checked({**CHAT, "model": "gpt"}, "chat", "m")
    assert (caught.value.status, caught.value.code) == (404, "model_not_found")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = [*CHAT, "prompt", "stop", "temperature", "top_p", "top_k", "seed", "n", "tools", "stream", "stream_options",
         "max_tokens", "max_completion_tokens", "logit_bias", "response_format"]  # fmt: skip


@given(change=st.dictionaries(st.sampled_from(NAMES), JSON, max_size=3), kind=st.sampled_from(["chat", "text"]))
def test_any_field_is_accepted_or_refused_in_words(change: dict[str, Any], kind: str) -> None:
    try:
        checked({**(CHAT if kind == "chat" else TEXT), **change}, kind, "m")
    except RequestError as error:
        assert error.param is not None and str(error)


@given(body=st.binary(max_size=12) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_body_is_an_object_or_refused_in_words(body: bytes) -> None:
    try:
        assert isinstance(parsed(body), dict)
    except RequestError as error:
        assert "the body is not" in str(error)


@pytest.mark.parametrize("body", [b"[" * 10**5, b'{"a": ' * 10**5, b'{"a": NaN}', b'{"a": 1' + b"0" * 5000 + b"}"])
def test_bodies_that_are_hard_to_read(body: bytes) -> None:
    with pytest.raises(RequestError, match="the body is not valid JSON"):
        parsed(body)
