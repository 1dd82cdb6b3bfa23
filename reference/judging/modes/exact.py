"""Exact mode: compare with `==` on inputs for which floats do not round. See `reference.domains.exact`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from minitvm.errors import ExecutionError, Unsupported

from ...domains.exact import Peaks, magnitudes
from ..case import Case
from ..evidence import NOTHING, Evidence, Shown
from ..inputs.exact import measure
from ..inputs.nearing import Nearing, ladders, redrawn
from ..inputs.signs import signs, with_signs
from ..inputs.steering import steered
from ..inputs.variations import blend, sweeps, ties, variations, varied
from ..ordinary import apart
from ..verdict import Verdict


class Rounds(Unsupported):
    """The programs differ at a place where one of them may round."""


class ExactMode:
    """Compares bits, whatever the order of additions."""

    name = "exact"
    compares = True
    rank = 10

    def run(self, case: Case, evidence: Evidence) -> Evidence:
        inputs = case.exact_inputs()
        verdict = self._blended(case, inputs)
        if verdict is None:
            verdict = self._compared(case, inputs)
        shown = Evidence(verdict, shown=frozenset({Shown.EXACT_INPUTS}))
        for other in self._others(case, inputs) if verdict and not case.brief else ():
            shown |= self._if_defined(case, other)
            if not shown.verdict:
                return shown
        if not verdict:
            return shown
        difference = steered(case, self.name, evidence)
        return shown | Evidence(difference, shown=frozenset({Shown.EXACT, Shown.SEARCHED}))

    def _blended(self, case: Case, inputs: Sequence[Any]) -> Verdict | None:
        """Return the verdict on the same inputs with small constants of the programs added; None if `before` is
        undefined there.
        """
        planted = blend(case, inputs)
        if planted is None:
            return None
        try:
            return self._compared(case, varied(inputs, planted))
        except (ExecutionError, Unsupported):
            return None

    def _others(self, case: Case, inputs: Sequence[Any]) -> Iterator[Sequence[Any]]:
        """Yield inputs with chosen signs, for programs that depend on order, and inputs that reach the programs'
        constants.
        """
        if case.facts.looks_at_order:
            tied = ties(case, inputs)
            for k, signs_of in enumerate(signs(case.parameters)):
                yield with_signs(varied(inputs, tied) if tied is not None and k else inputs, signs_of)
        for variation in itertools.chain(variations(case, inputs, whole=True), sweeps(case, inputs, whole=True)):
            yield varied(inputs, variation)
        yield from redrawn(case, inputs)
        yield from ladders(case, inputs)
        yield from Nearing(case, inputs, whole=True).found()

    def _if_defined(self, case: Case, inputs: Sequence[Any]) -> Evidence:
        """Return the evidence of some inputs if `before` is defined there. If a program rounds, the error bounds of
        both decide.
        """
        try:
            return Evidence(self._compared(case, inputs))
        except Rounds:
            return self._within_bounds(case, inputs)
        except (ExecutionError, Unsupported):
            return NOTHING

    def _within_bounds(self, case: Case, inputs: Sequence[Any]) -> Evidence:
        try:
            difference = apart(case, inputs)
        except (ExecutionError, Unsupported):
            return Evidence(excused=1)
        return NOTHING if difference is None else Evidence(replace(difference, mode=self.name))

    def on(self, case: Case, inputs: Sequence[Any], like: Verdict) -> Verdict:
        """Compare on inputs on which `before` does not round. Refuses if only `after` rounds."""
        return self._compared(case, inputs)

    def _compared(self, case: Case, inputs: Sequence[Any]) -> Verdict:
        verdict = case.compare(self.name, inputs, case.run_before(inputs), case.run_after(inputs))
        if not verdict and verdict.output not in case.facts.integral:
            self._require_exact(case, inputs)
        return verdict

    def _require_exact(self, case: Case, inputs: Sequence[Any]) -> None:
        # Rounding can make a correct program differ. This is only checked if results differ.
        for program in (case.after, case.before):
            peaks = Peaks()
            try:
                measure(program, magnitudes(inputs), peaks, case.sizes)
            except ExecutionError:
                continue
            except Unsupported as reason:
                raise Rounds(str(reason)) from None
            if peaks.filled > 1.0:
                raise Rounds("exact mode: one of the programs rounds on these inputs")


mode = ExactMode()
