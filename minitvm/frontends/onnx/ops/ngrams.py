"""Convert TfIdfVectorizer, which counts how often each n-gram of a pool occurs in a row of integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....expr import as_expr
from ....te import maximum
from ....topi.shapes import Dim, simple
from ...common.operand import Operand
from ..context import NodeContext
from ..registry import converter


@converter("TfIdfVectorizer")
def tf_idf_vectorizer(n: NodeContext) -> Any:
    """Count n-grams whose elements are 1 to `max_skip_count` + 1 apart. A pool of single elements is counted once.

    `mode` selects the result: the count (TF), the n-gram's weight if it occurs (IDF), or their product (TFIDF).
    """
    if n.has("pool_strings"):
        n.refuse("strings are not supported")
    x, pool = n[0], np.asarray(n.attr("pool_int64s"), np.int64)
    if x.ndim not in (1, 2):
        n.refuse(f"{x} is not supported: wanted one row or rows of integers")
    columns = np.asarray(n.attr("ngram_indexes"), np.int64)
    least, most = n.attr("min_gram_length"), n.attr("max_gram_length")
    grams = _grams(n, pool, list(n.attr("ngram_counts")))
    if sum(len(some) for some in grams.values()) != len(columns):
        n.refuse(f"ngram_indexes has {len(columns)} entries, and the pool {sum(map(len, grams.values()))} n-grams")
    parts = []
    for length, some in grams.items():
        skips = range(1 if length == 1 else n.attr("max_skip_count") + 1)
        total = _counted(n, x, some, 1)
        if not least <= length <= most:
            total = n.op("multiply", total, 0)  # its columns are there, and nothing is counted in them
        else:
            for skip in skips[1:]:
                total = n.op("add", total, _counted(n, x, some, skip + 1))
        parts.append(total)
    counted = n.op("concatenate", *parts, axis=x.ndim - 1) if len(parts) > 1 else parts[0]
    return _weighed(n, counted, columns)


def _grams(n: NodeContext, pool: np.ndarray, starts: list[int]) -> dict[int, np.ndarray]:
    """Return the n-grams of each length as [grams, length]. Those of length k begin at starts[k - 1] of the pool."""
    grams: dict[int, np.ndarray] = {}
    for length, (start, stop) in enumerate(zip(starts, [*starts[1:], len(pool)], strict=True), 1):
        if not 0 <= start <= stop <= len(pool) or (stop - start) % length:
            n.refuse(f"ngram_counts={starts} does not divide a pool of {len(pool)} into n-grams")
        if stop > start:
            grams[length] = pool[start:stop].reshape(-1, length)
    if not grams:
        n.refuse("the pool is empty")
    return grams


def _counted(n: NodeContext, x: Operand, grams: np.ndarray, distance: int) -> Operand:
    """Return how often each n-gram occurs in a row with its elements `distance` apart, as int32 [rows, grams]."""
    axis, length = x.ndim - 1, grams.shape[1]
    hits: Operand | None = None
    for k in range(length):
        first, behind = k * distance, (length - 1 - k) * distance
        part = n.part(x, axis, first, _less(x.shape[axis], behind))
        wanted = grams[:, k].astype(x.dtype.numpy)
        equal = n.op("equal", n.op("expand_dims", part, axis=x.ndim), wanted)
        hits = equal if hits is None else n.op("logical_and", hits, equal)
    assert hits is not None
    counted: Operand = n.op("sum", n.cast(hits, "int32"), axis=(axis,))
    return counted


def _less(extent: Dim, number: int) -> Dim:
    """Return the end of a part that leaves out the last `number` entries, or 0 if there are fewer."""
    return max(extent - number, 0) if isinstance(extent, int) else simple(maximum(as_expr(extent) - number, 0))


def _weighed(n: NodeContext, counted: Operand, columns: np.ndarray) -> Operand:
    """Return the counts as `mode` requires, each in its column of the result. A column without an n-gram is 0."""
    mode = n.attr("mode")
    weights = np.asarray(n.attr("weights", np.ones(len(columns))), np.float32)
    values = n.cast(counted, "float32")
    if mode in ("IDF", "TFIDF"):
        if mode == "IDF":
            values = n.cast(n.op("greater", values, 0.0), "float32")
        values = n.op("multiply", values, weights)
    elif mode == "TF":
        n.ignore("weights")
    else:
        n.refuse(f"mode={mode!r}: wanted TF, IDF or TFIDF")
    places = np.full(int(columns.max()) + 1, len(columns), np.int64)
    places[columns] = np.arange(len(columns))
    axis = counted.ndim - 1
    none = n.op("multiply", n.part(values, axis, 0, 1), 0.0)
    placed: Operand = n.op("take", n.op("concatenate", values, none, axis=axis), places, axis=axis)
    return placed
