# %% [markdown]
# # A cache model: predict the misses
#
# The ledger counts how often a program accesses memory. But how often are the data already in the cache? One number
# decides whether an access finds its line in the cache: how many *other* lines were touched since this line was last
# touched. Today we record a *trace*, the list of all lines that a program touches. From the trace we compute this
# number for each access, and predict the misses of caches of all sizes at once. Then we look at how real caches differ
# from this simple model, and measure one.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import math
from collections import Counter
from collections.abc import Callable

import numpy as np

import minitvm
from lessons import drawings, example, ledger
from lessons.picture import save
from lessons.predict import predict
from minitvm import reference, tir
from minitvm.events import Access, Listener
from minitvm.film import Film
from minitvm.script import tir as T
from minitvm.target import Target
from minitvm.tir.nodes import IRModule

# %% [markdown]
# ## The trace
#
# A cache fetches *lines* of 64 bytes. Our listener records which line each load and store touches. To compute the line,
# it needs an address for each buffer, so we place the buffers one after another in memory, each at the beginning of a
# line. Registers have no address and are not recorded.

# %%
LINE = 64


class Tape(Listener):
    """The line of each access to memory, in order."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.lines: list[int] = []
        self.base: dict[str, int] = {}
        self.end = 0
        for name, size in sizes.items():
            self.place(name, size)

    def place(self, name: str, size: int) -> None:
        """Give a buffer of `size` bytes its address, at its first access."""
        if name not in self.base:
            self.base[name] = self.end
            self.end += -(-size // LINE) * LINE

    def allocate(self, buffer: str, scope: str, size: int) -> None:
        self.place(buffer, size)

    def load(self, access: Access) -> None:
        if access.scope == "global":
            self.lines.append((self.base[access.buffer] + access.offset * access.bytes) // LINE)

    store = load


N = 32  # rows and columns of each matrix: 4 KB, 64 lines
Steps = Callable[[tir.Schedule], object]


def kernel_of(steps: Steps) -> IRModule:
    """The example by a schedule, as a kernel."""
    sch = tir.Schedule(example.blocks(N, N, N))
    steps(sch)
    kernel: IRModule = minitvm.lower(sch.func, stop_at="kernel")["example"]
    return kernel


def trace_of(kernel: IRModule, *listeners: Listener) -> list[int]:
    """The lines that a kernel touches; other listeners may count as well."""
    args = example.inputs(N, N, N)
    tape = Tape(dict(zip(("A", "B", "bias", "Y"), (array.nbytes for array in args))))
    reference.tir.run(kernel, *args, listeners=[tape, *listeners], shadow=False)
    assert (args[-1] == example.expected(*args[:3])).all()
    return tape.lines


def ordered(*names: str) -> Steps:
    """A schedule that puts the three loops into an order."""

    def steps(sch: tir.Schedule) -> None:
        loops = dict(zip("ijr", sch.get_loops("C")))
        sch.reorder(*(loops[name] for name in names))

    return steps


traces = {" ".join(order): trace_of(kernel_of(ordered(*order))) for order in ("ijr", "irj")}
print("i j r touches the lines", *traces["i j r"][:16], "...")
print({name: f"{len(trace):,} accesses" for name, trace in traces.items()})

# %% [markdown]
# The first line of the output shows how the trace begins: line 0 holds the first 16 elements of A, and the lines 64,
# 66, 68 and so on hold the first elements of the rows of B.
#
# ## Distance
#
# The *reuse distance* of an access is the number of other lines that were touched since its own line was last touched,
# where a line that was touched several times counts only once. The distance is infinite if the line was never touched
# before. Now take a cache of n lines that always evicts the least recently used line (LRU). Such a cache holds exactly
# the n lines that were touched most recently. So
#
# > **an access misses when its distance is n or more.**
#
# The distance depends only on the program, and n depends only on the cache. So if you go through the trace once and
# note all distances, you can count the misses for every size of the cache (Mattson and others, 1970).


# %%
def distances(lines: list[int]) -> list[float]:
    """The reuse distance of each access."""
    latest: list[int] = []  # the lines, the one touched last in front
    seen: set[int] = set()
    found: list[float] = []
    for line in lines:
        distance: float = math.inf
        if line in seen:
            # What stands before a line in the list has been touched since.
            distance = latest.index(line)
            latest.remove(line)
        found.append(distance)
        seen.add(line)
        latest.insert(0, line)
    return found


predict(
    "A program touches the lines 7, 8, 7, 7, 9, 8, 7. How many other lines were touched since line 7 was used, "
    "at the last access?",
    int(distances([7, 8, 7, 7, 9, 8, 7])[-1]),
)
print(distances([7, 8, 7, 7, 9, 8, 7]))

# %%
histograms = {name: Counter(distances(trace)) for name, trace in traces.items()}
SIZES = (8, 16, 32, 64, 128, 256)


def misses(histogram: Counter[float], lines: int) -> int:
    """The misses of a cache of `lines` lines."""
    return sum(count for distance, count in histogram.items() if distance >= lines)


def table(found: dict[str, Counter[float]], left: str) -> None:
    """Misses by the size of the cache."""
    print(f"{left:<16}", *(f"{lines * LINE / 1024:>7g} KB" for lines in SIZES))
    for name, histogram in found.items():
        print(f"{name:<16}", *(f"{misses(histogram, lines):>10,}" for lines in SIZES))


table(histograms, "loops")

# %% [markdown]
# Read the row `i j r` from left to right. The misses hardly change from column to column, and then they fall suddenly,
# to 2,306 at 4 KB and to 322 at 8 KB, like a staircase. Can we explain the steps of this staircase? The inner loop of
# `i j r` reads a column of B, which is 32 elements in 32 different lines. The next column is in the same lines. There
# are three cases:
#
# - if the lines of the column have left the cache before the next column needs them, a line is fetched for each
#   element;
# - if these lines are still in the cache, but not all of B, then B is fetched once for each i;
# - if all of B is still in the cache for the next i, B is fetched only once.
#
# Here are the numbers of lines for the three cases:

# %%
B_LINES = N * N * 4 // LINE
stairs = {"once per element": N**3, "once per i": N * B_LINES, "once": B_LINES}
least = misses(histograms["i j r"], 10**9)
print("lines of B that are fetched:", stairs, f"; lines of all buffers: {least}")
found = [misses(histograms["i j r"], lines) for lines in SIZES]
print("the misses of i j r:", found)
assert found[0] >= stairs["once per element"] > found[3] >= stairs["once per i"] > found[-1]
assert found[-1] < stairs["once"] + 4 * B_LINES

# %% [markdown]
# The misses of `i j r` are near 32,768 for the small caches, near 2,048 at 4 KB, and near the minimum of 258 for the
# large caches. So each step of the staircase is one of our three cases. At each step, a *working set*, the data that
# are used again and again, begins to fit into the cache. The first working set that fits is a column of B together with
# the other lines in use, and the second is all of B. You can reduce the misses in two ways: buy a larger cache, or make
# the working set smaller.
#
# ## Tiles
#
# To make the working set smaller, we cut all three loops into pieces of t. Now the working set is a tile of A, a tile
# of B and a tile of C, each of t x t elements.

# %%


def tiled(t: int) -> Steps:
    """Tiles of t x t x t."""

    def steps(sch: tir.Schedule) -> None:
        outer, inner = zip(*(sch.split(loop, factors=[None, t]) for loop in sch.get_loops("C")))
        sch.reorder(*outer, *inner)

    return steps


TILES = (4, 8, 16)
kernels = {t: kernel_of(tiled(t)) for t in TILES}
tile_traces = {f"tiles of {t}": trace_of(kernel) for t, kernel in kernels.items()}
histograms |= {name: Counter(distances(trace)) for name, trace in tile_traces.items()}
table(histograms, "loops")
for lines in (8, 16, 32):
    best = min((name for name in histograms if "tiles" in name), key=lambda name: misses(histograms[name], lines))
    largest = max(t for t in TILES if t + 2 <= lines)
    print(f"{lines:>3} lines: best are {best}; {largest} + 2 lines fit")
    assert best == f"tiles of {largest}"

# %% [markdown]
# Look down the column of 1 KB. The order `i j r` has 35,970 misses, and tiles of 8 have only 1,770. But tiles of 16
# have 35,262, because they are too large for this cache. The last three lines name the best tile for three sizes of the
# cache.
#
# Here are two films, with a cache of 8 lines of 16 bytes. Green elements are in the cache, and red elements were just
# fetched. The red marks above the clock show all misses of the film. Without tiles, a column of B pushes out the lines
# that the next column needs. With tiles of 4, four lines of B stay green until the tile is done.

# %%
for title, steps in (("i j r, no tiles", ordered(*"ijr")), ("tiles of 4", tiled(4))):
    sch = tir.Schedule(example.blocks(2, 8, 8))
    steps(sch)
    film = Film.of(sch, cache_lines=8, buffers=["A", "B", "C"], title=title)
    print("the film:", save(title.replace(" ", "_").replace(",", ""), film.svg()))

# %% [markdown]
# Which tile is best? A tile of B has t rows, and each row is in one line. A row of A and a row of C are in use as well.
# If these t + 2 lines fit into the cache, the tile of B is fetched once and used t times. **The best tile is the
# largest that fits.** A tile that is too large is not just a little slower: its misses jump up to the next step of the
# staircase, as they did for tiles of 16 at 1 KB.
#
# (Tiles do not always help. The inner loop of `i r j` reads along the rows of B and C, and this order has only 2,306
# misses at 1 KB. Tiles of 4, which are too small, have 2,754 misses, and tiles of 16, which are too large, have
# 35,262.)
#
# ## The picture
#
# The picture shows the misses for each size of the cache as a curve. The vertical axis begins at 100 misses, and the
# numbers on both axes double from mark to mark.

# %%
stairs_of_misses = {
    name: [
        (math.log2(lines) / 9, math.log2(max(misses(histogram, lines), 100) / 100) / 10) for lines in range(1, 513)
    ]
    for name, histogram in histograms.items()
}  # fmt: skip
picture = drawings.curves(
    stairs_of_misses,
    across={k / 9: f"{2**k * LINE / 1024:g}" for k in range(10)},
    up={k / 10: f"{100 * 2**k:,}" for k in range(11)},
    title="misses",
    below="KB of cache",
)
print("the picture:", picture.save("cache_model"))

# %% [markdown]
# ## Sets and ways
#
# A real cache has no time to search all of its lines at each access. So the cache is divided into *sets*, and each line
# may be stored in only one set: set = number of the line % number of sets. A set has room for a few lines. The number
# of lines in a set is called the *ways* of the cache. When a set is full, it evicts its least recently used line. So a
# real cache behaves like many small caches, each of which sees its own part of the trace.


# %%
def misses_in_sets(trace: list[int], lines: int, ways: int) -> int:
    """The misses of a cache of `lines` lines in sets of `ways`."""
    sets = lines // ways
    parts: dict[int, list[int]] = {}
    for line in trace:
        parts.setdefault(line % sets, []).append(line)
    return sum(distance >= ways for part in parts.values() for distance in distances(part))


CACHE = 32


def show_ways(name: str, trace: list[int]) -> None:
    """Misses of a trace in three caches of the same size."""
    found = {ways: misses_in_sets(trace, CACHE, ways) for ways in (CACHE, 2, 1)}
    print(f"{name:<18}", ", ".join(f"{ways:>2}-way {count:>6,}" for ways, count in found.items()))
    assert found[CACHE] < found[2] < found[1]


show_ways("tiles of 8", tile_traces["tiles of 8"])

# %% [markdown]
# All three caches have 32 lines, but the misses grow from 962 with 32 ways to 9,754 with 1 way. Tiles of 8 need only
# ten lines, so why do these lines not fit? The rows of a tile are 128 bytes apart, so they use only every second line.
# A tile never uses half of the sets, and the other half does not have enough ways. Misses that happen although the
# cache is large enough are called *conflicts*. If the rows are 4096 bytes apart, as in lesson 15, the lines of a column
# are even all in the same set.
#
# The solution is the same as in lesson 15: copy the tile into consecutive memory before you use it. Then the lines of
# the copy follow each other in memory, so they are in different sets.

# %%


def packed(t: int) -> Steps:
    """Tiles of t x t x t; the tiles of A and B are copied into buffers of their own."""

    def steps(sch: tir.Schedule) -> None:
        tiled(t)(sch)
        where = sch.get_loops("C")[2]
        for read in (0, 1):
            sch.compute_at(sch.cache_read("C", read, "global"), where)

    return steps


show_ways("packed tiles of 8", trace_of(kernel_of(packed(8))))

# %% [markdown]
# With 1 way, packing has reduced the misses from 9,754 to 3,372. A packed tile is read many times, and its lines are in
# different sets. The scattered lines of the matrix are touched only once for each tile, to make the copy.
#
# ## Measure your cache
#
# Does *your* cache have sets? The next program follows a circle of indices: each element contains the index of the next
# element. So no load can start before the previous load has returned, and the time of the program shows how long a load
# takes.


# %%
@T.prim_func
def circle(X: T.Buffer((1 << 16,), "int32"), last: T.Buffer((1,), "int32")):
    place = T.alloc_buffer((1,), "int32", scope="local")
    place[0] = 0
    for _again in range(20000):
        T.assume((place[0] >= 0) & (place[0] < 1 << 16))  # no kernel is built that may read outside of X
        place[0] = X[place[0]]
    last[0] = place[0]


l1 = Target("cpu").description.l1
l1_sets = l1.size // l1.ways // l1.line
run_circle = minitvm.build(circle, threads=1)


def nanoseconds(lines: int, step: int) -> float:
    """The time of a load, in a circle of `lines` lines that are `step` bytes apart."""
    x, last = np.zeros(1 << 16, "int32"), np.zeros(1, "int32")
    places = np.arange(lines) * step // 4
    x[places] = np.roll(places, -1)
    run_circle(x, last)
    return ledger.best_of(25, lambda: run_circle(x, last)) / 20000 * 1e9


def predicted(lines: int, step: int) -> float:
    """The share of loads that miss in an L1 cache of this kind, once the circle is warm."""
    round_trip = [number * step // l1.line for number in range(lines)]
    parts: dict[int, list[int]] = {}
    for line in round_trip * 3:
        parts.setdefault(line % l1_sets, []).append(line)
    warm = [distance for part in parts.values() for distance in distances(part)[len(part) * 2 // 3 :]]
    return sum(distance >= l1.ways for distance in warm) / len(warm)


crowded, spread = l1_sets * l1.line, l1_sets * l1.line + l1.line
print(f"L1: {l1.size / 1024:g} KB, {l1.ways} ways, {l1_sets} sets")
print(f"{'lines':>5} | {spread} bytes apart: misses, ns | {crowded} bytes apart: misses, ns")
for lines in sorted({1, l1.ways // 2 + 1, max(1, l1.ways - 1), l1.ways + 1, l1.ways + 2}):
    if lines * spread <= 4 << 16:
        row = [(predicted(lines, step), nanoseconds(lines, step)) for step in (spread, crowded)]
        print(f"{lines:>5} | {row[0][0]:>21.0%} {row[0][1]:>8.2f} | {row[1][0]:>21.0%} {row[1][1]:>8.2f}")

# %% [markdown]
# Compare the two halves of the table. In the left half, the lines fall into different sets, and a load takes about the
# same time in all rows. In the right half, all lines are in the same set. As soon as there are more lines than ways,
# they evict each other, and a load takes longer, although the cache has room for hundreds of lines. (Your times may be
# less clear than the prediction. A circle is the worst case for LRU, and many processors only approximate LRU. Other
# programs on your machine use the cache as well.)
#
# ## The ledger
#
# Here are two of the programs again, with a cache of 2 KB. You can now compute the row *bytes moved by a cache*
# yourself: it is 64 times the number of misses at 2 KB. For example, 33,986 * 64 is 2,175,104.

# %%
columns = {}
for name, kernel in (("i j r", kernel_of(ordered(*"ijr"))), ("tiles of 8", kernels[8])):
    counted = ledger.LessonLedger(cache_lines=CACHE)
    trace_of(kernel, counted)
    columns[name] = {row: text for row, text in counted.lesson_rows().items() if "time" not in row}
    assert counted.lines_fetched == misses(histograms[name], CACHE)
ledger.show(columns)

# %% [markdown]
# Tiles of 8 need more loads and stores than `i j r`, because C is loaded and stored again for each piece of r. But the
# cache moves only 61,568 bytes instead of 2,175,104.
#
# ## Your turn
#
# The distance tells you which accesses miss. But a real cache does not compute distances; it keeps some lines and
# evicts others. Build such a cache, with sets and ways. Your cache also counts the lines that it has to write back to
# memory because a store has changed them.
#
#     minitvm lesson 16 --start     (writes exercise_16.py, for you to fill in)
#     minitvm lesson 16 --check
