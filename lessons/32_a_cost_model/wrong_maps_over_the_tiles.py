"""Wrong: `map` calls a function for each tile."""

from __future__ import annotations

import numpy as np

from lessons.pipeline import Core


def cycles(m: int, n: int, k: int, rows: np.ndarray, vectors: np.ndarray, lanes: int, core: Core) -> np.ndarray:
    """The cycles of the product with each tile."""
    tiles = -(-m // rows) * -(-n // (vectors * lanes))
    step = np.maximum(rows * vectors / core.ports, (rows + vectors) / core.loads)
    return tiles * k * np.maximum(step, core.latency)


def fetched(m: int, n: int, k: int, rows: np.ndarray, vectors: np.ndarray, lanes: int, cache: int) -> np.ndarray:
    """The elements of A and B that are fetched with each tile."""
    panels, bands = -(-n // (vectors * lanes)), -(-m // rows)
    return np.array(
        list(map(lambda p, b, v: m * k * p + k * n * (1 if k * v * lanes <= cache else b), panels, bands, vectors))
    )
