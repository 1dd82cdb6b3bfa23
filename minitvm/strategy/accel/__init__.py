"""Schedules for the tensor accelerator (`minitvm.accel`): convolutions and products of matrices on whole elements."""

from __future__ import annotations

from typing import Any

from ..registry import RULES, Rule
from .convolution import refusal
from .passes import PASSES

__all__ = ["PASSES", "refusal", "rules"]


def rules(target: Any) -> list[Rule]:
    """The part "rules" of its back end."""
    return list(RULES[target.kind])
