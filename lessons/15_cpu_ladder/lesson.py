# %% [markdown]
# # The ladder: from three loops to the peak of a core
#
# In this lesson we compute the product of two matrices in seven ways, which we call the rungs of a ladder. All rungs do
# the same multiplications, and each rung adds one idea to the rung below. The lowest rung is three plain loops, and it
# is slow. The highest rung keeps the multiply-add units of a core busy most of the time. Before we climb, we measure
# how high the ladder is. At the top we find a formula with three divisions that explains the most important rung.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

from collections.abc import Callable

import minitvm
from lessons import example, ledger
from lessons.ladder import Window, chains_rate, ladder_picture, rate
from lessons.picture import save
from lessons.pipeline import Core, cycles_a_step, starts
from lessons.predict import predict
from minitvm import reference, tir
from minitvm.film import Film
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import LoopRV

# %% [markdown]
# ## How high is the ladder?
#
# One instruction does most of the work: the *fused multiply-add* computes x * y + z for a whole vector. A core can
# start one or two of these instructions in a cycle, but each result is ready only some cycles later. This delay is
# called the *latency*. In a chain of multiply-adds, each multiply-add needs the result of the previous one, so the unit
# that computes them has to wait. If there are several independent chains, the unit can work on the other chains while
# it waits.
#
# The next kernel runs a number of such chains and nothing else. It has no loads, so memory cannot slow it down. With
# enough chains, it reaches the highest possible rate, which is called the *peak*. One GFLOP/s is 10^9 multiplications
# or additions in a second.

# %%
cpu = Target("cpu").description
lanes = cpu.vector_bytes // 4
print(f"{cpu.name}: vectors of {lanes} floats, {cpu.vector_registers} vector registers")


measured = {chains: chains_rate(chains, lanes) for chains in (1, 2, 4, 8, 12)}
for chains, found in measured.items():
    print(f"{chains:>3} chains {found:>8.1f} GFLOP/s  {'#' * round(40 * found / max(measured.values()))}")
peak = max(measured.values())

# %% [markdown]
# Look at the first lines: two chains run twice as fast as one, and four chains nearly twice as fast as two. With more
# and more chains the rate stops growing, because the units are busy all the time. That point is reached when the number
# of chains is the latency times the number of units. On most of today's cores you need 4 * 2 = 8 chains. Remember the
# number 8.
#
# (The rates depend on your machine, and on the other programs that run on it. So we measure the peak again before each
# rung, and use the best result. If a rung reaches more than 100 % of the peak, the machine was less busy during that
# rung than while the peak was measured.)
#
# ## Rung 0: three loops
#
# Our example now has 240 rows, and B is 1024 x 1024. The function `climb` applies a schedule, builds the program,
# checks that NumPy gives the same result, and measures the rate. The first rungs are so slow that we let them compute
# only some of the rows. Their rate does not depend on the number of rows.

# %%
N = 1024
ROWS = 240
rates: dict[str, float] = {}


def rate_of(schedule: Callable[[tir.Schedule], object], rows: int = ROWS, threads: int = 1) -> float:
    """Build the example with a schedule and check its result; returns GFLOP/s."""
    global peak
    sch = tir.Schedule(example.blocks(rows, N, N))
    schedule(sch)
    function = minitvm.build(sch.func, threads=threads)
    args = example.inputs(rows, N, N)
    function(*args)
    assert (args[-1] == example.expected(*args[:3])).all()
    peak = max(peak, chains_rate(12, lanes))
    return rate(2 * rows * N * N, lambda: function(*args), 6 if rows < ROWS else 20)


def climb(name: str, schedule: Callable[[tir.Schedule], object], rows: int = ROWS, threads: int = 1) -> None:
    """Print the rate of the example with a schedule."""
    rates[name] = found = rate_of(schedule, rows, threads)
    print(f"{name:<24} {found:>7.1f} GFLOP/s, {found / peak / threads:>6.1%} of the peak of {threads} core"
          f"{'s' * (threads > 1)}")  # fmt: skip


def three_loops(sch: tir.Schedule) -> None:
    """Leaves the loops as they are written."""


climb("0 three loops", three_loops, rows=6)

# %% [markdown]
# Three loops reach only a very small part of the peak. There are two reasons. First, `r` is the innermost loop, so B is
# read down a column: each element is in another cache line, and the machine fetches sixteen floats to use only one of
# them. Second, all products are added to one sum, which is a single chain.
#
# ## Rung 1: reorder
#
# With `j` innermost, B and C are read along their rows.

# %%


def reordered(sch: tir.Schedule) -> None:
    """Makes j the innermost loop."""
    i, j, r = sch.get_loops("C")
    sch.reorder(i, r, j)


climb("1 reorder", reordered, rows=24)

# %% [markdown]
# Reading B along its rows makes the program many times as fast.
#
# ## Rung 2: vectorise
#
# Now we compute one vector of C at a time. (The compiler LLVM, which makes the machine code, may already have used
# vectors in rung 1. From now on we do not have to rely on LLVM for vectors.)

# %%


def vectorised(sch: tir.Schedule) -> None:
    """Vectors along j."""
    i, j, r = sch.get_loops("C")
    j_0, lane = sch.split(j, factors=[None, lanes])
    sch.reorder(i, r, j_0, lane)
    sch.vectorize(lane)


climb("2 vectorise", vectorised, rows=24)

# %% [markdown]
# Compare this rate with the rate of rung 1. On most machines the two rates are about the same, so LLVM had already used
# vectors.
#
# ## Rung 3: a tile in registers
#
# What does a multiply-add cost so far? For each multiply-add, the program loads a vector of B, and loads and stores a
# vector of C. So there are three memory accesses for one useful instruction. To avoid most of them, we keep C in
# registers: a tile of `rows` x `vectors` registers stays there while r runs over its whole range. Each step of r loads
# `vectors` vectors of B and `rows` elements of A, and does rows * vectors multiply-adds. These multiply-adds are
# independent of each other, so they are the chains that we need.
#
# How large should the tile be? It must fit into the registers together with the vectors of B and one element of A. A
# larger tile needs fewer loads for each multiply-add. Here we try all tiles that fit and that divide 240 and 1024 (so
# there are no tails today), and choose the tile with the fewest loads. At the end of the lesson you will have a better
# rule.


# %%
def fits(rows: int, vectors: int) -> bool:
    """Whether a tile and the operands of a step fit into the registers, and the tile into the matrix."""
    return rows * vectors + vectors + 1 <= cpu.vector_registers and ROWS % rows == 0 and N % (vectors * lanes) == 0


def loads_a_multiply_add(tile: tuple[int, int]) -> float:
    """The number of loads for each multiply-add."""
    rows, vectors = tile
    return (rows + vectors) / (rows * vectors)


TILE = min(((r, v) for r in range(1, 17) for v in range(1, 9) if fits(r, v)), key=loads_a_multiply_add)
print(f"{TILE[0]} rows of {TILE[1]} vectors: {TILE[0] * TILE[1]} of {cpu.vector_registers} registers, "
      f"{loads_a_multiply_add(TILE):.2f} loads per multiply-add")  # fmt: skip


# %%
def tiles(sch: tir.Schedule, size: tuple[int, int, int] = (*TILE, lanes)) -> list[LoopRV]:
    """Split C into tiles of rows x vectors x lanes; returns the loops around a tile: i_0, j_0 and r."""
    rows, vectors, width = size
    i, j, r = sch.get_loops("C")
    i_0, row = sch.split(i, factors=[None, rows])
    j_0, vector, lane = sch.split(j, factors=[None, vectors, width])
    sch.reorder(i_0, j_0, r, row, vector, lane)
    sch.vectorize(lane)
    sch.unroll(vector)
    sch.unroll(row)
    return [i_0, j_0, r]


def finish(sch: tir.Schedule, at: LoopRV, width: int = lanes) -> None:
    """The bias and the maximum on the tile, while it is in registers."""
    sch.reverse_compute_at("Y", at)
    *_, row, column = sch.get_loops("Y")
    vector, lane = sch.split(column, factors=[None, width])
    sch.vectorize(lane)
    sch.unroll(vector)
    sch.unroll(row)


def in_registers(sch: tir.Schedule, size: tuple[int, int, int] = (*TILE, lanes)) -> None:
    """A tile of C in registers."""
    _, j_0, _ = tiles(sch, size)
    finish(sch, j_0, size[2])


climb("3 register tile", in_registers)

# %% [markdown]
# The schedule does not mention registers. minitvm keeps a tile in registers if all of its indices are constants after
# unrolling, as you saw in lesson 07.
#
# Did you expect a higher rate? On some machines this rung is even *slower* than the previous one. The tile needs far
# fewer loads, but each load takes longer. Rung 2 read the rows of B from one end to the other. The tile reads a few
# vectors of a row and then jumps to the next row, which is 4096 bytes further on. Such jumps cost time for three
# reasons: each one reaches another page of memory, cache lines are evicted before they are used completely, and the
# processor cannot predict what to fetch next. The register tile is a good idea, but it only pays off once B is arranged
# well. The next two rungs arrange it.
#
# ## Rung 4: panels
#
# A tile covers a few rows of C. We call these rows a *band*. For each band, the program reads all of B. B has 4 MB,
# which is more than the caches near the core can hold. So we exchange the two outer loops. Then the program takes a
# *panel* of B, a strip that is as wide as a tile, and uses it for all bands of rows before it fetches the next panel.

# %%


def by_panels(sch: tir.Schedule, size: tuple[int, int, int] = (*TILE, lanes)) -> None:
    """All rows for a panel of B, then the next panel."""
    i_0, j_0, _ = tiles(sch, size)
    sch.reorder(j_0, i_0)
    finish(sch, i_0, size[2])


panel = N * TILE[1] * cpu.vector_bytes
print(f"B has {4 * N * N / 2**20:.1f} MB, a panel {panel / 2**10:.0f} KB, the L2 cache {cpu.l2.size / 2**10:.0f} KB")
climb("4 panels", by_panels)

# %% [markdown]
# The first line shows that a panel is small enough for the L2 cache. The second line shows the rate; compare it with
# the rate of rung 3.
#
# ## Rung 5: pack
#
# A panel fits into the cache, but its rows are still 4096 bytes apart. A cache uses some bits of an address to decide
# where a line may be kept, and lines that are 4096 bytes apart compete for the same few places. (Lesson 16 shows this
# competition.) So we *pack* each panel before we use it: we copy its rows into a separate buffer, one directly after
# another. `cache_read` makes the copy, and `compute_at` moves the copy into the loop over panels.

# %%


def packed(sch: tir.Schedule, size: tuple[int, int, int] = (*TILE, lanes)) -> LoopRV:
    """Copies each panel of B into a buffer before the panel is used."""
    i_0, j_0, _ = tiles(sch, size)
    sch.reorder(j_0, i_0)
    copy = sch.cache_read("C", 1, "local")
    sch.compute_at(copy, j_0)
    _, lane = sch.split(sch.get_loops(copy)[-1], factors=[None, size[2]])
    sch.vectorize(lane)
    finish(sch, i_0, size[2])
    return j_0


climb("5 pack", packed)

# %% [markdown]
# Packing is worth its price. It adds work, because each panel has to be copied. But now every load of B reads the
# vector that follows the previous one in memory.
#
# ## Rung 6: threads
#
# Panels are independent of each other, so each of two threads can compute with half of the panels. The peak of two
# cores is twice as high as the peak of one. (If only one core of your machine is idle, the two threads take turns, and
# the share of the peak goes down.)

# %%


def threaded(sch: tir.Schedule) -> None:
    """Panels in parallel."""
    sch.parallel(packed(sch))


climb("6 two threads", threaded, threads=2)

# %% [markdown]
# ## The picture
#
# To see why the rungs differ, we run them in the interpreter on a small problem: 12 x 8 times 8 x 32, with vectors of 4
# floats and tiles of 6 x 4 vectors. We cut each run into windows of 1,536 multiplications, which is the work for two
# tiles. Then a listener (in [ladder.py](../ladder.py)) records which elements the second window touches. The fewer
# elements a window touches, the more likely they are still in a cache close to the core.


# %%
SMALL = (12, 32, 8)  # m, n, k
WINDOW = 2 * 6 * 16 * 8
SMALL_TILE = (6, 4, 4)


def small(schedule: Callable[[tir.Schedule], object]) -> PrimFunc:
    """The small example by a schedule."""
    sch = tir.Schedule(example.blocks(*SMALL))
    schedule(sch)
    return sch.func


def small_vectors(sch: tir.Schedule) -> None:
    """Rung 2 with vectors of 4."""
    i, j, r = sch.get_loops("C")
    j_0, lane = sch.split(j, factors=[None, SMALL_TILE[2]])
    sch.reorder(i, r, j_0, lane)
    sch.vectorize(lane)


schedules = {
    "0 three loops": three_loops,
    "1 reorder": reordered,
    "2 vectorise": small_vectors,
    "3 register tile": lambda sch: in_registers(sch, SMALL_TILE),
    "4 panels": lambda sch: by_panels(sch, SMALL_TILE),
    "5 pack": lambda sch: packed(sch, SMALL_TILE),
}
kernels = {name: minitvm.lower(small(steps), stop_at="kernel")["example"] for name, steps in schedules.items()}
windows = {}
print(f"elements touched in a window {'A':>6} {'B':>6} {'C':>6} {'P':>6}")
for name, kernel in kernels.items():
    assert reference.check(example.blocks(*SMALL), kernel, modes=("exact",))
    windows[name] = seen = Window(WINDOW)
    reference.tir.run(kernel, *example.inputs(*SMALL), listeners=[seen], shadow=False)
    numbers = " ".join(f"{len(elements):>6}" for elements in seen.touched.values())
    print(f"{name:<28} {numbers}")

# %% [markdown]
# Read the table from top to bottom. Up to rung 2, a window reads all 256 elements of B, and the next window reads them
# again. From rung 3 on, the column of C shows 0, because C is in registers, which are not counted. Rung 3 uses one band
# of A (48 elements) and two panels of B (256). Rung 4 uses both bands of A (96) and only one panel of B (128). If there
# were more bands, the next window would use the same panel again. In rung 5 the panel is copied into the buffer P.
#
# Here are two of the rungs as films, for an even smaller problem: 4 x 6 times 6 x 16, with tiles of 2 x 2 vectors. Each
# step of the films handles one vector. Look at C. On rung 2 each vector of C is read and written again and again, once
# for each r. On rung 3 the same four vectors of C are used until their sums are complete, so these vectors can be kept
# in registers.

# %%
for title, steps in (("2 vectorise", small_vectors), ("3 register tile", lambda sch: in_registers(sch, (2, 2, 4)))):
    sch = tir.Schedule(example.blocks(4, 16, 6))
    steps(sch)
    film = Film.of(sch, buffers=["A", "B", "C"], title=title)
    print("the film:", save(f"rung_{title[0]}", film.svg()))

# %% [markdown]
# The last picture shows a window of each rung. Elements that are touched early are dark, elements that are touched late
# are light, and elements that are not touched are white.

# %%
picture = ladder_picture({**windows, "6 two threads": windows["5 pack"]}, rates, peak)
print("the picture:", picture.save("cpu_ladder"))

# %% [markdown]
# ## Three divisions
#
# Why is a tile of 1 x 2 registers slow, and a tile of 4 x 3 registers fast? We use a simple model of a core
# ([pipeline.py](../pipeline.py)). This core has `ports` multiply-add units, `loads` load units, and a `latency`. Here
# the model simulates three steps for each of two tiles. In the output, each group of two characters is a cycle. A digit
# is a multiply-add that starts in this cycle, and a dot is a unit without work. The digit is the number of the step, 0,
# 1 or 2:

# %%
core = Core(registers=16, latency=4, ports=2, loads=2)
predict(
    "Two multiply-adds start in each cycle, and a sum is ready 4 cycles later. A step of a 1 x 2 tile has two "
    "multiply-adds. How many cycles does a step take on average, if there are many steps?",
    round(cycles_a_step(1, 2, core)),
)
for tile in ((1, 2), (4, 3)):
    played = starts(*tile, core, steps=3)
    by_cycle: dict[int, str] = {}
    for step, cycles in enumerate(played):
        for cycle in cycles:
            by_cycle[cycle] = by_cycle.get(cycle, "") + str(step)
    print(f"{tile[0]} x {tile[1]}:", " ".join(f"{by_cycle.get(c, ''):.<2}" for c in range(max(by_cycle) + 1)))
print("rows vectors   cycles a step   multiply-adds a cycle")
for tile in ((1, 1), (1, 2), (2, 2), (2, 4), (8, 1), (4, 3), (6, 2)):
    step_cycles = cycles_a_step(*tile, core)
    print(f"{tile[0]:>4} {tile[1]:>7} {step_cycles:>15.2f} {tile[0] * tile[1] / step_cycles:>23.2f}")
    assert tile[0] * tile[1] / step_cycles < core.ports + 0.01

# %% [markdown]
# In the line for the 1 x 2 tile, two multiply-adds start in one cycle, and then three cycles pass without work until
# the two sums are ready. In the line for the 4 x 3 tile, two multiply-adds start in every cycle, because there are
# always independent multiply-adds to do. In the table, no tile does more than 2 multiply-adds in a cycle, which is the
# number of units. Three things can make a step take longer:
#
# - each register has to wait `latency` cycles for its last sum before it can be used in the next step;
# - the `ports` multiply-add units have rows * vectors multiply-adds to do;
# - the `loads` load units have rows + vectors loads to do.
#
# All three happen at the same time, so the slowest of them determines the time of a step. For a 4 x 3 tile, the three
# times are 4 cycles, 12 / 2 = 6 cycles and 7 / 2 = 3.5 cycles, so a step takes 6 cycles. So the formula has three
# divisions. (The first division is latency / 1.)
#
# ## Does the machine agree?
#
# We run rung 5 once more, with four sizes of tiles. The model now uses the latency, ports and registers of your
# machine. The table compares the share of the peak that the model predicts with the share that we measure:

# %%
core = Core(cpu.vector_registers, cpu.fma_latency, cpu.fma_ports, loads=2)
print("  tile    model   measured")
for size in ((2, 1), (2, 2), (6, 1), TILE):
    found = rates["5 pack"] if size == TILE else rate_of(lambda sch, size=size: packed(sch, (*size, lanes)), rows=120)
    played_share = size[0] * size[1] / cycles_a_step(*size, core) / core.ports
    print(f"{size[0]:>4} x {size[1]} {played_share:>6.0%} {found / peak:>10.0%}")

# %% [markdown]
# The two columns do not agree exactly, but both put the tiles in about the same order, from bad to good. The
# differences come from everything that the model ignores: the copies of panels, the instructions of the loop itself,
# memory, and other programs on your machine.
#
# ## The ledger
#
# The ledger is for the small example again, this time with a cache of 4096 bytes.

# %%
shown = ("0 three loops", "2 vectorise", "5 pack")
columns = {name: ledger.measure(kernels[name], *example.inputs(*SMALL), cache_lines=64) for name in shown}
ledger.show(columns)
assert len({column.operations["mul"] for column in columns.values()}) == 1

# %% [markdown]
# Every column has 3,072 multiplications. But rung 5 needs only 512 loads instead of 6,912, because each vector of B is
# used for six rows while the sums stay in registers. That is why rung 5 is fast.
#
# ## Your turn
#
# Write the model with the three divisions as a function, and let it choose the tile for any core. The check compares
# your numbers with a simulation of the core, and your tile with every other tile.
#
#     minitvm lesson 15 --start     (writes exercise_15.py, for you to fill in)
#     minitvm lesson 15 --check
