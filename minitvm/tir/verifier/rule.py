"""What a rule of the verifier is, and how a function becomes one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ...expr import Node
from ..nodes import PrimFunc

Broken = Iterator[tuple[Node, str]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A named rule: `check(func)` yields each node that breaks it, with what is wrong there."""

    name: str
    meaning: str
    check: Callable[[PrimFunc], Broken]


def rule(table: list[Rule]) -> Callable[[Callable[[PrimFunc], Broken]], Callable[[PrimFunc], Broken]]:
    """Enter a function into a table: its name is the rule's name, its docstring what the rule demands."""

    def register(check: Callable[[PrimFunc], Broken]) -> Callable[[PrimFunc], Broken]:
        table.append(Rule(check.__name__, (check.__doc__ or "").strip(), check))
        return check

    return register
