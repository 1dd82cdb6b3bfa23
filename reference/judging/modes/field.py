"""Field mode: run both programs over a finite field at random points. See `domains.field` and `domains.field_order`.

Equal results mean that the outputs are the same rational functions of the inputs, near a random input; this is wrong
with a probability of at most degree / p for each element and seed. Integers, bools and indices have their ordinary
values. The mode also runs ordinary floats (`judging.ordinary`): they confirm a difference if functions are hashes, and
show overflow and NaN if the exact mode has not run.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitvm.errors import ExecutionError, Unsupported

from ...domains.field import Field, NeedsCompanion, lift
from ...domains.field_order import SPANS, OrderedField, Undecided
from ..case import Case, Undefined
from ..evidence import Evidence, Shown
from ..inputs.arguments import copies, random_inputs
from ..inputs.nearing import Nearing, ladders, redrawn
from ..inputs.signs import signs
from ..inputs.steering import steered
from ..inputs.variations import Variation, between, sweeps, variations, varied
from ..ordinary import apart, apart_or_none, on_floats, other_inputs
from ..programs import Program, execute
from ..verdict import Verdict

# One instance of each for all runs, so that their compiled code is cached.
FIELD, ORDERED = Field(), tuple(map(OrderedField, SPANS))
for _domain in (FIELD, *ORDERED):
    _domain.lasting = True


class FieldMode:
    """Compares rational functions."""

    name = "field"
    compares = True
    rank = 20

    def run(self, case: Case, evidence: Evidence) -> Evidence:
        if case.fixed_inputs is not None:
            raise Unsupported("field mode: inputs were given")
        if not any(p.dtype.is_float for p in case.parameters) and Shown.EXACT_INPUTS in evidence.shown:
            raise Unsupported("field mode: the parameters are no floats, and exact mode has judged them")
        inputs = random_inputs(case.before, case.seed, case.sizes)
        verdict = self._in_a_field(case, inputs, evidence)
        if not verdict:
            return self._confirmed(case, verdict, inputs, evidence) if case.facts.hashes else Evidence(verdict)
        if not case.judges_chosen:
            return Evidence(verdict)
        # The formulas are the same; their results in floats are judged here if the exact mode did not.
        difference = on_floats(case, inputs, evidence)
        if difference is None:
            difference = steered(case, self.name, evidence)
        if difference is None and Shown.EXACT not in evidence.shown:
            difference = self._swept(case, inputs)
        return Evidence(verdict, shown=frozenset({Shown.FLOATS, Shown.SEARCHED})) | Evidence(difference)

    def _in_a_field(self, case: Case, inputs: Sequence[Any], evidence: Evidence) -> Verdict:
        try:
            verdict = self._in(case, FIELD, inputs, random=True)
            return self._on_others(case, FIELD, inputs, evidence) if verdict else verdict
        except NeedsCompanion:
            pass
        reason: Undecided | None = None
        for domain in ORDERED:
            try:
                verdict = self._in(case, domain, inputs, random=True)
            except Undecided as undecided:
                reason = reason or undecided
                continue
            return self._on_others(case, domain, inputs, evidence) if verdict else verdict
        assert reason is not None
        raise reason

    def _swept(self, case: Case, inputs: Sequence[Any]) -> Verdict | None:
        """Return a difference at numbers of other magnitudes, while some side of a comparison was not taken; else
        None.
        """
        for variation in sweeps(case, inputs):
            difference = apart_or_none(case, varied(inputs, variation))
            if difference is None:
                difference = self._varied(case, inputs, True, variation)
            if difference is not None:
                return difference
        for others in itertools.chain(
            redrawn(case, inputs), ladders(case, inputs), Nearing(case, inputs, whole=False).found()
        ):
            difference = apart_or_none(case, others)
            if difference is None:
                difference = self._varied(case, others, False, None)
            if difference is not None:
                return difference
        return None

    def _varied(self, case: Case, inputs: Sequence[Any], random: bool, variation: Variation | None) -> Verdict | None:
        """Return a difference of the formulas on these inputs; None if there is none, or it is undecided."""
        for domain in (FIELD, ORDERED[0]):
            try:
                verdict = self._in(case, domain, inputs, random, variation=variation)
            except NeedsCompanion:
                continue
            except (ExecutionError, Unsupported):
                return None
            return None if verdict else verdict
        return None

    def _confirmed(self, case: Case, verdict: Verdict, inputs: Sequence[Any], evidence: Evidence) -> Evidence:
        """Return a difference of programs with functions only if floats confirm it: a hash does not know laws such as
        log(exp x) = x.
        """
        agreed = False
        planted = [] if verdict.inputs is inputs else [verdict.inputs]
        for trial in (*planted, inputs, *other_inputs(case, inputs)):
            try:
                difference = apart(case, trial)
            except (ExecutionError, Unsupported):
                continue
            if difference is not None:
                return Evidence(difference)
            agreed = True
        beyond = on_floats(case, inputs, evidence, judged=True)
        if beyond is not None:
            return Evidence(beyond)
        names = ", ".join(sorted(case.facts.hashes))
        why = "ordinary floats agree within their bounds" if agreed else "no error bounds tell whether floats agree"
        refusal = f"field mode: could not decide: a field knows no laws of {names}, and {why}"
        return Evidence(refusal=refusal, shown=frozenset({Shown.FLOATS}))

    def _on_others(self, case: Case, domain: Field, inputs: Sequence[Any], evidence: Evidence) -> Verdict:
        """Return a difference on inputs with chosen signs, or on inputs that reach the programs' constants, if there is
        one.

        Inputs on which `before` is undefined, or that are undecided, are left out. Inputs of the second kind are not
        repeated if the exact mode has judged them.
        """
        others: list[dict[str, Any]] = []
        if case.brief:
            return Verdict(True, self.name)
        if isinstance(domain, OrderedField):
            others += [{"signs_of": signs_of} for signs_of in signs(case.parameters)]
        left = between(case, inputs) if Shown.EXACT in evidence.shown else variations(case, inputs)
        others += [{"variation": variation} for variation in left]
        for options in others:
            try:
                verdict = self._in(case, domain, inputs, random=True, **options)
            except (ExecutionError, Unsupported, NeedsCompanion):
                continue
            if not verdict:
                return verdict
        return Verdict(True, self.name)

    def on(self, case: Case, inputs: Sequence[Any], like: Verdict) -> Verdict:
        """Compare on inputs: in the field with exact rationals, or as floats if the difference was found in floats."""
        if like.in_floats:
            return apart(case, inputs, values=bool(case.facts.hashes)) or Verdict(True, self.name)
        try:
            return self._in(case, FIELD, inputs, random=False)
        except NeedsCompanion:
            return self._in(case, ORDERED[0], inputs, random=False)

    def _in(self, case: Case, domain: Field, inputs: Sequence[Any], random: bool, signs_of: Sequence[int] = (),
            variation: Variation | None = None) -> Verdict:  # fmt: skip
        lifted = lift(case.parameters, domain, inputs, case.seed if random else None)
        if variation is not None:
            pairs = list(zip(case.parameters, lifted, variation, strict=True))
            lifted = [(c.on(a, domain.lift) if p.dtype.is_float else c.on(a)) if c else a for p, a, c in pairs]
            inputs = varied(inputs, variation)
        if isinstance(domain, OrderedField) and signs_of:
            floats = [sign if p.dtype.is_float else 0 for p, sign in zip(case.parameters, signs_of, strict=True)]
            lifted = [domain.with_sign(a, sign) if sign else a for a, sign in zip(lifted, floats, strict=True)]
        with case.bounded():
            expected = self._outputs(case, case.before, domain, lifted)
        try:
            results = self._outputs(case, case.after, domain, lifted)
        except ExecutionError as error:
            raise Undefined(error, inputs) from error
        return compare(case, domain, inputs, expected, results, everywhere=variation is None)

    def _outputs(self, case: Case, program: Program, domain: Field, lifted: Sequence[Any]) -> list[Any]:
        args = copies(lifted)
        execute(program, args, case.shadow and not case.watched, case.sizes, domain=domain)
        return args


mode = FieldMode()


def compare(case: Case, domain: Field, inputs: Sequence[Any], expected: Sequence[Any], results: Sequence[Any],
            everywhere: bool = True) -> Verdict:  # fmt: skip
    """Return the verdict on two runs over the field. Unless `everywhere`, elements that are NaN or infinite are
    ignored.
    """
    for p, a, b in zip(case.parameters, expected, results, strict=True):
        if not p.written:
            continue
        same = np.asarray(domain.same(a, b) if p.dtype.is_float else a == b)
        if not everywhere and p.dtype.is_float and isinstance(domain, OrderedField):
            same = same | np.isnan(a["c"]) | np.isnan(b["c"])  # x / x at a planted zero, say
        if same.all():
            if everywhere and p.dtype.is_float and isinstance(domain, OrderedField) and np.isnan(a["c"]).any():
                raise Unsupported(f"field mode: {p.name} is not a number somewhere: a division by zero, or infinities")
            continue
        index = tuple(int(i) for i in np.argwhere(~same)[0])
        values = [domain.text(v[index]) if p.dtype.is_float else repr(v[index]) for v in (a, b)]
        message = (
            f"the programs differ in {p.name}[{', '.join(map(str, index))}] (field mode,"
            f" {int((~same).sum())} of {same.size} elements)\n  before: {values[0]}\n  after:  {values[1]}"
        )
        return Verdict(False, "field", message, p.name, index, values[0], values[1], inputs)
    return Verdict(True, "field")
