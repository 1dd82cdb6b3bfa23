"""Exercise 28: what all tiles of a product cost, at once.

C is M x N, and each of its elements is a sum of K products. A tile is `rows` rows of `vectors` vectors of `lanes`
elements. Tiles cover C from its first element on; those at the end may stick out, and do their whole work all the same.
Each tile takes K steps, one after the other. A step takes as long as the slowest of

    core.latency                       cycles, until the sums of the step before are there
    rows * vectors / core.ports        cycles for its multiply-adds
    (rows + vectors) / core.loads      cycles for its loads

Write

    cycles(m, n, k, rows, vectors, lanes, core) -> array

the cycles of the whole product, and

    fetched(m, n, k, rows, vectors, lanes, cache) -> array

the elements of A and B that are fetched. Tiles are done panel by panel: all bands of `rows` rows for a panel of
vectors * lanes columns, then the next panel. A is fetched for each panel. B is fetched once if a panel of it, which has
K * vectors * lanes elements (they all count, also those that stick out), is at most `cache` elements; else a panel is
fetched for each band. Of A and B only elements that exist are fetched.

`rows` and `vectors` are NumPy arrays of whole numbers from 1, of the same length: one tile each. Leave them as they
are. There are no loops in the answer, no comprehensions, and no `map` or `np.vectorize`, which are loops as well;
-(-a // b) is a / b, rounded up.

    core = Core(registers=16, latency=4, ports=2, loads=2)
    cycles(4, 16, 10, np.array([4, 3]), np.array([2, 1]), 8, core)     ->   array([40., 160.])
    fetched(4, 16, 10, np.array([4, 3]), np.array([2, 1]), 8, 100)     ->   array([200, 240])

Check it with: minitvm lesson 28 --check
"""

from __future__ import annotations

import numpy as np

from lessons.pipeline import Core


def cycles(m: int, n: int, k: int, rows: np.ndarray, vectors: np.ndarray, lanes: int, core: Core) -> np.ndarray:
    """The cycles of the product with each tile."""
    raise NotImplementedError("cycles(m, n, k, rows, vectors, lanes, core): the text at the top says what is wanted")


def fetched(m: int, n: int, k: int, rows: np.ndarray, vectors: np.ndarray, lanes: int, cache: int) -> np.ndarray:
    """The elements of A and B that are fetched with each tile."""
    raise NotImplementedError("fetched(m, n, k, rows, vectors, lanes, cache): the text at the top says what is wanted")
