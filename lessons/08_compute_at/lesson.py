# %% [markdown]
# # Where to compute: work, memory and distance
#
# One stage computes values, and the next one uses each of them several times. If you compute all of them first, you
# have to store them, and they are far away when they are needed. If you compute each of them where it is needed, some
# are computed several times. You cannot have little work, little memory and short distances all at once. Today we count
# the cost of each choice. At the end you compute the information that a compiler needs for this choice: which values
# are needed at a given point.

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
# We smooth a small picture. The first stage smooths it along its rows, with the weights 1, 2, 1, into H. The second
# stage adds three rows of H.


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
# ## The counts
#
# An element of H needs one multiply, and an element of Y none. So the number of multiplies is the number of elements of
# H that were computed. The ledger counts these, and the loads. The interpreter also reports every buffer that is
# allocated or freed, so the ledger knows the largest number of bytes that were in use at one time. We count in the
# kernel, where buffers have shrunk to the size that is needed. Local buffers count as memory today, because nearly all
# of those here are too large for registers.


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
    """What a schedule of `smooth` costs, after a look at whether it still means the same."""
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
# In this form the program does no work twice, but all of H must be in memory at once. Halide, where these names come
# from, calls this *compute_root*.
#
# ## compute_at
#
# Row y of the result needs only three rows of H. `compute_at` moves a block below a loop of its consumer, and makes
# loops around it for exactly the elements that are read there:

# %%


def scheduled(steps: Callable[[tir.Schedule], object], n: int = N) -> PrimFunc:
    """The two stages after some steps of a schedule."""
    sch = tir.Schedule(smooth(n))
    steps(sch)
    return sch.func


def at_y(sch: tir.Schedule) -> None:
    """H below the loop over the rows of Y."""
    y, _ = sch.get_loops("Y")
    sch.compute_at("H", y)


print(body_of(scheduled(at_y)))

# %% [markdown]
# Where does the 3 come from? Iteration y reads the rows y, y + 1 and y + 2. These rows are a *window*, `[y, y + 3)`,
# and the window moves one row down in each iteration. Two of its three rows were computed before; they are computed
# again.
#
# In the kernel, H has become as large as the window:

# %%
print(body_of(kernel_of(scheduled(at_y))))
run_costs = costs(scheduled(at_y))
predict(
    "Each of the 32 windows has 3 rows, and H has 34. How often is a row of H computed, on average?",
    run_costs.computed / ELEMENTS,
)
print(f"computed: {run_costs.computed:,}, each element {run_costs.computed / ELEMENTS:.2f} times", end="; ")
print(f"live: {run_costs.peak_bytes:,}")

# %% [markdown]
# Larger steps overlap less. If Y is computed in tiles of t rows, one tile needs a window of t + 2 rows of H, which is 2
# rows more than t. Does the count agree?


# %%
def at_tiles(rows: int) -> Callable[[tir.Schedule], None]:
    """H for `rows` rows of Y at a time."""

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
# You can also go in the other direction: below `x`, only three *elements* of H are in memory at a time. In the extreme
# case there is no H any more. `compute_inline` replaces each read of H by its formula:

# %%


def at_x(sch: tir.Schedule) -> None:
    """H below both loops."""
    sch.compute_at("H", sch.get_loops("Y")[1])


def inline(sch: tir.Schedule) -> None:
    """No H at all."""
    sch.compute_inline("H")


print(body_of(kernel_of(scheduled(inline))).replace(" + (", "\n            + ("))

# %% [markdown]
# ## rolling_buffer: keep the rows that you have
#
# Two rows of each window were computed one iteration ago. Why not keep them? `rolling_buffer` computes only the new
# rows, and stores H in a ring of three rows: row vy is at index vy % 3, where it overwrites the row that is no longer
# needed.

# %%


def rolling(sch: tir.Schedule) -> None:
    """H below the loop over the rows of Y, in a ring."""
    at_y(sch)
    sch.rolling_buffer("H", 0)


print(body_of(scheduled(rolling)))

# %% [markdown]
# Look at `T.where`: in the first iteration all three rows are new, later only the last one.
#
# Here are three films, for a small picture. Watch when H turns orange. In the first film, all of H is written before Y
# begins. In the second, three rows of H are written for each row of Y, and two of them had been computed already. In
# the third, H has only three rows, and each row of Y needs one new row.

# %%
for name, steps in {"compute_root": lambda sch: None, "at_y": at_y, "rolling": rolling}.items():
    print("the film:", picture.save(f"smooth_{name}", Film.of(scheduled(steps, 4), title=name.replace("_", " ")).svg()))

# %% [markdown]
# ## The triangle
#
# *Work* is the number of times that each element of H was computed, on average. *Memory* is the largest number of bytes
# of H that were in use at one time. *Distance* is the number of bytes that our toy cache of 1024 bytes had to fetch.
# The last column shows whether the loop over the rows of Y may be parallel.


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
# Go down the first six lines: the memory shrinks from all of H to nothing, and the work grows. The distance is not so
# simple. A window of 10 rows does not fit into the cache: each row of H is evicted before it is used, and the tiles
# have only added overlap. A window of 3 rows fits into the cache, together with the rows of X and Y that are in use.
# Then H is never fetched, and only X and Y themselves still have to be moved.
#
# The last line seems to be the best in every column. What is the price? Each iteration now needs the previous one:

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
# An *opaque* iterator is one whose order matters. "At y" is refused as well: H is one buffer for all rows, and two
# iterations whose windows overlap write the same row of H. They write the same values, but it is still a race. In
# compute_root and inline, an iteration over the rows of Y writes only its own row. So the triangle has a fourth corner:
# whether the loop can be parallel.
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
# It is cheap to repeat one multiply and two additions; fetching a number from memory may cost as much as dozens of
# them. So the choice with the most work need not be the slowest. If H were a product of matrices, it would make no
# sense to compute it three times.
#
# ## The ledger
#
# Our example has two blocks as well: the product C, and Y = relu(C + bias). Y reads each element of C once, so no
# windows overlap, and `compute_at` never recomputes anything, so here it is free. In the last column, C is computed
# inside the tile loops of lesson 07, one tile at a time, so that it fits into registers.


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
# Local buffers are left out of this ledger again. In the last column C is never in memory at all: the sums are computed
# in registers, the bias is added there, and only Y is stored. Finishing a tile while it is still in registers is called
# *fusion*. It is the most common optimisation of compilers for neural networks.
#
# ## Your turn
#
# Compute which rows a tile needs, and which of them are new, for any stride and any distances between the rows.
#
#     minitvm lesson 08 --start     (writes exercise_08.py, for you to fill in)
#     minitvm lesson 08 --check
