"""Searches for better inputs may fail; the comparison that they serve must not: `hint`.

A search looks at a program in its own way (symbolic execution, solving backwards, walking through indices), and a
program may hold something that this way has no meaning for, a shuffle of a warp for instance. Then the search has no
result. The programs are still compared on the inputs that there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from minitvm.errors import ExecutionError, Unsupported

from ..meaning.steps import OutOfSteps

T = TypeVar("T")


def hint(search: Callable[[], T], nothing: T) -> T:
    """The result of a search, or `nothing` where it meets something that it does not support.

    A budget of steps that ends still ends the run around it.
    """
    try:
        return search()
    except OutOfSteps:
        raise
    except (Unsupported, ExecutionError, NotImplementedError):
        return nothing
