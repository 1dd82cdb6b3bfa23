"""The description of the machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter has neither vectors nor caches, so there is nothing to describe but its name."""

    name: str = "interpreter"
