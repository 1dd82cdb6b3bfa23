"""The last resort if every other mode that compares refuses: random floats, with equal bits, else equal up to rounding.

The verdict's mode is "bits" or "close", whichever applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from minitvm.expr.dtypes import is_floating

from ..case import Case
from ..evidence import Evidence, Shown
from ..ordinary import on_floats
from ..programs import Parameter
from ..tolerance import close
from ..verdict import Verdict


class FloatsMode:
    """Compares on random floats, with a tolerance if their bits differ."""

    name = "floats"
    compares = True
    rank = 70

    def run(self, case: Case, evidence: Evidence) -> Evidence:
        inputs = case.inputs()
        verdict = self._compared(case, inputs)
        if not verdict or not case.judges_chosen:
            return Evidence(verdict)
        difference = on_floats(case, inputs, evidence)
        result = verdict if difference is None else replace(difference, mode="bits")
        return Evidence(result, shown=frozenset({Shown.FLOATS}))

    def on(self, case: Case, inputs: Sequence[Any], like: Verdict) -> Verdict:
        """Compare on these inputs."""
        return self._compared(case, inputs)

    def _compared(self, case: Case, inputs: Sequence[Any]) -> Verdict:
        loose = False

        def accept(p: Parameter, expected: np.ndarray, actual: np.ndarray) -> bool:
            nonlocal loose
            near = is_floating(expected.dtype) and close(actual, expected, func=case.before)
            loose = loose or near
            return near

        verdict = case.compare("bits", inputs, case.run_before(inputs), case.run_after(inputs), accept)
        return replace(verdict, mode="close") if verdict and loose else verdict


mode = FloatsMode()
