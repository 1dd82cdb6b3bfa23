"""Names in printed programs: each variable and buffer gets one that nothing else in scope has."""

from __future__ import annotations

import keyword
import re

from ...expr import Node

# Names that mean something to the parser or to Python, which no variable may take.
_RESERVED = frozenset({*keyword.kwlist, *keyword.softkwlist, "T", "I", "R", "range", "min", "max", "abs", "bool"})


class NameSupply:
    """Hands out names, scope by scope: two sibling loops may both be `i`, a loop inside the other becomes `i_1`."""

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
        """A name for a definition in the current scope, as close to `hint` as can be."""
        if item in self._of:
            return self._of[item]
        name = self._fresh(hint)
        self._of[item] = name
        self._frames[-1].append(item)
        return name

    def fresh(self, hint: str) -> str:
        """A name that stands for no node, reserved to the end."""
        name = self._fresh(hint)
        return name

    def of(self, item: Node, hint: str) -> str:
        """The name of a use. What nothing in scope defines is free: it keeps its name to the end."""
        if item not in self._of:
            self._of[item] = self._fresh(hint)
            self._frames[0].append(item)
        return self._of[item]

    def knows(self, item: Node) -> bool:
        """Whether the item is defined in a scope that is open."""
        return item in self._of

    def _fresh(self, hint: str) -> str:
        base = re.sub(r"\W", "_", hint) or "v"
        if base[0].isdigit() or base in _RESERVED:
            base = f"v_{base}" if base[0].isdigit() else f"{base}_"
        name, count = base, 0
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name
