# %% [markdown]
# # A cache model: predict the misses
#
# The ledger counts how often a program accesses memory. How often are the data already in the cache? One number for
# each access decides that: how many *other* lines were touched since this line was last touched. Today we record the
# trace of a program in the interpreter, compute that number, and predict the misses of caches of all sizes at once.
# Then we look at the differences of real caches, and measure one.

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
# A cache fetches *lines* of 64 bytes. A listener records which line each load and store touches. Each buffer needs an
# address: we place the buffers one after the other, each at the beginning of a line. Registers have no address.

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
    """The three loops in an order."""

    def steps(sch: tir.Schedule) -> None:
        loops = dict(zip("ijr", sch.get_loops("C")))
        sch.reorder(*(loops[name] for name in names))

    return steps


traces = {" ".join(order): trace_of(kernel_of(ordered(*order))) for order in ("ijr", "irj")}
print("i j r touches the lines", *traces["i j r"][:16], "...")
print({name: f"{len(trace):,} accesses" for name, trace in traces.items()})

# %% [markdown]
# ## Distance
#
# The *reuse distance* of an access is the number of distinct other lines that were touched since its own line was
# last touched. It is infinite if the line was never touched before. A cache of n lines that always evicts the least
# recently used one (LRU) holds exactly the n lines that were touched most recently. So
#
# > **an access misses when its distance is n or more.**
#
# The distance is a property of the program, and n is a property of the cache. So one pass over the trace gives the
# misses for all sizes (Mattson and others, 1970).


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
# Each row is a staircase. Can we explain its steps? In `i j r`, the inner loop reads a column of B: 32 elements in 32
# lines. The next column is in the same lines. If they are all still in the cache, B is fetched once for each i; if they
# are not, each element is fetched again. And if all of B is still in the cache for the next i, it is fetched only once.
# In numbers:

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
# At each step of the staircase, a *working set* begins to fit: here first a column of B with the other lines in use,
# then all of B. You can reduce the misses in two ways: buy a larger cache, or make the working set smaller.
#
# ## Tiles
#
# We cut all three loops into pieces of t. Now the working set is a tile of A, one of B and one of C.

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
# Here are two films, with a cache of 8 lines of 16 bytes. Green elements are in the cache, red ones were just fetched,
# and the red marks above the clock are all misses of the film. Without tiles, a column of B pushes out the lines that
# the next column needs. With tiles of 4, four lines of B stay green until the tile is done.

# %%
for title, steps in (("i j r, no tiles", ordered(*"ijr")), ("tiles of 4", tiled(4))):
    sch = tir.Schedule(example.blocks(2, 8, 8))
    steps(sch)
    film = Film.of(sch, cache_lines=8, buffers=["A", "B", "C"], title=title)
    print("the film:", save(title.replace(" ", "_").replace(",", ""), film.svg()))

# %% [markdown]
# Which tile is best? A tile of B has t rows, each of which is in one line; a row of A and a row of C are in use as
# well. If these t + 2 lines fit, the tile of B is fetched once and used t times. **The best tile is the largest that
# fits.** A tile that is too large is not just a little slower: its misses jump to the next step of the staircase.
#
# (Tiles do not always help. The inner loop of `i r j` reads along the rows of B and of C, and this simple exchange is
# better than tiles that are too small or too large.)
#
# ## The picture
#
# The picture shows the misses (100 and more) for each size of the cache; both axes double from mark to mark.

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
# A real cache has no time to search all its lines at each access. So it has *sets*, and a line may be stored only in
# one of them: set = number of the line % number of sets. A set has room for a few lines, its *ways*, and evicts the
# least recently used of them. So a real cache consists of many small caches, each of which sees its own part of the
# trace.


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
# With the same size and the same lines, fewer ways mean more misses. Tiles of 8 need only ten lines, and there are 32.
# But the rows of a tile are 128 bytes apart, so they use every second line: half of the sets are not used at all, and
# the others do not have enough ways. The misses that this causes are *conflicts*. Rows of 4096 bytes, as in lesson 13,
# would all be in the same set.
#
# The solution is the same as in lesson 13: copy the tile into consecutive memory before you use it. Then its lines are
# adjacent, and so are their sets.

# %%


def packed(t: int) -> Steps:
    """Tiles, those of A and B copied to places of their own."""

    def steps(sch: tir.Schedule) -> None:
        tiled(t)(sch)
        where = sch.get_loops("C")[2]
        for read in (0, 1):
            sch.compute_at(sch.cache_read("C", read, "global"), where)

    return steps


show_ways("packed tiles of 8", trace_of(kernel_of(packed(8))))

# %% [markdown]
# A packed tile is read many times, from full lines in different sets; the scattered lines are touched only once for
# each tile.
#
# ## Measure your cache
#
# Does *your* cache have sets? This program follows a circle: each element contains the index of the next one, so that
# no load can start before the previous one has returned. So the program only measures how long a load takes.


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
# The program uses only a few lines, and the cache has room for hundreds. But as soon as there is one line more than
# ways, the lines evict each other. (A circle is the worst case for LRU; hardware that only approximates LRU may have
# fewer misses. And on a busy machine other programs use the cache as well.)
#
# ## The ledger
#
# Here are two of the programs again, with a cache of 2 KB. You can now compute the row of bytes moved yourself.

# %%
columns = {}
for name, kernel in (("i j r", kernel_of(ordered(*"ijr"))), ("tiles of 8", kernels[8])):
    counted = ledger.LessonLedger(cache_lines=CACHE)
    trace_of(kernel, counted)
    columns[name] = {row: text for row, text in counted.lesson_rows().items() if "time" not in row}
    assert counted.lines_fetched == misses(histograms[name], CACHE)
ledger.show(columns)

# %% [markdown]
# ## Your turn
#
# The distance tells you which accesses miss. A cache does not compute distances; it keeps lines and evicts them. Build
# one, with sets and ways, which also counts the lines that it writes back to memory.
#
#     minitvm lesson 14 --start     (writes exercise_14.py, for you to fill in)
#     minitvm lesson 14 --check
