"""Bound mode: run on random floats; each element of `after` must be within the error that `before` allows.

See `reference.bound`. If a value is closer to a tie than its error, other inputs are tried, and then the mode refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...domains.bound import Undecided, compare
from ..case import Case
from ..evidence import Evidence, Shown
from ..inputs.arguments import random_inputs
from ..inputs.steering import steered
from ..ordinary import on_floats
from ..verdict import Verdict

_ATTEMPTS = 3


class BoundMode:
    """Compares with a running error analysis instead of a tolerance."""

    name = "bound"
    compares = True
    rank = 50

    def run(self, case: Case, evidence: Evidence) -> Evidence:
        for attempt in range(_ATTEMPTS):
            inputs = case.fixed_inputs
            if inputs is None:
                inputs = random_inputs(case.before, case.seed + attempt, case.sizes)
            try:
                verdict = compare(case.before, inputs, case.run_after(inputs), case.sizes)
                if not verdict or not case.judges_chosen:
                    return Evidence(verdict)
                difference = on_floats(case, inputs, evidence)
                difference = steered(case, self.name, evidence) if difference is None else difference
                result = verdict if difference is None else replace(difference, mode=self.name)
                return Evidence(result, shown=frozenset({Shown.FLOATS, Shown.SEARCHED}))
            except Undecided:
                if attempt == _ATTEMPTS - 1 or case.fixed_inputs is not None:
                    raise
        raise AssertionError("unreachable")

    def on(self, case: Case, inputs: Sequence[Any], like: Verdict) -> Verdict:
        """Compare on these inputs."""
        return compare(case.before, inputs, case.run_after(inputs), case.sizes)


mode = BoundMode()
