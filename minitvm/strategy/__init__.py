"""Which algorithm, layout and schedule an operator gets on a target.

`schedule(func, target)` is the entry. `candidates(func, target)` lists what it chooses from; `choice_of(func)` says
what was taken for a scheduled function, over what, and what was refused. `decided(func, target, decision)` schedules by
a decision that was taken elsewhere.
"""

from .candidate import CHOICE, Candidate, Choice, Cost, Decision, Knob, Option, Unfit, Weighed, choice_of, reason
from .registry import RULES, Chosen, Rule, candidate_of, candidates, chosen, decided, rule, schedule, scheduled, simpler

__all__ = [
    "CHOICE", "RULES", "Candidate", "Choice", "Chosen", "Cost", "Decision", "Knob", "Option", "Rule", "Unfit",
    "Weighed", "candidate_of", "candidates", "choice_of", "chosen", "decided", "reason", "rule", "schedule",
    "scheduled", "simpler",
]  # fmt: skip
