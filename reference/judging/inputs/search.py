"""Search for points at which two formulas reach their goals, with the alternating variable method.

The search changes one variable at a time, starting from the point nearest to a goal so far, in doubling steps up to the
end of its range (Korel, "Automated software test data generation", 1990; McMinn, "Search-based software test data
generation", 2004). It changes the number itself, and also the rank of a float among all floats, which reaches both its
last bit and its largest exponent. All moves of all goals are one batch, so a round costs little more than a run. Costs
are counted in rounds and rows, never in time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from minitvm import expr as x
from minitvm.expr.dtypes import is_floating, limits

from .batch import Batch, in_order
from .goals import Goal, Guard, all_but_one, distances, goals_of
from .solving import Equation, equations

ROUNDS = 32
PATIENCE = 2  # rounds without progress, after which a goal is given up
GOALS = 24
STARTS = 2  # more of one goal, at which all of its conditions hold but one
MOVED = 4  # variables of one goal
NEAR = 4  # powers of two that are tried around each reached goal
SMALL = (2, 34)  # integers that each variable takes, wherever it is; of floats half as many
MAGNITUDES = range(-8, 24)  # powers of two by which a float is moved as a number
DRAWN = 16  # points to start from, of each kind
VALUES = 1 << 23  # of all nodes, where variables hold every value

Point = dict[x.Var, np.ndarray]  # for each variable an array with one number
Rows = dict[x.Var, np.ndarray]


@dataclass
class _Track:
    """A path towards a goal: its current point, the distance, and the number of rounds without progress."""

    goal: int
    point: Point
    best: float
    waited: int = 0


@dataclass
class Search:
    """Formulas of two programs over the same variables, one pair per element.

    `may_end` gets a batch of points and returns whether the search may end.
    """

    before: Sequence[x.Expr]
    after: Sequence[x.Expr]
    variables: Sequence[x.Var]
    may_end: Callable[[Batch, Rows], bool] = lambda batch, rows: False
    guards: tuple[Guard, ...] = ()  # what must hold at every point beside

    def __post_init__(self) -> None:
        self._sizes: dict[int, int] = {}  # how many moves each point was given last
        self.reached: list[Point] = []  # one for each goal that none of the first points reached
        self.order = in_order((*self.before, *self.after, *(e for e, _ in self.guards)))

    @cached_property
    def goals(self) -> list[Goal]:
        """The goals that points should reach."""
        every = [*goals_of(self.before, 0), *goals_of(self.after, 1)][: 4 * GOALS]
        return [replace(goal, guards=(*goal.guards, *self.guards)) for goal in every]

    @cached_property
    def poles(self) -> list[list[Goal]]:
        """The goals of each program at which floats become infinite or NaN."""
        return [[g for g in self.goals if g.pole == k] for k in (0, 1)]

    @cached_property
    def _supports(self) -> dict[int, list[x.Var]]:
        """The variables that each goal depends on, by the goal's position."""
        return {k: [v for v in self.variables if v in _variables(g)][:MOVED] for k, g in enumerate(self.goals)}

    def run(self, start: Rows, count: int, rounds: int = ROUNDS) -> None:
        """Search from these points; with no rounds, only look at these points."""
        batch = self.at(start, count)
        if self.may_end(batch, start) or not rounds or not self.goals:
            return
        far = distances(self.goals, self.poles, batch, self.before)
        at = far.argmin(axis=1)
        best = far[np.arange(len(self.goals)), at]
        points: list[Point] = [{v: start[v][[k]] for v in self.variables} for k in at]
        left = [k for k in range(len(self.goals)) if best[k] > 0][:GOALS]
        if self._around({k: point for k, point in enumerate(points) if best[k] == 0}):
            return
        tracks = [_Track(k, points[k], best[k]) for k in left]
        for k in left if len(left) <= GOALS // 2 else ():
            for at_one in all_but_one(self.goals[k], batch)[:STARTS]:
                point = {v: start[v][[at_one]] for v in self.variables}
                tracks.append(_Track(k, point, far[k, at_one]))
        later: dict[int, Point] = {}
        for _ in range(rounds):
            rows, count = self._moves([(track.goal, track.point) for track in tracks], _steps)
            if not count:
                break
            batch = self.at(rows, count)
            if self.may_end(batch, rows):
                return
            goals = list(dict.fromkeys(track.goal for track in tracks))
            far = distances([self.goals[k] for k in goals], self.poles, batch, self.before)
            first = 0
            for track in tracks:  # each from its own rows; what reaches a goal does so for all
                stop = first + self._sizes[id(track.point)]
                distance = far[goals.index(track.goal)]
                nearest = int(distance.argmin())
                if distance[nearest] > 0:
                    nearest = first + int(distance[first:stop].argmin()) if stop > first else nearest
                first = stop
                track.waited += 1
                if distance[nearest] < track.best:
                    track.best, track.waited = distance[nearest], 0
                    track.point = {v: rows[v][[nearest]] for v in self.variables}
                if track.best == 0 and track.goal not in later:
                    later[track.goal] = track.point
                    self.reached.append(track.point)
            tracks = [track for track in tracks if track.goal not in later and track.waited < PATIENCE]
        self._around(later)

    def at(self, rows: Rows, count: int) -> Batch:
        """Evaluate the formulas at points."""
        return Batch(self.order, rows, count)

    def _around(self, reached: Mapping[int, Point]) -> bool:
        """Look at the neighbours of the points that reached a goal; return whether the search may end."""
        rows, count = self._moves(list(reached.items())[:GOALS], _neighbours)
        return bool(count) and self.may_end(self.at(rows, count), rows)

    def _moves(self, points: Sequence[tuple[int, Point]],
               steps: Callable[[np.ndarray], np.ndarray]) -> tuple[Rows, int]:  # fmt: skip
        """Return points in which one variable is changed in every way, for each variable of each point, and their
        number.
        """
        columns: dict[x.Var, list[np.ndarray]] = {v: [] for v in self.variables}
        total = 0
        for k, point in points:
            mine, first = self._supports[k], total
            for moved in mine:
                others = [point[v] for v in mine if v is not moved and v.dtype == moved.dtype]
                tried = np.concatenate([steps(point[moved]), *others])
                for v in self.variables:
                    columns[v].append(tried if v is moved else np.repeat(point[v], tried.size))
                total += tried.size
            if len({v.dtype for v in mine}) < len(mine):  # all together, along what holds while two are equal
                every = {v: steps(point[v]) for v in mine}
                count = min(tried.size for tried in every.values())
                for v in self.variables:
                    columns[v].append(every[v][:count] if v in every else np.repeat(point[v], count))
                total += count
            total += self._follow(k, columns, total - first)
            self._sizes[id(point)] = total - first
        return {v: np.concatenate(c) if c else np.zeros(0, v.dtype.numpy) for v, c in columns.items()}, total

    def _follow(self, goal: int, columns: dict[x.Var, list[np.ndarray]], count: int) -> int:
        """Add the last points again, with one variable of each of a goal's equations changed so that the equation
        holds.
        """
        if not self._equations[goal] or not count:
            return 0
        every = {v: np.concatenate(c)[-count:] for v, c in columns.items()}
        for equation in self._equations[goal]:
            every[equation.variable] = equation.solved(every, count)
        for v, column in every.items():
            columns[v].append(column)
        return count

    @cached_property
    def _equations(self) -> dict[int, list[Equation]]:
        """The equations of each goal, by the goal's position, in an order in which they can be solved."""
        every: dict[int, list[Equation]] = {}
        for k, goal in enumerate(self.goals):
            pairs = goal.equalities()
            solved = equations(pairs, [e for e, _ in goal.guards]) if pairs else []
            every[k] = [e for e in solved if e.variable in self._supports[k]]
        return every


def _variables(goal: Goal) -> set[x.Expr]:
    every = in_order((*goal.about, *(e for e, _ in goal.guards)))
    return {e for e in every if isinstance(e, x.Var)}


def _steps(value: np.ndarray) -> np.ndarray:
    """Return a number changed by every power of two."""
    bits = value.dtype.itemsize * 8
    if value.dtype.kind == "b":
        return ~value
    powers = [1 << k for k in range(bits)]
    ranked = _by_rank(value, [s * p for p in powers for s in (-1, 1)])
    if not is_floating(value.dtype):
        return np.concatenate([ranked, np.arange(*SMALL).astype(value.dtype)])
    with np.errstate(all="ignore"):
        moved = value + np.array([s * 2.0**k for k in MAGNITUDES for s in (-1, 1)]).astype(value.dtype)
        small = np.arange(SMALL[0] - 2, SMALL[1] // 2).astype(value.dtype)
        moved = np.concatenate([ranked, moved, -value, np.rint(value), small])
    return moved[np.isfinite(moved)]


def _neighbours(value: np.ndarray) -> np.ndarray:
    if value.dtype.kind == "b":
        return ~value
    near = _by_rank(value, [s * (1 << k) for k in range(NEAR) for s in (-1, 1)])
    if not is_floating(value.dtype):
        return near
    return np.concatenate([near, (value + np.array([-1, -0.5, 0.5, 1])).astype(value.dtype)])


def _by_rank(value: np.ndarray, steps: Sequence[int]) -> np.ndarray:
    """Return the numbers at these distances from a number in the order of its dtype, if they exist."""
    dtype = value.dtype
    if not is_floating(dtype):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        start = int(value[0])
        moved = [start + s for s in steps]
        return np.array([n for n in moved if low <= n <= high], dtype)
    size = dtype.itemsize * 8
    start = int(value.view(f"i{dtype.itemsize}")[0])
    rank = start if start >= 0 else -(start & ((1 << (size - 1)) - 1))
    most = int(np.array(limits(dtype).max).view(f"i{dtype.itemsize}"))
    ranks = [n for n in (rank + s for s in steps) if -most <= n <= most]
    unsigned = [n if n >= 0 else -n | 1 << (size - 1) for n in ranks]
    return np.array(unsigned, f"u{dtype.itemsize}").view(dtype)


def starts(variables: Sequence[x.Var], marked: Mapping[x.Var, np.ndarray],
           rng: np.random.Generator) -> tuple[Rows, int]:  # fmt: skip
    """Return points to start from, and their number: marked numbers in one variable, in all variables alike, and among
    ordinary numbers.
    """
    parts: list[Rows] = list(_starts(variables, marked, rng))
    rows = {v: np.concatenate([p[v] for p in parts]) for v in variables}
    return rows, sum(next(iter(p.values())).size for p in parts) if variables else 1


def _starts(variables: Sequence[x.Var], marked: Mapping[x.Var, np.ndarray],
            rng: np.random.Generator) -> Iterator[Rows]:  # fmt: skip
    n = DRAWN
    yield {v: rng.choice(marked[v], 4 * n) for v in variables}
    yield {v: _ordinary(v.dtype, n, rng) for v in variables}
    yield {v: _swept(v.dtype, 2 * n, rng) for v in variables}
    mixed = {v: _ordinary(v.dtype, 4 * n, rng) for v in variables}
    for k, v in enumerate(variables):
        mixed[v][k % 4 :: 4] = rng.choice(marked[v], mixed[v][k % 4 :: 4].size)
    yield mixed
    kinds = {v.dtype for v in variables}
    alike = {dtype: rng.choice(np.concatenate([marked[v] for v in variables if v.dtype == dtype]), 2 * n)
             for dtype in sorted(kinds, key=str)}  # fmt: skip
    for dtype in alike:
        if not dtype.is_float:
            alike[dtype][:2] = [int(dtype.min), int(dtype.max)]
    yield {v: alike[v.dtype].copy() for v in variables}


def exhaustive(variables: Sequence[x.Var], beside: Rows, nodes: int,
               rng: np.random.Generator) -> Iterator[tuple[Rows, int]]:  # fmt: skip
    """Yield points at which variables of 8 and 16 bits take every value: two bytes in all combinations, others one at a
    time.

    The other variables get values of `beside`. `nodes` is the number of values that each point costs.
    """

    def others(moved: Sequence[x.Var], count: int) -> Rows:
        return {v: rng.choice(beside[v], count) for v in variables if v not in moved}

    small = [v for v in variables if v.dtype.bits <= 16 and not v.dtype.is_bool]
    sizes = {v: 1 << v.dtype.bits for v in small}
    left = VALUES // max(1, nodes)
    for v in small:
        if sizes[v] <= left:
            left -= sizes[v]
            yield {v: _every(v.dtype), **others([v], sizes[v])}, sizes[v]
    for v, w in itertools.combinations(small, 2):
        count = sizes[v] * sizes[w]
        if count <= left:
            left -= count
            both = np.repeat(_every(v.dtype), sizes[w]), np.tile(_every(w.dtype), sizes[v])
            yield {v: both[0], w: both[1], **others([v, w], count)}, count


def _every(dtype: x.DType) -> np.ndarray:
    """Return all values of a dtype, with zeros instead of NaN and infinities."""
    unsigned = np.arange(1 << dtype.bits, dtype=f"u{dtype.bytes}")
    values = unsigned.view(dtype.numpy)
    return (
        np.where(np.isfinite(values.astype(np.float64)), values, np.zeros(1, dtype.numpy)) if dtype.is_float else values
    )


def _swept(dtype: x.DType, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return random numbers of every magnitude."""
    if dtype.is_bool:
        return _ordinary(dtype, n, rng)
    most = math.log2(float(dtype.max)) - 0.01
    sizes = np.exp2(rng.uniform(-most / 2 if dtype.is_float else 0, most, n))
    return (sizes * (1 if dtype.kind == "uint" else rng.choice((-1, 1), n))).astype(dtype.numpy)


def _ordinary(dtype: x.DType, n: int, rng: np.random.Generator) -> np.ndarray:
    if dtype.is_bool:
        return rng.integers(0, 2, n).astype(np.bool_)
    if dtype.is_float:
        return (rng.standard_normal(n) * 4).astype(dtype.numpy)
    return rng.integers(0 if dtype.kind == "uint" else -9, 10, n).astype(dtype.numpy)
