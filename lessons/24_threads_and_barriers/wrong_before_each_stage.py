"""Wrong: a barrier before each stage but the first: nothing races, and all wait."""

from __future__ import annotations

Stage = tuple[str, list[int]]


def barriers(stages: list[Stage]) -> list[int]:
    """The numbers of the stages that need a barrier before them."""
    return list(range(1, len(stages)))
