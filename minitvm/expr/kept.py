"""Answers about nodes that are kept with the node: it never changes, so they are computed once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from .node import Node

N = TypeVar("N", bound=Node)
R = TypeVar("R")


def kept_with_node(compute: Callable[[N], R]) -> Callable[[N], R]:
    """The function of one node with its result kept as long as the node lives.

    A dictionary with weak keys would not do: a result that refers to its node would keep both for ever.
    """

    @functools.wraps(compute)
    def kept(node: N) -> R:
        answers: dict[Any, Any] | None = getattr(node, "_kept", None)
        if answers is None:
            answers = {}
            object.__setattr__(node, "_kept", answers)
        if compute not in answers:
            answers[compute] = compute(node)
        answer: R = answers[compute]
        return answer

    return kept
