"""Text to tokens and back, by the vocabulary in a GGUF file. The package `tokenizers` does the work.

Two kinds of vocabulary are read: byte-level BPE ("gpt2": Llama 3, Qwen, SmolLM), and SentencePiece with scores
("llama": Llama 2, Mistral, Gemma), whose merges follow from the scores.
"""

from __future__ import annotations

import codecs
import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...errors import InputError, ModelError, UnsupportedOperator, missing_extra

# Types of tokens in `tokenizer.ggml.token_type`.
_CONTROL, _USER_DEFINED = 3, 4

_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_CASELESS = (
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}DIGITS"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# How a text is split before its parts are merged, by the name in `tokenizer.ggml.pre`.
_SPLITS = {
    "default": (_WORDS,),
    "gpt-2": (_WORDS,),
    "smollm": (r"\p{N}", _WORDS),
    "llama-bpe": (_CASELESS.replace("DIGITS", "{1,3}"),),
    "qwen2": (_CASELESS.replace("DIGITS", ""),),
}
# Texts of tokens that end an answer, besides the end of the text.
ENDS = ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<|endoftext|>")

# The letters of a byte-level vocabulary, and their bytes: printable characters of Latin 1 are themselves, and the other
# bytes are the letters from 256 on, in order.
_PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
_BYTES = {chr(byte): byte for byte in _PRINTABLE} | {chr(256 + k): byte for k, byte in enumerate(_OTHERS)}


class Tokenizer:
    """The vocabulary of a model.

        tokenizer = Tokenizer(read_gguf("model.gguf").metadata)
        tokenizer.encode("Hello")                  # [19556]
        "".join(tokenizer.stream(iter([19556])))   # "Hello"

    `ends` are the tokens that end an answer. Raises `ModelError` for metadata that are missing or do not fit together,
    `UnsupportedOperator` for another kind of vocabulary, and `MissingExtra` without the package `tokenizers`.
    """

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        try:
            import tokenizers
        except ImportError:
            raise missing_extra("tokenizers", "language") from None
        self._library = tokenizers
        self.tokens: list[str] = _list(metadata, "tokens", str)
        kind = _entry(metadata, "model", str)
        self._is_scores = kind == "llama"
        self._adds_space = self._is_scores and bool(metadata.get("tokenizer.ggml.add_space_prefix", True))
        if kind == "gpt2":
            self._tokenizer = self._of_bytes(metadata)
        elif kind == "llama":
            self._tokenizer = self._of_scores(metadata)
        else:
            raise UnsupportedOperator(
                f"the vocabulary is of the kind {kind!r} (tokenizer.ggml.model)\n  wanted: gpt2 or llama"
            )
        self.special = self._of_type(metadata, _CONTROL)
        self._tokenizer.add_special_tokens([self._added(k, special=True) for k in self.special])
        own = self._of_type(metadata, _USER_DEFINED)
        self._silent, self._own = frozenset(self.special), frozenset(own)
        self._tokenizer.add_tokens([self._added(k, special=False) for k in own])
        self.begin = self._number(metadata, "bos_token_id")
        self.end = self._number(metadata, "eos_token_id")
        adds = metadata.get("tokenizer.ggml.add_bos_token", kind == "llama")
        self._prefix = [self.begin] if adds and self.begin is not None else []
        ends = frozenset(k for k in (*self.special, *own) if self.tokens[k] in ENDS)
        self.ends = ends | {t for t in (self.end, self._number(metadata, "eot_token_id")) if t is not None}

    def encode(self, text: str, mark: str = "") -> list[int]:
        """Return the tokens of a text. Names of special tokens in it, such as <|im_start|>, become these tokens.

        If the model wants it, the token for the beginning of a text comes first, unless the text has it already. The
        character `mark` does not belong to the text: it is removed, and a name that contains it is plain text.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:  # a terminal passes bytes that are not UTF-8 as surrogates
            raise InputError(f"the text is not valid UTF-8: it contains {text[error.start]!r}") from None
        tokens = self._with_marks(text, mark) if mark and mark in text else self._plain(text)
        return tokens if tokens[: len(self._prefix)] == self._prefix else [*self._prefix, *tokens]

    def marked(self, text: str, mark: str) -> str:
        """Return a text with a mark in each name of a special token, after its first letter; see `encode`."""
        for name in self._names():
            text = text.replace(name, f"{name[0]}{mark}{name[1:]}")
        return text

    def _names(self) -> list[str]:
        """Return the names of the special tokens. A name comes before its own beginnings."""
        return sorted({self.tokens[token] for token in self.special} - {""}, key=len, reverse=True)

    def _plain(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    @functools.cached_property
    def _literal(self) -> Any:
        """A copy of the vocabulary to which names of special tokens are text. To switch the original to and fro would
        disturb other threads that use it.
        """
        literal = self._library.Tokenizer.from_str(self._tokenizer.to_str())
        literal.encode_special_tokens = True
        return literal

    def _with_marks(self, text: str, mark: str) -> list[int]:
        """Return the tokens of a text with marks. Special tokens split it, and the parts have none then."""
        numbers = {self.tokens[token]: token for token in self.special}
        parts = re.split(f"({'|'.join(map(re.escape, self._names()))})(?!{mark})", text)
        literal = self._literal
        rest = [list(literal.encode(part.replace(mark, ""), add_special_tokens=False).ids) for part in parts[::2]]
        names = [[numbers[name]] for name in parts[1::2]]
        return [token for pair in zip(rest, [*names, []], strict=True) for part in pair for token in part]

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, without special tokens."""
        return "".join(self.stream(tokens))

    def stream(self, tokens: Iterable[int]) -> Iterator[str]:
        """Yield the text of tokens piece by piece; together, the pieces are `decode(tokens)`. A piece ends where a
        character ends. Bytes that are no character become U+FFFD.
        """
        decoder = self.decoder()
        for token in tokens:
            if piece := decoder.push(token):
                yield piece
        if rest := decoder.end():
            yield rest

    def decoder(self) -> TextDecoder:
        """Return an object that turns tokens into text as they come."""
        return TextDecoder(self._bytes_of, self._adds_space)

    def text(self, token: int | None) -> str:
        """Return a token as it is in the vocabulary, or "" for None."""
        return "" if token is None else self.tokens[token]

    def _bytes_of(self, token: int) -> bytes:
        """Return the bytes of a token, which need not be whole characters; none for a special token, and for a number
        beyond the vocabulary.
        """
        if token in self._silent or token >= len(self.tokens):
            return b""
        text = self.tokens[token]
        if self._is_scores:
            byte = re.fullmatch("<0x([0-9A-F]{2})>", text)
            return bytes.fromhex(byte[1]) if byte else text.replace("▁", " ").encode()
        if token not in self._own and all(letter in _BYTES for letter in text):
            return bytes(_BYTES[letter] for letter in text)
        return text.encode()

    def _of_type(self, metadata: Mapping[str, Any], kind: int) -> list[int]:
        """Return the tokens of a type, in order."""
        types = metadata.get("tokenizer.ggml.token_type")
        types = [] if types is None else _list(metadata, "token_type", int)
        return [k for k, other in enumerate(types[: len(self.tokens)]) if other == kind]

    def _added(self, token: int, *, special: bool) -> Any:
        return self._library.AddedToken(self.tokens[token], special=special, normalized=False)

    def _number(self, metadata: Mapping[str, Any], name: str) -> int | None:
        number = metadata.get(f"tokenizer.ggml.{name}")
        if number is None or number == 0xFFFFFFFF:
            return None
        if type(number) is not int or not 0 <= number < len(self.tokens):
            raise ModelError(f"tokenizer.ggml.{name} is {number!r}, wanted one of {len(self.tokens)} tokens")
        return number

    def _of_bytes(self, metadata: Mapping[str, Any]) -> Any:
        """Return a tokenizer of byte-level BPE (Radford et al. 2019)."""
        lib = self._library
        name = _entry(metadata, "pre", str, "default")
        if name not in _SPLITS:
            raise UnsupportedOperator(
                f"texts are split as in {name!r} (tokenizer.ggml.pre)\n  wanted: one of {', '.join(_SPLITS)}"
            )
        merges = [tuple(pair.split(" ")) for pair in _list(metadata, "merges", str)]
        vocabulary = {token: k for k, token in enumerate(self.tokens)}
        try:
            model = lib.models.BPE(vocab=vocabulary, merges=merges, ignore_merges=name == "llama-bpe")
        except Exception as error:  # a merge of a token that the vocabulary does not have
            raise ModelError(f"tokenizer.ggml.merges do not fit tokenizer.ggml.tokens: {error}") from error
        tokenizer = lib.Tokenizer(model)
        splits = [lib.pre_tokenizers.Split(lib.Regex(r), "isolated") for r in _SPLITS[name]]
        by_bytes = lib.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = lib.pre_tokenizers.Sequence([*splits, by_bytes])
        return tokenizer

    def _of_scores(self, metadata: Mapping[str, Any]) -> Any:
        """Return a tokenizer of SentencePiece (Kudo and Richardson 2018). The better of two merges has the higher score
        of the merged token.
        """
        lib = self._library
        scores = _list(metadata, "scores", float)
        if len(scores) != len(self.tokens):
            raise ModelError(f"tokenizer.ggml.scores has {len(scores)} entries, wanted {len(self.tokens)}")
        vocabulary = {token: k for k, token in enumerate(self.tokens)}
        merges = sorted(
            (
                (-scores[k], vocabulary[token[:cut]], vocabulary[token[cut:]])
                for token, k in vocabulary.items()
                for cut in range(1, len(token))
                if token[:cut] in vocabulary and token[cut:] in vocabulary
            )
        )
        pairs = [(self.tokens[a], self.tokens[b]) for _, a, b in merges]
        unknown = self.text(self._number(metadata, "unknown_token_id")) or None
        tokenizer = lib.Tokenizer(
            lib.models.BPE(vocab=vocabulary, merges=pairs, unk_token=unknown, fuse_unk=True, byte_fallback=True)
        )
        space = [lib.normalizers.Prepend("▁")] if self._adds_space else []
        tokenizer.normalizer = lib.normalizers.Sequence([*space, lib.normalizers.Replace(" ", "▁")])
        return tokenizer


class TextDecoder:
    """The text of tokens as they come. `push` returns the text of a token, as far as it ends with whole characters."""

    def __init__(self, bytes_of: Callable[[int], bytes], starts_with_space: bool) -> None:
        self._bytes_of = bytes_of
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._first = starts_with_space  # whether the text begins with a space that `encode` added

    def push(self, token: int) -> str:
        data = self._bytes_of(token)
        if self._first and data:
            data, self._first = data.removeprefix(b" "), False
        return self._decoder.decode(data)

    def end(self) -> str:
        """Return U+FFFD if the text ends within a character, and otherwise an empty text."""
        return self._decoder.decode(b"", final=True)


def _entry(metadata: Mapping[str, Any], name: str, kind: type, default: Any = None) -> Any:
    value = metadata.get(f"tokenizer.ggml.{name}", default)
    if not isinstance(value, kind):
        raise ModelError(
            f"the file has no vocabulary that minitvm can read: tokenizer.ggml.{name} is {type(value).__name__}"
        )
    return value


def _list(metadata: Mapping[str, Any], name: str, kind: type) -> Any:
    """Return a list whose elements have this type. Raises `ModelError` for anything else, and for numbers that are not
    finite.
    """
    values = _entry(metadata, name, list)
    for number, value in enumerate(values):
        if type(value) is not kind or value in (math.inf, -math.inf) or value != value:
            raise ModelError(f"tokenizer.ggml.{name}: element {number} is {value!r}, wanted {_KINDS[kind]}")
    return values


_KINDS = {str: "a text", int: "an integer", float: "a finite number"}


def check_tokens(tokens: Sequence[int], count: int) -> None:
    """Raise `InputError` unless every token is below `count`."""
    for token in tokens:
        if not 0 <= token < count:
            raise InputError(f"wanted tokens from 0 to {count - 1}, found {token}")
