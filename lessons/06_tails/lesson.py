# %% [markdown]
# # Tails: when the tiles do not fit
#
# Tiles have sizes that suit the machine: 4, 8, 16. Tensors have all kinds of sizes. The iterations that remain at the
# edge are the *tail*, and compilers make many of their mistakes there. In this lesson you see three ways to make a
# tail, two ways to get it wrong, and the cost of each, counted.

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
# We use only the last step of our example: Y = relu(X), for n elements.


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
# ## First way: a condition in each iteration
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
# The result is right, but the condition is tested in every iteration. How often is it tested, and how often is the
# iteration wasted? A `Ledger` counts the iterations of a loop, and the times that a block ran.

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
predict("A loop of 9 is split into pieces of 8. How many iterations are wasted?", turned - ran)
print(" n   iterations   runs    wasted")
for n in (8, 9, 10, 15, 16, 17):
    turned, ran = in_eights(n)
    print(f"{n:>2} {turned:>12} {ran:>6} {(turned - ran) / turned:>9.0%}")

# %% [markdown]
# If there is one element more than fits, almost half of the work is wasted. Splitting twice adds a second condition: 24
# does not divide 100, and 5 does not divide 24.

# %%
sch = tir.Schedule(relu(100))
_, inner = sch.split(sch.get_loops("Y")[0], factors=[None, 24])
sch.split(inner, factors=[None, 5])
print(next(line.strip() for line in sch.func.script().splitlines() if "T.where" in line))
turned, ran = iterations_and_runs(sch.func, 100)
print(f"{turned} iterations, {ran} runs")
assert reference.check(relu(100), sch.func)

# %% [markdown]
# Why `i_1_0 * 5 + i_1_1 < 24`? Five pieces of 5 are 25. Without the second condition the last piece of each tile of 24
# would run into the next tile, and one element would be computed twice. Here that only wastes work. If the block added
# to C[vi], the sum would be wrong.
#
# ## The two ways to get it wrong
#
# If we write the program by hand, no check stops us. First we round the number of tiles up, without a condition; then
# we round it down:


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
# A compiled program reports nothing in either case. The first overwrites the memory after Y; the second returns old
# contents of Y. The interpreter knows for each element whether it exists and whether it was ever written. That is
# *shadow* mode, and it is on unless you switch it off.
#
# You may declare that you need no condition, but then that must be true:

# %%
sch = tir.Schedule(relu(10))
try:
    sch.split(sch.get_loops("Y")[0], factors=[None, 4], disable_predication=True)
except ScheduleError as error:
    print("\n".join(str(error).splitlines()[-2:]))

# %% [markdown]
# ## Second way: cut the loop
#
# The condition is true in the first two iterations of the outer loop, whatever i_1 is. When minitvm lowers the program
# to a kernel, it finds the first iteration in which the condition is not always true, and cuts the loop there.

# %%
print(body_of(kernel_of(with_condition)))

# %% [markdown]
# The main part tests nothing. Nor does the tail: it has become a loop with its own extent. The price is code: there are
# two bodies now, and with tails in three loops there would be eight.
#
# You can also cut the loop yourself, with `loop_partition`. It gives each part its own block, so that you can schedule
# each part in its own way, and no predicate is needed:

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
# Vector instructions work on 4 or 8 elements at once, and you cannot run half an instruction. But processors have
# instructions with a *mask*, a condition for each lane. A vectorised loop with a predicate becomes such instructions:

# %%
sch = tir.Schedule(relu(10))
_, lanes = sch.split(sch.get_loops("Y")[0], factors=[None, 4])
sch.vectorize(lanes)
masked = sch.func
print(body_of(kernel_of(masked)).replace(", predicate=", ",\n        predicate="))
print(reference.check(relu(10), kernel_of(masked)))

# %% [markdown]
# `T.Ramp(8, 1, 4)` is the vector 8, 9, 10, 11. It is less than 10 in its first two lanes, and only these load and
# store. The other two lanes compute as well, without data, and their results are discarded:

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
    "10 iterations in pieces of 4: dark cells are vectors, grey ones are wasted",
    ["condition", "cut", "mask"],
)
print("the picture:", picture.save("three_tails"))

# %% [markdown]
# So a condition costs a test in each iteration, a cut costs code, and a mask costs idle lanes.
#
# ## The ledger
#
# Our example, 30 x 30 x 30, in tiles of 16 columns and 8 rows of B as in lesson 03. This time neither size divides 30.

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
# The nest around `C = C + A * B` has become four nests, those with an `r`, because two loops with tails give 2 x 2. The
# two nests over `i, j_1` set C to zero, and the last one is the relu.

# %%
counted = {
    "no tiles": ledger.measure(program, *inputs),
    "tiles, condition": ledger.measure(tiled, *inputs),
    "tiles, cut": ledger.measure(lowered, *inputs),
}
innermost = {name: max(entry.iterations.values()) for name, entry in counted.items()}
ledger.show(
    {name: {**entry.lesson_rows(), "innermost iterations": f"{innermost[name]:,}"} for name, entry in counted.items()}
)

# %% [markdown]
# All three programs do the same multiplies. With a condition, the innermost loop runs thousands of iterations that are
# wasted. If the loops are cut, it does not: the 900 additional iterations belong to the loops that set C to zero, which
# are now separate.
#
# The toy cache moves several times as many bytes as in lesson 03, where the sizes fitted. A row of 30 floats is not a
# whole number of cache lines, so most rows of a tile of B now touch two lines instead of one, and the tile no longer
# fits into 16 lines. An awkward size costs more than its tail.
#
# There is a fourth way: make the tensor larger, so that there is no tail, and discard the edge afterwards
# (`pad_einsum`). It costs work and memory. It pays if the tail is short and a special instruction needs whole tiles.
#
# ## Your turn
#
# Cut a loop so that its main part runs in whole vectors, for any extent and any factor.
#
#     minitvm lesson 06 --start     (writes exercise_06.py, for you to fill in)
#     minitvm lesson 06 --check
