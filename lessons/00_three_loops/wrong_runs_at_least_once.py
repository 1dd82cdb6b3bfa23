"""Wrong: believes that each loop runs at least once, so it is wrong where k is 0."""

from __future__ import annotations


def counts(m: int, n: int, k: int) -> dict[str, int]:
    """The number of operations, loads and stores in `three_loops(m, n, k)`."""
    k = max(k, 1)
    elements = m * n
    return {
        "multiplies": elements * k,
        "adds": elements * (k + 1),
        "loads": elements * (3 * k + 2),
        "stores": elements * (k + 2),
    }
