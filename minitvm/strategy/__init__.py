"""Which algorithm, layout and schedule an operator gets on a target. `schedule(func, target)` is the entry."""

from . import cpu
from .registry import RULES, Rule, rule, schedule

__all__ = ["RULES", "Rule", "rule", "schedule"]
