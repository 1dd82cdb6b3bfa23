"""Assign names in printed programs: every variable and buffer gets a name that is unique in its scope."""

from __future__ import annotations

import keyword

from ...expr import Node
from ...expr.printer import fresh, identifier

# Names that mean something to the parser or to Python. No variable may have them.
_RESERVED = frozenset({*keyword.kwlist, *keyword.softkwlist, "T", "I", "R", "range", "min", "max", "abs", "bool"})


class NameSupply:
    """Assigns names scope by scope. Two consecutive loops may both be named `i`; a loop inside `i` becomes `i_1`."""

    def __init__(self) -> None:
        self._of: dict[Node, str] = {}
        self._taken: set[str] = set()
        self._frames: list[list[Node]] = [[]]

    def push(self) -> None:
        """Open a new scope."""
        self._frames.append([])

    def pop(self) -> None:
        """Close the innermost scope, so that the names defined in it can be used again."""
        for item in self._frames.pop():
            self._taken.discard(self._of.pop(item))

    def define(self, item: Node, hint: str) -> str:
        """Return a name for a definition in the current scope, as close to `hint` as possible."""
        if item in self._of:
            return self._of[item]
        name = self.fresh(hint)
        self._of[item] = name
        self._frames[-1].append(item)
        return name

    def fresh(self, hint: str) -> str:
        """Reserve a name that belongs to no node and return it. It stays reserved for the whole text."""
        stem = identifier(hint)
        return fresh(f"{stem}_" if stem in _RESERVED else stem, self._taken)

    def of(self, item: Node, hint: str) -> str:
        """Return the name of an item at a place where it is used.

        An item that is not defined in any open scope is free, and keeps its name in the whole text.
        """
        if item not in self._of:
            self._of[item] = self.fresh(hint)
            self._frames[0].append(item)
        return self._of[item]

    def knows(self, item: Node) -> bool:
        """Return whether the item already has a name."""
        return item in self._of
