"""Special mode: compare bits on inputs with NaN, infinities, zeros, subnormals and the ends of integer ranges.

See `inputs.special`. If elements differ in a way that another order of a sum may explain, and nothing else differs, the
mode does not pass: it refuses, and says how many such elements there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitvm.errors import ExecutionError, Unsupported

from ..case import Case
from ..evidence import Evidence
from ..inputs.special import KINDS, explained, same_bits, special_inputs, turns
from ..verdict import Verdict, difference


class SpecialMode:
    """Compares bits on special values."""

    name = "special"
    compares = True
    rank = 60

    def run(self, case: Case, evidence: Evidence) -> Evidence:
        for inputs, expected in self._before(case):
            verdict = self._compared(case, inputs, expected, case.run_after(inputs))
            if not verdict:
                return Evidence(verdict)
        return Evidence(Verdict(True, self.name))

    def on(self, case: Case, inputs: Sequence[Any], like: Verdict) -> Verdict:
        """Compare on these inputs."""
        return self._compared(case, inputs, case.run_before(inputs), case.run_after(inputs))

    def _before(self, case: Case) -> list[tuple[Sequence[Any], list[Any]]]:
        """Return inputs on which `before` is defined, with its results; in several turns, so that each input gets each
        value.
        """
        if case.fixed_inputs is not None:
            return [(case.fixed_inputs, case.run_before(case.fixed_inputs))]
        for kind in KINDS:
            candidates = [
                special_inputs(case.before, case.seed, case.sizes, kind, turn)
                for turn in range(turns(case.before, case.sizes))
            ]
            try:
                return [(inputs, case.run_before(inputs)) for inputs in candidates]
            except ExecutionError as error:
                reason = str(error).splitlines()[0]
        raise Unsupported(f"special mode: the first program is undefined on special values: {reason}")

    def _compared(self, case: Case, inputs: Sequence[Any], expected: Sequence[Any], results: Sequence[Any]) -> Verdict:
        unlike = {
            k: ~same_bits(a, b)
            for k, (p, a, b) in enumerate(zip(case.parameters, expected, results, strict=True))
            if p.written
        }
        unlike = {k: mask for k, mask in unlike.items() if mask.any()}
        if not unlike:
            return Verdict(True, self.name)
        floats = any(case.parameters[k].dtype.is_float for k in unlike)
        by_order: Sequence[np.ndarray | None] = [None] * len(expected)
        if floats:
            try:
                by_order = explained(case.before, inputs, results, case.sizes)
            except Unsupported as reason:
                raise Unsupported(
                    "special mode: the programs differ in bits, and whether another order of additions accounts for it"
                    f" cannot be told: {reason}"
                ) from None
        for k, mask in unlike.items():
            order = by_order[k]
            wrong = mask if order is None else mask & ~order
            if wrong.any():
                return difference(self.name, case.parameters[k].name, wrong, expected[k], results[k], inputs)
        count = sum(int(mask.sum()) for mask in unlike.values())
        raise Unsupported(
            f"special mode: the sums behind {count} elements were taken in another order; these agree within the"
            " rounding and overflow that this allows, all others in every bit"
        )


mode = SpecialMode()
