"""Wrong: takes two reads for a race."""

from __future__ import annotations

Stage = tuple[str, list[int]]


def barriers(stages: list[Stage]) -> list[int]:
    """The numbers of the stages that need a barrier before them."""
    placed: list[int] = []
    touched: list[Stage] = []  # since the last barrier
    for number, (verb, elements) in enumerate(stages):
        threads = range(len(elements))
        races = any(
            one != two and earlier[one] == elements[two] and bool(what) and bool(verb)
            for what, earlier in touched
            for one in threads
            for two in threads
        )
        if races:
            placed.append(number)
            touched = []
        touched.append((verb, elements))
    return placed
