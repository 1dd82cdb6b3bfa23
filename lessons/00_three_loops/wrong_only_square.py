"""Wrong: true when m and k are equal, and only then: the extents were mixed up."""

from __future__ import annotations


def counts(m: int, n: int, k: int) -> dict[str, int]:
    return {
        "multiplies": k * n * m,
        "adds": k * n * (m + 1),
        "loads": k * n * (3 * m + 2),
        "stores": k * n * (m + 2),
    }
