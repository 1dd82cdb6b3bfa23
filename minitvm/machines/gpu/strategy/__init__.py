"""Schedules for GPUs in any language: specific rules first, and a generic rule for everything else last.

They depend on the target's description: the threads per block, the vectors, and whether shared storage is faster than
memory.
"""

from ....target import Target

from . import reductions, windows, contraction, winograd, fallback  # isort: skip  (the order of registration is the order in which rules are tried)
from . import processors

from typing import Any  # isort: skip

from ....strategy.registry import RULES, Rule  # isort: skip

__all__ = ["contraction", "fallback", "processors", "rules", "windows", "winograd"]

KIND = "gpu"  # rules are registered under this name, for all kinds of GPUs


def rules(target: Target) -> list[Rule]:
    """Return the rules of the target's own kind, followed by the rules for all GPUs. This is the part "rules" of GPU
    back ends.
    """
    own = RULES.get(target.kind, ())
    if target.processor is not None:
        return [*own, *processors.rules(target)]
    return [*own, *RULES[KIND]]
