"""The cost of tiles of blocks whose warps multiply on tensor cores: the resources that they need, and their time.

A block computes `rows` by `columns` results in pieces of `depth` steps of the sum, and `stages` pieces are in shared
storage at a time. The cost is in cycles of one multiprocessor. For each piece, each of these resources is busy for some
time:

    tensor cores    one for each of four warps
    shared storage  128 bytes per cycle, for fragments that warps load, and for data that copies store
    the L2 cache    the bandwidth of a multiprocessor, for data that blocks fetch

A piece takes the time of the busiest resource, plus a share of the others. Blocks on the same multiprocessor share its
resources, and one block can work while another waits. The rates are those of NVIDIA's tuning guides.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from math import ceil
from typing import TypeVar

from ....strategy.candidate import Cost
from ....target import Target

WARP = 32
PAD = 8  # elements behind a row of a tile, at most
DECLARED = 48 << 10  # bytes of shared storage that a kernel declares itself; a launch gives more
RESERVED = 1 << 10  # bytes of shared storage that a device takes for each block
_ACCUMULATORS = 128  # of a thread
_WARPS = 8
_ADDRESSES = 48  # registers of a thread for addresses and loops
_PRODUCTS = 256  # multiply-adds of 16-bit floats a cycle, of the tensor core of a quarter of a multiprocessor
_SHARED = 128  # bytes a cycle
_FROM_L2 = 32  # bytes a cycle of a multiprocessor, if all fetch
_AT_ONCE = 16  # bytes that a thread fetches, or an instruction for each row of a fragment, at best
_BESIDE = 0.2  # of the time of a resource that is not the busiest one is not hidden behind it
_BARRIER = 350.0  # cycles in which a block waits for its last warp, and for the first fragments of a piece
_OVERLAPPED = 0.3  # of that is left where copies begin behind the products of a step (`fetched_tiles.in_stages`)
_LATENCY = 800.0  # cycles until a copy has arrived
_START = 1500.0  # cycles until a block has begun
_MULTIPROCESSORS = 132  # where a target does not say
_GROUP = 16  # rows of blocks in a group, at most
_BLOCKS = 16  # that a multiprocessor keeps at most


@dataclass(frozen=True, slots=True)
class Matrices:
    """A product for the cost model: `count` of m x k by k x n, with elements of `nbytes`. Threads fetch `at_once`
    elements.
    """

    count: int
    m: int
    n: int
    k: int
    nbytes: int
    at_once: tuple[int, int]


@dataclass(frozen=True, slots=True)
class BlockTile(ABC):
    """The tile of a block: its rows and columns, and pieces of `depth` steps, `stages` of which are in shared storage.

    Blocks start in groups of `group` rows of tiles (`grid.in_groups`).
    """

    rows: int
    columns: int
    depth: int
    stages: int = field(kw_only=True)
    group: int = field(default=1, kw_only=True)

    @property
    @abstractmethod
    def threads(self) -> int:
        """The threads of a block."""

    @property
    @abstractmethod
    def registers(self) -> int:
        """The registers of a thread."""

    @abstractmethod
    def shared_bytes(self, product: Matrices, by_way: bool) -> int:
        """Return the bytes of shared storage of a block. `by_way` says that results go through it."""

    def divides(self, product: Matrices) -> bool:
        """Return whether the product consists of whole tiles."""
        return product.m % self.rows == product.n % self.columns == product.k % self.depth == 0

    def fits(self, product: Matrices, by_way: bool, target: Target) -> bool:
        """Return whether copies divide the tiles evenly, and the tiles fit in registers and shared storage."""
        sizes = zip((self.rows, self.columns), product.at_once, strict=True)
        return (
            all(size * self.depth % (self.threads * lanes) == 0 for size, lanes in sizes)
            and self.registers <= target.max_registers_per_thread
            and self.threads * self.registers <= target.registers_per_block
            and self.shared_bytes(product, by_way) <= target.max_shared_memory_per_block
        )

    def residents(self, product: Matrices, by_way: bool, target: Target) -> int:
        """Return how many blocks a multiprocessor runs at the same time, limited by registers, threads and shared
        storage.
        """
        shared = target.shared_memory_per_multiprocessor or target.max_shared_memory_per_block
        limits = (
            _BLOCKS,
            target.threads_per_multiprocessor // self.threads,
            target.registers_per_block // (self.threads * self.registers),
            shared // (self.shared_bytes(product, by_way) + RESERVED),
        )
        return max(1, min(limits))


@dataclass(frozen=True, slots=True)
class WarpTile(BlockTile):
    """The tile of a block of `warp_rows` by `warp_columns` warps. Its fields are the knobs of the rule."""

    warp_rows: int
    warp_columns: int

    @property
    def warps(self) -> int:
        return self.warp_rows * self.warp_columns

    @property
    def threads(self) -> int:
        return WARP * self.warps

    @property
    def accumulators(self) -> int:
        """The sums of a thread, each in a register."""
        return self.rows * self.columns // (WARP * self.warps)

    @property
    def registers(self) -> int:
        """The registers of a thread: sums, the fragments of a step, and addresses."""
        fragments = self.rows // self.warp_rows + self.columns // self.warp_columns
        return self.accumulators + fragments // 4 + _ADDRESSES

    def shared_bytes(self, product: Matrices, by_way: bool) -> int:
        """Return the bytes of shared storage of a block. `by_way` says that results go through it."""
        first, second = self.rows * (self.depth + PAD), self.columns * (self.depth + PAD)
        other = self.depth * (self.columns + PAD)
        tiles = self.stages * product.nbytes * (first + max(second, other))
        return tiles + (4 * self.rows * (self.columns + PAD) if by_way else 0)

    def fits(self, product: Matrices, by_way: bool, target: Target) -> bool:
        """Return whether the tile fits, and also consists of whole instructions for each warp."""
        whole = self.rows % (16 * self.warp_rows) == 0 and self.columns % (8 * self.warp_columns) == 0
        fits = whole and self.warps <= _WARPS and self.accumulators <= _ACCUMULATORS
        return fits and BlockTile.fits(self, product, by_way, target)


AnyTile = TypeVar("AnyTile", bound=BlockTile)


def grouped(product: Matrices, tile: AnyTile, target: Target) -> AnyTile:
    """Return the tile with the `group` for which the blocks that run at the same time read the least data."""
    rows = ceil(product.m / tile.rows)
    groups = [group for group in range(1, _GROUP + 1) if rows % group == 0]
    return min((replace(tile, group=group) for group in groups), key=lambda one: _read(product, one, target))


def _read(product: Matrices, tile: BlockTile, target: Target) -> int:
    """Return the rows and columns of the operands that the running blocks, one per multiprocessor, read in a step."""
    across = ceil(product.n / tile.columns)
    blocks = min(target.multiprocessors or _MULTIPROCESSORS, ceil(product.m / tile.rows) * across)
    if tile.group * across < blocks:  # a whole group of rows, and more
        return min(product.m, ceil(blocks / across) * tile.rows) + product.n
    return tile.group * tile.rows + ceil(blocks / tile.group) * tile.columns


def warp_tile_cost(product: Matrices, tile: WarpTile, by_way: bool, padded: float, target: Target) -> Cost:
    """Return the cycles of the multiprocessor with the most blocks. Steps of partial tiles take `padded` times as
    long.
    """
    blocks = product.count * ceil(product.m / tile.rows) * ceil(product.n / tile.columns)
    processors = target.multiprocessors or _MULTIPROCESSORS
    mine = ceil(blocks / processors)
    beside = min(mine, tile.residents(product, by_way, target))
    step = _step(product, tile, beside)
    pieces = ceil(product.k / tile.depth)
    ahead = max(1, tile.stages - 1) * step * tile.depth * beside
    # Blocks on the same multiprocessor share a wait, and each computes while the others wait.
    barrier = _BARRIER * (_OVERLAPPED if tile.stages > 2 else 1.0)
    waiting = barrier / beside**2 + max(0.0, _LATENCY - ahead) / beside
    results = tile.rows * tile.columns * 4
    stored = results / _FROM_L2 + (2 * results / _SHARED if by_way else 0)
    block = pieces * (tile.depth * step + waiting)
    slower = 1.0 if tile.divides(product) else padded
    return Cost(mine * block * slower, mine * (stored + _START / beside))


def _step(product: Matrices, tile: WarpTile, beside: int) -> float:
    """Return the cycles of a step of the sum if `beside` blocks share the multiprocessor."""
    quarters = min(4, tile.warps * beside)
    products = tile.rows * tile.columns / (_PRODUCTS * quarters) * product.nbytes / 2
    fragments = tile.rows * tile.warp_columns + tile.columns * tile.warp_rows
    fetched = (tile.rows, tile.columns)
    # Elements that are fetched one by one need an instruction each, which takes as long as one for 16 bytes.
    stored = sum(s * _AT_ONCE / (lanes * product.nbytes) for s, lanes in zip(fetched, product.at_once, strict=True))
    shared = (fragments + stored) * product.nbytes / _SHARED
    from_l2 = sum(fetched) * product.nbytes / _FROM_L2
    busy = sorted((products, shared, from_l2))
    return busy[-1] + _BESIDE * (busy[0] + busy[1])
