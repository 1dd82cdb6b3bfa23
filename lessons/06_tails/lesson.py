# %% [markdown]
# # Tails: when the tiles do not fit
#
# Tiles have sizes that the machine likes: 4, 8, 16. Tensors have the sizes that they have. What is left at the edge is
# the *tail*, and much of the wrong code that compilers write is written there. Today: three ways to make a
# tail, the two ways to get it wrong, and what each costs, counted.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import numpy as np

import minitvm
from lessons import drawings, example, ledger
from lessons.predict import predict
from lessons.text import body_of
from minitvm import reference, tir
from minitvm.errors import ScheduleError
from minitvm.reference.listeners import Ledger
from minitvm.script import tir as T
from minitvm.tir.nodes import IRModule, PrimFunc

# %% [markdown]
# The last line of our example, alone: Y = relu(X), for n elements.


# %%
def relu(n: int) -> PrimFunc:
    """Y = relu(X), a block in one loop."""

    @T.prim_func
    def relu(X: T.Buffer((n,), "float32"), Y: T.Buffer((n,), "float32")):
        for i in T.serial(n):
            with T.block("Y"):
                vi = T.axis.spatial(n, i)
                Y[vi] = T.max(X[vi], T.float32(0))

    return relu


def kernel_of(func: PrimFunc) -> IRModule:
    """The function lowered to a kernel."""
    return minitvm.lower(func, stop_at="kernel")["relu"]


# %% [markdown]
# ## First way: ask every time
#
# `split` rounds up, and puts a condition on the block: `T.where`, its *predicate*. The block does not run where
# the condition is false.

# %%
sch = tir.Schedule(relu(10))
i, *_ = sch.get_loops("Y")
sch.split(i, factors=[None, 4])
with_condition = sch.func
print(body_of(with_condition))

# %% [markdown]
# The answer is right, and the question is asked in every iteration. How often, and how often for nothing? A `Ledger`
# counts the iterations of a loop, and the times that a block ran.

# %%


def iterations_and_runs(program: PrimFunc, n: int) -> tuple[int, int]:
    """How often the innermost loop turned, and how often the block ran."""
    counted = Ledger()
    reference.tir.run(program, np.zeros(n, "float32"), np.zeros(n, "float32"), listeners=[counted])
    return max(counted.iterations.values()), counted.blocks["Y"]


def in_eights(n: int) -> tuple[int, int]:
    """The same for a loop of n in pieces of 8."""
    sch = tir.Schedule(relu(n))
    sch.split(sch.get_loops("Y")[0], factors=[None, 8])
    return iterations_and_runs(sch.func, n)


turned, ran = in_eights(9)
predict("A loop of 9 is split into pieces of 8. How many iterations run in vain?", turned - ran)
print(" n   iterations   runs   in vain")
for n in (8, 9, 10, 15, 16, 17):
    turned, ran = in_eights(n)
    print(f"{n:>2} {turned:>12} {ran:>6} {(turned - ran) / turned:>9.0%}")

# %% [markdown]
# One more element than fits, and almost half of the work is in vain. Splitting twice adds a second question: 24 does
# not divide 100, and 5 does not divide 24.

# %%
sch = tir.Schedule(relu(100))
_, inner = sch.split(sch.get_loops("Y")[0], factors=[None, 24])
sch.split(inner, factors=[None, 5])
print(next(line.strip() for line in sch.func.script().splitlines() if "T.where" in line))
turned, ran = iterations_and_runs(sch.func, 100)
print(f"{turned} iterations, {ran} runs")
assert reference.check(relu(100), sch.func)

# %% [markdown]
# Why `i_1_0 * 5 + i_1_1 < 24`? Five pieces of 5 are 25. Without the second question the last piece of each tile of 24
# would run into the next tile, and one element would be computed twice. Here that is only waste. Where the
# block adds to C[vi], it is a wrong sum.
#
# ## The two ways to get it wrong
#
# By hand we can write both, because no schedule is there to refuse them. First the rounds are rounded up, without a
# condition; then they are rounded down:


# %%
def rounds_of_four(n: int, rounds: int) -> PrimFunc:
    """relu in rounds of 4, with no condition."""

    @T.prim_func
    def relu(X: T.Buffer((n,), "float32"), Y: T.Buffer((n,), "float32")):
        for i_0, i_1 in T.grid(rounds, 4):
            Y[i_0 * 4 + i_1] = T.max(X[i_0 * 4 + i_1], T.float32(0))

    return relu


for rounds in (3, 2):
    verdict = reference.check(relu(10), rounds_of_four(10, rounds))
    print(f"{rounds} rounds: {verdict}\n")
    assert not verdict

# %% [markdown]
# A compiled program says nothing in either case. The first overwrites whatever comes after Y in memory; the second
# returns whatever was in Y before. The interpreter knows of each element whether it exists and whether it was ever
# written. That is *shadow* mode, and it is on unless you switch it off.
#
# You may say that you need no condition, but then it must be true:

# %%
sch = tir.Schedule(relu(10))
try:
    sch.split(sch.get_loops("Y")[0], factors=[None, 4], disable_predication=True)
except ScheduleError as error:
    print("\n".join(str(error).splitlines()[-2:]))

# %% [markdown]
# ## Second way: cut the loop
#
# The condition is true in the first two rounds, whatever i_1 is. On the way to a kernel minitvm looks for the place
# where a condition stops being always true, and cuts the loop there.

# %%
print(body_of(kernel_of(with_condition)))

# %% [markdown]
# The main part asks nothing. The tail asks nothing either: it has become a loop with an extent of its own. The price is
# code: there are two bodies now, and with tails in three loops there would be eight.
#
# You can cut by yourself, with `loop_partition`. It gives blocks of their own to the parts, so that each can be
# scheduled in its own way, and no predicate ever appears:

# %%
sch = tir.Schedule(relu(10))
main, tail = sch.loop_partition(sch.get_loops("Y")[0], [8])
_, lanes = sch.split(main, factors=[None, 4])
sch.vectorize(lanes)
cut = sch.func
print(body_of(kernel_of(cut)))
print(reference.check(relu(10), kernel_of(cut)))

# %% [markdown]
# ## Third way: a mask
#
# Vector instructions work on 4 or 8 elements at once, and there is no half of an instruction. But processors have
# instructions that take a *mask*, a condition for each lane. This is what a vectorised loop with a predicate becomes:

# %%
sch = tir.Schedule(relu(10))
_, lanes = sch.split(sch.get_loops("Y")[0], factors=[None, 4])
sch.vectorize(lanes)
masked = sch.func
print(body_of(kernel_of(masked)).replace(", predicate=", ",\n        predicate="))
print(reference.check(relu(10), kernel_of(masked)))

# %% [markdown]
# `T.Ramp(8, 1, 4)` is the vector 8, 9, 10, 11. It is less than 10 in its first two lanes, and only these load and
# store. The other two compute as well, on nothing, and their result is thrown away:

# %%
counter = Ledger()
reference.tir.run(kernel_of(masked), np.zeros(10, "float32"), np.zeros(10, "float32"), listeners=[counter])
print(f"max was computed {counter.operations['max']} times, for 10 elements")

# %%
TEN = [str(i) for i in range(10)]
picture = drawings.cells(
    [[*TEN, "10", "11"], [*TEN], [*TEN, "-", "-"]],
    [
        [*[drawings.LIGHT] * 10, *[drawings.GREY] * 2],
        [*[drawings.BLUE] * 8, *[drawings.LIGHT] * 2],
        [*[drawings.BLUE] * 10, *[drawings.GREY] * 2],
    ],
    "10 iterations in pieces of 4: dark cells are vectors, grey ones are in vain",
    ["ask each time", "cut", "mask"],
)
print("the picture:", picture.save("three_tails"))

# %% [markdown]
# So to ask costs a question in each iteration, to cut costs code, and a mask costs lanes.
#
# ## The ledger
#
# Our example, 30 x 30 x 30, in tiles of 16 columns and 8 rows of B as in lesson 03; only that nothing fits.

# %%
program, inputs = example.blocks(30, 30, 30), example.inputs(30, 30, 30)
sch = tir.Schedule(program)
i, j, r = sch.get_loops("C")
j_0, j_1 = sch.split(j, factors=[None, 16])
r_0, r_1 = sch.split(r, factors=[None, 8])
sch.reorder(j_0, r_0, i, r_1, j_1)
tiled = sch.func
print(next(line.strip() for line in tiled.script().splitlines() if "T.where" in line))

lowered = minitvm.lower(tiled, stop_at="kernel")["example"]
print("\n".join(line for line in body_of(lowered).splitlines() if "for " in line))
assert reference.check(program, lowered)

# %% [markdown]
# The nest around `C = C + A * B` has become four, those with an `r`: two loops with tails give 2 x 2. The two nests
# over `i, j_1` set C to zero, and the last one is the relu.

# %%
counted = {
    "no tiles": ledger.measure(program, *inputs),
    "tiles, asked": ledger.measure(tiled, *inputs),
    "tiles, cut": ledger.measure(lowered, *inputs),
}
innermost = {name: max(entry.iterations.values()) for name, entry in counted.items()}
ledger.show(
    {name: {**entry.lesson_rows(), "innermost iterations": f"{innermost[name]:,}"} for name, entry in counted.items()}
)

# %% [markdown]
# All do the same multiplies. Asked in each iteration, the innermost loop turns thousands of times in vain. Cut, it does
# not: what it turns more often than without tiles is the setting to zero, which has loops of its own now.
#
# The toy cache moves several times as many bytes as in lesson 03, where everything fitted. A row of 30 floats is not a
# whole number of cache lines, so most rows of a tile of B now touch two lines instead of one, and the tile does not
# stay in 16 lines any more. An awkward size costs more than its tail.
#
# There is a fourth way: make the tensor larger, so that there is no tail, and throw the edge away afterwards. It costs
# work and memory, and pays where the tail is short and a special instruction wants whole tiles (`pad_einsum`).
#
# ## Your turn
#
# Cut a loop so that its main part runs in whole vectors, for any extent and any factor.
#
#     minitvm lesson 06 --start     (writes exercise_06.py, for you to fill in)
#     minitvm lesson 06 --check
