"""`hint`: let a search for better inputs fail without failing the comparison.

A search looks at a program in its own way (symbolic execution, solving backwards, walking through indices). A program
may contain something that this method does not support, such as a shuffle of a warp. Then the search has no result, and
the programs are still compared on the other inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from minitvm.errors import ExecutionError, Unsupported

from ..meaning.steps import OutOfSteps

T = TypeVar("T")


def hint(search: Callable[[], T], nothing: T) -> T:
    """Return the result of a search, or `nothing` if the search meets something that it does not support.

    If a budget of steps runs out, the error is passed on.
    """
    try:
        return search()
    except OutOfSteps:
        raise
    except (Unsupported, ExecutionError, NotImplementedError):
        return nothing
