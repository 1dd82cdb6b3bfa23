"""Lowering: the passes that turn loop programs, which consist of blocks inside loops, into flat kernels.

`pipeline.PASSES` lists the passes that every machine needs, in order; `passes(target)` includes the passes of the
machine. `tir.passes` offers them as passes over modules under TVM's names, such as `tir.transform.Simplify()`.
"""

from typing import Any

from ..passes import named, names, prim_func_pass
from .pipeline import PASSES, Pass, lower, passes

__all__ = ["PASSES", "Pass", "lower", "passes", "prim_func_pass"]


def __getattr__(name: str) -> Any:
    return named(name)


def __dir__() -> list[str]:
    return sorted([*globals(), *names()])
