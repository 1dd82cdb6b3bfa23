# %% [markdown]
# # A cache model: know the misses before the machine does
#
# The ledger says how often memory is asked. How often is the answer near? A cache decides that by one number for each
# access: how many *other* lines were touched since this line was touched last. Today we take the trace of a program
# from the interpreter, compute that number, and can say for all caches at once how many misses there will be. Then we
# look at what a real cache does differently, and ask a real one.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import math
from collections import Counter
from collections.abc import Callable

import numpy as np

import minitvm
from lessons import example, ledger
from lessons.picture import Picture, save
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
# A cache fetches *lines* of 64 bytes. A listener writes down which line each load and store touches. An address is a
# number, so buffers need a place: one after the other, each at the beginning of a line. Registers have no address.

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
        """Give a buffer of so many bytes its address, when it is first seen."""
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
    """The lines that it touches; others may listen, too."""
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
# The *reuse distance* of an access is the number of different other lines that were touched since its own line was
# touched last; infinite when it never was. A cache of n lines that throws out what was not used for longest (LRU: least
# recently used) holds exactly the n lines that were touched last. So
#
# > **an access misses when its distance is n or more.**
#
# The distance is a property of the program; n is one of the cache. One pass over the trace answers for all sizes
# (Mattson and others, 1970).


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
    """The misses of a cache of so many lines."""
    return sum(count for distance, count in histogram.items() if distance >= lines)


def table(found: dict[str, Counter[float]], left: str) -> None:
    """Misses by the size of the cache."""
    print(f"{left:<16}", *(f"{lines * LINE / 1024:>7g} KB" for lines in SIZES))
    for name, histogram in found.items():
        print(f"{name:<16}", *(f"{misses(histogram, lines):>10,}" for lines in SIZES))


table(histograms, "loops")

# %% [markdown]
# Each row is a stair. Can we read it? In `i j r`, the inner loop walks down a column of B: 32 elements in 32 lines. The
# next column is in the same lines. If they are all still there, B is fetched once for each i; if they are not, each
# element is fetched anew. And if all of B is still there when i goes on, it is fetched once. In numbers:

# %%
B_LINES = N * N * 4 // LINE
stairs = {"once an element": N**3, "once for each i": N * B_LINES, "once": B_LINES}
least = misses(histograms["i j r"], 10**9)
print("B is fetched", stairs, f"; the lines that there are: {least}")
found = [misses(histograms["i j r"], lines) for lines in SIZES]
print("the stair of i j r:", found)
assert found[0] >= stairs["once an element"] > found[3] >= stairs["once for each i"] > found[-1]
assert found[-1] < stairs["once"] + 4 * B_LINES

# %% [markdown]
# A step of the stair is a *working set* that has found room: here a column with its company, then all of B. Programs
# are made faster in two ways: buy a larger cache, or make the working set smaller.
#
# ## Tiles
#
# Cut all three loops into pieces of t. A tile of A, one of B and one of C are the working set now.

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
# Two films, with a cache of 8 lines of 16 bytes. Green elements are in the cache, red ones were just fetched, and the
# red marks above the clock are all misses of the film. Without tiles, a column of B pushes out the lines that the next
# column needs. With tiles of 4, four lines of B stay green until the tile is done.

# %%
for title, steps in (("i j r, no tiles", ordered(*"ijr")), ("tiles of 4", tiled(4))):
    sch = tir.Schedule(example.blocks(2, 8, 8))
    steps(sch)
    film = Film.of(sch, cache_lines=8, buffers=["A", "B", "C"], title=title)
    print("the film:", save(title.replace(" ", "_").replace(",", ""), film.svg()))

# %% [markdown]
# Which tile is best? Its B has t rows, each of which is in one line; a row of A and one of C are in use as well. When
# these t + 2 lines fit, the tile of B is fetched once and used t times. **The best tile is the largest that fits.** And
# one that is too large is not a bit too slow: it falls down the stair.
#
# (Tiles are not good by themselves. The inner loop of `i r j` walks along the rows of B and of C, and this simple
# exchange does better than tiles that are too small or too large.)
#
# ## The picture
#
# Misses, from 100 up, over the size of the cache; both axes double from mark to mark.

# %%
COLOURS = ("#d95f02", "#1b9e77", "#a6cee3", "#1f78b4", "#08306b")


def draw(found: dict[str, Counter[float]]) -> Picture:
    """The stairs of all loops."""
    picture = Picture(720, 460)

    def at(lines: float, count: int) -> tuple[float, float]:
        return 60 + 50 * math.log2(lines), 420 - 36 * math.log2(max(count, 100) / 100)

    for k in range(10):
        x, _ = at(2**k, 100)
        picture.words(x, 440, f"{2**k * LINE / 1024:g}", 11, "middle")
        picture.line([(x, 420), (x, 60)], "#eeeeee", 1)
    for k in range(11):
        _, y = at(1, 100 * 2**k)
        picture.words(50, y + 4, f"{100 * 2**k:,}", 11, "end")
        picture.line([(60, y), (510, y)], "#eeeeee", 1)
    picture.words(300, 456, "KB of cache", 12, "middle")
    for row, (name, histogram) in enumerate(found.items()):
        picture.line([at(lines, misses(histogram, lines)) for lines in range(1, 513)], COLOURS[row])
        picture.box(540, 40 + 24 * row, 16, 10, COLOURS[row])
        picture.words(564, 50 + 24 * row, name, 13)
    return picture


print("the picture:", draw(histograms).save("cache_model"))

# %% [markdown]
# ## Sets and ways
#
# To look through all lines at each access would take too long. A real cache has *sets*, and a line may be in one of
# them only: set = number of the line % number of sets. A set has room for a few lines, its *ways*, and in each set it
# is LRU again. So a real cache is many small ones, each of which sees its own part of the trace.


# %%
def misses_in_sets(trace: list[int], lines: int, ways: int) -> int:
    """The misses of a cache of so many lines in sets of `ways`."""
    sets = lines // ways
    parts: dict[int, list[int]] = {}
    for line in trace:
        parts.setdefault(line % sets, []).append(line)
    return sum(distance >= ways for part in parts.values() for distance in distances(part))


CACHE = 32


def show_ways(name: str, trace: list[int]) -> None:
    """Misses of a trace in three caches of the same size."""
    found = {ways: misses_in_sets(trace, CACHE, ways) for ways in (CACHE, 2, 1)}
    print(f"{name:<18}", ", ".join(f"{ways:>2} ways {count:>6,}" for ways, count in found.items()))
    assert found[CACHE] < found[2] < found[1]


show_ways("tiles of 8", tile_traces["tiles of 8"])

# %% [markdown]
# The same size, the same lines, and yet more misses, the fewer ways there are. Ten lines would do for tiles of 8, and
# there are 32. But the rows of a tile are 128 bytes apart, every second line: half of the sets are not used at all, and
# in the others it is crowded. These are *conflicts*. Rows of 4096 bytes, as in lesson 13, would all meet in one set.
#
# The cure is the one of lesson 13: copy the tile together before it is used. Then its lines follow each other, and so
# do their sets.

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
# A packed tile is read many times from lines that are full and are in different sets; the scattered lines are touched
# once for each tile.
#
# ## Ask the machine
#
# Does *your* cache have sets? This program runs in circles: each element says where the next one is, so that no load
# can start before the one before has come back. All of it is waiting.


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
    """The time of a load, in a circle of so many lines, `step` bytes apart."""
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
# A handful of lines, a few hundred bytes that are used, in a cache of many thousands: and as soon as there is one line
# more than ways, they push each other out. (Lines that run in circles are the worst case for LRU; hardware that only
# comes close to LRU may lose less. And on a busy machine other programs use the cache as well.)
#
# ## The ledger
#
# Two of the programs again, with a cache of 2 KB. The row of bytes moved is what you can now compute yourself.

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
# The distance tells which accesses miss; a cache has to find out as it goes. Build one, with sets and ways, which also
# counts what it writes back to memory.
#
#     minitvm lesson 14 --start     (writes exercise_14.py, for you to fill in)
#     minitvm lesson 14 --check
