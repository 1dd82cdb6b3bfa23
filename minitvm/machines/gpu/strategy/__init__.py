"""Schedules for GPUs, whatever their language: the specific ones first, the one for everything else last.

A target's description decides: threads in a block, vectors, whether storage that a block shares is faster than memory.
"""

from ....target import Target

from . import reductions, windows, contraction, winograd, fallback  # isort: skip  (the order of registration is the order in which rules are tried)
from . import processors

from typing import Any  # isort: skip

from ....strategy.registry import RULES, Rule  # isort: skip

__all__ = ["contraction", "fallback", "processors", "rules", "windows", "winograd"]

KIND = "gpu"  # rules are registered under this name, for all kinds of GPUs


def rules(target: Target) -> list[Rule]:
    """The part "rules" of the back ends of GPUs: those of the target's own kind, then the rules for all GPUs."""
    own = RULES.get(target.kind, ())
    if target.processor is not None:
        return [*own, *processors.rules(target)]
    return [*own, *RULES[KIND]]
