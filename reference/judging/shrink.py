"""Reduce a difference to the smallest sizes and the simplest inputs that still show it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from minitvm.errors import ExecutionError, InputError, Unsupported

from ..meaning import steps
from .case import Case, Undefined
from .inputs.arguments import random_inputs
from .verdict import SHOWN, Verdict, described

STEPS = 200_000  # of the interpreters, after which the best so far is good enough
ATTEMPT = 50  # steps that an attempt costs beside its runs
SIZES = (1, 2, 3, 4, 6)

Judge = Callable[[Case], Verdict | None]


def smallest(case: Case, verdict: Verdict, judge: Judge, on: Any = None) -> Verdict:
    """Return a verdict on the same fault with smaller sizes and inputs.

    `judge` runs the mode that found it on another case, and returns None if it cannot. `on(case, inputs, verdict)`
    compares on chosen inputs, if the mode can do that.
    """
    best, here, budget = verdict, case, _Budget(steps.taken() + STEPS)
    for sizes in _smaller_sizes(case):
        smaller = case.with_sizes(sizes)
        again = budget.tried(judge, smaller)
        if again is not None and _like(again, verdict):
            best, here = again, smaller
            break
    if on is not None and case.fixed_inputs is None and best.output:
        best = _simplest(here, best, partial(_again, budget, on, here, best))
    names = [p.name for p in here.parameters]
    shown = [(n, a) for n, a, p in zip(names, best.inputs, here.parameters, strict=True) if p.is_input]
    text = described([n for n, _ in shown], [a for _, a in shown], here.open_sizes)
    return replace(best, sizes=dict(here.open_sizes), counterexample=text if best.output else _sizes_only(here))


def _sizes_only(case: Case) -> str:
    return described((), (), case.open_sizes)


def _smaller_sizes(case: Case) -> Iterator[dict[str, int]]:
    """Yield other values of the open dimensions, the smallest sum first."""
    names = list(case.open_sizes)
    if not names:
        return
    combinations = itertools.product(SIZES, repeat=min(len(names), 3))
    for values in sorted(combinations, key=lambda v: (sum(v), max(v))):
        candidate = dict(zip(names, itertools.chain(values, itertools.repeat(values[-1])), strict=False))
        if all(n <= case.open_sizes[name] for name, n in candidate.items()) and candidate != case.open_sizes:
            yield candidate


@dataclass(frozen=True)
class _Budget:
    """Makes attempts as long as the interpreters have not taken more steps than `end`."""

    end: int

    def tried(self, attempt: Callable[..., Verdict | None], *args: Any) -> Verdict | None:
        """Return the difference that an attempt finds; None if it finds none, cannot run, or takes too many steps."""
        left = self.end - steps.taken()
        if left <= 0:
            return None
        try:
            with steps.limited(left):
                steps.spend(ATTEMPT)
                verdict = attempt(*args)
        except (ExecutionError, Unsupported, InputError, Undefined):
            return None
        return verdict if verdict is not None and not verdict else None


def _again(budget: _Budget, on: Any, case: Case, like: Verdict, inputs: Sequence[Any]) -> Verdict | None:
    return budget.tried(on, case, inputs, like)


def _like(verdict: Verdict, original: Verdict) -> bool:
    return verdict.mode == original.mode and (verdict.output == original.output or not original.output)


def _simplest(case: Case, best: Verdict, attempt: Callable[[Sequence[Any]], Verdict | None]) -> Verdict:
    """Return the same difference with simpler inputs, one array after the other."""
    for magnitude in (1, 2, 8):
        simpler_verdict = attempt(random_inputs(case.before, case.seed, case.sizes, magnitude))
        if simpler_verdict is not None:
            best = simpler_verdict
            break
    changeable = [
        k for k, p in enumerate(case.parameters)
        if p.is_input and isinstance(best.inputs[k], np.ndarray) and not p.dtype.is_bool
    ]  # fmt: skip
    for k in changeable:
        array = np.asarray(best.inputs[k])
        for simpler in (np.zeros_like(array), np.ones_like(array)):
            simpler_verdict = attempt([*best.inputs[:k], simpler, *best.inputs[k + 1 :]])
            if simpler_verdict is not None:
                best = simpler_verdict
                break
    for k in changeable:
        if np.asarray(best.inputs[k]).any():
            best = _few(k, best, attempt)
    return best


def _few(k: int, best: Verdict, attempt: Callable[[Sequence[Any]], Verdict | None]) -> Verdict:
    """Return the verdict with fewer nonzero elements in an argument; if too many for a listing remain, try ones
    everywhere.
    """
    fewer = _fewer(k, best, attempt)
    array = np.asarray(best.inputs[k])
    everywhere = bool((array == array.flat[0]).all())
    return best if everywhere and np.count_nonzero(fewer.inputs[k]) > SHOWN else fewer


def _fewer(k: int, best: Verdict, attempt: Callable[[Sequence[Any]], Verdict | None]) -> Verdict:
    """Return the verdict with fewer nonzero elements in an argument, by halving (delta debugging, Zeller 1999); the
    others become one.
    """
    size = np.asarray(best.inputs[k]).size
    step = size // 2
    while step:
        for begin in reversed(range(0, size, step)):  # so that the first ones stay
            array = np.array(best.inputs[k])
            flat = array.reshape(-1)
            if not flat[begin : begin + step].any():
                continue
            flat[begin : begin + step] = 0
            verdict = attempt([*best.inputs[:k], array, *best.inputs[k + 1 :]])
            best = best if verdict is None else verdict
        step //= 2
    array = np.array(best.inputs[k])
    array[array != 0] = 1
    verdict = attempt([*best.inputs[:k], array, *best.inputs[k + 1 :]])
    return best if verdict is None else verdict
