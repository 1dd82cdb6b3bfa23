"""TfIdfVectorizer of integers, against a count of n-grams in plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitvm as tvm
from minitvm.errors import UnsupportedOperator
from minitvm.reference import graph as interpreter

from .one_node import Node

POOL = {1: [[2], [3], [5], [4]], 2: [[5, 6], [7, 8], [6, 7]], 3: [[1, 2, 3]]}
COLUMNS = [0, 1, 2, 3, 5, 4, 8, 7]  # none has column 6
ATTRS = {
    "pool_int64s": [v for grams in POOL.values() for gram in grams for v in gram], "ngram_counts": [0, 4, 10],
    "ngram_indexes": COLUMNS,
}  # fmt: skip


def counted(x: np.ndarray, least: int, most: int, skips: int) -> np.ndarray:
    """How often each n-gram occurs in each row."""
    rows = x.reshape(-1, x.shape[-1]).tolist()
    grams = [gram for some in POOL.values() for gram in some]
    result = np.zeros((len(rows), max(COLUMNS) + 1), np.float32)
    for r, row in enumerate(rows):
        for gram, column in zip(grams, COLUMNS, strict=True):
            if not least <= len(gram) <= most:
                continue
            for apart in range(1, 2 if len(gram) == 1 else skips + 2):
                span = (len(gram) - 1) * apart + 1
                starts = range(len(row) - span + 1)
                result[r, column] += sum(row[at : at + span : apart] == gram for at in starts)
    return result.reshape(*x.shape[:-1], -1)


@settings(max_examples=25)
@given(st.data())
def test_ngrams_are_counted(data: Any) -> None:
    shape = data.draw(st.sampled_from([(12,), (2, 6), (3, 9), (1, 2)]))
    x = np.array(data.draw(st.lists(st.integers(1, 8), min_size=int(np.prod(shape)), max_size=int(np.prod(shape)))))
    x = x.reshape(shape).astype(data.draw(st.sampled_from(["int32", "int64"])))
    least, skips = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 5))
    most, mode = data.draw(st.integers(least, 3)), data.draw(st.sampled_from(["TF", "IDF", "TFIDF"]))
    weights = data.draw(st.sampled_from([None, [0.5, 2.0, 1.0, 3.0, 0.25, 1.5, 4.0, 8.0]]))
    attrs = {**ATTRS, "mode": mode, "min_gram_length": least, "max_gram_length": most, "max_skip_count": skips}
    node = Node("TfIdfVectorizer", {"x": x}, attrs if weights is None else {**attrs, "weights": weights})
    expected = counted(x, least, most, skips)
    if mode == "IDF":
        expected = (expected > 0).astype(np.float32)
    if mode != "TF" and weights is not None:
        expected *= np.array([dict(zip(COLUMNS, weights, strict=True)).get(c, 0.0) for c in range(9)], np.float32)
    for opened in ({}, {"x": [x.ndim - 1]}):
        graph = tvm.lower(node.model(opened), stop_at="graph")
        np.testing.assert_array_equal(interpreter.run(graph, [x])[0], expected)


def test_ngrams_of_an_open_length_are_counted_by_compiled_code() -> None:
    attrs = {**ATTRS, "mode": "TF", "min_gram_length": 1, "max_gram_length": 3, "max_skip_count": 5}
    x = np.random.default_rng(0).integers(1, 9, (3, 9))
    module = tvm.build(Node("TfIdfVectorizer", {"x": x}, attrs).model({"x": [0, 1]}), threads=1)
    for rows, length in ((3, 9), (2, 3), (1, 30)):
        x = np.random.default_rng(length).integers(1, 9, (rows, length))
        np.testing.assert_array_equal(module(x), counted(x, 1, 3, 5))


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"pool_strings": ["a"], "pool_int64s": []}, "strings are not supported"),
        ({"ngram_counts": [0, 3, 10]}, r"ngram_counts=\[0, 3, 10\] does not divide a pool of 13 into n-grams"),
        ({"ngram_indexes": [0, 1]}, "ngram_indexes has 2 entries, and the pool 8 n-grams"),
        ({"mode": "BM25"}, "mode='BM25': wanted TF, IDF or TFIDF"),
    ],
)
def test_what_is_no_pool_of_integers_is_refused(changed: dict[str, Any], text: str) -> None:
    attrs = {**ATTRS, "mode": "TF", "min_gram_length": 1, "max_gram_length": 3, "max_skip_count": 0, **changed}
    attrs = {name: value for name, value in attrs.items() if value != []}
    with pytest.raises(UnsupportedOperator, match=text):
        tvm.lower(Node("TfIdfVectorizer", {"x": np.zeros((2, 5), np.int64)}, attrs).model(), stop_at="graph")
