"""Schedules for CPUs: specific rules first, and a generic rule for everything else."""

from ....target import Target

from . import tiles, conv2d, depthwise, window_rows, winograd, pool, recurrent, matvec, contraction  # isort: skip  (the order of registration is the order in which rules are tried)
from . import attention, block_weights  # isort: skip
from . import rows  # isort: skip  (behind the rules of single operators)
from . import sketch  # isort: skip  (for tuning alone)
from . import generic  # isort: skip

from typing import Any  # isort: skip

from ....strategy.registry import RULES, Rule  # isort: skip


def rules(target: Target) -> list[Rule]:  # noqa: ARG001 (a part of a back end is asked for a target)
    """Return the scheduling rules for CPUs. This is the part "rules" of the CPU's back end."""
    return RULES["cpu"]
