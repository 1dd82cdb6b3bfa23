"""Text to tokens and back, by the vocabulary in a GGUF file. The package `tokenizers` does the work.

Two kinds of vocabulary are read: byte-level BPE ("gpt2": Llama 3, Qwen, SmolLM), and SentencePiece with scores
("llama": Llama 2, Mistral, Gemma), whose merges follow from the scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
_ENDS = ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<|endoftext|>")


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
        self.tokens: list[str] = _entry(metadata, "tokens", list)
        kind = _entry(metadata, "model", str)
        if kind == "gpt2":
            self._tokenizer = self._of_bytes(metadata)
        elif kind == "llama":
            self._tokenizer = self._of_scores(metadata)
        else:
            raise UnsupportedOperator(
                f"the vocabulary is of the kind {kind!r} (tokenizer.ggml.model)\n  wanted: gpt2 or llama"
            )
        types = metadata.get("tokenizer.ggml.token_type") or [1] * len(self.tokens)
        self.special = [k for k, t in enumerate(types[: len(self.tokens)]) if t in (_CONTROL, _USER_DEFINED)]
        self._tokenizer.add_special_tokens(
            [tokenizers.AddedToken(self.tokens[k], special=True, normalized=False) for k in self.special]
        )
        self.begin = self._number(metadata, "bos_token_id")
        self.end = self._number(metadata, "eos_token_id")
        adds = metadata.get("tokenizer.ggml.add_bos_token", kind == "llama")
        self._prefix = [self.begin] if adds and self.begin is not None else []
        ends = {self.tokens[k]: k for k in self.special if self.tokens[k] in _ENDS}
        self.ends = frozenset(ends.values()) | {
            t for t in (self.end, self._number(metadata, "eot_token_id")) if t is not None
        }

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text. Names of special tokens in it, such as <|im_start|>, become these tokens.

        If the model wants it, the token for the beginning of a text comes first, unless the text has it already.
        """
        tokens = list(self._tokenizer.encode(text, add_special_tokens=False).ids)
        return tokens if tokens[: len(self._prefix)] == self._prefix else [*self._prefix, *tokens]

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, without special tokens."""
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True))

    def stream(self, tokens: Iterable[int]) -> Iterator[str]:
        """Yield the text of tokens piece by piece. A piece ends where a character ends."""
        stream = self._library.decoders.DecodeStream(skip_special_tokens=True)
        for token in tokens:
            piece = stream.step(self._tokenizer, token)
            if piece:
                yield piece

    def text(self, token: int | None) -> str:
        """Return a token as it is in the vocabulary, or "" for None."""
        return "" if token is None else self.tokens[token]

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
        name = metadata.get("tokenizer.ggml.pre", "default")
        if name not in _SPLITS:
            raise UnsupportedOperator(
                f"texts are split as in {name!r} (tokenizer.ggml.pre)\n  wanted: one of {', '.join(_SPLITS)}"
            )
        merges = [tuple(pair.split(" ")) for pair in _entry(metadata, "merges", list)]
        vocabulary = {token: k for k, token in enumerate(self.tokens)}
        try:
            model = lib.models.BPE(vocab=vocabulary, merges=merges, ignore_merges=name == "llama-bpe")
        except Exception as error:  # a merge of a token that the vocabulary does not have
            raise ModelError(f"tokenizer.ggml.merges do not fit tokenizer.ggml.tokens: {error}") from error
        tokenizer = lib.Tokenizer(model)
        splits = [lib.pre_tokenizers.Split(lib.Regex(r), "isolated") for r in _SPLITS[name]]
        by_bytes = lib.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = lib.pre_tokenizers.Sequence([*splits, by_bytes])
        tokenizer.decoder = lib.decoders.ByteLevel()
        return tokenizer

    def _of_scores(self, metadata: Mapping[str, Any]) -> Any:
        """Return a tokenizer of SentencePiece (Kudo and Richardson 2018). The better of two merges has the higher score
        of the merged token.
        """
        lib = self._library
        scores = _entry(metadata, "scores", list)
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
        space = [lib.normalizers.Prepend("▁")] if metadata.get("tokenizer.ggml.add_space_prefix", True) else []
        tokenizer.normalizer = lib.normalizers.Sequence([*space, lib.normalizers.Replace(" ", "▁")])
        strip = [lib.decoders.Strip(" ", 1, 0)] if space else []
        tokenizer.decoder = lib.decoders.Sequence(
            [lib.decoders.Replace("▁", " "), lib.decoders.ByteFallback(), lib.decoders.Fuse(), *strip]
        )
        return tokenizer


def _entry(metadata: Mapping[str, Any], name: str, kind: type) -> Any:
    value = metadata.get(f"tokenizer.ggml.{name}")
    if not isinstance(value, kind):
        raise ModelError(
            f"the file has no vocabulary that minitvm can read: tokenizer.ggml.{name} is {type(value).__name__}"
        )
    return value


def check_tokens(tokens: Sequence[int], count: int) -> None:
    """Raise `InputError` unless every token is below `count`."""
    for token in tokens:
        if not 0 <= token < count:
            raise InputError(f"wanted tokens from 0 to {count - 1}, found {token}")
