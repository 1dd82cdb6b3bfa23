"""Wrong: a dimension of 1 beside a name is checked instead of stretched."""

from __future__ import annotations

Dim = int | str


def broadcast(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[tuple[Dim, ...], list[tuple[Dim, Dim]]]:
    """The shape of the sum, and the pairs of dimensions that must be equal when the network runs."""
    rank = max(len(a), len(b))
    shape: list[Dim] = []
    guards: list[tuple[Dim, Dim]] = []
    for p, q in zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True):
        if p == q or (q == 1 and isinstance(p, int)):
            shape.append(p)
        elif p == 1:
            shape.append(q)
        elif isinstance(p, int) and isinstance(q, int):
            raise ValueError(f"{p} and {q} do not fit")
        else:
            shape.append(q if isinstance(q, int) else p)
            if (p, q) not in guards:
                guards.append((p, q))
    return tuple(shape), guards
