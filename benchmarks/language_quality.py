"""The quality of a language model beside llama.cpp, on one GGUF file: perplexity of a text, and greedy answers.

    python -m benchmarks.language_quality MODEL.gguf [TEXT.txt]

Perplexity is exp of the mean of -log p(next token), over windows of 512 tokens that each begin without a past. It is
printed for both programs, and for minitvm with floats as the data of its products, so you see how much of the
difference is the rounding of the data to bytes. Then both continue ten texts by 64 tokens, always with the most likely
one. For each text, the first difference is printed with its margins: the logit of a program's own token less that of
the other's token. The peer is the package llama-cpp-python.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import minitvm
from minitvm.frontends import from_gguf, read_gguf
from minitvm.tools.language import LanguageModel

TEXT = Path(__file__).parent.parent / "LICENSE"
WINDOW, STEPS = 512, 64  # tokens
PROMPTS = (
    "The capital of France is", "Once upon a time", "A compiler is a program that", "In the year 1969,",
    "Water boils at", "def fibonacci(n):", "The best way to learn a language is", "The three laws of motion are",
    "Dear Sir or Madam,", "1, 2, 3, 4,",
)  # fmt: skip


def main(path: str, text: str | None) -> None:
    from llama_cpp import Llama

    ours = LanguageModel(path)
    theirs = Llama(path, n_ctx=ours.context, n_batch=WINDOW, logits_all=True, verbose=False)
    print_perplexities(path, ours, theirs, Path(text or TEXT).read_text(encoding="utf-8"))
    print_answers(ours, theirs)


def print_perplexities(path: str, ours: LanguageModel, theirs: Any, text: str) -> None:
    tokens = ours.tokenizer.encode(text)
    windows = [tokens[begin : begin + WINDOW] for begin in range(0, len(tokens) - WINDOW + 1, WINDOW)]
    if not windows:
        raise SystemExit(f"the text has {len(tokens)} tokens, wanted at least {WINDOW}")
    peer = perplexity(windows, lambda window: logits_of_peer(theirs, window))
    print(f"perplexity of {len(windows)} windows of {WINDOW} tokens")
    print(f"  llama.cpp             {peer:.4f}")
    for name, in_bytes in (("minitvm", True), ("minitvm, float data", False)):
        measured = perplexity(windows, logits_of_graph(path, in_bytes))
        print(f"  {name:<20}  {measured:.4f}  ({100 * (measured / peer - 1):+.2f} %)")


def logits_of_graph(path: str, in_bytes: bool) -> Callable[[list[int]], np.ndarray]:
    """Return a function from a window to the logits after each of its tokens."""
    file = read_gguf(path)
    graph = from_gguf(file, shapes={"tokens": (1, WINDOW)}, max_length=WINDOW, bytes=in_bytes, all_logits=True)
    module = minitvm.build(graph)
    start = np.zeros(1, np.int32)
    return lambda window: np.asarray(module(tokens=np.array([window], np.int32), positions=start)[0])


def logits_of_peer(model: Any, tokens: list[int]) -> np.ndarray:
    model.reset()
    model.eval(tokens)
    return np.array(model.scores[: len(tokens)])


def perplexity(windows: list[list[int]], logits: Callable[[list[int]], np.ndarray]) -> float:
    losses = []
    for window in windows:
        rows = logits(window)[:-1].astype(np.float64)
        rows -= rows.max(axis=-1, keepdims=True)
        likely = rows[np.arange(len(rows)), window[1:]] - np.log(np.exp(rows).sum(axis=-1))
        losses.append(-likely)
    return float(np.exp(np.concatenate(losses).mean()))


def print_answers(ours: LanguageModel, theirs: Any) -> None:
    print(f"{STEPS} tokens after each of {len(PROMPTS)} texts, always the most likely one")
    for prompt in PROMPTS:
        tokens = ours.tokenizer.encode(prompt)
        length = len(tokens)
        theirs.reset()
        theirs.eval(tokens)
        result = "the same"
        while len(tokens) < length + STEPS:
            rows = np.asarray(ours.logits(tokens)), np.array(theirs.scores[len(tokens) - 1])
            first, second = (int(row.argmax()) for row in rows)
            if first != second:
                margins = rows[0][first] - rows[0][second], rows[1][second] - rows[1][first]
                result = (
                    f"token {len(tokens) - length + 1} differs: {ours.tokenizer.text(first)!r} by {margins[0]:.3f}, "
                    f"llama.cpp {ours.tokenizer.text(second)!r} by {margins[1]:.3f}"
                )
                break
            tokens.append(first)
            theirs.eval([first])
        print(f"  {prompt!r}: {result}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
