"""Choose the algorithm, layout and schedule of an operator for a target.

`schedule(func, target)` is the entry. `candidates(func, target)` lists the candidates that it chooses from.
`choice_of(func)` returns the record of a scheduled function: the candidate that was taken, the others, and those that
were refused. `decided(func, target, decision)` schedules by a decision that was made elsewhere.
"""

from .candidate import CHOICE, Candidate, Choice, Cost, Decision, Knob, Option, Unfit, Weighed, choice_of, reason
from .registry import RULES, Chosen, Rule, candidate_of, candidates, chosen, decided, rule, schedule, scheduled, simpler

__all__ = [
    "CHOICE", "RULES", "Candidate", "Choice", "Chosen", "Cost", "Decision", "Knob", "Option", "Rule", "Unfit",
    "Weighed", "candidate_of", "candidates", "choice_of", "chosen", "decided", "reason", "rule", "schedule",
    "scheduled", "simpler",
]  # fmt: skip
