"""Exercise 32: the cost of all tiles of a product at once.

C is M x N, and each of its elements is a sum of K products. A tile has `rows` rows, and each row has `vectors` vectors
of `lanes` elements. The tiles cover C from its first element on. Tiles at the end may stick out of C, but they take
as long as any other. Each tile takes K steps, one after another. A step takes as long as the slowest of these three:

    core.latency                       cycles until the sums of the previous step are ready
    rows * vectors / core.ports        cycles for its multiply-adds
    (rows + vectors) / core.loads      cycles for its loads

Write

    cycles(m, n, k, rows, vectors, lanes, core) -> array

It returns the cycles of the whole product. Write also

    fetched(m, n, k, rows, vectors, lanes, cache) -> array

It returns the number of elements of A and B that are fetched. The tiles are computed panel by panel: first all bands of
`rows` rows for one panel of vectors * lanes columns, then the next panel. A is fetched once for each panel. A panel of
B has K * vectors * lanes elements, including those that stick out. If these are at most `cache` elements, B is fetched
once; otherwise each panel is fetched once for each band. Only elements of A and B that exist are fetched.

`rows` and `vectors` are NumPy arrays of the same length, with whole numbers from 1 up. Each pair of their elements is a
tile. Do not change these arrays. Your answer must not contain loops or comprehensions, and no `map` or `np.vectorize`,
which are loops as well. Note that -(-a // b) is a / b, rounded up.

    core = Core(registers=16, latency=4, ports=2, loads=2)
    cycles(4, 16, 10, np.array([4, 3]), np.array([2, 1]), 8, core)     ->   array([40., 160.])
    fetched(4, 16, 10, np.array([4, 3]), np.array([2, 1]), 8, 100)     ->   array([200, 240])

Check it with: minitvm lesson 32 --check
"""

from __future__ import annotations

import numpy as np

from lessons.pipeline import Core


def cycles(m: int, n: int, k: int, rows: np.ndarray, vectors: np.ndarray, lanes: int, core: Core) -> np.ndarray:
    """The cycles of the product with each tile."""
    raise NotImplementedError("cycles(m, n, k, rows, vectors, lanes, core): the text at the top describes the task")


def fetched(m: int, n: int, k: int, rows: np.ndarray, vectors: np.ndarray, lanes: int, cache: int) -> np.ndarray:
    """The elements of A and B that are fetched with each tile."""
    raise NotImplementedError("fetched(m, n, k, rows, vectors, lanes, cache): the text at the top describes the task")
