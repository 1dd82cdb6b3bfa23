"""Wrong: keeps one access for each iteration and element, so a read hides the write before it."""

from __future__ import annotations

Access = tuple[tuple[int, ...], str, str]


def ordered(kinds: tuple[str, ...], p: tuple[int, ...], q: tuple[int, ...]) -> bool:
    """Whether the loops promise that iterations p and q run one after the other."""
    for kind, one, other in zip(kinds, p, q):
        if one != other:
            return kind in ("serial", "unrolled")
    return True  # the same iteration


def race(kinds: tuple[str, ...], accesses: list[Access]) -> tuple[int, int] | None:
    """The positions of two accesses that race; None when there are none."""
    seen: dict[str, list[int]] = {}  # the positions of the earlier accesses to each element
    for q, (iteration, verb, element) in enumerate(accesses):
        for p in seen.setdefault(element, []):
            earlier, what, _ = accesses[p]
            if "write" in (what, verb) and not ordered(kinds, earlier, iteration):
                return p, q
        seen[element] = [p for p in seen[element] if accesses[p][0] != iteration] + [q]
    return None
