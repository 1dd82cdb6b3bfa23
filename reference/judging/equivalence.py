"""`check` decides whether two programs mean the same, in several modes (files of `reference.judging.modes`)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from minitvm.errors import ExecutionError, InputError, Unsupported
from minitvm.tir.nodes import IRModule

from ..meaning.steps import OutOfSteps, limited
from .case import Case, Facts, Undefined
from .evidence import NOTHING, Evidence
from .inplace import marked, positions_of, read_first
from .inputs.arguments import random_inputs, sizes_from_shapes
from .inputs.exact import exact_arguments
from .inputs.sizes import Round, missed_sides, rounds_to_try, size_names, sizes_to_try
from .modes import Mode, known_modes
from .programs import Program, execute, parameters, same_signature, several_functions
from .shrink import smallest
from .tolerance import close
from .verdict import Verdict

DEFAULT = ("exact", "field", "shadow")
LAST_RESORTS = ("bound", "floats")  # tried in turn when no other mode can compare
ROUND_STEPS = 100_000  # that a mode may take at sizes of several tiles
JUDGE_ROUNDING = {"bound", "special", "floats"}

__all__ = ["Verdict", "check", "close", "exact_arguments", "execute", "random_inputs"]


def check(
    before: Program,
    after: Program,
    *,
    modes: Sequence[str] | str = DEFAULT,
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
    inputs: Sequence[Any] | None = None,
    inout: Sequence[str] | None = None,
    shrink: bool = True,
) -> Verdict:
    """Return whether two programs with the same parameters write the same values.

    A program is a `PrimFunc`, an `IRModule`, or a list of te tensors in the order of the parameters. The two programs
    may be at different levels. If both are modules of several functions, functions with the same name are compared.

    `modes` names the modes to try. A mode that cannot judge these programs is left out, and the verdict gives the
    reason. If no mode that compares values is left, random floats are compared instead, within error bounds or else up
    to rounding.

    `inputs` are arguments to use instead of random ones, in the order of the parameters. `sizes` fixes symbolic
    dimensions by name; the others take several values, which an equal verdict lists (`inputs.sizes`). `inout` names the
    parameters of `before` that it updates. By default these are the parameters that it reads before it writes them, and
    the verdict names them. With `shrink`, the check looks for a smaller counterexample.

    If `before` does something undefined, this raises its `ExecutionError`, because there is nothing to compare with. If
    only `after` does so, that is a difference. Raises `Unsupported` if no mode can compare the programs, and
    `InputError` for invalid arguments and for programs with different parameters.
    """
    available, modes = known_modes(), _asked(modes)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed is a whole number, 0 or more, found {seed!r}")
    if several_functions(before) and several_functions(after):
        if inputs is not None:
            raise InputError("inputs are those of one function; these modules have several")
        return _check_each(before, after, sizes, modes=modes, seed=seed, inout=inout, shrink=shrink)
    one_sided = same_signature(before, after)
    if one_sided:
        return Verdict(False, "signature", one_sided, programs=(before, after), seed=seed)
    if inputs is not None:
        sizes = {**sizes_from_shapes(before, inputs), **(sizes or {})}
    tried = sizes_to_try(before, after, seed, sizes, several=inputs is None)
    rounds, unreached = ([], []) if inputs is not None else missed_sides(before, after, tried, sizes)
    rounds = [*(rounds_to_try(before, after, tried, sizes) if inputs is None else []), *rounds]
    before, after, updated = _in_place(before, after, seed, tried, inputs, inout)
    cases = _Cases.of(before, after, seed, sizes, tried, rounds, inputs, "shadow" in modes)
    ran: dict[str, Verdict] = {}
    refused: dict[str, str] = {}
    for name in _in_order(modes):
        if name not in modes and any(available[n].compares for n in ran):
            continue
        try:
            verdict, case = cases.judged(available[name])
        except Unsupported as reason:
            refused[name] = str(reason)
            continue
        ran[name] = verdict
        if not verdict:
            if shrink and inputs is None:
                judge = partial(_verdict, available[name])
                ran[name] = smallest(case, verdict, judge, available[name].on)
            break
    difference = next((v for v in ran.values() if not v), None)
    if difference is None:
        _require_a_comparison(modes, ran, refused)
    overall = next(iter(ran.values())) if difference is None else difference
    if overall and cases.only_empty():
        raise Unsupported(
            "the programs cannot be compared: a dimension was 0 at each size that could be judged"
            f"{_at_sizes(cases)}\n  try:    sizes= with a size at which the first program is defined"
        )
    if overall and not JUDGE_ROUNDING & set(ran):
        overall = replace(overall, unjudged=cases.rounded())
    excused = sum(one.excused for one in cases.evidence) if overall else 0
    tried_sizes = cases.tried() if overall else ()
    short = cases.short() if overall else {}
    if not overall:
        overall = replace(overall, programs=(before, after), seed=seed)
    return replace(
        overall, ran=tuple(ran), refused=refused, tried=tried_sizes, inout=updated, excused=excused, short=short,
        untaken=cases.untaken() if overall else (), unsized=cases.unsized(unreached) if overall else (),
    )  # fmt: skip


def _require_a_comparison(modes: Sequence[str], ran: Mapping[str, Verdict], refused: Mapping[str, str]) -> None:
    """Raise `Unsupported` if all modes that compare values refused: the absence of undefined behaviour is no
    equality.
    """
    available = known_modes()
    comparing = any(available[name].compares for name in modes)
    if not ran or (comparing and not any(available[name].compares for name in ran)):
        reasons = "".join(f"\n  {name}: {why}" for name, why in refused.items())
        every = "every mode that compares values" if ran else "every mode"
        raise Unsupported(f"the programs cannot be compared: {every} refuses{reasons}")


def _at_sizes(cases: _Cases) -> str:
    sizes = [", ".join(f"{name} = {n}" for name, n in one.items()) for one in cases.tried()]
    return f": {'; '.join(sizes)}" if sizes else ""


def _in_place(
    before: Program, after: Program, seed: int, tried: Sequence[Mapping[str, int]], inputs: Sequence[Any] | None,
    inout: Sequence[str] | None,
) -> tuple[Program, Program, tuple[str, ...]]:  # fmt: skip
    """Return both programs with the parameters that `before` updates marked as in and out, and the names of these."""
    if inout is not None:
        places = positions_of(before, inout)
    else:
        places = ()
        for sizes in sorted(tried, key=lambda one: -math.prod(one.values())):  # large ones tell more at once
            places = read_first(before, seed, sizes, inputs, places)
    names = [p.name for p in parameters(before)]
    return marked(before, places), marked(after, places), tuple(names[k] for k in places)


def _asked(modes: Any) -> tuple[str, ...]:
    """Return the names of the requested modes; raises `InputError` for unknown ones. A single name may be a string."""
    available = known_modes()
    if isinstance(modes, str):
        modes = (modes,)
    names = tuple(modes) if isinstance(modes, Iterable) else (modes,)
    if not all(isinstance(name, str) for name in names):
        raise InputError(f"modes are names, found {modes!r}; known: {', '.join(available)}")
    unknown = sorted(set(names) - set(available))
    if unknown:
        raise InputError(f"modes {', '.join(unknown)} are unknown; known: {', '.join(available)}")
    if not names:
        raise InputError(f"modes are empty: there is nothing to do; known: {', '.join(available)}")
    return names


def _in_order(modes: Sequence[str]) -> list[str]:
    """Return the requested modes: those that compare, then their last resorts, then the others."""
    available = known_modes()
    comparing = [name for name in available if name in modes and available[name].compares]
    resorts = LAST_RESORTS if comparing and not set(comparing) & set(LAST_RESORTS) else ()
    return [*comparing, *resorts, *(name for name in available if name in modes and not available[name].compares)]


@dataclass
class _Cases:
    """The same two programs at several sizes of their symbolic dimensions."""

    cases: list[Case]
    rounds: list[tuple[Round, list[Case]]] = field(default_factory=list)  # with their cases, which are among `cases`
    ran: set[int] = field(default_factory=set)  # the places of those of which a mode gave a verdict
    too_long: set[int] = field(default_factory=set)
    undefined: set[int] = field(default_factory=set)  # the places of those at which `before` is
    evidence: list[Evidence] = field(init=False)  # of each case, what all modes have shown so far

    def __post_init__(self) -> None:
        self.evidence = [NOTHING] * len(self.cases)

    @staticmethod
    def of(before: Program, after: Program, seed: int, fixed: Mapping[str, int] | None,
           tried: Sequence[Mapping[str, int]], rounds: Sequence[Round], inputs: Sequence[Any] | None,
           shadow: bool) -> _Cases:  # fmt: skip
        facts = Facts(before, after, frozenset(tried[0]))

        def case(sizes: Mapping[str, int], brief: bool = False) -> Case:
            left_open = {name: n for name, n in sizes.items() if name not in (fixed or {})}
            return Case(before, after, seed, sizes, inputs, shadow, left_open, facts, brief)

        cases, round_cases = [case(sizes) for sizes in tried], []
        for one in rounds:
            its = [case(sizes, brief=True) for sizes in (one.sizes, *one.otherwise)]
            round_cases.append((one, its))
            cases += its
        return _Cases(cases, round_cases)

    def judged(self, mode: Mode) -> tuple[Verdict, Case]:
        """Return a mode's verdict with its case: the first difference if any. Raises `Unsupported` if the mode refuses
        all sizes.

        Sizes at which `before` is undefined are left out from here on; if no others remain, its error is raised.
        """
        reason: Unsupported | None = None
        undefined: ExecutionError | None = None
        first_verdict: tuple[Verdict, Case] | None = None
        for k, case in enumerate(self.cases):
            if k in self.undefined or k in self.too_long or (case.brief and self._not_needed(k, case, mode)):
                continue
            try:
                with limited(ROUND_STEPS) if case.brief else nullcontext():
                    evidence = _judged(mode, case, self.evidence[k])
            except OutOfSteps as why:
                reason = reason or why
                self.too_long.add(k)
                continue
            except Unsupported as why:
                reason = reason or why
                continue
            except ExecutionError as error:
                undefined = undefined or error
                self.undefined.add(k)
                continue
            self.evidence[k] |= evidence
            if (verdict := evidence.verdict) is None:
                reason = reason or Unsupported(evidence.refusal)
                continue
            self.ran.add(k)
            first_verdict = first_verdict or (verdict, case)
            if not verdict:
                return verdict, case
        if undefined is not None and all(k in self.undefined for k, case in enumerate(self.cases) if not case.brief):
            if first_verdict is None:
                raise undefined
        if first_verdict is None:
            assert reason is not None
            raise reason
        return first_verdict

    def _not_needed(self, k: int, case: Case, mode: Mode) -> bool:
        """Return whether a case can be skipped: large sizes were already compared, or replace sizes that worked."""
        if k in self.ran and (mode.compares or case.watched):
            return True
        its = next(its for _, its in self.rounds if any(other is case for other in its))
        left_out = {id(self.cases[n]) for n in self.undefined}
        return not all(id(one) in left_out for one in itertools.takewhile(lambda one: one is not case, its))

    def rounded(self) -> str:
        """Return a text about a rounding that differs, at the first judged sizes where it does."""
        judged = [self.cases[k] for k in sorted(self.ran - self.undefined) if not self.cases[k].brief]
        return next((case.rounded for case in judged if case.rounded), "")

    def only_empty(self) -> bool:
        """Return whether some dimensions were open, and one of them was 0 whenever the programs were compared."""
        tried = self.tried()
        return bool(tried) and all(0 in sizes.values() for sizes in tried)

    def short(self) -> dict[str, int]:
        """Return the dimensions, with their tiles, that were less than three tiles long at every judged size."""
        judged = [self.cases[k].sizes for k in self.ran - self.undefined]
        tile_of = {one.name: one.tile for one, _ in self.rounds if not one.side}
        return {name: tile for name, tile in tile_of.items() if all(sizes[name] < 3 * tile for sizes in judged)}

    def unsized(self, unreached: Sequence[str]) -> tuple[str, ...]:
        """Return the sides of conditions on dimensions that no compared size took."""
        judged = {id(self.cases[k]) for k in self.ran - self.undefined}
        missed = {one.side: False for one, _ in self.rounds if one.side}
        for one, its in self.rounds:
            if one.side:
                missed[one.side] |= any(id(case) in judged for case in its)
        return tuple(dict.fromkeys([*(side for side, reached in missed.items() if not reached), *unreached]))

    def untaken(self) -> tuple[str, ...]:
        """Return the sides of comparisons and clips that no input took."""
        return tuple(dict.fromkeys(text for one in self.cases[0].facts.coverages for text in one.never()))

    def tried(self) -> tuple[Mapping[str, int], ...]:
        """Return the values of open dimensions at which the programs were compared."""
        open_sizes = [case.open_sizes for k, case in enumerate(self.cases) if k in self.ran - self.undefined]
        return tuple(sizes for sizes in open_sizes if sizes)


def _check_each(before: IRModule, after: IRModule, sizes: Mapping[str, int] | None, **options: Any) -> Verdict:
    """Compare functions of the same name; return the first difference, or the weakest agreement."""
    missing = set(before.functions) ^ set(after.functions)
    if missing:
        raise InputError(f"only one of the modules has {', '.join(sorted(missing))}")
    theirs = {name: size_names(func, after[name]) for name, func in before.items()}
    unknown = set(sizes or {}) - set().union(*theirs.values())
    weakest: Verdict | None = None
    for name, func in before.items():
        own = {n: size for n, size in (sizes or {}).items() if n in theirs[name] or n in unknown}
        verdict = check(func, after[name], sizes=own, **options)
        if not verdict:
            return replace(verdict, message=f"{name}: {verdict.message}")
        if weakest is None or len(verdict.ran) < len(weakest.ran):
            weakest = verdict
    assert weakest is not None
    return weakest


def _verdict(mode: Mode, case: Case) -> Verdict | None:
    """Return a mode's verdict without earlier evidence; None if the mode refuses."""
    return _judged(mode, case, NOTHING).verdict


def _judged(mode: Mode, case: Case, evidence: Evidence) -> Evidence:
    """Run a mode and return its evidence; undefined behaviour of `after` counts as a difference."""
    try:
        return mode.run(case, evidence)
    except Undefined as error:
        name = "shadow" if case.shadow else mode.name
        return Evidence(Verdict(False, name, str(error), inputs=error.inputs, finding=error.finding))
