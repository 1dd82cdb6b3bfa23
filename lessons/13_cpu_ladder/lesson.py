# %% [markdown]
# # The ladder: from three loops to the peak of a core
#
# In this lesson we compute the product of two matrices in seven ways. The multiplications and the primitives are always
# the same, and each way adds one idea. The first is as slow as three loops are. The last keeps the multiply-add units
# of a core busy most of the time. Before we climb, we measure how high the ladder is; at the top, three divisions
# explain the shape of the most important rung.

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
# Most of the work is done by the *fused multiply-add*: one instruction computes x * y + z for a whole vector. A core
# can start one or two of them in a cycle, but a result is ready only some cycles later. So in a chain, in which each
# needs the previous one, the unit waits. Several independent chains fill the gaps.
#
# This kernel does nothing else. It has no loads, so memory cannot slow it down: it reaches the *peak*.

# %%
cpu = Target("cpu").description
lanes = cpu.vector_bytes // 4
print(f"{cpu.name}: vectors of {lanes} floats, {cpu.vector_registers} vector registers")


measured = {chains: chains_rate(chains, lanes) for chains in (1, 2, 4, 8, 12)}
for chains, found in measured.items():
    print(f"{chains:>3} chains {found:>8.1f} GFLOP/s  {'#' * round(40 * found / max(measured.values()))}")
peak = max(measured.values())

# %% [markdown]
# Twice as many chains run twice as fast, until the units are busy all the time. That happens at *latency times units*
# chains; on most cores of today, 4 * 2 = 8. Remember this number.
#
# (The rates depend on your machine, and on its other work, which may slow down some measurements more than others. So
# the peak is measured again before each rung, and the best result counts. If a share is above 100 %, the machine had
# less other work during the rung than during the peak.)
#
# ## Rung 0: three loops
#
# Our example now has 240 rows, and B is 1024 x 1024. `climb` applies a schedule, builds it, compares the result with
# that of NumPy, and measures. The first rungs are so slow that they only compute a part of the rows; the rate is the
# same.

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
    """As it is written."""


climb("0 three loops", three_loops, rows=6)

# %% [markdown]
# Two things are wrong with this program. `r` is the innermost loop, so B is read down a column: each element is in
# another cache line, and the machine fetches sixteen floats to use one of them. And all products are added to one sum,
# which is a single chain.
#
# ## Rung 1: reorder
#
# With `j` innermost, B and C are read along their rows.

# %%


def reordered(sch: tir.Schedule) -> None:
    """j innermost."""
    i, j, r = sch.get_loops("C")
    sch.reorder(i, r, j)


climb("1 reorder", reordered, rows=24)

# %% [markdown]
# ## Rung 2: vectorise
#
# Now we compute one vector of C at a time. (LLVM may already have done so; now we can be sure.)

# %%


def vectorised(sch: tir.Schedule) -> None:
    """Vectors along j."""
    i, j, r = sch.get_loops("C")
    j_0, lane = sch.split(j, factors=[None, lanes])
    sch.reorder(i, r, j_0, lane)
    sch.vectorize(lane)


climb("2 vectorise", vectorised, rows=24)

# %% [markdown]
# ## Rung 3: a tile in registers
#
# Look at the cost of a multiply-add so far: a vector of B is loaded, and a vector of C is loaded and stored again.
# These are three memory accesses for one instruction of work. So we keep C in registers: a tile of `rows` x `vectors`
# registers stays there while r runs over its whole range. Each step of r loads `vectors` vectors of B and `rows`
# elements of A, and does rows * vectors multiply-adds. These are independent of each other: they are our chains.
#
# How large should the tile be? It must fit into the registers together with the vectors of B and an element of A. A
# larger tile needs fewer loads per multiply-add. Here we choose the tile with the fewest loads among all that fit and
# that divide 240 and 1024 (no tails today). At the end of the lesson you will have a better rule.


# %%
def fits(rows: int, vectors: int) -> bool:
    """Whether a tile and the operands of a step fit into the registers, and the tile into the matrix."""
    return rows * vectors + vectors + 1 <= cpu.vector_registers and ROWS % rows == 0 and N % (vectors * lanes) == 0


def loads_a_multiply_add(tile: tuple[int, int]) -> float:
    """Loads that go with each multiply-add."""
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
# The schedule does not mention registers: minitvm keeps a tile in registers if all its indices are constants after
# unrolling (lesson 07).
#
# Did you expect more? On many machines this rung is *slower* than the previous one. The tile does far fewer loads, but
# they are worse ones. Rung 2 read rows of B from one end to the other. The tile reads a few vectors of a row and then
# jumps to the next row, 4096 bytes further on. That is another page, the line is evicted before all of it has been
# used, and a prefetcher cannot predict the jump. The register tile is a good idea, but it only pays once B is arranged
# well. The next two rungs do that.
#
# ## Rung 4: panels
#
# For each band of rows, the program reads all of B: 4 MB, which is more than the caches near the core hold. If we
# exchange the two outer loops, one *panel* of B, as wide as a tile, is used for all bands of rows before the next panel
# is fetched.

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
# ## Rung 5: pack
#
# A panel fits, but how is it stored? Its rows are 4096 bytes apart, and a cache uses the middle bits of an address to
# decide where a line may be kept: lines that are 4096 bytes apart compete for the same few places (you will see this in
# lesson 14). So we first copy the panel into a separate buffer, row after row. `cache_read` makes the copy, and
# `compute_at` moves it to the start of a panel.

# %%


def packed(sch: tir.Schedule, size: tuple[int, int, int] = (*TILE, lanes)) -> LoopRV:
    """A panel of B copied together before it is used."""
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
# ## Rung 6: threads
#
# Panels are independent of each other. Each of two threads computes half of them; the peak of two cores is twice as
# high. (If only one core is idle, the two threads take turns, and the share goes down.)

# %%


def threaded(sch: tir.Schedule) -> None:
    """Panels in parallel."""
    sch.parallel(packed(sch))


climb("6 two threads", threaded, threads=2)

# %% [markdown]
# ## The picture
#
# We run the same rungs on a small problem in the interpreter: 12 x 8 times 8 x 32, vectors of 4 floats, tiles of 6 x 4
# vectors. We cut the run into windows of 1,536 multiplications, which is two tiles, and record which elements the
# second window touches (with a listener in [ladder.py](../ladder.py)). The data that a schedule touches in a window
# should be close to the core.


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
# Up to rung 2 a window reads all of B, and the next window reads it again. From rung 3 on, C is in registers, and is no
# longer counted. Rung 3 uses one band of A and two panels of B. Rung 4 uses both bands and one panel: if there were
# more bands of rows, the next window would use that panel again. In rung 5 the panel has moved into P.
#
# Here are two of the rungs as films, for an even smaller problem: 4 x 6 times 6 x 16, tiles of 2 x 2 vectors. A vector
# is one step. Look at C. On rung 2 the vectors of a row of C are read and written again and again, once for each r. On
# rung 3 four vectors of C stay in use until their sums are complete: they can be registers.

# %%
for title, steps in (("2 vectorise", small_vectors), ("3 register tile", lambda sch: in_registers(sch, (2, 2, 4)))):
    sch = tir.Schedule(example.blocks(4, 16, 6))
    steps(sch)
    film = Film.of(sch, buffers=["A", "B", "C"], title=title)
    print("the film:", save(f"rung_{title[0]}", film.svg()))

# %% [markdown]
# In the picture, elements that are touched early are dark, those touched late are light, and untouched elements are
# white.

# %%
picture = ladder_picture({**windows, "6 two threads": windows["5 pack"]}, rates, peak)
print("the picture:", picture.save("cpu_ladder"))

# %% [markdown]
# ## Three divisions
#
# Why is a tile of 1 x 2 registers slow, and one of 4 x 3 fast? Our model of a core has `ports` multiply-add units,
# `loads` load units, and a `latency` ([pipeline.py](../pipeline.py)). Here it simulates three steps of two tiles. Each
# group of characters is a cycle, and a digit is a multiply-add that starts in it; the digit is the number of its step:

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
# No tile does more than `ports` multiply-adds in a cycle, and three things can make it slower:
#
# - each register has to wait `latency` cycles for its last sum before the next step;
# - `ports` units have rows * vectors multiply-adds to do;
# - `loads` units have rows + vectors loads to do.
#
# The slowest of the three determines the time. Do you see the three divisions? (One of them is by 1.)
#
# ## Does the machine agree?
#
# Here is rung 5 once more, with tiles that are bad, average and good according to the model, which now has the numbers
# of this machine.

# %%
core = Core(cpu.vector_registers, cpu.fma_latency, cpu.fma_ports, loads=2)
print("  tile    model   measured")
for size in ((2, 1), (2, 2), (6, 1), TILE):
    found = rates["5 pack"] if size == TILE else rate_of(lambda sch, size=size: packed(sch, (*size, lanes)), rows=120)
    played_share = size[0] * size[1] / cycles_a_step(*size, core) / core.ports
    print(f"{size[0]:>4} x {size[1]} {played_share:>6.0%} {found / peak:>10.0%}")

# %% [markdown]
# The model has no caches, so its shares are higher than the measured ones, but it puts the tiles in about the right
# order. The difference comes from everything that the model ignores: the copies, the loop itself, memory, and other
# programs on your machine.
#
# ## The ledger
#
# The small example again, with a cache of 4096 bytes.

# %%
shown = ("0 three loops", "2 vectorise", "5 pack")
columns = {name: ledger.measure(kernels[name], *example.inputs(*SMALL), cache_lines=64) for name in shown}
ledger.show(columns)
assert len({column.operations["mul"] for column in columns.values()}) == 1

# %% [markdown]
# The multiplications are the same in every column. The last one is fast because it avoids loads and stores.
#
# ## Your turn
#
# Write the model with the three divisions, and let it choose the tile for any core. The check compares your numbers
# with a simulation of the core, and compares your tile with every other tile.
#
#     minitvm lesson 13 --start     (writes exercise_13.py, for you to fill in)
#     minitvm lesson 13 --check
