# %% [markdown]
# # Rolling buffers: keep the rows that you have
#
# In the last lesson you had to choose between storing all values of a stage and computing some of them again. There is
# a third way. If the windows of two iterations overlap, the values in the overlap are already there, so you can keep
# them and compute only the new ones. Today we do this with `rolling_buffer`. The price is new, too: an iteration then
# needs values that an earlier iteration computed, so the iterations can no longer run in parallel. At the end we
# measure which choice is fastest.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

from collections.abc import Callable
from dataclasses import replace

import numpy as np

import minitvm
from lessons import ledger, picture
from lessons.predict import predict
from lessons.text import body_of
from minitvm import reference, tir
from minitvm.errors import ScheduleError
from minitvm.events import Access
from minitvm.film import Film
from minitvm.script import tir as T
from minitvm.tir.nodes import PrimFunc

# %% [markdown]
# ## The two stages again
#
# We use the program of the last lesson: H is X smoothed along its rows, and each row of Y is the sum of three rows of
# H. With `compute_at`, H is computed inside the loop over the rows of Y:


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


N = 32
ELEMENTS = (N + 2) * N  # of H


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
# Each iteration of `y` computes a window of three rows. Two of them were already computed in the previous iteration.
#
# ## A ring of rows
#
# Why not keep these two rows? The step `rolling_buffer` computes only the new rows. It stores H in a *ring* of three
# rows: row vy is stored at index vy % 3, where it overwrites the row that is no longer needed.

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
# The film shows it for a small picture. H has only three rows. When a row of H turns orange, it is written. After the
# first iteration, one row is written for each row of Y, and it always overwrites the oldest row.

# %%
print("the film:", picture.save("smooth_rolling", Film.of(scheduled(rolling, 4), title="rolling").svg()))

# %% [markdown]
# ## Work, memory, distance, and parallel loops
#
# Now we compare the choices in one table. Its columns are:
#
# - *work*: how many times each element of H was computed, on average (each element takes one multiply);
# - *memory*: the largest number of bytes of H that were in use at one time;
# - *distance*: the number of bytes that our toy cache of 1024 bytes had to fetch. This number grows if values are used
#   long after they were computed;
# - *parallel*: whether the loop over the rows of Y may be parallel.


# %%
class Ledger(ledger.LessonLedger):
    """Counts local buffers as memory, because nearly all of them are too large for registers."""

    def load(self, access: Access) -> None:
        ledger.LessonLedger.load(self, replace(access, scope="global"))

    def store(self, access: Access) -> None:
        ledger.LessonLedger.store(self, replace(access, scope="global"))


def counts(func: PrimFunc) -> Ledger:
    """Return the costs of a schedule's kernel, after a check that its result is still the same."""
    kernel = minitvm.lower(func, stop_at="kernel")[func.name]
    assert reference.check(smooth(N), kernel, modes=("exact", "shadow"))
    counted = Ledger()
    x = np.random.default_rng(8).integers(-3, 4, (N + 2, N + 2)).astype("float32")
    reference.tir.run(kernel, x, np.zeros((N, N), "float32"), listeners=[counted])
    return counted


def runs_in_parallel(func: PrimFunc) -> bool:
    """Whether the outermost loop around Y may be parallel."""
    sch = tir.Schedule(func)
    try:
        sch.parallel(sch.get_loops("Y")[0])
    except ScheduleError:
        return False
    return True


def at_tiles_of_8(sch: tir.Schedule) -> None:
    """Computes H for 8 rows of Y at a time."""
    y, _ = sch.get_loops("Y")
    y_0, _ = sch.split(y, factors=[None, 8])
    sch.compute_at("H", y_0)


choices = {
    "compute_root": lambda sch: None,
    "at tiles of 8 rows": at_tiles_of_8,
    "at y": at_y,
    "inline": lambda sch: sch.compute_inline("H"),
    "rolling, at y": rolling,
}
table = {name: counts(scheduled(steps)) for name, steps in choices.items()}
predict(
    "H has 1,088 elements. How many elements of H does the rolling buffer compute, over all iterations?",
    table["rolling, at y"].operations["mul"],
)
print(f"{'H is computed':<20} {'work':>6} {'memory':>7} {'distance':>9}   parallel")
for name, cost in table.items():
    print(
        f"{name:<20} {cost.operations['mul'] / ELEMENTS:>6.2f} {cost.peak_bytes:>7,}"
        f" {cost.lines_fetched * ledger.LINE:>9,}   "
        f"{'yes' if runs_in_parallel(scheduled(choices[name])) else 'no'}"
    )
print(f"X and Y together have {4 * ((N + 2) ** 2 + N**2):,} bytes")

# %% [markdown]
# The distance does not follow the memory. For tiles of 8 rows it is 19,968, more than for compute_root. The window of
# such a tile has 10 rows, which do not fit into the cache. So each row of H has left the cache before it is used, and
# the tiles have only added repeated work. For the line *at y* the distance is 9,152, which is only a little more than
# the size of X and Y together. A window of 3 rows fits into the cache together with the rows of X and Y that are in
# use, so H is never fetched from memory.
#
# The line *rolling, at y* is among the best in every column of numbers: it does as little work as compute_root, and
# needs as little memory as *at y*. What is its price? Each iteration now needs rows that the previous iteration
# computed, so the last column says *no*:

# %%
assert table["rolling, at y"].operations["mul"] == ELEMENTS
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
# dozens of multiplies and additions. So the choice with the most work need not be the slowest.
#
# ## The ledger
#
# The ledger shows everything that was counted for three of the choices. Again it counts loads and stores of local
# buffers.

# %%
columns = {}
for name in ("compute_root", "at y", "rolling, at y"):
    columns[name] = {**table[name].lesson_rows(), "bytes live": f"{table[name].peak_bytes:,}"}
    columns[name].pop("time interpreted")
ledger.show(columns)

# %% [markdown]
# Compare the last two columns. The rolling buffer has the same live bytes, but about a third of the multiplies and half
# of the loads. Both move the same bytes, because the elements of X that `at y` loads again are still in the cache.
#
# ## Your turn
#
# Find the new rows of each window, and the number of rows that a ring must have.
#
#     minitvm lesson 09 --start     (writes exercise_09.py, for you to fill in)
#     minitvm lesson 09 --check
