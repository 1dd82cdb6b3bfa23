"""The cost of tiles of blocks whose warpgroups multiply operands in shared storage: their resources and their time.

The model is that of `warp_tiles`, in cycles of one multiprocessor, with other rates: tensor cores multiply twice as
fast, and each warpgroup reads its 64 rows of the first operand and all columns of the second one, instead of fragments.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from ....strategy.candidate import Cost
from ....target import Target
from .warp_tiles import BlockTile, Matrices

ROWS, THREADS = 64, 128  # of a warpgroup
_PRODUCTS = 2048  # multiply-adds of 16-bit floats a cycle, of a multiprocessor
_SHARED = 128  # bytes a cycle
_FROM_L2 = 40  # bytes a cycle of a multiprocessor, if all fetch
_FETCHED = 16  # bytes that a thread fetches at best
_BESIDE = 0.2  # of the time of a resource that is not the busiest one is not hidden behind it
_BARRIER = 120.0  # cycles of a piece in which a block waits for its products and for its last warp
_LATENCY = 1000.0  # cycles until a copy has arrived
_START = 1500.0  # cycles until a block has begun
_ADDRESSES = 48  # registers of a thread besides its sums
_MULTIPROCESSORS = 132  # where a target does not say


@dataclass(frozen=True, slots=True)
class WarpgroupTile(BlockTile):
    """The tile of a block with one warpgroup for each 64 rows. Its fields are the knobs of the rule."""

    @property
    def groups(self) -> int:
        """The number of warpgroups of a block."""
        return self.rows // ROWS

    @property
    def threads(self) -> int:
        return self.groups * THREADS

    @property
    def registers(self) -> int:
        return ROWS * self.columns // THREADS + _ADDRESSES

    def shared_bytes(self, product: Matrices, by_way: bool) -> int:
        tiles = self.stages * product.nbytes * (self.rows + self.columns) * self.depth
        return tiles + (4 * self.rows * self.columns if by_way else 0)


def warpgroup_tile_cost(product: Matrices, tile: WarpgroupTile, by_way: bool, padded: float, target: Target) -> Cost:
    """Return the cycles of the multiprocessor with the most blocks. Steps of partial tiles take `padded` times as
    long.
    """
    blocks = product.count * ceil(product.m / tile.rows) * ceil(product.n / tile.columns)
    mine = ceil(blocks / (target.multiprocessors or _MULTIPROCESSORS))
    beside = min(mine, tile.residents(product, by_way, target))
    step = _step(product, tile)
    ahead = (tile.stages - 1) * step * tile.depth * beside
    waiting = (_BARRIER * (2 if tile.stages == 2 else 1) + max(0.0, _LATENCY - ahead)) / beside
    results = tile.rows * tile.columns * 4
    stored = results / _FROM_L2 + (2 * results / _SHARED if by_way else 0)
    block = ceil(product.k / tile.depth) * (tile.depth * step + waiting)
    slower = 1.0 if tile.divides(product) else padded
    return Cost(mine * block * slower, mine * (stored + _START) / beside)


def _step(product: Matrices, tile: WarpgroupTile) -> float:
    """Return the cycles of a step of the sum."""
    fetched = (tile.rows, tile.columns)
    # Elements that are fetched one by one need an instruction each, which takes as long as one for 16 bytes.
    written = sum(s * _FETCHED / (lanes * product.nbytes) for s, lanes in zip(fetched, product.at_once, strict=True))
    read = tile.rows + tile.groups * tile.columns
    busy = sorted((
        tile.rows * tile.columns / _PRODUCTS,
        (read + written) * product.nbytes / _SHARED,
        sum(fetched) * product.nbytes / _FROM_L2,
    ))  # fmt: skip
    return busy[-1] + _BESIDE * (busy[0] + busy[1])
