"""One answer to exercise 00."""

from __future__ import annotations


def counts(m: int, n: int, k: int) -> dict[str, int]:
    """The number of operations, loads and stores in `three_loops(m, n, k)`.

    Every element of Y is stored once to begin with, once in each round of r, and once at the end. A round of r loads
    Y, A and B; the last statement loads Y and bias.
    """
    elements = m * n
    return {
        "multiplies": elements * k,
        "adds": elements * (k + 1),
        "loads": elements * (3 * k + 2),
        "stores": elements * (k + 2),
    }
