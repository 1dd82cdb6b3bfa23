"""Which algorithm, layout and schedule an operator gets on a target.

`schedule(func, target)` is the entry. `candidates(func, target)` lists what it chooses from; `choice_of(func)` says
what was taken for a scheduled function, over what, and what was refused.
"""

from ..backend import own
from .candidate import Candidate, Cost, Knob, Option, Unfit
from .choice import CHOICE, Choice, Weighed, choice_of
from .registry import RULES, Chosen, Rule, candidates, chosen, rule, schedule, scheduled

__all__ = [
    "CHOICE", "RULES", "Candidate", "Choice", "Chosen", "Cost", "Knob", "Option", "Rule", "Unfit", "Weighed",
    "candidates", "choice_of", "chosen", "rule", "schedule", "scheduled",
]  # fmt: skip

# The rules of the package's back ends come before those that somebody else registers.
for _backend in own():
    _backend.part("rules")
