"""The reason why a requirement on a program fails: the spots, what was wanted, and what was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...expr import Node


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed requirement: the nodes to mark, each with a note; what was wanted and found; and at most 3 ways out."""

    spots: Mapping[Node, str]
    wanted: str
    found: str
    tries: tuple[str, ...] = ()
