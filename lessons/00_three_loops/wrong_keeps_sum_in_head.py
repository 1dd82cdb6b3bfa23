"""Wrong: counts as if the running sum stayed in a register; this program loads Y in every round."""

from __future__ import annotations


def counts(m: int, n: int, k: int) -> dict[str, int]:
    return {
        "multiplies": m * n * k,
        "adds": m * n * (k + 1),
        "loads": m * n * (2 * k + 1),
        "stores": m * n,
    }
