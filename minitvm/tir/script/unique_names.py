"""Names in printed programs: each variable and buffer gets a name that nothing else in scope has."""

from __future__ import annotations

import keyword

from ...expr import Node
from ...expr.printer import fresh, identifier

# Names that mean something to the parser or to Python. No variable may have them.
_RESERVED = frozenset({*keyword.kwlist, *keyword.softkwlist, "T", "I", "R", "range", "min", "max", "abs", "bool"})


class NameSupply:
    """Gives out names scope by scope: two loops next to each other may both be `i`; a loop inside `i` becomes `i_1`."""

    def __init__(self) -> None:
        self._of: dict[Node, str] = {}
        self._taken: set[str] = set()
        self._frames: list[list[Node]] = [[]]

    def push(self) -> None:
        """Open a scope."""
        self._frames.append([])

    def pop(self) -> None:
        """Close the innermost scope: the names that it defined are free again."""
        for item in self._frames.pop():
            self._taken.discard(self._of.pop(item))

    def define(self, item: Node, hint: str) -> str:
        """Return a name for a definition in the current scope, as similar to `hint` as possible."""
        if item in self._of:
            return self._of[item]
        name = self.fresh(hint)
        self._of[item] = name
        self._frames[-1].append(item)
        return name

    def fresh(self, hint: str) -> str:
        """Return a name that belongs to no node. It stays reserved until the end."""
        stem = identifier(hint)
        return fresh(f"{stem}_" if stem in _RESERVED else stem, self._taken)

    def of(self, item: Node, hint: str) -> str:
        """Return the name for a use.

        An item that nothing in scope defines is free, and keeps its name until the end.
        """
        if item not in self._of:
            self._of[item] = self.fresh(hint)
            self._frames[0].append(item)
        return self._of[item]

    def knows(self, item: Node) -> bool:
        """Return whether the item is defined in an open scope."""
        return item in self._of
