"""Schedule recurrent layers: at each time step, a product of the states with constant weights, followed by the cell.

    for group of rows, direction in parallel:
        for t:
            sums[rows, n] = states[rows, k] * r[k, n]           micro-kernel: rows x vectors in registers
            states[rows, j] = cell(x[t], sums, states)          vectors

A step reads all of r, and uses each vector once for every row of a group. One row takes as long as reading r from the
L2 cache; for an LSTM with 128 elements, this is 256 KB per step, and Zen 4 reads 32 bytes per cycle, of which the
kernel reaches 90 %. Four rows take as long as their multiply-adds. States, sums and gates stay in the L1 cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from ....expr import walk
from ....strategy.blocks import blocks_of, computes, extents, is_reduction, volume, widest
from ....strategy.candidate import Candidate, Cost
from ....strategy.registry import rule
from ....target import CPU, Target
from ....tir import Schedule
from ....tir.nodes import Block, BufferStore, PrimFunc
from .generic import PARALLEL_WORK
from .model import shared
from .panels import PanelPlan, schedule_panels
from .tiling import RegisterTile, cpu_of, registers_of, step_cycles_of

_SUMS = (28, 24, 20, 16, 12, 8, 4)  # vectors of sums that registers may hold at a time
_OF_L2 = 0.5  # of the rate of the L2 cache: what comes from there while a kernel does nothing else with it
_STEPS = 64  # an open number of steps counts as this
_GROUPS = 4  # an open number of groups of rows


@rule("cpu", computes("nn.rnn", "nn.gru", "nn.lstm"))
def recurrent(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Yield schedules whose products are tiles of all rows of a group, with at most `sums` vectors. The other blocks
    are vectors already.
    """
    cpu = cpu_of(target)
    products = [_StateProduct.of(block) for block in _inside(func) if is_reduction(block)]
    lanes = max(1, cpu.vector_bytes // products[0].itemsize)
    steps = volume(func.params[0].shape[:1], _STEPS)  # type: ignore[union-attr]
    groups = list(blocks_of(func))
    tasks = sum(volume([axis.dom.extent for axis in group.iter_vars], _GROUPS) for group in groups)
    times = float(steps * tasks) / len(groups)

    def price(sums: int) -> Cost:
        one = [product.cycles(product.tile(sums, lanes), cpu) for product in products]
        return Cost(sum(one)) * (times * shared(tasks, cpu))

    def apply(sch: Schedule, sums: int) -> None:
        names = [group.name for group in blocks_of(sch.func)]
        for block in list(_inside(sch.func)):
            if is_reduction(block):
                product = _StateProduct.of(block)
                product.schedule(sch, product.tile(sums, lanes))
        if times * sum(product.multiply_adds for product in products) < PARALLEL_WORK:
            return
        for name in names:
            sch.parallel(sch.fuse(*sch.get_loops(sch.get_block(name))))

    different: dict[tuple[RegisterTile, ...], int] = {}
    for sums in _SUMS:
        tiles = tuple(product.tile(sums, lanes) for product in products)
        if all(registers_of(tile.rows, tile.vectors) <= cpu.vector_registers for tile in tiles):
            different.setdefault(tiles, sums)
    for sums in different.values() or _SUMS[-1:]:
        yield Candidate(knobs={"sums": sums}, price=price, apply=apply)


def _inside(func: PrimFunc) -> Iterator[Block]:
    """Yield the inner blocks of the blocks that loop over time. Each inner block writes one element."""
    for group in blocks_of(func):
        for block in walk(group.body):
            if isinstance(block, Block) and isinstance(block.body, BufferStore):
                yield block


@dataclass(frozen=True, slots=True)
class _StateProduct:
    """The product in one time step: `rows` of a state times weights [depth, columns]."""

    name: str
    rows: int
    columns: int
    depth: int
    itemsize: int

    @staticmethod
    def of(block: Block) -> _StateProduct:
        rows, columns, depth = (int(e or 1) for e in extents(axis.dom.extent for axis in block.iter_vars))
        return _StateProduct(block.name, rows, columns, depth, widest(block))

    @property
    def multiply_adds(self) -> int:
        return self.rows * self.columns * self.depth

    def tile(self, sums: int, lanes: int) -> RegisterTile:
        """Return the tile with at most `sums` vectors that divides the columns evenly."""
        vectors = ceil(self.columns / lanes)
        most = max(1, sums // self.rows)
        return RegisterTile(self.rows, ceil(vectors / ceil(vectors / most)), lanes)

    def cycles(self, tile: RegisterTile, cpu: CPU) -> float:
        """Return the cycles per step: those of its micro-kernels, or those of reading the weights if that takes
        longer.
        """
        weights = self.columns * self.depth * self.itemsize
        near = _OF_L2 * cpu.l2_rate if weights <= cpu.l2.size else cpu.l3_rate
        return max(step_cycles_of(self.rows, self.columns, tile, cpu) * self.depth, weights / near)

    def schedule(self, sch: Schedule, tile: RegisterTile) -> None:
        """Keep the sums in registers during the product, and store them once, for the cell to read."""
        block = sch.get_block(self.name)
        stored = sch.cache_write(block, 0, "local")
        row = 0 if self.rows > 1 else None
        plan = PanelPlan(tile, self.rows)
        schedule_panels(sch, block, sch.get_loops(stored)[-2:], row, 1, plan, streams=False, parallel=False)
