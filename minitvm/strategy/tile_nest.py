"""Compute a sum in tiles of its result, level by level. This is the loop nest that most rules build.

    for <grid>:                                     # tiles: blocks of threads, or tasks of a CPU
        for <virtual>, <threads>:                   # threads of a block, virtual ones outside; a CPU has none
            acc[registers, lanes] = 0
            for <steps of the sum>:                 # in pieces, if operands are staged
                for <registers>: acc[..] += a * b   # written out; the lanes are one vector
            out[registers, lanes] = epilogue(acc)

The levels are those of CUTLASS (threadblock, thread) and of the multi-level tiling of Ansor and Roller. Each method
applies its primitives immediately, so the steps of a rule are in the order of its trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..tir import Schedule
from .blocks import block_of

VIRTUAL, THREADS, REGISTERS, LANES = LEVELS = ("virtual", "threads", "registers", "lanes")


class TileNest:
    """The loops of a contraction: `block` computes the sum, and `main` writes its result. Each of the `loops` of `main`
    is an axis.

    `loops` are the innermost loops of `main`, by default all of them. `grid` holds the loop over tiles for each axis,
    or None if the axis is one tile. `levels` holds the loops inside a tile, by level and axis.
    """

    def __init__(self, sch: Schedule, block: Any, main: Any, loops: Sequence[Any] = ()) -> None:
        self.sch, self.block, self.main = sch, block, main
        every = list(sch.get_loops(main))
        self.grid: list[Any] = list(loops) or every
        self.around = len(every) - len(self.grid)
        self.levels: dict[str, dict[int, Any]] = {level: {} for level in LEVELS}
        self.axes = self.outside = list(range(len(self.grid)))
        self.init: Any = None

    def cut(self, axis: int, **sizes: int) -> None:
        """Split an axis into tiles. `sizes` gives the extents of its levels, outermost first."""
        self.grid[axis], *parts = self.sch.split(self.grid[axis], [None, *sizes.values()])
        for level, loop in zip(sizes, parts, strict=True):
            self.levels[level][axis] = loop

    def cut_lanes(self, axis: int, lanes: int) -> None:
        """Split the registers of an axis into vectors of `lanes` elements."""
        registers = self.levels[REGISTERS]
        registers[axis], self.levels[LANES][axis] = self.sch.split(registers[axis], [None, lanes])

    def one_vector(self, axis: int) -> None:
        """Use a whole axis as the lanes of a single vector."""
        self.levels[LANES][axis], self.grid[axis] = self.grid[axis], None

    def outside_first(self, axes: Sequence[int]) -> list[int]:
        """Return an order for all axes in which those in `axes` come last, so that their loops are inside the loops of
        all others.
        """
        return [*(axis for axis in range(len(self.grid)) if axis not in axes), *axes]

    def order(self, axes: Sequence[int] | None = None, outside: Sequence[int] | None = None) -> None:
        """Nest the loops level by level, and within each level axis by axis, in the order `axes` if it is given.

        `outside` gives the order of the loops over tiles if it is different.
        """
        self.axes = list(self.axes if axes is None else axes)
        self.outside = list(self.axes if outside is None else outside)
        self.sch.reorder(*self.tiles, *(loop for level in LEVELS for loop in self.at(level)))

    def at(self, level: str) -> list[Any]:
        """Return the loops of a level, in nesting order."""
        loops = self.levels[level]
        return [loops[axis] for axis in self.axes if axis in loops]

    @property
    def tiles(self) -> list[Any]:
        """The loops over tiles, in nesting order."""
        return [self.grid[axis] for axis in self.outside if self.grid[axis] is not None]

    def sum_in_tile(self) -> list[Any]:
        """Move the sum into the innermost loop over tiles with `compute_at`, and return the loops around the sum that
        are inside that loop, including loops of one iteration.
        """
        self.sch.compute_at(self.block, self.tiles[-1], preserve_unit_loops=True)
        return list(self.sch.get_loops(self.block))[self.around + len(self.tiles) :]

    def sum_in_thread(self, thread: Any) -> list[Any]:
        """Move the sum into the thread loop `thread` with `compute_at`, and return the loops around the sum that are
        inside `thread`, including loops of one iteration.
        """
        self.sch.compute_at(self.block, thread, preserve_unit_loops=True)
        depth = list(self.sch.get_loops(self.block)).index(thread) + 1
        return list(self.sch.get_loops(self.block))[depth:]

    def axes_and_steps(self, own: list[Any]) -> tuple[list[Any], list[Any]]:
        """Split the loops around the sum into two lists: loops over the axes of the result, and loops over the steps
        of the sum.
        """
        return own[: len(self.grid)], own[len(self.grid) :]

    def start(self, step: Any) -> Any:
        """Initialise the accumulators before a reduction loop, and return the block that does this."""
        self.init = self.sch.decompose_reduction(self.block, step)
        return self.init

    def in_registers(self, own: Sequence[Any], vectors: bool = True) -> None:
        """Unroll the work of a thread: the loops `own` of the sum, the loops that initialise it, and the loops that
        follow it.

        The innermost loop of each becomes a vector, or is unrolled as well if `vectors` is False.
        """
        starts = list(self.sch.get_loops(self.init))[-len(own) :]
        for nest in filter(None, (own, starts, [*self.at(REGISTERS), *self.at(LANES)])):
            for loop in nest[:-1]:
                self.sch.unroll(loop)
            (self.sch.vectorize if vectors else self.sch.unroll)(nest[-1])

    def names(self, *others: Any) -> set[str]:
        """Return the names of the blocks that have been scheduled so far, plus the blocks in `others`."""
        return {block_of(self.sch, part).name for part in (self.init, self.block, self.main, *others)}
