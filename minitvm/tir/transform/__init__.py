"""Lowering: the passes from blocks inside loops (level 3) to flat kernels.

`pipeline.PASSES` lists the passes that every machine needs, in order; `passes(target)` also has the passes of the
machine. Under TVM's names, such as `tir.transform.Simplify()`, they are passes over modules (`tir.passes`).
"""

from typing import Any

from ..passes import named, names, prim_func_pass
from .pipeline import PASSES, Pass, lower, passes

__all__ = ["PASSES", "Pass", "lower", "passes", "prim_func_pass"]


def __getattr__(name: str) -> Any:
    return named(name)


def __dir__() -> list[str]:
    return sorted([*globals(), *names()])
