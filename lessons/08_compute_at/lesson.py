# %% [markdown]
# # Where to compute: work against memory
#
# Suppose that one stage of a program computes values, and the next stage uses each of them several times. If you
# compute all values first, you have to store all of them. If you compute each value where it is needed, you store few
# of them, but some values are computed several times. Today we count the work and the memory of each choice. In the
# exercise you answer the question that a compiler must answer before it can choose: which values does each part of a
# program need?

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
# Here are two films, for a small picture. Watch when elements of H turn orange, which means that they are written. In
# the first film, all of H is written before Y begins. In the second film, three rows of H are written for each row of
# Y, although two of them were computed before.

# %%
for name, steps in {"compute_root": lambda sch: None, "at_y": at_y}.items():
    print("the film:", picture.save(f"smooth_{name}", Film.of(scheduled(steps, 4), title=name.replace("_", " ")).svg()))

# %% [markdown]
# ## Work and memory
#
# Now we compare all choices in one table. The column *work* shows how many times each element of H was computed, on
# average. The column *memory* shows the largest number of bytes of H that were in use at one time.

# %%
choices = {
    "compute_root": lambda sch: None,
    "at tiles of 8 rows": at_tiles(8),
    "at tiles of 2 rows": at_tiles(2),
    "at y": at_y,
    "at x": at_x,
    "inline": inline,
}
print(f"{'H is computed':<20} {'work':>6} {'memory':>7}")
for name, steps in choices.items():
    cost = costs(scheduled(steps))
    print(f"{name:<20} {cost.computed / ELEMENTS:>6.2f} {cost.peak_bytes:>7,}")

# %% [markdown]
# From top to bottom, the memory shrinks from 4,352 bytes to 0, and the work grows from 1 to 2.82. No line is the best
# in both columns, so the choice depends on the program. Computing an element of H again takes one multiply and two
# additions, which is cheap. But if each element of H needed a whole sum of products, it would make no sense to compute
# it three times. In the next lesson a window keeps the rows that it already has, and computes no element twice.
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
# Compute which rows of H a tile of Y needs, and how many rows all tiles compute together.
#
#     minitvm lesson 08 --start     (writes exercise_08.py, for you to fill in)
#     minitvm lesson 08 --check
