"""Schedules for GPUs, whatever their language: the specific ones first, the one for everything else last.

A target's description decides: threads in a block, vectors, whether storage that a block shares is faster than memory.
"""

from typing import Any

from ..registry import RULES, Rule

from . import reductions  # isort: skip (the order of registration is the order in which rules are tried)
from . import tensor_cores, contraction, fallback  # isort: skip

__all__ = ["contraction", "fallback", "rules", "tensor_cores"]

KIND = "gpu"  # rules are registered under this name, for all kinds of GPUs


def rules(target: Any) -> list[Rule]:
    """The part "rules" of the back ends of GPUs: those of the target's own kind, then the rules for all GPUs."""
    return [*RULES.get(target.kind, ()), *RULES[KIND]]
