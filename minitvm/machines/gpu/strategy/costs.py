"""Predict the cost of a contraction on a GPU by a closed formula of its tiles, in cycles of one multiprocessor.

    work        multiply-adds of all tiles, counting partial tiles as whole ones, divided by the lanes
    loads       per step: from storage that the block shares, or from memory through the cache
    fetches     copies into shared storage, once for all threads of a block
    waiting     too few warps do not hide latency; too few blocks leave multiprocessors idle

The bandwidth to L2 is that of NVIDIA's tuning guides, 64 bytes per cycle and multiprocessor. The costs and latencies of
loads, and the cost of a block, were fitted to 230 kernels of convolutions and matrix products on an H200. The mean
error is a factor of 1.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from ....strategy.candidate import Cost
from ....strategy.roles import Product
from ....target import Target

BANKS = 32  # of shared storage, a word of 32 bits each
APART = 4  # elements between lines that a bank would share: a whole vector, so that vectors stay aligned
WARP = 32  # threads of which costs are counted, whatever a device's warps are
_BROADCAST = 1.6  # cycles of a load that is the same for most threads of a warp
_ROW = 13.0  # cycles of a load of 16 bytes a thread: four rows of 128 bytes
_CACHED = 4.5  # a load through the cache costs as many times one from shared storage
_NOT_LOCAL = 9.0  # an access of shared storage where that is memory like any other: there and back through the cache
_FROM_L2 = 2.0  # cycles a warp's row of 128 bytes
_STORED = 1.0  # and to store it in shared storage
_ISSUED = 0.25  # cycles of a load beside what it moves
_BARRIER = 40.0  # cycles in which a block waits
_LATENCY = 112.0  # cycles until what a step loads is there: that much work must be at hand
_START = 3800.0  # cycles until a block has begun, and its first loads are there
_SPARE = 24  # registers for addresses and loops
_MULTIPROCESSORS = 16  # where a target does not say
_BLOCKS = 16  # that a multiprocessor keeps at most
_KERNEL = 2400.0  # cycles until the kernel behind another one has begun
_IN_TURN = 20.0  # cycles from one load of a thread to the next
_L2_BYTES = 64.0  # a cycle
BLOCKS_WANTED = 4  # for each multiprocessor: more hide no more latency


@dataclass(frozen=True, slots=True)
class ThreadTile:
    """The results of a thread: `rows` by `blocks` times `vectors` of `lanes`."""

    rows: int
    vectors: int
    lanes: int
    blocks: int = 1

    @property
    def results(self) -> int:
        """The number of results, each in a register."""
        return self.rows * self.columns

    @property
    def columns(self) -> int:
        """The number of results along the columns."""
        return self.blocks * self.vectors * self.lanes

    @property
    def registers(self) -> int:
        """The number of 32-bit registers: sums, the operands of a step, and addresses."""
        return self.results + self.rows + self.columns + _SPARE


@dataclass(frozen=True, slots=True)
class BlockTile:
    """The threads of a block over rows and columns, and `depth`, the number of steps of the sum that they fetch at a
    time.

    `copied` is the number of elements that a step of the sum copies to shared storage, or 0 without shared storage.
    `gaps` is the number of unused elements between its lines. With `double`, there are two buffers: one is filled while
    the other one is used.
    """

    row_threads: int
    column_threads: int
    depth: int = 1
    copied: int = 0
    double: bool = False
    gaps: int = 0

    @property
    def threads(self) -> int:
        return self.row_threads * self.column_threads

    @property
    def shared_bytes(self) -> int:
        return 4 * (self.copied + self.gaps) * self.depth * (2 if self.double else 1)


def gap(line: int, rows: int) -> int:
    """Return the number of unused elements after a line of a tile that is transposed in the copy to shared storage."""
    return (APART - line) % BANKS if rows % APART == 0 else 0


def contraction_cost(
    product: Product, tile: ThreadTile, block: BlockTile, columns: int, outside: int, target: Target, vector: int
) -> Cost:
    """Return the cycles of a multiprocessor if all of them compute `outside` products of `product.m` by `columns`
    results.

    `vector` is the number of elements per load.
    """
    blocks = grid_of(product, tile, block, columns, outside)
    processors = processors_of(target)
    warps = max(1.0, block.threads / WARP)
    resident = residents(tile, block, target)
    busy = min(1.0 * resident, max(1.0, blocks / processors)) * warps  # warps beside one another
    lanes = max(1, target.lanes)
    step = max(tile.results * WARP / lanes, _loads(product, tile, block, target))
    step += _ISSUED * _instructions(product, tile, block)
    hidden = max(1.0, _LATENCY / (step * busy))
    # Without shared storage, neighbours read the same elements through the cache, which loads them once.
    fetched = _FROM_L2 * (tile.rows + tile.columns) / block.threads**0.5
    if block.copied:
        lines = block.copied / block.threads
        slower = 1.0 if target.local_memory_helps else _NOT_LOCAL
        fetched = lines * (_FROM_L2 * (1.0 + 1.0 / vector) / 2 + _STORED * slower)
        waits = 1 if block.double else 2
        fetched += waits * slower * _BARRIER / block.depth / busy
    rounds = ceil(blocks / (processors * resident))
    sums = rounds * min(resident, max(1.0, blocks / processors)) * warps * product.depth
    rows, wide = (block.row_threads, block.column_threads) if block.copied else (1, 1)
    even = product.m % (rows * tile.rows) == 0 and columns % (wide * tile.columns) == 0
    guards = 1.0 if even else 1.1
    return Cost(sums * step * hidden * guards + rounds * _START, sums * fetched)


def grid_of(product: Product, tile: ThreadTile, block: BlockTile, columns: int, outside: int) -> int:
    """Return the number of blocks in `outside` products of `product.m` by `columns` results."""
    if block.copied:
        down = ceil(product.m / (block.row_threads * tile.rows))
        return outside * down * ceil(columns / (block.column_threads * tile.columns))
    # Threads of a block are neighbours along all axes.
    return ceil(outside * ceil(product.m / tile.rows) * ceil(columns / tile.columns) / block.threads)


def processors_of(target: Target) -> int:
    """Return the number of multiprocessors."""
    return int(target.multiprocessors) or _MULTIPROCESSORS


def added_up_cost(results: int, parts: int, target: Target) -> Cost:
    """Return the cost of a second kernel that adds up the parts of `results` sums. Each part is written and read
    once.
    """
    return element_wise_cost(results * (2 * parts + 1), results * parts, parts, target)


def element_wise_cost(words: int, operations: int, loads: int, target: Target) -> Cost:
    """Return the cost of a kernel that moves `words` words of 32 bits through the L2 cache and does `operations`
    operations.

    Each thread does `loads` loads one after the other.
    """
    processors = processors_of(target)
    work = operations / (max(1, target.lanes) * processors)
    return Cost(_KERNEL + loads * _IN_TURN + work, 4 * words / (_L2_BYTES * processors))


def residents(tile: ThreadTile, block: BlockTile, target: Target) -> int:
    """Return how many blocks a multiprocessor runs at the same time, limited by registers, threads and shared
    storage.
    """
    limits = [_BLOCKS, max(1, target.threads_per_multiprocessor // block.threads)]
    if target.registers_per_block:
        limits.append(target.registers_per_block // (tile.registers * block.threads))
    if block.copied:
        limits.append(
            (target.shared_memory_per_multiprocessor or target.max_shared_memory_per_block) // block.shared_bytes
        )
    return max(1, min(limits))


def _instructions(product: Product, tile: ThreadTile, block: BlockTile) -> float:
    """Return the number of loads that a thread issues for one step of the sum."""
    row = tile.rows / 4 if block.copied and tile.rows % 4 == 0 else tile.rows
    return row + tile.blocks * tile.vectors * (1 if product.contiguous or block.copied else tile.lanes)


def _loads(product: Product, tile: ThreadTile, block: BlockTile, target: Target) -> float:
    """Return the cycles of a warp's loads for one step of the sum."""
    column = tile.blocks * tile.vectors * _ROW * tile.lanes / 4
    if block.copied:
        row = tile.rows / (4 if tile.rows % 4 == 0 else 1) * _BROADCAST
        return (row + column) * (1.0 if target.local_memory_helps else _NOT_LOCAL)
    scattered = 1 if product.contiguous else tile.lanes
    return _CACHED * (tile.rows * _BROADCAST + column * scattered)
