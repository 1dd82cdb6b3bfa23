"""Schedules for the tensor accelerator (`minitvm.accel`): convolutions and products of matrices on whole elements."""

from . import convolution
from .passes import PASSES

from typing import Any  # isort: skip

from ..registry import RULES, Rule  # isort: skip

__all__ = ["PASSES", "convolution", "rules"]


def rules(target: Any) -> list[Rule]:
    """The part "rules" of its back end."""
    return list(RULES[target.kind])
