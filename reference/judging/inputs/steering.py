"""Search for inputs that show differences which need several conditions or several inputs together, and run both
programs.

The inputs of `variations` reach each place of a program separately. If places are nested, if a comparison has a side
that no input took, or if inputs meet in a divisor or a function, then an element of each output becomes a formula of
both programs (`symbolic`), and a search looks for points at which these reach their goals (`goals`, `search`). If the
formulas differ at a point, or one is not defined there, the point becomes an input of both programs, and only their
runs (with shadow) decide. A difference of floats counts if no operation of either program rounds there, or if it is
beyond the error bounds of both.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from minitvm import expr as x
from minitvm.errors import ExecutionError, Unsupported
from minitvm.expr.dtypes import is_floating
from minitvm.te import nodes as te
from minitvm.tir import nodes as t

from ..evidence import Evidence, Shown
from ..ordinary import apart
from ..programs import Program
from ..verdict import Verdict, difference
from .arguments import random_inputs
from .batch import Batch, in_order, values_of
from .corners import corners
from .goals import goals_of
from .search import ROUNDS, Rows, Search, exhaustive, starts
from .signs import nodes
from .sites import AT_ZERO, GROWING, ROUNDINGS
from .symbolic import Beyond, Leaves, Place, formulas
from .variations import cornered

if TYPE_CHECKING:
    from ..case import Case

RUNS = 6  # of both programs, at most
EACH = 2  # elements of an output
KEPT = 3  # points of one batch that are run
EXAMINED = 128  # of those that differ, for whether they round
VARIABLES = 24
APART = 1e-4  # floats that differ by less, beside their size, are left to rounding


def steered(case: Case, mode: str, evidence: Evidence) -> Verdict | None:
    """Return the difference at a point that a search found; None if there is none, or nothing to search for."""
    if Shown.SEARCHED in evidence.shown or not case.judges_chosen or case.elements is None:
        return None
    difference = case.elements.difference(mode)
    return None if difference is None else replace(difference, in_floats=True)


def elements(case: Case) -> Elements | None:
    """Return the output elements that have formulas in both programs; None if there are none, or nothing to search
    for.
    """
    integers = any(p.is_input and not p.dtype.is_float for p in case.parameters)
    if not case.judges_chosen or not (integers or case.facts.intricate):
        return None
    try:
        return Elements(case)
    except Beyond:
        return None


@dataclass(frozen=True)
class Element:
    """One element of an output, as a formula of each program."""

    output: int
    flat: int
    before: x.Expr
    after: x.Expr
    floats: bool


class Elements:
    """Elements of all outputs, over the same variables. Raises `Beyond` if some output has no element with a
    formula.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        try:
            self.inputs = case.exact_inputs()
        except Unsupported:
            self.inputs = random_inputs(case.before, case.seed, case.sizes, magnitude=8)
        self.leaves = Leaves([p.dtype for p in case.parameters])
        both = [formulas(one, self.inputs, case.sizes, self.leaves) for one in (case.before, case.after)]
        rng = np.random.default_rng((case.seed, 0x5EA2C))
        self.every: list[Element] = []
        for k, p in enumerate(case.parameters):
            if p.written and (size := np.size(self.inputs[k])):
                for count, flat in enumerate(rng.permutation(size)[:EACH].tolist()):
                    try:
                        one, other = (program.of(k, flat) for program in both)
                    except Beyond:
                        if not count:
                            raise
                        break
                    floats = any(e.dtype.is_float for e in in_order([one, other]))
                    self.every.append(Element(k, flat, one, other, floats))
        if len(self.leaves) > VARIABLES:
            raise Beyond("many inputs")
        self.runs = RUNS
        self.mode = ""
        self.verdict: Verdict | None = None

    def difference(self, mode: str) -> Verdict | None:
        """Search for a difference and return its verdict, or None."""
        self.mode = mode
        case, variables = self.case, list(self.leaves.values())
        rng = np.random.default_rng((case.seed, 0x57EE2))
        self.search = Search([e.before for e in self.every], [e.after for e in self.every], variables, self._look)
        rows, count = starts(variables, {v: self._marked(place) for place, v in self.leaves.items()}, rng)
        ends = list(corners(cornered(case, [np.size(a) for a in self.inputs]), rng))
        if ends:
            at = {v: np.array([r[place[0]] or 0 for r in ends], v.dtype.numpy) for place, v in self.leaves.items()}
            rows, count = {v: np.concatenate([rows[v], at[v]]) for v in variables}, count + len(ends)
        try:
            for every, total in exhaustive(variables, rows, len(self.search.order), rng):
                if self._look(self.search.at(every, total), every):
                    return self.verdict
            self.search.run(rows, count, rounds=ROUNDS if case.facts.intricate else 0)
        except (ExecutionError, Unsupported, NotImplementedError):
            return None
        return self.verdict

    def _marked(self, place: Place) -> np.ndarray:
        """Return values of an element at which the behaviour of the programs may change."""
        dtype = self.leaves[place].dtype
        if dtype.is_bool:
            return np.array([False, True])
        marks = {*map(float, self.case.facts.landmarks), *map(float, self.case.facts.reached.get(place[0], ()))}
        marks |= {0.0, 1.0, -1.0, 2.0}
        if dtype.is_float:
            every = np.array(sorted(marks), np.float64)
            every = every[np.abs(every) <= float(dtype.max)]
            return np.concatenate([every, every[np.abs(every) < 1e6] + 0.5]).astype(dtype.numpy)
        low, high = int(dtype.min), int(dtype.max)
        whole = {int(v) + step for v in marks for step in (-1, 0, 1)} | {low, low + 1, high - 1, high}
        return np.array(sorted(v for v in whole if low <= v <= high), dtype.numpy)

    # --- what differs ---------------------------------------------------------------------------------------------

    def _look(self, batch: Batch, rows: Rows) -> bool:
        """Run the programs at the most promising of these points; return whether they differ, or all runs are used
        up.
        """
        for element in self.every:
            certainty = _certainty(element, batch)
            for k in np.argsort(-certainty, kind="stable")[:KEPT]:
                if certainty[k] <= 0 or self.runs <= 0:
                    break
                self.runs -= 1
                self.verdict = self._judged(element, {v: rows[v][[k]] for v in rows})
                if self.verdict is not None:
                    return True
        return self.runs <= 0

    def _judged(self, element: Element, point: Rows) -> Verdict | None:
        """Run both programs on inputs that contain this point, and return the verdict."""
        case, inputs = self.case, [np.array(a) if isinstance(a, np.ndarray) else a for a in self.inputs]
        for (k, flat), v in self.leaves.items():
            if flat is None:
                inputs[k] = point[v][0]
            else:
                inputs[k].reshape(-1)[flat] = point[v][0]
        try:
            before, after = case.run_before(inputs), case.run_after(inputs)
        except (ExecutionError, Unsupported):
            return None
        p, first, second = case.parameters[element.output], before[element.output], after[element.output]
        a, b = (values.reshape(-1)[element.flat] for values in (first, second))
        if a == b or (a != a and b != b):
            return None
        exact = values_of([element.before, element.after], point, 1, rounding=True)
        if not (exact.rounds(element.before).any() or exact.rounds(element.after).any()):
            wrong = np.zeros(first.size, np.bool_)
            wrong[element.flat] = True
            return difference(self.mode, p.name, wrong.reshape(first.shape), first, second, inputs)
        if p.dtype.is_float and not _blamed(element, point, bool(np.isfinite(b))):
            return None
        try:
            return apart(case, inputs, values=not case.rounded)
        except (ExecutionError, Unsupported):
            return None


def _blamed(element: Element, point: Rows, finite: bool) -> bool:
    """Return whether differing floats are a fault, and not explained by an intermediate product that overflows or
    underflows.

    A result that is NaN or infinite needs a pole of `after`: a zero divisor, or an argument outside a function's
    domain.
    """
    batch = values_of([element.before, element.after], point, 1)
    every = [e for e in in_order([element.before, element.after]) if isinstance(e, x.BinaryOp) and e.dtype.is_float]
    vanished = any(isinstance(e, x.Mul | x.Div) and batch[e][0] == 0 and batch[e.a][0] != 0
                   and not (isinstance(e, x.Mul) and batch[e.b][0] == 0) for e in every)  # fmt: skip
    if finite or vanished:
        return finite and not vanished and all(np.isfinite(batch[e][0]) for e in every)
    after = in_order([element.after])
    poles = [g for g in goals_of([element.after], 1) if g.pole is not None]
    # Both have equally many calls of a function: a product in its argument may only have another order.
    calls = [Counter(e.op for e in own if isinstance(e, x.Call)) for own in (in_order([element.before]), after)]
    other = {op for op in AT_ZERO if calls[0][op] != calls[1][op]}
    beyond = [e.args[0] for e in after if isinstance(e, x.Call) and e.op in other and np.isinf(batch[e.args[0]][0])]
    excused = {id(inner) for arg in beyond for inner in x.walk(arg)}  # a product that is beyond what a function takes
    overflown = any(
        isinstance(e, x.BinaryOp) and e.dtype.is_float and id(e) not in excused and not np.isfinite(batch[e][0])
        and np.isfinite(batch[e.a][0]) and np.isfinite(batch[e.b][0])
        and not (isinstance(e, x.Div) and batch[e.b][0] == 0)
        for e in after
    )  # fmt: skip
    return not overflown and any(goal.distance(batch)[0] == 0 for goal in poles)


def _certainty(element: Element, batch: Batch) -> np.ndarray:
    """Return how certainly the programs differ at each point: 0 if they do not, 2 if rounding cannot be the reason."""
    a, b = batch[element.before], batch[element.after]
    unlike = np.asarray(a != b)
    certainty = 1.0 * unlike
    if is_floating(a.dtype):
        with np.errstate(all="ignore"):
            wide, other = a.astype(np.float64), b.astype(np.float64)
            far = np.abs(wide - other) > APART * np.maximum(np.abs(wide), np.abs(other))
        unlike = unlike & np.isfinite(a)
        certainty = np.where(unlike, np.where(np.isfinite(b), 0.5 * far, 1.0), 0.0)
    elif not element.floats:
        certainty = 2.0 * unlike
    certainty = np.broadcast_to(np.where(batch.bad(element.after), 2.0, certainty), (batch.count,))
    certainty = np.where(batch.bad(element.before), 0.0, certainty)
    if not element.floats or not unlike.any():
        return certainty
    unlike = np.broadcast_to(unlike & ~batch.bad(element.before), certainty.shape) & (certainty < 2)
    some = np.flatnonzero(unlike)
    some = some[np.argsort(-certainty[some], kind="stable")][:EXAMINED]
    leaves = {v: n[some] for v, n in batch.leaves.items()}
    exact = values_of([element.before, element.after], leaves, some.size, rounding=True)
    rounds = np.broadcast_to(exact.rounds(element.before) | exact.rounds(element.after), some.shape)
    certainty[some[~rounds]] = 2.0
    return certainty


def intricate(program: Program) -> bool:
    """Return whether a difference in the program may need several conditions at once, or several inputs together."""
    compared = 0  # places at which data decides
    for n in nodes(program):
        if isinstance(n, x.Call):
            if n.op in GROWING or n.op in AT_ZERO or n.op == "reinterpret":
                return True
            compared += 2 * (n.op in ROUNDINGS)
            if n.op == "if_then_else" and _of_data(n.args[0]):
                compared += 2
        elif isinstance(n, x.Div):
            if n.dtype.is_float and not isinstance(n.b, x.FloatImm):
                return True
        elif isinstance(n, t.If):
            if _of_data(n.condition):
                return True
        elif isinstance(n, x.CompareOp) and _of_data(n):
            compared += 1
    return compared > 1


def _of_data(e: x.Node) -> bool:
    return any(isinstance(n, t.BufferLoad | te.TensorLoad) for n in x.walk(e))
