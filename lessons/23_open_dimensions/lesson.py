# %% [markdown]
# # Open dimensions
#
# A sentence can have any length, and a batch can have any size. If you compile a network again for each size, the user
# has to wait. If you compile it only for the largest size, most of the work is wasted. The third possibility is to
# compile once, with a length that is a name instead of a number. Then everything that depends on the length becomes a
# formula, for example the extents of loops and the amount of memory. And conditions that were checked at compile time
# are now checked when the network runs.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import time

import numpy as np

import minitvm
from lessons import drawings, ledger
from lessons.predict import predict
from lessons.text import body_of
from minitvm import reference
from minitvm.errors import InputError
from minitvm.executable import evaluate
from minitvm.expr import SizeVar
from minitvm.graph.builder import GraphBuilder
from minitvm.graph.nodes import Graph
from minitvm.script import from_source
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import Schedule

# %% [markdown]
# ## A name instead of a number
#
# Here is one layer for an input with n rows:


# %%
def layer(rows: int | SizeVar) -> Graph:
    """softmax(relu(x W)) of some rows."""
    b = GraphBuilder("layer")
    w = np.random.default_rng(20).standard_normal((64, 96)).astype("float32") / 8
    x = b.input("x", (rows, 64))
    return b.build(b.op("nn.softmax", b.op("nn.relu", b.op("nn.matmul", x, w))))


n = SizeVar("n")
print(layer(n))

# %% [markdown]
# The shape of the result is [n, 96], so the name n was carried through every operator. A `SizeVar` is a variable for a
# size, and minitvm knows that it is at least 0. Two dimensions are equal if their formulas are always equal. For
# example, `n * 2` and `n + n` are equal, but `n` and `k` are not.
#
# ## Tails again
#
# In lesson 06 we knew the extent of each loop, so we knew whether it has a tail. Now the answer depends on n. So
# `split` adds a predicate, and minitvm can never prove that this predicate is always true:


# %%
def doubled() -> PrimFunc:
    """B = 2 A, of any length."""
    func = from_source("""
@T.prim_func
def doubled(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = A[vi] * T.float32(2)
""")
    assert isinstance(func, PrimFunc)
    return func


sch = Schedule(doubled())
outer, inner = sch.split(sch.get_loops("B")[0], [None, 8])
print(sch.func.script())
sch.vectorize(inner)
kernels = minitvm.lower(sch.func, stop_at="kernel")
print(body_of(kernels["doubled"]))

# %% [markdown]
# The second program is the kernel. Its `if` tests whether a whole vector fits. If so, the kernel uses a vector without
# a mask; otherwise it uses a vector with a mask (on some machines, single elements).
#
# How can we check a program for all n? `reference.check` compares the two programs at several sizes. It tries small
# sizes first, because a mistake in a tail usually shows at small sizes:

# %%
verdict = reference.check(doubled(), sch.func)
print(verdict)
assert verdict

# %%
picture = drawings.cells(
    [[str(at) if at < size else "" for at in range(-(-size // 8) * 8)] for size in (1, 7, 8, 17)],
    [
        [drawings.GREY if at >= size else drawings.BLUE if at < size // 8 * 8 else drawings.LIGHT
         for at in range(-(-size // 8) * 8)]
        for size in (1, 7, 8, 17)
    ],
    "one kernel, four lengths: whole vectors are dark, the rest is light, grey lanes are masked",
    [f"n = {size}" for size in (1, 7, 8, 17)],
)  # fmt: skip
print("the picture:", picture.save("open_length"))

# %% [markdown]
# The programs were equal for all sizes in the list, including 0.
#
# ## Memory by a formula
#
# Our layer needs memory for n * 96 floats between its two kernels. The memory planner of lesson 20 can plan with such
# formulas. When the network runs, only the value of n has to be inserted:

# %%
executable = minitvm.lower(layer(n), stop_at="executable")
print(executable)
(arena,) = executable.arenas
for rows in (1, 7, 64):
    (size,) = [v for v in executable.inputs[0].shape if not isinstance(v, int)]
    print(f"n = {rows:>2}: an arena of {int(evaluate(arena.size, {size: rows})):>6} bytes")

# %% [markdown]
# In the third line, the size of the arena is a formula in n: n * 384 bytes, rounded up to a multiple of 64. For n = 7
# the size is 2688 bytes.
#
# ## One build, any size
#
# The layer is built only once, and its weights are packed once, for all sizes. For a new size, the layer needs only a
# new arena:

# %%
start = time.perf_counter()
module = minitvm.build(layer(n), threads=1)
print(f"build               {ledger.duration(time.perf_counter() - start):>9}")
rng = np.random.default_rng(0)
for rows in (1, 7, 64, 100, 0):
    x = rng.standard_normal((rows, 64)).astype("float32")
    start = time.perf_counter()
    result = np.asarray(module(x))
    first = time.perf_counter() - start
    again = ledger.best_of(20, lambda x=x: module(x))
    (expected,) = reference.graph.run(layer(rows), {"x": x})
    assert np.allclose(result, expected, atol=1e-6)
    print(f"n = {rows:>3}: first call {ledger.duration(first):>9}, then {ledger.duration(again):>9}")

fixed = minitvm.build(layer(64), threads=1)
x = rng.standard_normal((64, 64)).astype("float32")
print(f"built for n = 64 alone: {ledger.duration(ledger.best_of(20, lambda: fixed(x))):>9}")

# %% [markdown]
# Building takes much longer than any call, and it happens only once. The first call with a new size takes longer than
# later calls, because it has to allocate the arena. Zero rows are a size like any other. The last line shows the time
# of a layer that was built only for 64 rows. This layer may be a little faster than the first layer with n = 64,
# because the compiler could choose a tile that fits.
#
# ## Guards
#
# Suppose that you add an input with n rows and an input with k rows. The addition is only allowed if n and k are equal,
# or if one of them is 1. (A single row is added to every row of the other input.) The compiler does not know n and k,
# and it must not guess silently. So it compiles for both cases, and each run *checks* that one of the two cases
# applies. The result then has k rows if n is 1, and n rows otherwise. Or you declare with a `match_cast` that n and k
# are equal. Then the result has n rows. When minitvm reads a model from a file, it inserts a `match_cast` if the model
# allows no other case.

# %%
k = SizeVar("k")
b = GraphBuilder("sum")
x, y = b.input("x", (n, 4)), b.input("y", (k, 4))
print("for both cases:", b.op("add", x, y).type)
taken = b.op("match_cast", y, dims=((k, n),), where="the sum")
total = b.build(b.op("add", x, taken))
print(minitvm.lower(total, stop_at="executable"))

# %% [markdown]
# The first line shows the type of the sum without a `match_cast`: `Select(n == 1, k, n)` means k if n is 1, and n
# otherwise. Below it is the executable with the `match_cast`. The lines that begin with `guard` are conditions that are
# checked before the first step. If one of these conditions is false, the run stops with an error that names the sizes,
# before it has changed anything. The last line is the only step. It calls the kernel with the result, both inputs and
# their number of rows.
#
# Here we call the function with inputs of 3 and 2 rows, which breaks a guard:

# %%
summed = minitvm.build(total)
assert (np.asarray(summed(np.ones((3, 4), "float32"), np.ones((3, 4), "float32"))) == 2).all()
try:
    summed(np.ones((3, 4), "float32"), np.ones((2, 4), "float32"))
    raise AssertionError("this should have been refused")
except InputError as refused:
    print(refused)

# %% [markdown]
# The error names the condition that is false, and the two sizes, n = 3 and k = 2.
#
# ## The ledger
#
# The ledger shows the counts of `doubled`, split by 8, for a length that 8 divides and for a length that 8 does not
# divide. We count the program before it is lowered, so it tests its predicate in every iteration. (The kernel that you
# saw above tests the predicate only once for each vector.)

# %%
sch = Schedule(doubled())
sch.split(sch.get_loops("B")[0], [None, 8])
counted = {n: ledger.measure(sch.func, np.ones(n, "float32"), np.zeros(n, "float32")) for n in (16, 17)}
predict(
    "For n = 17, how many more lines does the cache fetch than for n = 16, for A and B together?",
    counted[17].lines_fetched - counted[16].lines_fetched,
)
ledger.show({f"n = {n}": entry for n, entry in counted.items()})

# %% [markdown]
# For n = 17 there is one more multiply, load and store. But the cache moves 256 bytes instead of 128. The cache fetches
# whole lines of 16 floats, and the last element of A and the last element of B are each in a new line.
#
# ## Your turn
#
# Write a function that computes the shape of a sum if some dimensions are names. It also returns the conditions that
# have to be checked when the network runs.
#
#     minitvm lesson 23 --start     (writes exercise_23.py, for you to fill in)
#     minitvm lesson 23 --check
