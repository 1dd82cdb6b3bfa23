# %% [markdown]
# # One schedule is not enough: a matrix product for three GPUs
#
# A kernel that was written for one GPU also runs on another GPU that supports the same language, but it may be slow
# there. In the last lesson you saw two schedules for a matrix product. Which of them is better, and how large should
# the tile of a thread be? Today the compiler answers these questions for three GPUs. You see that one word in the
# description of a GPU changes its choice, and in the exercise you write such a choice yourself.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

from lessons import drawings
from lessons.predict import predict
from minitvm import strategy, te, tir
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc

# %% [markdown]
# ## Two kinds of shared memory
#
# On GPUs of NVIDIA and AMD, shared memory is fast and separate from the cache. On a Mali, shared memory is ordinary
# memory, and every access goes through the same cache. So for both kinds of hardware, we count the accesses of a thread
# that go through the cache. A block has 8 x 8 threads, as in the last lesson, and a thread computes a tile of `rows` x
# `columns` results in `steps` steps of the sum:


# %%
def accesses(rows: int, columns: int, steps: int, shared: bool, separate: bool) -> int:
    """The accesses of a thread that go through the cache."""
    used = steps * (rows + columns)  # the elements that the thread needs
    if not shared:
        return used
    fetched = used // 8  # eight threads use each element, and each of them fetches an eighth
    return fetched if separate else fetched + fetched + used  # loaded, stored in shared memory, and loaded again


WAYS = {
    "nothing shared": (False, True),
    "shared, separate": (True, True),
    "shared, ordinary": (True, False),
}
predict(
    "A thread computes 4 x 4 results in 16 steps and needs 128 elements. If tiles are shared, it fetches only an "
    "eighth of them. How many accesses go through the cache on a GPU whose shared memory is ordinary memory?",
    accesses(4, 4, 16, shared=True, separate=False),
)
for name, (shared, separate) in WAYS.items():
    print(f"{name:<18} {accesses(4, 4, 16, shared, separate):>4}")

# %% [markdown]
# If shared memory is separate, shared tiles reduce the accesses of a thread from 128 to 16. If shared memory is
# ordinary memory, shared tiles increase the accesses to 160: each element is loaded, stored, and loaded again. And the
# threads wait at barriers for nothing.
#
# ## The size of the tile
#
# A larger tile uses each element more often, but it needs more registers: one for each sum, and one for each element of
# A and B that the thread has loaded. The next table shows the accesses for each multiply-add:

# %%
print(f"{'tile':>8} {'registers':>10}" + "".join(f"{name:>18}" for name in WAYS))
for rows, columns in ((1, 1), (2, 2), (4, 4), (8, 4), (8, 8), (16, 16)):
    shares = (accesses(rows, columns, 8, *way) / (8 * rows * columns) for way in WAYS.values())
    needed = rows * columns + rows + columns
    print(f"{f'{rows} x {columns}':>8} {needed:>10}" + "".join(f"{share:>18.4f}" for share in shares))

# %% [markdown]
# From top to bottom, the accesses for each multiply-add become fewer in every column. So a large tile is better in each
# case, and the number of registers is the limit. A tile of 16 x 16 does not fit into the registers of any GPU that we
# look at: none of them has 288 registers for a thread.
#
# ## The description of a target
#
# How does the compiler know which schedule is good for a GPU? The description of a *target* contains a few figures
# about the machine. Here are these figures for three GPUs, and the product that we want to run on them:


# %%
def product(m: int, n: int, k: int) -> PrimFunc:
    """Y = relu(A @ B + bias)."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    bias, r = te.placeholder((n,), name="bias"), te.reduce_axis((0, k), name="r")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    y = te.compute((m, n), lambda i, j: tir.max(c[i, j] + bias[j], tir.const(0.0, "float32")), name="Y")
    return te.create_prim_func([a, b, bias, y])


large = product(1024, 1024, 1024)
GPUS = ("cuda -arch=sm_80", "opencl -device=amd", "opencl -device=mali")
print(f"{'':<33}" + "".join(f"{gpu:>21}" for gpu in GPUS))
for title, field in (
    ("shared storage helps", "local_memory_helps"),
    ("shared bytes per block", "max_shared_memory_per_block"),
    ("threads per block, at most", "max_threads_per_block"),
    ("registers per thread, at most", "max_registers_per_thread"),
    ("multiply-adds started per cycle", "lanes"),
):
    print(f"{title:<33}" + "".join(f"{getattr(Target(gpu), field)!s:>21}" for gpu in GPUS))
print(f"{'floats per load':<33}" + "".join(f"{Target(gpu).vector_lanes('float32'):>21}" for gpu in GPUS))

# %% [markdown]
# The first line is the most important for us: shared memory helps on the first two GPUs, but not on the Mali.
#
# ## The choice of `build`
#
# `minitvm.build` calls `strategy.scheduled`. This function compares hundreds of possible schedules, the *candidates*,
# with a formula (in `machines/gpu/strategy/costs.py`) that predicts their cost from these figures. Only the best
# candidate is built. `strategy.choice_of` returns the choice:

# %%
for gpu in GPUS:
    choice = strategy.choice_of(strategy.scheduled(large, Target(gpu)))
    k = choice.taken.knobs
    if "thread_rows" in k:  # the rule for products whose extents are known, all of which share tiles
        rows, columns, where = k["thread_rows"], k["thread_columns"], f"tiles shared, {k['depth']} steps at a time"
        threads = k["rows"] * k["columns"] // (rows * columns)
    else:
        rows, columns, threads, where = k["rows"], k["vectors"] * k["lanes"], k["threads"], "nothing shared"
    print(f"{gpu:<20} 1 of {choice.count}: {rows} x {columns} per thread, {threads} threads per block, {where}")

# %% [markdown]
# The same rule has derived three different schedules from one program. For the first two GPUs it chose shared tiles.
# For the Mali it chose a smaller tile for each thread, because a thread has only 64 registers there, and 8 x 8 sums
# alone would take all of them. And the schedule for the Mali puts nothing in shared memory.
#
# Is the single word `local_memory_helps` responsible for the different choices? We change this word for two of the
# GPUs, and compare the best candidate that uses only registers with the best candidate that uses shared tiles. The
# numbers are cycles that the formula predicts, and `*` marks the better candidate in each line:

# %%
predicted = {}
print(f"{'':<46} best in registers   best with shared tiles")
for gpu in GPUS[:1] + GPUS[2:]:
    truth = Target(gpu).local_memory_helps
    for helps in (truth, not truth):
        options = strategy.candidates(large, Target(f"{gpu} -local_memory_helps={str(helps).lower()}"))
        options = [(o.cost.cycles, "thread_rows" in o.knobs or o.knobs.get("shared")) for o in options]
        best = {s: min(cycles for cycles, shares in options if shares is s) for s in (False, True)}
        taken = {s: "*" if cycles == min(best.values()) else " " for s, cycles in best.items()}
        line = f"{gpu}, shared storage helps: {helps}"
        print(f"{line:<46} {best[False]:>16,.0f}{taken[False]}   {best[True]:>21,.0f}{taken[True]}")
        for shares, cycles in best.items():
            predicted[f"{gpu}, helps: {helps}, {'shared tiles' if shares else 'registers'}"] = cycles / 1e6

colours = [drawings.ORANGE if name.endswith("tiles") else drawings.BLUE for name in predicted]
picture = drawings.bars(predicted, "predicted time of the best schedules", "million cycles", colours)
print("the picture:", picture.save("two_ways"))

# %% [markdown]
# Yes, it is. For both GPUs the `*` is in the column *shared tiles* if the word is True, and in the column *registers*
# if it is False. These numbers are predictions of a model, and none of them was measured on such a GPU. If two
# predictions are only a few per cent apart, a measurement may show the opposite. But you did not have to write a second
# kernel by hand.
#
# ## Your turn
#
# Write a function that chooses a schedule: the tile of a thread, and whether tiles are shared. Its arguments are three
# figures from the description of a machine.
#
#     minitvm lesson 29 --start     (writes exercise_29.py, for you to fill in)
#     minitvm lesson 29 --check
