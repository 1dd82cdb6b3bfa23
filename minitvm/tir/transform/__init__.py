"""Lowering: from blocks inside loops (level 3) to flat kernels. `pipeline.PASSES` lists the passes in order."""

from .pipeline import PASSES, Pass, lower

__all__ = ["PASSES", "Pass", "lower"]
