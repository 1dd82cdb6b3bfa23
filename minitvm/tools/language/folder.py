"""The vocabulary of a folder of Hugging Face, and its template for conversations.

`tokenizer.json` describes how texts become tokens; the package `tokenizers` reads it. Further files name the tokens
that begin and end a text: tokenizer_config.json, config.json, and generation_config.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import ModelError, UnsupportedOperator, missing_extra
from .tokenizer import ENDS, Tokenizer

if TYPE_CHECKING:
    from ...frontends import HuggingFaceFolder

_HOLES = 2**16  # numbers without a token that a vocabulary may have


class FolderTokenizer(Tokenizer):
    """The vocabulary of a folder.

    `ends` are the tokens `eos_token_id` of generation_config.json and config.json, and the usual names of ends. Raises
    `ModelError` for files that are missing, damaged or do not fit together, `UnsupportedOperator` for a vocabulary that
    is neither byte-level nor SentencePiece, and `MissingExtra` without the package `tokenizers`.
    """

    def __init__(self, folder: HuggingFaceFolder) -> None:
        try:
            import tokenizers
        except ImportError:
            raise missing_extra("tokenizers", "language") from None
        self._library = tokenizers
        place = folder.path / "tokenizer.json"
        content = folder.table("tokenizer.json")
        if not content:
            raise ModelError(f"{place}: no such file, or an empty one, and this file contains the vocabulary")
        try:
            self._tokenizer = tokenizers.Tokenizer.from_str(json.dumps(content))
        except Exception as error:
            reason = f"{error!s:.200}"  # it may quote a long text of the file
            raise ModelError(f"{place} contains no vocabulary that the package tokenizers reads: {reason}") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.tokens = _tokens(place, self._tokenizer.get_vocab(with_added_tokens=True))
        added = self._tokenizer.get_added_tokens_decoder()
        self.special = [token for token, about in sorted(added.items()) if about.special]
        own = frozenset(added) - frozenset(self.special)
        self._silent, self._own = frozenset(self.special), own
        self._is_scores, self._adds_space = _kind(place, content.get("decoder"))
        names = folder.table("tokenizer_config.json")
        self.begin, self.end = (self._named(folder.path, names, f"{which}_token") for which in ("bos", "eos"))
        adds = self._tokenizer.encode("", add_special_tokens=True).ids  # as the file's own rules say
        self._prefix = adds[:1] if adds[:1] == [self.begin] else []
        ends = {token for token in (*self.special, *own) if self.tokens[token] in ENDS}
        for file, table in (("config.json", folder.config), (_GENERATION, folder.table(_GENERATION))):
            ends |= set(self._numbers(folder.path / file, table.get("eos_token_id")))
        self.ends = frozenset(ends | ({self.end} if self.end is not None else set()))

    def _named(self, folder: Path, table: Mapping[str, Any], name: str) -> int | None:
        """Return the token that an entry names. An entry is a text, or a table that contains one."""
        entry = table.get(name)
        text = entry.get("content") if isinstance(entry, dict) else entry
        if text is None:
            return None
        token = self._tokenizer.token_to_id(text) if isinstance(text, str) else None
        if token is None:
            raise ModelError(
                f"{folder / 'tokenizer_config.json'}: {name} is {text!r:.80}, wanted a token of tokenizer.json"
            )
        return int(token)

    def _numbers(self, file: Path, entry: Any) -> list[int]:
        """Return the tokens in an entry: one number, a list of numbers, or None."""
        numbers = entry if isinstance(entry, list) else [] if entry is None else [entry]
        for number in numbers:
            if type(number) is not int or not 0 <= number < len(self.tokens):
                raise ModelError(f"{file}: eos_token_id is {entry!r:.80}, wanted some of {len(self.tokens)} tokens")
        return numbers


_GENERATION = "generation_config.json"


def template_of(folder: HuggingFaceFolder) -> str | None:
    """Return the template for conversations, or None. Of several ones, this is the one with the name "default".

    Raises `ModelError` if a file is damaged.
    """
    file = folder.path / "chat_template.jinja"
    if file.is_file():
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ModelError(f"{file} cannot be read: {error}") from error
    template = folder.table("tokenizer_config.json").get("chat_template")
    if isinstance(template, list):
        tables = [entry for entry in template if isinstance(entry, dict) and entry.get("name") == "default"]
        template = tables[0].get("template") if tables else None
    if template is not None and not isinstance(template, str):
        raise ModelError(f"{folder.path / 'tokenizer_config.json'}: chat_template is no text")
    return template


def _tokens(place: Path, vocabulary: Mapping[str, int]) -> list[str]:
    """Return the texts of the tokens by number; a number without a token has ""."""
    count = max(vocabulary.values(), default=-1) + 1
    if count > len(vocabulary) + _HOLES:
        raise ModelError(f"{place} has {len(vocabulary)} tokens with numbers up to {count - 1}, wanted fewer holes")
    tokens = [""] * count
    for text, number in vocabulary.items():
        tokens[number] = text
    return tokens


def _kind(place: Path, decoder: Any) -> tuple[bool, bool]:
    """Return whether a vocabulary has pieces of SentencePiece and not letters that are bytes, and whether these pieces
    begin with a space that a text does not have.
    """
    parts = list(_parts(decoder))
    kinds = {str(part.get("type")) for part in parts}
    if "ByteLevel" in kinds:
        return False, False
    for part in parts:
        if part.get("type") == "Metaspace" and part.get("replacement") == "▁":
            return True, part.get("prepend_scheme", "always") != "never"
        if part.get("type") == "Replace" and part.get("pattern") == {"String": "▁"} and part.get("content") == " ":
            return True, "Strip" in kinds
    raise UnsupportedOperator(
        f"{place}: tokens become text by {', '.join(sorted(kinds)) or 'no decoder'}\n"
        "  wanted: ByteLevel, Metaspace, or a replacement of ▁"
    )


def _parts(decoder: Any) -> Iterator[dict[str, Any]]:
    """Yield the decoders of which a decoder consists."""
    if not isinstance(decoder, dict):
        return
    parts = decoder.get("decoders") if decoder.get("type") == "Sequence" else [decoder]
    for part in parts if isinstance(parts, list) else []:
        if isinstance(part, dict):
            yield part
