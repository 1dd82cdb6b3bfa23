"""Run a nest of loops in the fast mode: all points at once, or in pieces that fit into memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from minitvm import expr as x
from minitvm.tir import nodes as t

from ..meaning.scalar import Environment, Evaluate, Execute, Value
from ..meaning.steps import POINTS as POINTS_OF_A_STEP
from ..meaning.steps import spend
from .grid import GRID, MASK, axis_values
from .level import Level
from .tracking import Execution

if TYPE_CHECKING:
    from .lockstep import LockstepCompiler

POINTS = 1 << 18  # of a grid that is evaluated at once: large enough to hide Python, small enough for caches
PRIVATE = 1 << 24  # elements of storage that the points of a grid may have for themselves


@dataclass(frozen=True, slots=True)
class GridNest:
    """A compiled level.

    `axes` are the loops around this level and then its own loops. `slots` are the positions of its loop variables in an
    environment, `where` that of its execution, and `above` that of the next outer level's execution. `each` are the
    statements of the body, which count as steps.
    """

    level: Level
    axes: list[t.For]
    starts: list[Evaluate]
    extents: list[Evaluate]
    slots: list[int]
    where: int
    above: int | None
    body: Execute
    each: int
    compiler: LockstepCompiler

    def run(self, env: Environment) -> None:
        """Run the body at all points of the level, for each of the environment's points."""
        firsts, counts = [f(env) for f in self.starts], [f(env) for f in self.extents]
        lengths = [largest(c, env[MASK]) for c in counts]
        if min(lengths) <= 0:
            return
        around: Execution | None = env[self.above] if self.above is not None else None
        every = [*(around.extents if around is not None else []), *lengths]
        execution = env[self.where] = Execution(self.compiler.counter.take(math.prod(every)), self.axes, every)
        spend(self.each * (1 + math.prod(every) // POINTS_OF_A_STEP))
        rank = self.compiler.rank
        ids = np.zeros((1,) * (rank + 1), np.int64) if around is None else around.ids - around.base
        grid, mask = env[GRID], env[MASK]
        _GridRun(self, env, execution, rank, firsts, counts, lengths).run(0, ids)
        env[GRID], env[MASK] = grid, mask


@dataclass(frozen=True, slots=True)
class _GridRun:
    """One run of a nest: the first values, the counts and the lengths of its loops. A count may differ between
    points.
    """

    nest: GridNest
    env: Environment
    execution: Execution
    rank: int
    firsts: list[Any]
    counts: list[Any]
    lengths: list[int]

    def run(self, depth: int, ids: np.ndarray) -> None:
        """Run the loops from `depth` on; `ids` are the numbers of the points of the loops around them."""
        env, execution = self.env, self.execution
        if depth == len(self.lengths):
            execution.ids = ids + execution.base
            execution.verified.clear()
            self.nest.body(env)
            return
        length, grid, mask = self.lengths[depth], env[GRID], env[MASK]
        axis = len(self.nest.axes) - len(self.lengths) + depth
        step = self._step(depth, math.prod(grid))
        execution.whole = execution.whole and step == length
        for begin in range(0, length, step):
            values = np.arange(begin, min(length, begin + step))
            along = axis_values(0, values, axis, self.rank, x.DType("int64"))
            env[self.nest.slots[depth]] = self._variable(depth, axis, values)
            env[GRID] = (*grid[:axis], len(values), *grid[axis + 1 :])
            following = ids * length + along
            if type(self.counts[depth]) is np.ndarray:
                self.nest.compiler.under(env, along < self.counts[depth], partial(self._masked, depth + 1, following))
            else:
                self.run(depth + 1, following)
        env[GRID], env[MASK] = grid, mask

    def _masked(self, depth: int, ids: np.ndarray, _: Environment) -> None:
        self.run(depth, ids)

    def _step(self, depth: int, points: int) -> int:
        """Return how many iterations of a loop run at once: all of them if they meet at a barrier."""
        level, length = self.nest.level, self.lengths[depth]
        if level.barrier and (level.loops[depth].thread or "").startswith("threadIdx"):
            return length
        rest = max(1, points) * math.prod(self.lengths[depth + 1 :])
        return max(1, min(length, POINTS // (rest * level.lanes), PRIVATE // (rest * level.private)))

    def _variable(self, depth: int, axis: int, values: np.ndarray) -> Value:
        first = self.firsts[depth]
        if len(values) == 1 and type(first) is not np.ndarray:
            return first + int(values[0])
        return axis_values(first, values, axis, self.rank, self.nest.level.loops[depth].var.dtype)


def largest(count: Value, mask: Any) -> int:
    """Return the largest count at any point that is not masked out."""
    if type(count) is not np.ndarray:
        return int(count)
    needed = count if mask is None else np.where(mask, count, 0)
    return int(needed.max()) if needed.size else 0
