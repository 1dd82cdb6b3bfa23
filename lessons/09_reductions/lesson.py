# %% [markdown]
# # Reductions: a sum in two steps
#
# A sum of a thousand numbers is a chain of a thousand additions, and each one waits for the previous one. Several
# shorter chains that run at the same time would finish sooner. But their result is not the same float! Today we cut the
# chain, look at the changes in the last digits, and see how you can prove that nothing else has changed.

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
# The block C of our example has an iterator of kind R, `vr`, and an `init`: the start value of the sum. The block does
# both: it starts in its first step and adds in each step. `decompose_reduction` splits it into two blocks, and puts the
# start before a loop that you name:

# %%
program = example.blocks(2, 2, 16)
sch = tir.Schedule(program)
i, j, r = sch.get_loops("C")
sch.decompose_reduction("C", r)
print("\n".join(sch.func.script().splitlines()[5:18]))

# %% [markdown]
# You cannot put the start anywhere. If `r` is the outermost loop, a start inside `r` would reset the sum in each step:

# %%
sch = tir.Schedule(program)
i, j, r = sch.get_loops("C")
sch.reorder(r, i, j)
try:
    sch.decompose_reduction("C", i)
except ScheduleError as error:
    print(error)

# %% [markdown]
# ## The chain
#
# The iterations of `r` all add to the same element, so they cannot run at the same time. If two threads both load 5,
# add 1 and store 6, one addition is lost.

# %%
try:
    sch.parallel(r)
except ScheduleError as error:
    print(str(error).splitlines()[0])
    print("\n".join(str(error).splitlines()[-4:]))

# %% [markdown]
# The error names the solution. `rfactor` gives every iteration of one loop its own element, and adds these up in a
# second block. We split `r` so that there are four such elements:


# %%
def in_lanes(func: tir.PrimFunc, lanes: int) -> tir.Schedule:
    """The sums of block C in `lanes` partial sums, which are then added up."""
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
    "16 products, added up in four lanes (colours), and these added up",
    ["products", "partial sums", "sum"],
    46,
)
print("the picture:", picture.save("lanes"))

# %% [markdown]
# Look at the letters in `T.axis.remap`. In the first block the lane, `vr_1`, has become S: every lane has its own
# element of `C_rf`, and the lanes may run in any order, or all at once. In the second block it is R. `sch.parallel` now
# accepts the loop:

# %%
sch.parallel(sch.get_loops("C_rf")[-1])
print("accepted")

# %% [markdown]
# Why may you cut the chain? Because addition is associative, and because its start, 0, is neutral: you may add it once
# for each lane and once more at the end. `max` with the start -infinity has both properties as well. Subtraction does
# not, nor does a sum that starts at 7. `rfactor` only accepts reducers that are known to have both properties.
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
# So the two programs give different bits on most inputs:

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
# Is a program with such differences still right? The usual answer is a tolerance: for example, the results should agree
# up to one part in a thousand. Here is a program with a common mistake. It omits the last product:


# %%
def one_short(k: int) -> tir.PrimFunc:
    """A wrong program: its sum ends one too early."""

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
# A tolerance cannot tell a rounding error from a small mistake. `reference.check` has three better methods.
#
# **exact**: use inputs for which no rounding happens. For small whole numbers every sum is exact in any order, so you
# may compare with `==`.

# %%
print("four lanes:  ", reference.check(program, factored, modes=("exact",)))
verdict = reference.check(program, one_short(16), modes=("exact",))
print(f"one left out: {verdict.after} instead of {verdict.before} at Y{list(verdict.index)}, on the inputs")
print(verdict.counterexample)

# %% [markdown]
# **field**: that was one input, or a few. What about all the others? Forget floats for a moment. Our programs compute
# formulas: sums of products of inputs. If two such formulas are different, they are different polynomials, and
# different polynomials seldom have the same value. How seldom? A theorem by Schwartz and by Zippel says: at a random
# point among the whole numbers modulo a prime p, two different polynomials of degree d agree with a probability of at
# most d / p. Modulo p there is no rounding, so addition is associative again. We try it by hand, with p = 2147483647:

# %%
p = 2**31 - 1
x, y = ([int(v) for v in rng.integers(0, p, 16)] for _ in range(2))
products = [s * t % p for s, t in zip(x, y)]
print("one chain:   ", sum(products) % p)
print("four lanes:  ", sum(sum(products[lane::4]) % p for lane in range(4)) % p)
print("one left out:", sum(products[:-1]) % p)

# %% [markdown]
# After one evaluation we know that the first two are the same polynomial, unless we had bad luck that happens once in a
# thousand million times. In this way the result at *one* point tells you something about *all* inputs. The field mode
# runs whole programs like this. Modulo p no number is larger or smaller than another, so the field mode also computes
# with an ordinary input, which decides each `max`. Its result then holds for the inputs that take the same side of each
# `max`.

# %%
print("four lanes:  ", reference.check(program, factored, modes=("field",)))
verdict = reference.check(program, one_short(16), modes=("field",))
print(f"one left out: {verdict.after} instead of {verdict.before} at Y{list(verdict.index)}")

# %% [markdown]
# **shadow**: a program may compute the right formula and still read an element before it was written, or write one from
# two parallel iterations. The shadow mode watches each element. `check` uses these three modes if you do not choose
# others:

# %%
print("lanes in parallel:", reference.check(program, sch.func))

# %% [markdown]
# Now you know that the formula is the same. You may also want to know how far the *floats* may be off. The mode "bound"
# follows the rounding error through every operation.

# %%
print(reference.check(program, factored, modes=("bound",)))

# %% [markdown]
# Neither program is exact, because both round. Here is how far each one is from the sum in float64, for sums of 8192
# products:

# %%
exactly = np.maximum(a.astype("float64") @ b + bias, 0)
for lanes in (1, 4, 16, 64):
    off = np.abs(run(in_lanes(example.blocks(2, 2, k), lanes).func, a, b, bias) - exactly).max()
    print(f"{lanes:>3} lanes: off by {off:.5f}")

# %% [markdown]
# ## The ledger
#
# The lanes add a little work: one start and one addition for each lane and element of C, through memory. The last row
# is the time of compiled code for *one* sum of 65536 products on one thread.


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
# A processor can begin several additions in each cycle, but it needs about four cycles to finish one. In a chain it
# waits. A compiler may not cut the chain without your consent, because that would change the bits. With `rfactor` you
# give your consent, and the oracle has shown that the formula stayed the same.
#
# ## Your turn
#
# Write a sum in two steps by hand, for every length and every number of lanes. You have to handle the tail again.
#
#     minitvm lesson 09 --start     (writes exercise_09.py, for you to fill in)
#     minitvm lesson 09 --check
