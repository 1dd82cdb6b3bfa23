# %% [markdown]
# # Reductions: a sum in two steps
#
# A sum of a thousand numbers is a chain of a thousand additions, and each addition waits for the previous one. Several
# shorter chains that run at the same time would finish sooner. But then the result is not exactly the same float! Today
# we cut the chain, look at the changes in the last digits, and see how you can prove that nothing else has changed.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import numpy as np

from lessons import drawings, example, ledger
from lessons.predict import predict
from minitvm import reference, tir
from minitvm.errors import ScheduleError
from minitvm.script import tir as T

# %% [markdown]
# ## A reduction block
#
# The block C of our example has an iterator of kind R, `vr`, and an `init`, which sets the start value of the sum. So
# the block does two things: in its first step it sets the start value, and in every step it adds a product.
# `decompose_reduction` splits it into two blocks, one for each task. It puts the block with the start value before a
# loop that you name:

# %%
program = example.blocks(2, 2, 16)
sch = tir.Schedule(program)
i, j, r = sch.get_loops("C")
sch.decompose_reduction("C", r)
print("\n".join(sch.func.script().splitlines()[5:18]))

# %% [markdown]
# The block `C_init` now sets the start value before the loop `r`, and `C_update` only adds.
#
# You cannot put the start value just anywhere. Suppose that `r` is the outermost loop. If the start value were set
# inside `r`, the sum would be reset in each step, so minitvm refuses:

# %%
sch = tir.Schedule(program)
i, j, r = sch.get_loops("C")
sch.reorder(r, i, j)
try:
    sch.decompose_reduction("C", i)
except ScheduleError as error:
    print(error)

# %% [markdown]
# The error marks the loop `r`, which is a reduction, and names the cure: set the start value before `r`.
#
# ## The chain
#
# All iterations of `r` add to the same element, so they cannot run at the same time. For example, if two threads both
# load 5, add 1 and store 6, one of the two additions is lost.

# %%
try:
    sch.parallel(r)
except ScheduleError as error:
    print(str(error).splitlines()[0])
    print("\n".join(str(error).splitlines()[-4:]))

# %% [markdown]
# The last lines of the error name the solution, `rfactor`. `rfactor` gives every iteration of one loop its own element
# for a partial sum, and adds the partial sums up in a second block. We first split `r`, so that there are four partial
# sums. We call the four iterations of the inner loop *lanes*:


# %%
def in_lanes(func: tir.PrimFunc, lanes: int) -> tir.Schedule:
    """A schedule that computes each sum of block C as `lanes` partial sums, which are then added up."""
    sch = tir.Schedule(func)
    _, _, r = sch.get_loops("C")
    _, lane = sch.split(r, factors=[None, lanes])
    sch.rfactor(lane, factor_axis=2)
    return sch


sch = in_lanes(program, 4)
factored = sch.func
print("\n".join(factored.script().splitlines()[5:22]))

# %%
lanes_of_r = [drawings.SERIES[r % 4] for r in range(16)]
picture = drawings.cells(
    [[f"r={r}" for r in range(16)], [f"C_rf[{lane}]" for lane in range(4)], ["C"]],
    [lanes_of_r, lanes_of_r[:4], [drawings.ORANGE]],
    "16 products are added up in four lanes (colours), and then the lanes are added up",
    ["products", "partial sums", "sum"],
    46,
)
print("the picture:", picture.save("lanes"))

# %% [markdown]
# Look at the letters in the two lines with `T.axis.remap`. In the first block the iterator of the lanes, `vr_1`, has
# the letter S. Every lane has its own element of `C_rf`, so the lanes may run in any order, or all at once. In the
# second block `vr_1` has the letter R, because there the lanes are added up. `sch.parallel` now accepts the loop over
# the lanes of the first block:

# %%
sch.parallel(sch.get_loops("C_rf")[-1])
print("accepted")

# %% [markdown]
# Why may you cut the chain? There are two reasons. Addition is associative, so you may group the numbers as you like.
# And the start value 0 is neutral, so it does no harm that every lane starts with its own 0. `max` with the start value
# -infinity has both properties as well. Subtraction is not associative. A sum that starts at 7 has no neutral start
# value: with four lanes, the 7 would be added four times. `rfactor` accepts only reductions that are known to have both
# properties.
#
# ## Floats are not associative
#
# Addition of *numbers* is associative. Addition of floats is not, because it rounds after each step:

# %%
big, one = np.float32(2**24), np.float32(1)
predict("In float32, by how much is (2**24 + 1) + 1 larger than 2**24?", int((big + one) + one - big))
print("(big + 1) + 1 =", (big + one) + one)
print("big + (1 + 1) =", big + (one + one))

# %% [markdown]
# The first result is 2**24 and the second is larger by 2. In float32 the next number after 2**24 is 2**24 + 2. So if
# you add 1, the result is rounded back to 2**24, and the second 1 is lost in the same way. If you add 2 at once,
# nothing is lost.
#
# So the program with one chain and the program with four lanes give different bits on most inputs:

# %%
rng = np.random.default_rng(9)
a, b, bias = (rng.random(shape, dtype="float32") for shape in ((2, 16), (16, 2), (2,)))


def run(func: tir.PrimFunc, a: np.ndarray, b: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """The result of the example."""
    y = np.full((a.shape[0], b.shape[1]), np.nan, "float32")
    reference.tir.run(func, a, b, bias, y)
    return y


with np.printoptions(precision=8):
    print("one chain:   ", run(program, a, b, bias).ravel())
    print("four lanes:  ", run(factored, a, b, bias).ravel())

# %% [markdown]
# Look at the first number of each line. It is 8.053265 for one chain and 8.053266 for four lanes.
#
# Is a program with such differences still right? The usual answer is a tolerance: for example, you require that the
# results agree up to one part in a thousand. But here is a program with a common mistake. It leaves out the last
# product of each sum:


# %%
def one_short(k: int) -> tir.PrimFunc:
    """A wrong program: its sums leave out the last product."""

    @T.prim_func
    def example(
        A: T.Buffer((2, k), "float32"),
        B: T.Buffer((k, 2), "float32"),
        bias: T.Buffer((2,), "float32"),
        Y: T.Buffer((2, 2), "float32"),
    ):
        C = T.alloc_buffer((2, 2), "float32")
        for i, j, r in T.grid(2, 2, k - 1):
            with T.block("C"):
                vi, vj, vr = T.axis.remap("SSR", [i, j, r])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vr] * B[vr, vj]
        for i, j in T.grid(2, 2):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.max(C[vi, vj] + bias[vj], T.float32(0))

    return example


k = 8192
a, b = rng.random((2, k), dtype="float32"), rng.random((k, 2), dtype="float32")
expected, actual = run(example.blocks(2, 2, k), a, b, bias), run(one_short(k), a, b, bias)
print("accepted with a tolerance of 1e-3:", np.allclose(actual, expected, rtol=1e-3))

# %% [markdown]
# The tolerance accepts the wrong program, because one product among 8192 is less than a thousandth of the sum. A
# tolerance cannot tell a rounding error from a small mistake. `reference.check` has three better methods.
#
# **exact**: this method uses inputs for which no rounding happens. If all numbers are small whole numbers, every sum is
# exact in any order, so you can compare the results with `==`.

# %%
print("four lanes:  ", reference.check(program, factored, modes=("exact",)))
verdict = reference.check(program, one_short(16), modes=("exact",))
print(f"one left out: {verdict.after} instead of {verdict.before} at Y{list(verdict.index)}, on the inputs")
print(verdict.counterexample)

# %% [markdown]
# The program with four lanes is accepted, and the wrong program is refused. The check also prints a small input on
# which the results differ: only the last product, A[1, 15] * B[15, 0], is not 0, and the wrong program leaves it out.
#
# **field**: the exact method tries only a few inputs. What about all other inputs? Forget floats for a moment. Our
# programs compute formulas, namely sums of products of inputs. Such a formula is a polynomial, and two different
# polynomials seldom have the same value. How seldom? There is a theorem by Schwartz and Zippel about whole numbers
# modulo a prime p. At a random point, two different polynomials of degree d have the same value with a probability of
# at most d / p. Modulo p there is no rounding, so addition is associative again. We try it by hand, with p =
# 2147483647:

# %%
p = 2**31 - 1
x, y = ([int(v) for v in rng.integers(0, p, 16)] for _ in range(2))
products = [s * t % p for s, t in zip(x, y)]
print("one chain:   ", sum(products) % p)
print("four lanes:  ", sum(sum(products[lane::4]) % p for lane in range(4)) % p)
print("one left out:", sum(products[:-1]) % p)

# %% [markdown]
# The first two numbers are equal, and the third one differs. So one chain and four lanes are the same polynomial,
# unless we had bad luck that happens about once in a thousand million times (d is 2, and p is about 2 * 10^9). In this
# way the result at *one* point tells you something about *all* inputs.
#
# The field mode runs whole programs like this. There is one difficulty: modulo p no number is larger or smaller than
# another, so `max` has no meaning. Therefore the field mode also runs the program on an ordinary input, and this input
# decides which of its two operands each `max` returns. The verdict then holds for all inputs with the same decisions.

# %%
print("four lanes:  ", reference.check(program, factored, modes=("field",)))
verdict = reference.check(program, one_short(16), modes=("field",))
print(f"one left out: {verdict.after} instead of {verdict.before} at Y{list(verdict.index)}")

# %% [markdown]
# **shadow**: a program may compute the right formula and still have a mistake. For example, it may read an element
# before it was written, or write the same element in two parallel iterations. The shadow mode watches every element and
# reports such accesses. `check` uses these three modes if you do not choose others:

# %%
print("lanes in parallel:", reference.check(program, sch.func))

# %% [markdown]
# Now you know that the formula is the same. You may also want to know how much the *floats* may differ. The mode
# "bound" computes, for each number, how large its rounding error can be at most. It checks that the new result is
# within the error that the old program may make.

# %%
print(reference.check(program, factored, modes=("bound",)))

# %% [markdown]
# Neither program is exact, because both of them round. Which program is closer to the exact sum? Here is the difference
# between the result of each program and a sum in float64, for sums of 8192 products:

# %%
exactly = np.maximum(a.astype("float64") @ b + bias, 0)
for lanes in (1, 4, 16, 64):
    off = np.abs(run(in_lanes(example.blocks(2, 2, k), lanes).func, a, b, bias) - exactly).max()
    print(f"{lanes:>3} lanes: off by {off:.5f}")

# %% [markdown]
# The program with one lane is off by 0.003, and the program with four lanes is off by about a fifth of that. Partial
# sums are usually *more* accurate than one long chain, because each partial sum stays smaller, and rounding errors grow
# with the size of the sum.
#
# ## The ledger
#
# The lanes need a little more work: for each element of C, every lane has its own start value and one more addition,
# and the partial sums are kept in memory. The last row shows how long the compiled code takes for *one* sum of 65536
# products on one thread.


# %%
def compiled(lanes: int | None) -> str:
    """The time of one long sum."""
    func = example.blocks(1, 1, 65536)
    func = func if lanes is None else in_lanes(func, lanes).func
    return ledger.time_compiled(func, example.inputs(1, 1, 65536), example.expected)


args = example.inputs(2, 2, 16)
ledger.show(
    {
        label: {**ledger.measure(func, *args).lesson_rows(), "time compiled, 65536": compiled(lanes)}
        for label, func, lanes in (
            ("one chain", program, None),
            ("four lanes", factored, 4),
            ("16 lanes", in_lanes(program, 16).func, 16),
        )
    }
)

# %% [markdown]
# The adds grow from 68 to 84 and 132. But in the last row, four lanes usually take far less time than one chain,
# although they do more work. A processor can begin several additions in each cycle, but it needs about four cycles to
# finish an addition. In a single chain it waits for each result before it can go on; with several chains it always has
# something to do. A compiler must not cut the chain without your consent, because the cut changes the bits of the
# result. With `rfactor` you give your consent, and `reference.check` has shown that the formula stayed the same.
#
# ## Your turn
#
# Write a sum in two steps by hand, for every length and every number of lanes. You have to handle the tail again.
#
#     minitvm lesson 10 --start     (writes exercise_10.py, for you to fill in)
#     minitvm lesson 10 --check
