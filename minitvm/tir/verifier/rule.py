"""The class of the verifier's rules, and the decorator that turns a function into a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ...expr import Node
from ..nodes import PrimFunc

Broken = Iterator[tuple[Node, str]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A named rule: `check(func)` yields each node that violates it, with a message."""

    name: str
    meaning: str
    check: Callable[[PrimFunc], Broken]


def rule(table: list[Rule]) -> Callable[[Callable[[PrimFunc], Broken]], Callable[[PrimFunc], Broken]]:
    """Return a decorator that adds a function to a table of rules. The function's name becomes the rule's name, and its
    docstring the requirement.
    """

    def register(check: Callable[[PrimFunc], Broken]) -> Callable[[PrimFunc], Broken]:
        table.append(Rule(check.__name__, (check.__doc__ or "").strip(), check))
        return check

    return register
