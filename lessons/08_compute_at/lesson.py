# %% [markdown]
# # Where to compute: work, memory and distance
#
# Suppose that one stage of a program computes values, and the next stage uses each of them several times. If you
# compute all values first, you have to store them, and when they are needed they may have left the cache. If you
# compute each value where it is needed, some values are computed several times. You cannot have little work, little
# memory and few cache misses all at once. Today we count the cost of each choice. In the exercise you answer the
# question that a compiler must answer before it can choose: which values does each part of a program need?

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

import minitvm
from lessons import example, ledger, picture
from lessons.predict import predict
from lessons.text import body_of
from minitvm import reference, tir
from minitvm.errors import ScheduleError
from minitvm.events import Access
from minitvm.film import Film
from minitvm.script import tir as T
from minitvm.tir.nodes import IRModule, PrimFunc

# %% [markdown]
# ## Two stages
#
# We smooth a small picture X. The first stage smooths X along its rows with the weights 1, 2, 1, and stores the result
# in H. The second stage adds three neighbouring rows of H and stores the result in Y.


# %%
def smooth(n: int) -> PrimFunc:
    """H = X smoothed along the rows; Y = the sums of three rows of H."""

    @T.prim_func
    def smooth(X: T.Buffer((n + 2, n + 2), "float32"), Y: T.Buffer((n, n), "float32")):
        H = T.alloc_buffer((n + 2, n), "float32")
        for y, x in T.grid(n + 2, n):
            with T.block("H"):
                vy, vx = T.axis.remap("SS", [y, x])
                H[vy, vx] = X[vy, vx] + X[vy, vx + 1] * T.float32(2) + X[vy, vx + 2]
        for y, x in T.grid(n, n):
            with T.block("Y"):
                vy, vx = T.axis.remap("SS", [y, x])
                Y[vy, vx] = H[vy, vx] + H[vy + 1, vx] + H[vy + 2, vx]

    return smooth


def kernel_of(func: PrimFunc) -> IRModule:
    """The function lowered to a kernel."""
    return minitvm.lower(func, stop_at="kernel")[func.name]


N = 32
program = smooth(N)
print(body_of(program))

# %% [markdown]
# The first nest of loops computes H, and the second computes Y. H has 34 rows, two more than Y, because row 31 of Y
# reads the rows 31, 32 and 33 of H.
#
# ## The counts
#
# How can we count the work? Computing an element of H takes one multiply, and computing an element of Y takes none. So
# the number of multiplies tells us how many elements of H were computed. The interpreter also reports every buffer that
# is allocated or freed, so we can find the largest number of bytes that were in use at one time (*bytes live* below).
# We count the operations of the kernel, because in the kernel minitvm has already made each buffer as small as
# possible. Today local buffers count as memory, because nearly all of them are too large for registers.


# %%
@dataclass
class Costs(ledger.LessonLedger):
    """Counts what a schedule of `smooth` costs."""

    def load(self, access: Access) -> None:
        ledger.LessonLedger.load(self, replace(access, scope="global"))

    def store(self, access: Access) -> None:
        ledger.LessonLedger.store(self, replace(access, scope="global"))

    @property
    def computed(self) -> int:
        """How many times an element of H was computed."""
        return self.operations["mul"]


def costs(func: PrimFunc) -> Costs:
    """The costs of a schedule of `smooth`, after a check that the result is still the same."""
    kernel = kernel_of(func)
    assert reference.check(program, kernel, modes=("exact", "shadow"))
    counted = Costs()
    x = np.random.default_rng(8).integers(-3, 4, (N + 2, N + 2)).astype("float32")
    reference.tir.run(kernel, x, np.zeros((N, N), "float32"), listeners=[counted])
    return counted


ELEMENTS = (N + 2) * N  # of H
all_first = costs(program)
assert all_first.computed == ELEMENTS
print(f"H has {ELEMENTS:,} elements; computed: {all_first.computed:,}; bytes live: {all_first.peak_bytes:,}")

# %% [markdown]
# Both counts are 1,088, so each element of H is computed exactly once. But 4,352 bytes are live, which is all of H
# (1,088 elements of 4 bytes). This choice is called *compute_root*. The name, like several others in this lesson, comes
# from the compiler Halide.
#
# ## compute_at
#
# Row y of the result needs only three rows of H. The step `compute_at` moves the block of H (the *producer*) into a
# loop of the block that uses it (the *consumer*). It makes new loops around the block, which run over exactly the
# elements that one iteration of the consumer reads:

# %%


def scheduled(steps: Callable[[tir.Schedule], object], n: int = N) -> PrimFunc:
    """The two stages after some steps of a schedule."""
    sch = tir.Schedule(smooth(n))
    steps(sch)
    return sch.func


def at_y(sch: tir.Schedule) -> None:
    """Computes H inside the loop over the rows of Y."""
    y, _ = sch.get_loops("Y")
    sch.compute_at("H", y)


print(body_of(scheduled(at_y)))

# %% [markdown]
# Where does the 3 in `T.grid(3, 32)` come from? Iteration y reads the rows y, y + 1 and y + 2 of H. These rows form a
# *window*, which moves one row down in each iteration. So two of the three rows in a window were already computed in
# earlier iterations, and now they are computed again.
#
# In the kernel, H is only as large as the window, 3 * 32 = 96 elements:

# %%
print(body_of(kernel_of(scheduled(at_y))))
run_costs = costs(scheduled(at_y))
predict(
    "Each of the 32 windows has 3 rows, and H has 34 rows. How often is a row of H computed, on average?",
    run_costs.computed / ELEMENTS,
)
print(f"computed: {run_costs.computed:,}, each element {run_costs.computed / ELEMENTS:.2f} times", end="; ")
print(f"live: {run_costs.peak_bytes:,}")

# %% [markdown]
# The memory has fallen from 4,352 bytes to 384. The price is work: 3,072 elements were computed, although H has only
# 1,088, so each element was computed 2.82 times on average. (The average is not exactly 3 because the first and last
# rows of H are in fewer windows.)
#
# Larger tiles repeat less work. If Y is computed in tiles of t rows, each tile needs a window of t + 2 rows of H, and
# only two of these rows are computed again for the next tile. So the number of computed elements is tiles * window *
# columns. We check this formula against the count:


# %%
def at_tiles(rows: int) -> Callable[[tir.Schedule], None]:
    """A schedule that computes H for `rows` rows of Y at a time."""

    def steps(sch: tir.Schedule) -> None:
        y, _ = sch.get_loops("Y")
        y_0, _ = sch.split(y, factors=[None, rows])
        sch.compute_at("H", y_0)

    return steps


print("rows   window   computed   tiles * window * columns")
for rows in (1, 2, 4, 8, 16, 32):
    counted = costs(scheduled(at_tiles(rows)))
    formula = N // rows * (rows + 2) * N
    print(f"{rows:>4} {rows + 2:>8} {counted.computed:>10,} {formula:>14,}")
    assert counted.computed == formula

# %% [markdown]
# The last two columns agree in each line. With one row for each tile, 3,072 elements are computed; with all 32 rows in
# one tile, only 1,088.
#
# You can also go in the other direction. If H is computed inside the loop over `x`, only three *elements* of H are in
# memory at a time. In the extreme case there is no buffer H any more: `compute_inline` replaces each read of H by the
# formula of that element:

# %%


def at_x(sch: tir.Schedule) -> None:
    """Computes H inside both loops of Y."""
    sch.compute_at("H", sch.get_loops("Y")[1])


def inline(sch: tir.Schedule) -> None:
    """Replaces each read of H by its formula."""
    sch.compute_inline("H")


print(body_of(kernel_of(scheduled(inline))).replace(" + (", "\n            + ("))

# %% [markdown]
# This kernel has no buffer H. For each element of Y it computes three elements of H from X, so the multiplication by 2
# appears three times.
#
# ## rolling_buffer: keep the rows that you have
#
# Two rows of each window were computed in the previous iteration. Why not keep them? The step `rolling_buffer` computes
# only the new rows. It stores H in a ring of three rows: row vy is stored at index vy % 3, where it overwrites the row
# that is no longer needed.

# %%


def rolling(sch: tir.Schedule) -> None:
    """Computes H inside the loop over the rows of Y, in a ring."""
    at_y(sch)
    sch.rolling_buffer("H", 0)


print(body_of(scheduled(rolling)))

# %% [markdown]
# Look at the condition `T.where(y < 1 or 2 <= ax0)`. In the first iteration (y < 1) all three rows of the window are
# computed. In later iterations only the last row (ax0 = 2) is computed, because the other two are still in the ring.
#
# Here are three films, for a small picture. Watch when elements of H turn orange, which means that they are written. In
# the first film, all of H is written before Y begins. In the second film, three rows of H are written for each row of
# Y, although two of them were computed before. In the third film, H has only three rows, and one new row is written for
# each row of Y.

# %%
for name, steps in {"compute_root": lambda sch: None, "at_y": at_y, "rolling": rolling}.items():
    print("the film:", picture.save(f"smooth_{name}", Film.of(scheduled(steps, 4), title=name.replace("_", " ")).svg()))

# %% [markdown]
# ## The triangle
#
# Now we compare all choices in one table. Its columns are:
#
# - *work*: how many times each element of H was computed, on average;
# - *again*: how many computations repeated an earlier one;
# - *memory*: the largest number of bytes of H that were in use at one time;
# - *distance*: the number of bytes that our toy cache of 1024 bytes had to fetch. This number grows if values are used
#   long after they were computed;
# - *parallel*: whether the loop over the rows of Y may be parallel.


# %%
def runs_in_parallel(func: PrimFunc) -> bool:
    """Whether the outermost loop around Y may be parallel."""
    sch = tir.Schedule(func)
    try:
        sch.parallel(sch.get_loops("Y")[0])
    except ScheduleError:
        return False
    return True


choices = {
    "compute_root": lambda sch: None,
    "at tiles of 8 rows": at_tiles(8),
    "at tiles of 2 rows": at_tiles(2),
    "at y": at_y,
    "at x": at_x,
    "inline": inline,
    "rolling, at y": rolling,
}
table = {name: costs(scheduled(steps)) for name, steps in choices.items()}
print(f"{'H is computed':<20} {'work':>6} {'again':>7} {'loads':>8} {'memory':>7} {'distance':>9}   parallel")
for name, cost in table.items():
    print(
        f"{name:<20} {cost.computed / ELEMENTS:>6.2f} {cost.computed - ELEMENTS:>7,} {sum(cost.loads.values()):>8,}"
        f" {cost.peak_bytes:>7,} {cost.lines_fetched * ledger.LINE:>9,}   "
        f"{'yes' if runs_in_parallel(scheduled(choices[name])) else 'no'}"
    )
print(f"X and Y together have {4 * ((N + 2) ** 2 + N**2):,} bytes")

# %% [markdown]
# Look at the first six lines, from top to bottom. The memory shrinks from 4,352 bytes to 0, and the work grows from 1
# to 2.82. The distance is not so simple. For tiles of 8 rows the distance is 19,968, more than for compute_root. The
# window of such a tile has 10 rows, which do not fit into the cache. So each row of H has left the cache before it is
# used, and the tiles have only added repeated work. For the line *at y* the distance is 9,152, which is only a little
# more than the size of X and Y together. A window of 3 rows fits into the cache together with the rows of X and Y that
# are in use, so H is never fetched from memory.
#
# The line *rolling, at y* seems to be among the best in every column of numbers. What is its price? Each iteration now
# needs rows that the previous iteration computed, so the last column says *no*:

# %%
assert table["rolling, at y"].computed == ELEMENTS
fetched = {name: cost.lines_fetched for name, cost in table.items()}
assert fetched["rolling, at y"] <= fetched["at y"] < fetched["compute_root"] < fetched["at tiles of 8 rows"]
sch = tir.Schedule(scheduled(rolling))
try:
    sch.parallel(sch.get_loops("Y")[0])
except ScheduleError as error:
    print(str(error).splitlines()[0].split("  ")[0])
    print("\n".join(str(error).splitlines()[-2:]))

# %% [markdown]
# The error says that the iterator `vy` is *opaque*, which means that the order of its values matters. A parallel loop
# would not keep that order. The line *at y* of the table has a *no* as well, for another reason: H is one buffer for
# all iterations, and two iterations whose windows overlap write the same row of H. They write the same values, but this
# is still a race. With compute_root and inline, an iteration over the rows of Y writes only its own row of Y. So
# besides work, memory and distance there is a fourth cost to weigh: whether the loop can be parallel.
#
# ## The measured time
#
# Here are the times for a picture of 1024 x 1024, compiled, on one thread:


# %%
def compiled(steps: Callable[[tir.Schedule], object], n: int = 1024) -> str:
    """The time of a large picture, smoothed with one of the schedules."""
    x = np.random.default_rng(8).integers(-3, 4, (n + 2, n + 2)).astype("float32")
    h = x[:, :-2] + 2 * x[:, 1:-1] + x[:, 2:]
    y = np.zeros((n, n), "float32")
    return ledger.time_compiled(scheduled(steps, n), (x, y), lambda x: h[:-2] + h[1:-1] + h[2:])


for name in ("compute_root", "at y", "inline", "rolling, at y"):
    print(f"{name:<14} {compiled(choices[name]):>9}")

# %% [markdown]
# Compare *inline*, which does the most work, with *compute_root*, which does the least. On most machines *inline* is
# faster. Repeating one multiply and two additions is cheap, while fetching a number from memory may cost as much as
# dozens of multiplies and additions. So the choice with the most work need not be the slowest. But if each element of H
# needed a whole sum of products, it would make no sense to compute it three times.
#
# ## The ledger
#
# Our usual example has two blocks as well: the product C, and Y = relu(C + bias). Each element of C is read only once.
# So no windows overlap, and `compute_at` never computes an element twice here. In the first column of the ledger, C is
# computed before Y. In the second column, C is computed inside the loop `i` of Y. In the last column, C is computed
# inside the tile loops of lesson 07, one tile at a time, so that a tile of C fits into registers.


# %%
def with_product(at: str) -> PrimFunc:
    """The example with C computed in one of three places."""
    sch = tir.Schedule(example.blocks(N, N, N))
    i, j = sch.get_loops("Y")
    if at == "at i":
        sch.compute_at("C", i)
    if at == "at tiles":
        i_0, i_1 = sch.split(i, factors=[None, 4])
        j_0, j_1 = sch.split(j, factors=[None, 16])
        sch.reorder(i_0, j_0, i_1, j_1)
        sch.compute_at("C", j_0)
        *_, c_i, c_j, r = sch.get_loops("C")
        sch.reorder(r, c_i, c_j)
        for rows, columns in ((c_i, c_j), (i_1, j_1)):
            sch.unroll(rows)
            sch.vectorize(columns)
    return sch.func


inputs = example.inputs(N, N, N)
columns = {}
for at in ("at root", "at i", "at tiles"):
    kernel = kernel_of(with_product(at))
    assert reference.check(example.blocks(N, N, N), kernel, modes=("exact", "shadow"))
    counted = ledger.measure(kernel, *inputs)
    columns[at] = {**counted.lesson_rows(), "bytes live, registers too": f"{counted.peak_bytes:,}"}
ledger.show(columns)

# %% [markdown]
# This ledger again leaves out loads and stores of local buffers. In the last column the loads fall to 10,496, and the
# stores are 1,024, one for each element of Y. C is never in memory at all: the sums are computed in registers, the bias
# is added there, and only Y is stored. If a tile is finished while it is still in registers, the two blocks are
# *fused*. Fusion is the most common optimisation in compilers for neural networks.
#
# ## Your turn
#
# Compute which rows of H a tile of Y needs, and which of these rows no earlier tile has computed.
#
#     minitvm lesson 08 --start     (writes exercise_08.py, for you to fill in)
#     minitvm lesson 08 --check
