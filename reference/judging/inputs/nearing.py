"""Find inputs by running the programs: push a comparison that always has the same result to its other side, step by
step.

If values have no formula (a sum of many terms, a `while`), a run still shows how far apart the two sides of a
comparison are, and how far an integer is from a multiple of its constant divisor (`judging.coverage`). The search
changes one argument at a time. It adds one step to all elements, which gives a slope; then it adds as much as the slope
suggests, and changes single elements by the rest, so that an integer sum is met exactly. If a step changes nothing, the
argument is doubled. Integers that decide a `while` also get numbers on which loops run long: powers of two, Fibonacci
numbers (Euclid's algorithm), long Collatz sequences. All integers that may decide how often a loop runs get patterns of
small numbers (`redrawn`); other variations leave them alone, because a loop over large numbers would not end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from minitvm import expr as x
from minitvm.errors import ExecutionError, Unsupported

from ...meaning.steps import limited, taken
from ..coverage import BOTH, EQUAL, Coverage
from ..programs import Program, execute
from .arguments import copies, random_inputs
from .endings import RUN, deciding
from .preimages import Preimages

if TYPE_CHECKING:
    from ..case import Case

SITES = 8  # of one program
DIVISIONS = 2  # of one program
MOVED = 3  # arguments for one comparison
ROUNDS = 3  # of slopes
DOUBLINGS = 62
SCALES = (8, 128, -8, -128, 1 << 12, -(1 << 12))  # of arguments, where a comparison is not evaluated otherwise
REDRAWN = 3  # times that integers which may decide how often a loop runs are drawn anew
SCALE_OF_DIVISION = 4  # of an argument that is to make a dividend a multiple, with room to move
LARGEST_MARK = 256  # the constants of programs up to which such integers go
LADDER = (27, 97, 703, 871, 6171, 77031, 837799)  # n on which 3 n + 1 goes on for long


class _Spent(Exception):
    """The search has used all its runs."""


class Nearing:
    """The search for one case; with `whole`, inputs are integers."""

    def __init__(self, case: Case, inputs: Sequence[Any], whole: bool) -> None:
        self.case, self.inputs, self.whole = case, inputs, whole

    def found(self) -> Iterator[list[Any]]:
        """Yield inputs at which, for the first time, a dividend is a multiple, or a comparison takes a side or meets
        equality.
        """
        programs = (self.case.before, self.case.after)
        try:
            for program, coverage in zip(programs, self.case.facts.coverages, strict=True):
                yield from self._of(program, coverage)
        except _Spent:
            return

    def _of(self, program: Program, coverage: Coverage) -> Iterator[list[Any]]:
        back = Preimages(program)
        has_formulas = self.case.elements is not None
        comparisons = coverage.open_sites(equality=not has_formulas)[:SITES]
        for site in (*([] if has_formulas else coverage.open_divisions()[:DIVISIONS]), *comparisons):
            operands = site.args if isinstance(site, x.Call) else (site.a, site.b)
            reached = frozenset().union(*map(back.reach, operands))
            places = [k for k in sorted(reached) if self._may_move(k)]
            for k in places[:MOVED]:
                search = _Towards(self, program, coverage, site, k)
                others = [p for p in places if p != k]
                for start in self._starts_of_division(k, others) if search.divides else self._starts(k):
                    if search.run(start) and (search.done or not search.divides):
                        break
                yield from search.reached
                if search.done:
                    break

    def _starts(self, place: int) -> Iterator[list[Any]]:
        """Yield the inputs, and then inputs with larger numbers in one argument, in case the first do not reach a
        comparison.
        """
        yield list(self.inputs)
        yield from (self._scaled(self.inputs, place, scale) for scale in SCALES)

    def _starts_of_division(self, place: int, others: Sequence[int]) -> Iterator[list[Any]]:
        """Yield inputs with an argument below zero, then above; the other arguments are 1, so that all products count
        equally.
        """
        start = [np.ones_like(a) if k in others else a for k, a in enumerate(self.inputs)]
        signs = (1,) if self.case.parameters[place].dtype.kind == "uint" else (-1, 1)
        yield from (self._scaled(start, place, sign * SCALE_OF_DIVISION) for sign in signs)

    def _scaled(self, inputs: Sequence[Any], place: int, scale: int) -> list[Any]:
        old = inputs[place]
        dtype = self.case.parameters[place].dtype
        values = np.clip(np.abs(np.asarray(old, np.float64)) * scale, *_limits(dtype)).astype(dtype.numpy)
        return [*inputs[:place], values if isinstance(old, np.ndarray) else values[()], *inputs[place + 1 :]]

    def _may_move(self, place: int) -> bool:
        p = self.case.parameters[place]
        data = p.is_input and not p.dtype.is_bool and np.size(self.inputs[place])
        sizes = p.name in self.case.facts.withheld and place not in _deciding(self.case)
        return bool(data) and not sizes and not (p.shape is None and p.name in self.case.sizes)

    def gap(self, program: Program, coverage: Coverage, site: x.Expr, inputs: Sequence[Any]) -> float | None:
        """Return the smallest distance between the sides of a comparison in a run; None if it is not evaluated."""
        facts = self.case.facts
        if facts.runs_left <= 0 or facts.steps_left <= 0:
            raise _Spent
        facts.runs_left -= 1
        start = taken()
        with coverage.measured() as gaps:
            try:
                with limited(min(RUN, facts.steps_left)):
                    execute(program, copies(inputs), False, self.case.sizes, coverage=coverage)
            except (ExecutionError, Unsupported):
                return None
            finally:
                facts.steps_left -= taken() - start
        return gaps.get(site)


class _Towards:
    """The search for one comparison, by changing one argument."""

    def __init__(self, search: Nearing, program: Program, coverage: Coverage, site: x.Expr, place: int) -> None:
        self.search, self.program, self.coverage, self.site, self.place = search, program, coverage, site, place
        self.dtype = search.case.parameters[place].dtype
        self.divides = site in coverage.multiples
        self.goal = EQUAL if not self.divides and coverage.sides[site] & BOTH == BOTH else BOTH
        self.reached: list[list[Any]] = []  # inputs at which the comparison did something new

    @property
    def done(self) -> bool:
        """Return whether the comparison took both sides, or, if it had taken both before, met equality.

        A division is done if there were multiples below and above zero.
        """
        return self.coverage.taken(self.site) & self.goal == self.goal

    def run(self, inputs: list[Any]) -> bool:
        """Change the argument until the comparison is done; return whether it was evaluated at all on these inputs."""
        here = inputs
        for k in range(ROUNDS):
            gap = self._gap(here)
            if gap is None and not k:
                return False
            if self.done or gap is None:
                break
            slope = self._slope(here, gap)
            if self.done or not slope:
                break
            here = self._stepped(here, gap, slope)
            if self.done or self.divides:
                break
        if not self.done and not self.divides:
            self._doubled(inputs)
        return True

    def _gap(self, inputs: list[Any]) -> float | None:
        before = self.coverage.taken(self.site)
        gap = self.search.gap(self.program, self.coverage, self.site, inputs)
        if self.coverage.taken(self.site) != before:
            self.reached.append(inputs)
        return gap

    def _slope(self, inputs: list[Any], gap: float) -> float:
        for step in (1.0, -1.0):
            other = self._gap(self._moved(inputs, step))
            if other is not None and other != gap:
                return (other - gap) * step
        return 0.0

    def _stepped(self, inputs: list[Any], gap: float, slope: float) -> list[Any]:
        """Change all elements so that the gap closes, then the first elements by the rest; and then a little
        further.
        """
        by = -gap / slope
        here = self._moved(inputs, np.trunc(by) if self._is_whole else by)
        left = self._gap(here)
        if self.done or left is None:
            return here
        size = np.size(inputs[self.place])
        each = slope / size  # of one element, if all count alike
        count = int(min(max(abs(left / each), 0), size)) if each and self._is_whole else 0
        if count:
            here = self._moved(here, -np.sign(left / each), count)
            if self._gap(here) is None or self.done:
                return here
        for further in (1, -1, 2, -2):
            for among in (1, None) if size > 1 else (None,):
                beyond = self._moved(here, further * (1.0 if self._is_whole else abs(by) * 0.01 + 1e-3), among)
                if self._gap(beyond) is not None and self.done:
                    return here
        return here

    def _doubled(self, inputs: list[Any]) -> None:
        start = self._with(inputs, np.maximum(np.abs(np.asarray(inputs[self.place], np.float64)), 1))
        most = float(self.dtype.max)
        for k in range(1, DOUBLINGS):
            values = np.asarray(start[self.place], np.float64) * 2.0**k
            if np.abs(values).max() > most:
                break
            if self._gap(self._with(inputs, values)) is None or self.done:
                break

    @property
    def _is_whole(self) -> bool:
        return self.search.whole or self.dtype.is_int

    def _moved(self, inputs: list[Any], step: float, count: int | None = None) -> list[Any]:
        values = np.array(inputs[self.place], np.float64)
        values.reshape(-1)[:count] += step
        return self._with(inputs, values)

    def _with(self, inputs: list[Any], values: np.ndarray) -> list[Any]:
        old = inputs[self.place]
        new = np.clip(values, *_limits(self.dtype)).astype(self.dtype.numpy)
        return [*inputs[: self.place], new if isinstance(old, np.ndarray) else new[()], *inputs[self.place + 1 :]]


def ladders(case: Case, inputs: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield inputs on which a `while` runs long, in all arguments that decide one; adjacent elements have adjacent
    numbers.
    """
    places = [k for k in sorted(_deciding(case)) if case.parameters[k].is_input and np.size(inputs[k])]
    places = [k for k in places if case.parameters[k].name not in case.sizes and not case.parameters[k].dtype.is_bool]
    if not places:
        return
    fibonacci = [1, 2]
    while fibonacci[-1] < 2**62:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    powers = [2**k + more for k in range(4, 63, 3) for more in (-1, 0)]
    size = max(np.size(inputs[k]) for k in places)
    for numbers in (LADDER, powers, fibonacci):
        most = max(float(case.parameters[k].dtype.max) for k in places)
        for first in range(0, sum(n <= most for n in numbers), size):
            if case.facts.covered or case.facts.steps_left <= 0:
                return
            args, start = list(inputs), taken()
            for shift, k in enumerate(places):
                dtype, old = case.parameters[k].dtype, inputs[k]
                held = [n for n in numbers if n <= float(dtype.max)] or [1]
                values = [held[(first + shift + j) % len(held)] for j in range(np.size(old))]
                array = np.array(values, np.float64 if dtype.is_float else np.uint64).astype(dtype.numpy)
                args[k] = array.reshape(np.shape(old)) if isinstance(old, np.ndarray) else array[0]
            yield args
            case.facts.steps_left -= taken() - start


def redrawn(case: Case, inputs: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield inputs with patterns of small numbers in the integers that may decide how often a loop runs."""
    places = [k for k, p in enumerate(case.parameters) if p.name in case.facts.withheld and p.name not in case.sizes]
    places = [k for k in places if case.parameters[k].is_input and not case.parameters[k].dtype.is_bool]
    if not places:
        return
    rng = np.random.default_rng((case.seed, 0x2ED2))
    drawn = [random_inputs(case.before, case.seed + 1 + k, case.sizes) for k in range(REDRAWN)]
    yield from ([one[k] if k in places else a for k, a in enumerate(inputs)] for one in drawn)
    marks = sorted(int(v) for v in case.facts.landmarks if v.denominator == 1 and abs(v) <= LARGEST_MARK)
    patterns = list(_patterns(rng))
    if marks:
        patterns += [partial(_among, rng, marks)] * REDRAWN
    for pattern in patterns:
        args = list(inputs)
        for k in places:
            old, dtype = inputs[k], case.parameters[k].dtype
            values = np.asarray(pattern(np.size(old)))
            values = (np.abs(values) if dtype.kind == "uint" else values).astype(dtype.numpy).reshape(np.shape(old))
            args[k] = values if isinstance(old, np.ndarray) else values[()]
        yield args


def _patterns(rng: np.random.Generator) -> Iterator[Callable[[int], Any]]:
    """Yield functions that make n small numbers with a pattern, such as all equal, one different, or ascending with
    ties.
    """
    for value in (0, 1, 3):
        yield partial(np.full, fill_value=value)
    for usual, other in ((1, 0), (1, -1), (2, 3)):
        yield partial(_but_one, rng, usual, other)
    for _ in range(REDRAWN):
        yield lambda n: np.sort(rng.integers(0, 4, n))
        yield lambda n: np.repeat(rng.integers(1, 4, n), rng.integers(1, 4, n))[:n]
    for few in ((0, 1), (0, 1), (1, 2), (1, 2), (-1, 0, 1), (-1, 0, 1)):
        yield partial(rng.choice, few)


def _among(rng: np.random.Generator, marks: Sequence[int], n: int) -> np.ndarray:
    """Return n constants of the programs, some of them replaced by a neighbour."""
    return np.resize(rng.permutation(marks), n) + rng.choice((0, 0, 0, -1, 1), n)


def _but_one(rng: np.random.Generator, usual: int, other: int, n: int) -> np.ndarray:
    values = np.full(n, usual)
    values[rng.integers(0, n) if n else ...] = other
    return values


def _limits(dtype: x.DType) -> tuple[float, float]:
    """Return the smallest and the largest number of a dtype that float64 can convert."""
    low, high = float(dtype.min), float(dtype.max)
    return (max(low, -(2.0**62)), 2.0**62) if dtype.is_int and dtype.bits > 53 else (low, high)


def _deciding(case: Case) -> frozenset[int]:
    return deciding(case.before) | deciding(case.after)
