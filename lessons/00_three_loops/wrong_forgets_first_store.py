"""Wrong: `Y[i, j] = 0` is a store too."""

from __future__ import annotations


def counts(m: int, n: int, k: int) -> dict[str, int]:
    return {
        "multiplies": m * n * k,
        "adds": m * n * (k + 1),
        "loads": m * n * (3 * k + 2),
        "stores": m * n * (k + 1),
    }
