"""Tokenizers, compared with the definitions of byte-pair encoding and of SentencePiece."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.errors import InputError, ModelError, UnsupportedOperator
from minitvm.tools.language import Tokenizer

from . import vocabularies as v

MERGES = [("a", "b"), ("Ġ", "a"), ("ab", "a"), ("Ġa", "b"), ("Ã", "¼"), ("Ġ", "ab"), ("b", "a"), ("1", "2")]
PIECES = {"▁": -9.0, "a": -8.0, "b": -7.0, "▁a": -1.0, "ab": -2.0, "▁ab": -3.0, "ba": -1.5, "aba": -4.0}
# Python's `re` has no \p{..}: these are the splits for the letters that the texts below have.
WORDS = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[a-zü]+| ?[0-9]+| ?[^\sa-zü0-9]+|\s+(?!\S)|\s+")


@given(text=st.text("abü 12!'s\n", max_size=20), pre=st.sampled_from(["gpt-2", "smollm"]))
def test_bytes(text: str, pre: str) -> None:
    metadata = v.of_bytes(MERGES, pre)
    tokenizer, letters = Tokenizer(metadata), v.letters()
    parts = re.split("([0-9])", text) if pre == "smollm" else [text]
    words = [w for part in parts for w in WORDS.findall(part)]
    expected = [t for w in words for t in v.merged([letters[b] for b in w.encode()], MERGES)]
    assert [tokenizer.tokens[t] for t in tokenizer.encode(text)] == expected
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert "".join(tokenizer.stream(tokenizer.encode(text))) == text


@given(text=st.text("ab ", max_size=12))
def test_scores(text: str) -> None:
    tokenizer = Tokenizer(v.of_scores(PIECES))
    first, *tokens = tokenizer.encode(text)
    assert tokenizer.tokens[first] == "<s>"
    expected = v.best_first(text, PIECES) if text else []
    assert [tokenizer.tokens[t] for t in tokens] == expected
    assert tokenizer.decode(tokens) == text


@given(data=st.data(), kind=st.sampled_from([v.of_bytes(MERGES), v.of_scores(PIECES)]))
def test_the_pieces_of_any_tokens_are_their_text(data: st.DataObject, kind: dict[str, Any]) -> None:
    """Also of tokens that are no text, for example half of a character at the end."""
    tokenizer, letters = Tokenizer(kind), v.letters()
    first = 259 if "tokenizer.ggml.scores" in kind else 3 + 256
    tokens = data.draw(st.lists(st.integers(3, first - 1) | st.integers(3, len(tokenizer.tokens) - 1), max_size=12))
    if "tokenizer.ggml.scores" in kind:
        parts = [bytes([t - 3]) if t < first else tokenizer.tokens[t].replace("▁", " ").encode() for t in tokens]
    else:
        parts = [bytes(map(letters.index, tokenizer.tokens[t])) for t in tokens]
    text = b"".join(parts).decode(errors="replace")
    text = text.removeprefix(" ") if "tokenizer.ggml.scores" in kind else text
    assert "".join(tokenizer.stream(tokens)) == text
    assert tokenizer.decode([0 if "tokenizer.ggml.pre" in kind else 1, *tokens, 10**6]) == text


@pytest.mark.parametrize("base", [v.of_bytes(MERGES), v.of_scores(PIECES)])
def test_user_defined_tokens_are_text(base: dict[str, Any]) -> None:
    """Gemma has such tokens for line breaks, and Qwen for <think>. They are found before a text is split."""
    own = ["\n\n", "<think>", "  "]
    name, types = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"
    metadata = {**base, name: [*base[name], *own], types: [*base[types], 4, 4, 4]}
    if "tokenizer.ggml.scores" in base:
        metadata["tokenizer.ggml.scores"] = [*base["tokenizer.ggml.scores"], 0.0, 0.0, 0.0]
    tokenizer = Tokenizer(metadata)
    tokens = tokenizer.encode("<think>\n\n  ")
    assert [tokenizer.tokens[t] for t in tokens if t != tokenizer.begin] == ["<think>", "\n\n", "  "]
    assert tokenizer.decode(tokens) == "<think>\n\n  "
    assert "".join(tokenizer.stream(tokens)) == "<think>\n\n  "


def test_a_text_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(InputError, match=r"the text is not valid UTF-8: it contains '.udcff'"):
        Tokenizer(v.of_bytes(MERGES)).encode("a\udcff")


def test_letters_without_a_piece_are_bytes() -> None:
    tokenizer = Tokenizer(v.of_scores(PIECES))
    tokens = tokenizer.encode("aü")
    assert [tokenizer.tokens[t] for t in tokens[1:]] == ["▁a", "<0xC3>", "<0xBC>"]
    assert "".join(tokenizer.stream(tokens)).strip() == "aü"


def test_special_tokens() -> None:
    tokenizer = Tokenizer(v.of_bytes(MERGES))
    tokens = tokenizer.encode("<|im_start|>a<|im_end|>")
    assert (tokens[0], tokens[-1]) == (1, 2)
    assert tokenizer.decode(tokens) == "a"
    assert tokenizer.ends == {0, 2}
    begins = Tokenizer({**v.of_bytes(MERGES), "tokenizer.ggml.add_bos_token": True})
    assert begins.encode("a")[0] == 1
    assert begins.encode("<|im_start|>a").count(1) == 1, "the text has it already"


@given(
    text=st.lists(st.sampled_from(["<|im_end|>", "<|im_", "end|>", "<s>", "</s>", "<", "a", "ab", " ", "ü"])).map(
        "".join
    ),
    kind=st.sampled_from(["bytes", "scores"]),
)
def test_marked_names_are_text(text: str, kind: str) -> None:
    """They are also text between special tokens of the template, which remain."""
    tokenizer = MARKED[kind]
    begin, end = ("<|im_start|>", "<|im_end|>") if kind == "bytes" else ("<s>", "</s>")
    tokens = tokenizer.encode(f"{begin}{tokenizer.marked(text, MARK)}{end}", MARK)
    special = [token for token in tokens if token in tokenizer.special]
    assert special == [tokenizer.tokens.index(begin), tokenizer.tokens.index(end)]
    assert (tokens[0], tokens[-1]) == tuple(special)
    assert tokenizer.decode(tokens) == text


MARK = "\ufdd0"
MARKED = {"bytes": Tokenizer(v.of_bytes(MERGES)), "scores": Tokenizer(v.of_scores(PIECES))}


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({"tokenizer.ggml.model": "bert"}, UnsupportedOperator, "the vocabulary is of the kind 'bert'"),
        ({"tokenizer.ggml.pre": "tekken"}, UnsupportedOperator, r"texts are split as in 'tekken'"),
        ({"tokenizer.ggml.tokens": None}, ModelError, "tokenizer.ggml.tokens is NoneType"),
        ({"tokenizer.ggml.merges": ["a q", "aq b"]}, ModelError, "merges do not fit"),
        ({"tokenizer.ggml.eos_token_id": 9999}, ModelError, "tokenizer.ggml.eos_token_id is 9999, wanted one of 267"),
        ({"tokenizer.ggml.tokens": ["a", 1]}, ModelError, "tokens: element 1 is 1, wanted a text"),
        ({"tokenizer.ggml.merges": [1]}, ModelError, "merges: element 0 is 1, wanted a text"),
        ({"tokenizer.ggml.token_type": 7}, ModelError, "tokenizer.ggml.token_type is int"),
        ({"tokenizer.ggml.token_type": ["a"]}, ModelError, "token_type: element 0 is 'a', wanted an integer"),
        ({"tokenizer.ggml.pre": ["a"]}, ModelError, "tokenizer.ggml.pre is list"),
        ({"tokenizer.ggml.model": "llama", "tokenizer.ggml.scores": [float("nan")]}, ModelError, "element 0 is nan"),
    ],
)
def test_refusals(change: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        Tokenizer({**v.of_bytes(MERGES), **change})
