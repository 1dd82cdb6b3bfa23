"""Small vocabularies, as metadata of GGUF files, and the definitions by which they split a text."""

from __future__ import annotations

import itertools
from typing import Any

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def letters() -> list[str]:
    """The letters that stand for the 256 bytes in a byte-level vocabulary (GPT-2)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(others)) for b in range(256)]


def of_bytes(merges: list[tuple[str, str]], pre: str = "gpt-2") -> dict[str, Any]:
    tokens = [*SPECIAL, *letters(), *(a + b for a, b in merges)]
    return {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * 3 + [1] * (len(tokens) - 3),
        "tokenizer.ggml.merges": [f"{a} {b}" for a, b in merges], "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.bos_token_id": 1, "tokenizer.chat_template": TEMPLATE,
    }  # fmt: skip


def merged(word: list[str], merges: list[tuple[str, str]]) -> list[str]:
    """A word after byte-pair encoding, by its definition: the earliest merge that applies is applied everywhere."""
    while True:
        pairs = [merges.index(p) for p in itertools.pairwise(word) if p in merges]
        if not pairs:
            return word
        a, b = merges[min(pairs)]
        result: list[str] = []
        for letter in word:
            if result and result[-1] == a and letter == b:
                result[-1] = a + b
            else:
                result.append(letter)
        word = result


def of_scores(pieces: dict[str, float]) -> dict[str, Any]:
    """SentencePiece: three special tokens, the 256 bytes, and pieces with their scores."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), *pieces]
    return {
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * 259 + list(pieces.values()),
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * len(pieces), "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.unknown_token_id": 0,
    }  # fmt: skip


def best_first(text: str, pieces: dict[str, float]) -> list[str]:
    """The pieces of a text, by SentencePiece's definition: of all neighbours, those with the highest score of their
    union are joined first, and of equal ones the leftmost.
    """
    parts = list("▁" + text.replace(" ", "▁"))
    while True:
        scores = [(-pieces[a + b], k) for k, (a, b) in enumerate(itertools.pairwise(parts)) if a + b in pieces]
        if not scores:
            return parts
        k = min(scores)[1]
        parts[k : k + 2] = [parts[k] + parts[k + 1]]
