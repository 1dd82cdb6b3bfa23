# %% [markdown]
# # Tails: when the tiles do not fit
#
# Tiles have sizes that suit the machine, such as 4, 8 or 16. Tensors have all kinds of sizes. The iterations that
# remain at the edge are called the *tail*, and compilers make many of their mistakes there. In this lesson you see
# three correct ways to handle a tail and two wrong ways, and you count the cost of each correct way.

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
# `split` rounds the number of pieces up and puts a condition on the block, its *predicate*, which is printed as
# `T.where`. The block does not run in iterations where the condition is false.

# %%
sch = tir.Schedule(relu(10))
i, *_ = sch.get_loops("Y")
sch.split(i, factors=[None, 4])
with_condition = sch.func
print(body_of(with_condition))

# %% [markdown]
# The result is right, but the condition is tested in every iteration, and an iteration in which the condition is false
# is wasted. How many iterations are wasted? A `Ledger` counts how many iterations a loop had and how many times a block
# ran.

# %%


def iterations_and_runs(program: PrimFunc, n: int) -> tuple[int, int]:
    """The number of iterations of the innermost loop, and the number of times that the block ran."""
    counted = Ledger()
    reference.tir.run(program, np.zeros(n, "float32"), np.zeros(n, "float32"), listeners=[counted])
    return max(counted.iterations.values()), counted.blocks["Y"]


def in_eights(n: int) -> tuple[int, int]:
    """The two numbers of `iterations_and_runs` for a loop of n iterations in pieces of 8."""
    sch = tir.Schedule(relu(n))
    sch.split(sch.get_loops("Y")[0], factors=[None, 8])
    return iterations_and_runs(sch.func, n)


turned, ran = in_eights(9)
predict("A loop of 9 iterations is split into pieces of 8. How many iterations are wasted?", turned - ran)
print(" n   iterations   runs    wasted")
for n in (8, 9, 10, 15, 16, 17):
    turned, ran = in_eights(n)
    print(f"{n:>2} {turned:>12} {ran:>6} {(turned - ran) / turned:>9.0%}")

# %% [markdown]
# Look at the line for n = 9. Two pieces of 8 make 16 iterations, but only 9 of them run the block, so 44 % are wasted.
# A single element more than 8 wastes almost half of the iterations. If 8 divides n, no iteration is wasted.
#
# Splitting twice can add a second condition. Here the pieces have 24 elements, and 24 does not divide 100. Each piece
# is cut into parts of 5 elements, and 5 does not divide 24.

# %%
sch = tir.Schedule(relu(100))
_, inner = sch.split(sch.get_loops("Y")[0], factors=[None, 24])
sch.split(inner, factors=[None, 5])
print(next(line.strip() for line in sch.func.script().splitlines() if "T.where" in line))
turned, ran = iterations_and_runs(sch.func, 100)
print(f"{turned} iterations, {ran} runs")
assert reference.check(relu(100), sch.func)

# %% [markdown]
# Why is the second condition, `i_1_0 * 5 + i_1_1 < 24`, needed? Five parts of 5 make 25, which is one more than 24.
# Without the condition, the last part of each piece would run into the next piece, and one element would be computed
# twice. In this program, computing it twice would only waste work. But if the block added something to C[vi], the sum
# would be wrong.
#
# ## Two wrong ways
#
# If we write the program by hand, no check stops us. First we round the number of tiles up to 3 and forget the
# condition. Then we round it down to 2:


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
# With 3 rounds, the interpreter stops at index 10, which X does not have. With 2 rounds, it reports at the end that 2
# of the 10 elements of Y were never written. A compiled program would report nothing in either case: the first version
# would overwrite the memory after Y, and the second would return whatever was in Y before. The interpreter can report
# both mistakes because it records for each element whether it exists and whether it was ever written. This recording is
# called *shadow* mode, and it is on unless you switch it off.
#
# You may declare that your split needs no condition. But then minitvm checks that this is true:

# %%
sch = tir.Schedule(relu(10))
try:
    sch.split(sch.get_loops("Y")[0], factors=[None, 4], disable_predication=True)
except ScheduleError as error:
    print("\n".join(str(error).splitlines()[-2:]))

# %% [markdown]
# minitvm refuses, because 4 does not divide 10.
#
# ## Second way: cut the loop
#
# Look again at the condition `i_0 * 4 + i_1 < 10`. In the first two iterations of the outer loop it is true for every
# i_1. When minitvm *lowers* the program to a kernel (translates it to the next level), it finds the first iteration of
# the outer loop in which the condition is false for some i_1, and cuts the loop there.

# %%
print(body_of(kernel_of(with_condition)))

# %% [markdown]
# The first loop computes the elements 0 to 7 and the second loop computes the last two, and neither of them has a
# condition. The price is more code. The body appears twice now, and with tails in three nested loops it would appear
# eight times.
#
# You can also cut the loop yourself, with `loop_partition`. It gives each part its own block. So no predicate is
# needed, and you can schedule each part differently. Here only the main part is vectorised:

# %%
sch = tir.Schedule(relu(10))
main, tail = sch.loop_partition(sch.get_loops("Y")[0], [8])
_, lanes = sch.split(main, factors=[None, 4])
sch.vectorize(lanes)
cut = sch.func
print(body_of(kernel_of(cut)))
print(reference.check(relu(10), kernel_of(cut)))

# %% [markdown]
# The first loop, the main part, now uses vectors of 4 elements. The iterations of the tail run one by one, and the last
# line says that the result is still the same.
#
# ## Third way: a mask
#
# A vector instruction works on 4 or 8 elements at once, and you cannot run half an instruction. But many processors
# have vector instructions with a *mask*, which is a condition for each *lane* (each of the 4 or 8 positions in the
# vector). minitvm translates a vectorised loop with a predicate to such instructions:

# %%
sch = tir.Schedule(relu(10))
_, lanes = sch.split(sch.get_loops("Y")[0], factors=[None, 4])
sch.vectorize(lanes)
masked = sch.func
print(body_of(kernel_of(masked)).replace(", predicate=", ",\n        predicate="))
print(reference.check(relu(10), kernel_of(masked)))

# %% [markdown]
# Look at the last statement, which handles the tail. `T.Ramp(8, 1, 4)` is the vector 8, 9, 10, 11. The predicate is
# true in its first two lanes, where the index is less than 10, and only these two lanes load and store. The other two
# lanes compute as well, but without data, and their results are discarded:

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
# The maximum was computed 12 times for 10 elements, so the two idle lanes wasted 2 computations. In the picture, the
# grey cells in the row `mask` are these two computations, and the grey cells in the row `condition` are two wasted
# iterations. So each way has its price: a condition costs a test in each iteration, a cut costs code, and a mask costs
# idle lanes.
#
# ## The ledger
#
# We take our example with matrices of 30 x 30 and use tiles of 16 columns and 8 rows of B, as in lesson 03. This time
# neither 16 nor 8 divides 30.

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
# The lines show the loops of seven nests. Four of them have a loop over `r`, and they compute `C = C + A * B`. There
# are four because both j and r have a tail, which gives 2 x 2 parts. The two nests over `i, j_1` set C to zero, and the
# last nest is the relu.

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
# The first row is the same for all three programs, 27,000 multiplies. Now look at the last row. With a condition, the
# innermost loop has 30,720 iterations, so 3,720 of them are wasted. If the loops are cut, the innermost loops have
# 27,900 iterations. The additional 900 iterations are not wasted: they set the 900 elements of C to zero, in loops of
# their own.
#
# The cache row shows another cost. With tiles, the toy cache moves about 250,000 bytes here, but only 45,184 in lesson
# 03, where the matrices were 32 x 32. The reason is that a row of 30 floats is not a whole number of cache lines. So
# most rows of a tile of B now touch two lines instead of one, and the tile no longer fits into 16 lines. An awkward
# size can cost much more than its tail.
#
# There is a fourth way. You can make the tensor larger, so that there is no tail, and discard the edge afterwards (the
# step `pad_einsum` does this). A larger tensor costs additional work and memory. It is worth the price if a special
# instruction needs whole tiles and only a little is added at the edge.
#
# ## Your turn
#
# Write a function that cuts a loop so that its main part runs in whole vectors, for any extent and any factor.
#
#     minitvm lesson 06 --start     (writes exercise_06.py, for you to fill in)
#     minitvm lesson 06 --check
