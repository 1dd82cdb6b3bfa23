"""`apart`: compare the float results of two programs, with the error bounds of both.

The field mode uses it for two reasons. A function is a hash there, so a difference proves nothing if there are
functions: log(exp(x)) is x. And a formula says nothing about floats that overflow or are always NaN. Both programs have
error bounds (`reference.bound`), so other algebra is not a difference. Only results beyond the bounds of both are
different, and results that are not finite although those of the first program are.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from minitvm import expr as x
from minitvm.errors import ExecutionError, Unsupported
from minitvm.expr.dtypes import is_floating

from ..domains import bound
from ..domains.field import FUNCTIONS
from .evidence import Evidence, Shown
from .inputs.signs import nodes
from .inputs.sites import AT_ZERO
from .inputs.variations import cancelling, extreme_floats, overflowing, poles, variations, varied
from .programs import Program
from .verdict import Verdict, difference

if TYPE_CHECKING:
    from .case import Case

SLACK = 4  # times the bounds of both: a constant of one program may be the rounded form of one of the other
LOST_OF, LOST_PART = 128, 16  # elements of which one part at least must be lost where digits cancel
SPANS = ((0.25, 8.0), (-1.0, 1.0))  # of other inputs: where roots and logarithms are defined, and small ones


def functions(program: Program) -> set[str]:
    """Return the functions in a program that the field mode treats as hashes."""
    return {n.op for n in nodes(program) if isinstance(n, x.Call) and n.op in FUNCTIONS}


def apart(case: Case, inputs: Sequence[Any], values: bool = True) -> Verdict | None:
    """Return the difference on these inputs, or None if both results may be float results of one formula.

    Without `values`, only NaN, infinities, and integers that depend only on integers are compared: the other values are
    known to come from one formula. Raises `Unsupported` if `values` are compared but there is no bound,
    `ExecutionError` if `before` is undefined, and `Undefined` if `after` is.
    """
    before, after = case.run_before(inputs), case.run_after(inputs)
    for p, w, f in zip(case.parameters, before, after, strict=True):
        if p.written and p.name in case.facts.integral and (unequal := np.asarray(w != f)).any():
            return replace(difference("field", p.name, unequal, w, f, inputs), in_floats=True)
    lost = [_lost(w, f, case.facts.classifies) if p.written else None
            for p, w, f in zip(case.parameters, before, after, strict=True)]  # fmt: skip
    if not values and not any(one is not None and one.any() for one in lost):
        return None
    bounds = _bounds(case, inputs)
    for k, wrong in enumerate(lost):
        if wrong is None:
            continue
        if bounds is not None:
            must, other = (one[k] for one in bounds)
            shaped = [np.reshape(a, wrong.shape) for a in (must.value, must.error, other.value, other.error)]
            wrong = wrong & np.isfinite(shaped[1])  # where another order may overflow, nothing is lost
            wrong = wrong | _beyond(*shaped) if values else wrong
        if wrong.any():
            how = " in floats beyond rounding,"
            name = case.parameters[k].name
            return replace(difference("field", name, wrong, before[k], after[k], inputs, how), in_floats=True)
    if bounds is None and values:
        raise Unsupported("field mode: no error bounds tell whether floats agree")
    return None


def on_floats(case: Case, inputs: Sequence[Any], evidence: Evidence, judged: bool = False) -> Verdict | None:
    """Return a difference that formulas do not show, on ordinary inputs or on inputs that reach the programs'
    constants.

    Such differences are numbers that become infinite or NaN, and integers that were converted from floats. If both
    programs round alike, the values on ordinary inputs are compared as well. If the programs agreed on exact inputs,
    only inputs that overflow functions are tried. With `judged`, the ordinary inputs were judged before, but not the
    formulas: then values are compared on all other inputs.
    """
    if Shown.FLOATS in evidence.shown:
        return None
    trials: list[tuple[Sequence[Any], bool]] = []
    if Shown.EXACT not in evidence.shown:
        trials += [] if judged else [(inputs, not case.rounded)]
        trials += [(varied(inputs, variation), judged) for variation in variations(case, inputs)]
        trials += [(varied(inputs, variation), True) for variation in extreme_floats(case, inputs)]
    trials += [(varied(inputs, variation), False) for variation in poles(case, inputs)]
    trials += [(varied(inputs, variation), False) for variation in overflowing(case, inputs)]
    for one, values in trials:
        difference = None
        with suppress(ExecutionError):
            try:
                difference = apart(case, one, values)
            except Unsupported:
                with suppress(Unsupported):
                    difference = apart(case, one, values=False) if values else None
        if difference is not None:
            return difference
    return _lost_often(case, inputs) if case.facts.hashes & {*AT_ZERO} else None


def _lost_often(case: Case, inputs: Sequence[Any]) -> Verdict | None:
    """Return a difference if `after` often gives NaN or infinity for rows that cancel in differences of squares, and
    `before` never does.

    Error bounds do not show this, because they do not know that a sum of squares is not negative. But if `before` also
    lost numbers, only at other places, it would have lost some among so many.
    """
    lost = total = 0
    worst: tuple[Sequence[Any], list[Any], list[Any], int] | None = None
    for variation in cancelling(case, inputs):
        trial = varied(inputs, variation)
        try:
            before, after = case.run_before(trial), case.run_after(trial)
        except (ExecutionError, Unsupported):
            return None
        for k, (p, w, f) in enumerate(zip(case.parameters, before, after, strict=True)):
            if not p.written or not p.dtype.is_float:
                continue
            if not np.isfinite(w).all():
                return None
            count = int(_lost(w, f).sum())
            lost, total = lost + count, total + np.size(w)
            if count and worst is None:
                worst = trial, before, after, k
    if worst is None or total < LOST_OF or lost * LOST_PART < total:
        return None
    args, first, second, k = worst
    wrong, how = _lost(first[k], second[k]), " in floats, where digits cancel,"
    return replace(difference("field", case.parameters[k].name, wrong, first[k], second[k], args, how), in_floats=True)


def apart_or_none(case: Case, inputs: Sequence[Any]) -> Verdict | None:
    """Return the difference if a finite number was lost on these inputs; None if not, or if `before` is undefined
    there.
    """
    with suppress(ExecutionError, Unsupported):
        return apart(case, inputs, values=False)
    return None


def other_inputs(case: Case, inputs: Sequence[Any]) -> list[list[Any]]:
    """Return the same arguments with other floats, from each of `SPANS`."""
    rng = np.random.default_rng((case.seed, 0xF10A7))
    return [
        [
            np.asarray(rng.uniform(low, high, np.shape(a)), p.dtype.numpy)[() if p.shape is None else ...]
            if p.is_input and p.dtype.is_float else a
            for p, a in zip(case.parameters, inputs, strict=True)
        ]
        for low, high in SPANS
    ]  # fmt: skip


def _bounds(case: Case, inputs: Sequence[Any]) -> tuple[list[Any], list[Any]] | None:
    try:
        return (
            bound.evaluate(case.before, inputs, case.sizes),
            bound.evaluate(case.after, inputs, case.sizes),
        )
    except (Unsupported, ExecutionError):
        return None


def _lost(before: np.ndarray, after: np.ndarray, or_other: bool = False) -> np.ndarray:
    """Return where a finite number became NaN or infinite; with `or_other`, also where NaN or an infinity changed."""
    if not is_floating(before.dtype):
        return np.zeros(before.shape, np.bool_)
    finite = np.isfinite(before)
    same = (before == after) | (np.isnan(before) & np.isnan(after))
    return np.asarray(~np.isfinite(after) & finite) | (np.asarray(~finite & ~same) if or_other else False)


def _beyond(value: np.ndarray, error: np.ndarray, other: np.ndarray, its: np.ndarray) -> np.ndarray:
    if not is_floating(value.dtype):
        return np.asarray(value != other)
    with np.errstate(all="ignore"):
        far = np.abs(value - other) > SLACK * (error + its)
    return np.asarray(far & np.isfinite(value) & np.isfinite(other))
