"""The reason why a program does not meet a requirement: the places in the program, what was expected, and what was
found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...expr import Node


@dataclass(frozen=True, slots=True)
class Failure:
    """A requirement that failed: the nodes to mark, each with a note; what was expected and found; and at most 3
    suggestions.
    """

    spots: Mapping[Node, str]
    wanted: str
    found: str
    tries: tuple[str, ...] = ()
