# %% [markdown]
# # A cost model: predict first, measure last
#
# There are thousands of ways to tile one product. Measuring one takes a second, nearly all of it in the compiler;
# computing a formula for *all* of them takes a millisecond. In this lesson we derive the formula from the work of a
# core, rank every tile with it, and measure only a few. Then we compare the formula with the measured times, and
# explain the difference.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import time
from itertools import combinations

import numpy as np

import minitvm
from lessons import drawings, example, ledger
from lessons.predict import predict
from minitvm import tir
from minitvm.target import Target

cpu = Target("cpu").description
lanes = cpu.vector_bytes // 4
M, N, K = 96, 512, 256
print(f"{cpu.name}: vectors of {lanes} floats, {cpu.vector_registers} registers, {cpu.fma_ports} multiply-adds a cycle")

# %% [markdown]
# ## The cost of a tile
#
# This is the tile of lesson 13: `rows` x `vectors` vectors of C stay in registers while r runs over all K terms. Each
# step of r
#
# - starts rows * vectors multiply-adds, of which `fma_ports` start in a cycle;
# - loads rows + vectors times, of which two start in a cycle;
# - cannot start before the sums of the previous step are ready, which takes `fma_latency` cycles.
#
# These three overlap, so the slowest of them determines the time: it is a *maximum*, not a sum. Tiles have to cover all
# of C. A tile at the edge that is larger than the rest of C still does all of its work, so each axis is rounded up
# *separately*.
#
# Everything is NumPy, so `rows` and `vectors` may be numbers or arrays of a million of them.


# %%
def arithmetic(rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Cycles of one core for the sums."""
    tiles = -(-M // rows) * -(-N // (vectors * lanes))
    step = np.maximum(np.maximum(rows * vectors / cpu.fma_ports, (rows + vectors) / 2), cpu.fma_latency)
    return tiles * K * step


# %% [markdown]
# There are only a few registers. A tile that needs more of them spills: each register too many is stored and loaded
# again in each step. The data also have to be fetched. Suppose that a panel of B (K rows of the width of a tile) stays
# in the first cache. Then B is fetched from the second cache once, and A once for each panel. Otherwise B is fetched
# once for each band of rows.

# %%
BYTES_A_CYCLE = 32  # from the second cache


def spilled(rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Registers too many: the tile's, one for each vector of B, one for an element of A."""
    return np.maximum(0, rows * vectors + vectors + 1 - cpu.vector_registers)


def memory(rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Cycles to fetch bytes from beyond the first cache."""
    panels, bands = -(-N // (vectors * lanes)), -(-M // rows)
    stays = 4 * K * vectors * lanes <= cpu.l1.size // 2
    return (4 * M * K * panels + 4 * K * N * np.where(stays, 1, bands)) / BYTES_A_CYCLE


def predicted(rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Cycles of one core."""
    tiles = -(-M // rows) * -(-N // (vectors * lanes))
    return arithmetic(rows, vectors) + tiles * K * spilled(rows, vectors) + memory(rows, vectors)


rows, vectors = (axis.ravel() for axis in np.meshgrid(np.arange(1, 25), np.arange(1, 9), indexing="ij"))
start = time.perf_counter()
cycles = predicted(rows, vectors)
seconds = time.perf_counter() - start
order = np.argsort(cycles, kind="stable")
print(f"{len(cycles)} tiles in {seconds * 1e6:.0f} us")
for n in order[:5]:
    print(f"  {rows[n]:>2} x {vectors[n]}: {cycles[n] / 1e3:6.0f} thousand cycles")

# %%
grid = np.log2(cycles.reshape(24, 8))
picture = drawings.cells(
    [[f"{cycles[8 * row + column] / 1e3:.0f}" for row in range(24)] for column in range(8)],
    [[drawings.ORANGE if 8 * row + column in order[:5] else drawings.shade((grid[row, column] - grid.min()) / 4)
      for row in range(24)] for column in range(8)],
    "thousand cycles of each tile: 1 to 24 rows go right; the five best are orange",
    [f"vectors: {column + 1}" for column in range(8)],
    34,
)  # fmt: skip
print("the picture:", picture.save("all_tiles"))

# %% [markdown]
# ## Predicted and measured times
#
# We measure some of the tiles that are best according to the formula, and some that are bad for different reasons: too
# few chains, too many loads, or registers that spill.


# %%
def measured(tile: tuple[int, int]) -> float:
    """Seconds of the example with a tile, on one core; the result is checked."""
    sch = tir.Schedule(example.blocks(M, N, K))
    i, j, r = sch.get_loops("C")
    i_0, row = sch.split(i, factors=[None, tile[0]])
    j_0, vector, lane = sch.split(j, factors=[None, tile[1], lanes])
    sch.reorder(j_0, i_0, r, row, vector, lane)
    sch.vectorize(lane)
    sch.unroll(vector)
    sch.unroll(row)
    function = minitvm.build(sch.func, threads=1)
    args = example.inputs(M, N, K)
    function(*args)
    assert (args[-1] == example.expected(*args[:3])).all()
    return ledger.best_of(30, lambda: function(*args))


predict(
    "A tile of 24 rows of 4 vectors, with the vectors of B and an element of A: how many registers are too many?",
    int(spilled(np.array(24), np.array(4))),
)
most = cpu.vector_registers  # the largest tile of two vectors that fits, of rows that divide 96
best = max((r, 2) for r in (1, 2, 3, 4, 6, 8, 12) if 2 * r + 3 <= most)
tiles = list(dict.fromkeys([best, (6, 2), (4, 2), (8, 2), (1, 1), (2, 1), (4, 1), (8, 1), (2, 4), (24, 4)]))
clock = {tile: measured(tile) for tile in tiles}
ghz = getattr(cpu, "ghz", 0.0) or 3.0
ratios, seconds_predicted = [], {}
print(f"  tile   predicted    measured   ratio   registers spilled      (a clock of {ghz:.2f} GHz)")
for tile, found in sorted(clock.items(), key=lambda item: item[1]):
    said = seconds_predicted[tile] = float(predicted(*map(np.array, tile))) / ghz * 1e-9
    ratios.append(found / said)
    print(f"{tile[0]:>4} x {tile[1]} {said * 1e6:>8.0f} us {found * 1e6:>8.0f} us {ratios[-1]:>7.2f} "
          f"{int(spilled(*map(np.array, tile))):>9}")  # fmt: skip

# %% [markdown]
# The ratio is not 1, and need not be: the formula ignores the loop itself, the bias, the maximum, and whatever else
# runs on this machine. If the ratio were the same for all tiles, the order would be right. The formula can order two
# tiles reliably only if their predictions differ by more than the *spread* of the ratios.

# %%
print(f"ratios from {min(ratios):.2f} to {max(ratios):.2f}")
apart, close = [], []
for a, b in combinations(tiles, 2):
    first, second = seconds_predicted[a], seconds_predicted[b]
    pairs = apart if max(first, second) >= 1.5 * min(first, second) else close
    pairs.append((first < second) == (clock[a] < clock[b]))
for which, pairs in (("a factor of 1.5 or more apart", apart), ("closer than that", close)):
    print(f"pairs of tiles predicted {which}: {sum(pairs)} of {len(pairs)} are measured in the predicted order")

# %% [markdown]
# So a formula excludes the bad tiles, which are most of them, in microseconds. It does not find the best one of the
# good tiles: for these a tuner has to measure a few. In lesson 29 we learn the remaining error from measurements.

# %% [markdown]
# `minitvm tune` does the same for each operator of a network. It derives the formulas from the accesses of a block, so
# that you need not write them by hand: `minitvm tune explain MODEL` prints them, and compares predictions with
# measurements.
#
# ## Your turn
#
# Write the model for any product and any core, for a million tiles at once.
#
#     minitvm lesson 28 --start     (writes exercise_28.py, for you to fill in)
#     minitvm lesson 28 --check
