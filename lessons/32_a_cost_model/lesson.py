# %% [markdown]
# # A cost model: predict first, measure last
#
# There are thousands of ways to tile a single product. Measuring one of them takes about a second, and nearly all of
# this time is spent in the compiler. Computing a formula for *all* of them takes a millisecond. In this lesson we
# derive such a formula from the work of a core. We rank all tiles with it, and measure only a few. Then we compare the
# predictions with the measured times, and explain the difference.

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
# The line names your processor and the figures that the formula will need.
#
# ## The cost of a tile
#
# We use the tile of lesson 15: `rows` x `vectors` vectors of C stay in registers while r runs over all K products. Each
# step of r
#
# - starts rows * vectors multiply-adds, of which `fma_ports` start in a cycle;
# - does rows + vectors loads, of which two start in a cycle;
# - cannot start before the sums of the previous step are ready, which takes `fma_latency` cycles.
#
# The multiply-adds, the loads and the wait for the sums happen at the same time, so the slowest of the three determines
# the time of a step. The time is a *maximum* and not a sum. The tiles have to cover all of C. A tile at the edge may
# stick out of C, but it takes as long as any other tile. So the number of tiles is rounded up for each axis
# *separately*.
#
# We write the formula in NumPy, so `rows` and `vectors` may be single numbers, or arrays with a million numbers.


# %%
def arithmetic(rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Cycles of one core for the sums."""
    tiles = -(-M // rows) * -(-N // (vectors * lanes))
    step = np.maximum(np.maximum(rows * vectors / cpu.fma_ports, (rows + vectors) / 2), cpu.fma_latency)
    return tiles * K * step


# %% [markdown]
# Two more things cost time. First, there are only a few registers. If a tile needs more than there are, the surplus
# registers are *spilled*: each of them is stored to memory and loaded again in each step. Second, the data have to be
# fetched. Suppose that a panel of B (K rows, as wide as a tile) stays in the first cache. Then B is fetched from the
# second cache only once, and A is fetched once for each panel. If the panel is too large, B is fetched again for each
# band of rows.

# %%
BYTES_A_CYCLE = 32  # from the second cache


def spilled(rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The number of registers that are missing for the tile, a row of B's vectors and an element of A."""
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
# The formula needed far less than a millisecond for all 192 tiles. The five lines name the tiles with the lowest
# predicted cost.
#
# ## Predicted and measured times
#
# Now we measure some tiles that are good according to the formula, and some that are bad for different reasons: too few
# chains, too many loads, or spilled registers.


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
# The column *ratio* is the measured time divided by the predicted time. It is not 1, and it does not have to be: the
# formula ignores the instructions of the loop, the bias, the maximum, and the other programs on your machine. If the
# ratio were the same for all tiles, the formula would put them in exactly the right order. But the ratios differ. So
# the formula can be trusted to order two tiles only if their predictions differ by more than the ratios do. We test
# this for all pairs of tiles:

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
# If the two predictions of a pair differ by a factor of 1.5 or more, the pair is nearly always in the predicted order.
# Pairs that are closer are in the wrong order more often. So in microseconds a formula excludes the bad tiles, which
# are the great majority. But it does not find the best of the good tiles. To find the best tile, a tuner has to measure
# a few of the good ones. In lesson 33 we use measurements to learn the remaining error of the formula.

# %% [markdown]
# The command `minitvm tune` predicts and measures in this way for each operator of a network. It derives the formulas
# from the loads and stores of a block, so you need not write them by hand. `minitvm tune explain MODEL` prints the
# formulas, and compares predictions with measurements.
#
# ## Your turn
#
# Write the cost model as two functions. They must work for any product and any core, and take arrays of tile sizes, so
# that one call can handle a million tiles.
#
#     minitvm lesson 32 --start     (writes exercise_32.py, for you to fill in)
#     minitvm lesson 32 --check
