"""Why the answer to a question about a program is no: the spots, what was wanted, what was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...expr import Node


@dataclass(frozen=True, slots=True)
class Failure:
    """How a requirement fails: the nodes to mark, each with a note; what was wanted and found; ways out (at most 3)."""

    spots: Mapping[Node, str]
    wanted: str
    found: str
    tries: tuple[str, ...] = ()
