"""Choose the sizes of register tiles and cache blocks by formulas.

The formulas follow Low et al., "Analytical modeling is enough for high-performance BLIS" (2016). A register tile of
`rows` x `vectors` accumulators needs rows * vectors >= latency * ports to keep the multiply-add units busy. A step
loads `vectors` vectors of B and broadcasts `rows` elements of A; this must not take longer than its rows * vectors
multiply-adds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from ....expr import DType
from ....strategy.roles import LONG
from ....target import CPU, Target
from .model import step_cycles

# A side of unknown size is priced as the mean over these sizes: a tile that suits one size alone leaves remainders in
# others.
OPEN_SIDES = (14, 17, 28, 33, 56, 64, 65)

# An unknown number of rows or columns is assumed to be each of these equally often, growing by equal factors. The best
# tile for many rows alone may waste most of a tile on few rows: 7 rows would be 6 and 1.
OPEN_LENGTHS = (1, 3, 7, 16, 38, 85, 181, LONG)
_RANKED = 48  # how many tiles for long extents are compared by open ones


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """A tile of `rows` x (`vectors` * `lanes`) elements of the result."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        """The number of elements in one row."""
        return self.vectors * self.lanes


# What a scalar CPU can use for integers: ARM has 16 registers, and six of them hold addresses and the loop's variable.
_CORE_REGISTERS = 10


def cpu_of(target: Target, dtype: str = "float32") -> Any:
    """Return the description of the target's CPU, also for a target that reaches it through another interface.

    Without a target, return the description of this machine's CPU. `dtype` is that of the values in registers: the
    registers of a scalar CPU are those of its floating-point unit, which does not compute with integers.
    """
    description = (target if target is not None else Target("cpu")).description
    if target is not None and target.is_scalar and not DType(dtype).is_float:
        return replace(description, vector_registers=_CORE_REGISTERS)
    return getattr(description, "processor", None) or description


def register_tile(m: int | None, n: int | None, dtype: str, target: Target) -> RegisterTile:
    """Return the tile that takes the fewest cycles for an m x n result, including edges. None is an unknown extent."""
    return register_tiles(m, n, dtype, target)[0][0]


def register_tiles(
    m: int | None, n: int | None, dtype: str, target: Target, streams: bool = False
) -> list[tuple[RegisterTile, float]]:
    """Return the tiles that fit the registers, best first, with the cycles of one step of k over an m x n result.

    None is an unknown extent.
    """
    if m is None or n is None:
        cpu = cpu_of(target, dtype)
        long = register_tiles(m or LONG, n or LONG, dtype, target, streams)
        slower = [(tile, slower_than_least(m, n, tile, cpu, streams)) for tile, _ in long[:_RANKED]]
        least = [least_cycles_of(m or LONG, n or LONG, tile.lanes, cpu, streams) for tile, _ in slower]
        found = [(tile, factor * cycles) for (tile, factor), cycles in zip(slower, least, strict=True)]
        return sorted(found, key=lambda pair: round(pair[1], 9))
    cpu = cpu_of(target, dtype)
    lanes = max(1, cpu.vector_bytes * 8 // _bits(dtype))
    found = []
    for vectors in range(1, cpu.vector_registers):
        for rows in range(1, 17):
            if registers_of(rows, vectors) > cpu.vector_registers:
                continue
            tile = RegisterTile(rows, vectors, lanes)
            found.append((tile, step_cycles_of(m, n, tile, cpu, streams)))
    # Of tiles that are equal but for rounding the first, with the fewest vectors.
    return sorted(found, key=lambda pair: round(pair[1], 9)) or [(RegisterTile(1, 1, lanes), float("inf"))]


def slower_than_least(m: int | None, n: int | None, tile: RegisterTile, cpu: CPU, streams: bool = False) -> float:
    """Return the factor by which an m x n result takes longer with such tiles than the lower bound.

    For an unknown extent (None), it is the geometric mean over typical lengths, so that each length counts the same,
    however many cycles it takes. Two unknown extents are taken as equal, as for a sequence and itself.
    """
    lengths = OPEN_LENGTHS if m is None or n is None else (1,)
    shapes = [(length if m is None else m, length if n is None else n) for length in lengths]
    least = [least_cycles_of(*shape, tile.lanes, cpu, streams) for shape in shapes]
    taken = [step_cycles_of(*shape, tile, cpu, streams) for shape in shapes]
    return prod(a / b for a, b in zip(taken, least, strict=True)) ** (1 / len(shapes))


def least_cycles_of(m: int, n: int, lanes: int, cpu: CPU, streams: bool = False) -> float:
    """Return the least cycles for one step of k over the whole result: its multiply-adds, or reading the vector operand
    once.
    """
    return n / lanes * max(m / cpu.fma_ports, (1 + streams) / cpu.loads)


def step_cycles_of(m: int, n: int, tile: RegisterTile, cpu: CPU, streams: bool = False) -> float:
    """Return the cycles for one step of k over the whole result, in full tiles and smaller tiles at the edges.

    With `streams`, the vector operand is prefetched.
    """
    vectors = -(-n // tile.lanes)
    total, edges = over_tiles(
        (m, tile.rows), (vectors, tile.vectors), lambda rows, width: _tile_cycles(rows, width, cpu, streams)
    )
    # Each kind of edge is another copy of the micro-kernel to compile.
    return total * 1.01 ** (edges + bool(n % tile.lanes))


def over_tiles(
    down: tuple[int, int], across: tuple[int, int], cycles: Callable[[int, int], float]
) -> tuple[float, int]:
    """Return the cycles of all tiles of a result, and the number of axes along which a smaller tile remains.

    `down` and `across` are (extent of the result, extent of the tile). `cycles(rows, columns)` is the cost of one
    tile.
    """
    full_rows, edge_rows = divmod(down[0], down[1])
    full_columns, edge_columns = divmod(across[0], across[1])
    total = 0.0
    for count_rows, rows in ((full_rows, down[1]), (1, edge_rows)):
        for count_columns, columns in ((full_columns, across[1]), (1, edge_columns)):
            if rows and columns:
                total += count_rows * count_columns * cycles(rows, columns)
    return total, bool(edge_rows) + bool(edge_columns)


def _tile_cycles(rows: int, vectors: int, cpu: CPU, streams: bool) -> float:
    # A tenth for everything that is not arithmetic makes bigger tiles win where they are equal.
    spilled = max(0, registers_of(rows, vectors) - cpu.vector_registers) * 2 / cpu.loads
    return step_cycles(rows, vectors, cpu, streams) + 0.1 * (rows + vectors) + spilled


def registers_of(rows: int, vectors: int) -> int:
    """Return the registers of a tile besides its sums: one broadcast element, and each vector of B unless there is one
    row.
    """
    return rows * vectors + (vectors if rows > 1 else 1) + 1


def _bits(dtype: str) -> int:
    return DType(dtype).scalar.bytes * 8


def depth_block(k: int, tile: RegisterTile, itemsize: int, target: Target) -> int:
    """Return how much of k to process at a time: a packed panel of B should fill at most a quarter of the L2 cache."""
    budget = cpu_of(target).l2.size // 4
    limit = max(64, budget // (tile.columns * itemsize))
    blocks = max(1, -(-k // limit))
    return max(1, -(-k // blocks))
