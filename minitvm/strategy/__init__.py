"""Which algorithm, layout and schedule an operator gets on a target. `schedule(func, target)` is the entry.

`decision(func, target)` says what was chosen and why.
"""

from ..backend import own
from .decision import CHOICE, TILES, Decision, algorithms_of, decision
from .registry import RULES, Chosen, Rule, chosen, rule, schedule

__all__ = [
    "CHOICE", "RULES", "TILES", "Chosen", "Decision", "Rule", "algorithms_of", "chosen", "decision", "rule", "schedule",
]  # fmt: skip

# The rules of the package's back ends come before those that somebody else registers.
for _backend in own():
    _backend.part("rules")
