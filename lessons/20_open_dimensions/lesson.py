# %% [markdown]
# # Open dimensions
#
# A sentence can have any length, and a batch any size. If you compile for each size, the user waits; if you compile for
# the largest, most of the work is wasted. The third way is to compile once, with a length that has a name. Then every
# number that depends on it becomes a formula: extents, tails, memory. And conditions that were checked at compile time
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
# Here is one layer with n rows. The graph keeps the name through every operator.


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
# `SizeVar` is a variable that is at least 0, which the arithmetic knows. Two shapes are equal if their formulas are:
# `n * 2` and `n + n`, but not `n` and `k`.
#
# ## Tails again
#
# In lesson 06 the tail was known. Now it is unknown whether there is one. Splitting gives a predicate that cannot be
# removed:


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
# The kernel uses a whole vector if it fits; otherwise it uses a vector with a mask (or single elements). The oracle
# compares programs with open sizes at many sizes, small ones first, because a mistake in a tail usually shows at small
# sizes.

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
# ## Memory by a formula
#
# Between two kernels there are n * 96 floats. The memory planner (lesson 17) plans with formulas; a run only has to
# insert n.

# %%
executable = minitvm.lower(layer(n), stop_at="executable")
print(executable)
(arena,) = executable.arenas
for rows in (1, 7, 64):
    (size,) = [v for v in executable.inputs[0].shape if not isinstance(v, int)]
    print(f"n = {rows:>2}: an arena of {int(evaluate(arena.size, {size: rows})):>6} bytes")

# %% [markdown]
# ## One build, any size
#
# The weights are packed once, for all sizes. A new size only needs a new arena:

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
# Zero rows are a size like any other. A fixed size may still be a little faster, because the compiler can choose a tile
# that fits.
#
# ## Guards
#
# Suppose that you add two inputs of n and k rows. That is only right if n = k, or if one of them is 1: then its row is
# added to every row of the other. The compiler must not guess silently. It compiles for both cases, and a run *checks*
# that one of them holds: the result has `n == 1 ? k : n` rows. Or you declare that the two are equal, with a
# `match_cast`; then the result has n rows. Importers insert a `match_cast` if the model allows no other case.

# %%
k = SizeVar("k")
b = GraphBuilder("sum")
x, y = b.input("x", (n, 4)), b.input("y", (k, 4))
print("for both cases:", b.op("add", x, y).type)
taken = b.op("match_cast", y, dims=((k, n),), where="the sum")
total = b.build(b.op("add", x, taken))
print(minitvm.lower(total, stop_at="executable"))

# %% [markdown]
# The *guards* are checked before the first step: a run that breaks one changes nothing, and its error names the sizes
# that differ. The only step calls a kernel, which is named after its operators. Its arguments are the result, both
# inputs and their number of rows.

# %%
summed = minitvm.build(total)
assert (np.asarray(summed(np.ones((3, 4), "float32"), np.ones((3, 4), "float32"))) == 2).all()
try:
    summed(np.ones((3, 4), "float32"), np.ones((2, 4), "float32"))
    raise AssertionError("this should have been refused")
except InputError as refused:
    print(refused)

# %% [markdown]
# ## The ledger
#
# The ledger has `doubled`, split by 8, at a length that fits and at one that does not. The program tests its predicate
# in every iteration; the kernel that you saw above tests it once for each vector.

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
# ## Your turn
#
# Compute the shape of a sum when some dimensions are names, and the conditions that have to be checked when it runs.
#
#     minitvm lesson 20 --start     (writes exercise_20.py, for you to fill in)
#     minitvm lesson 20 --check
