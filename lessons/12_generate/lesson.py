# %% [markdown]
# # Generate programs, and find bugs
#
# A test with one fixed program finds only the bugs that its author thought of. Today the computer generates the
# programs, and also the schedules for them. We plant two bugs in minitvm on purpose. Random tests find the first one
# after a few programs, but they find the second one only with another generator.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import hypothesis
from hypothesis import strategies as st

from lessons import drawings, example, ledger
from lessons.predict import predict
from lessons.sampling import off_by_one, search, some
from lessons.text import body_of
from minitvm import reference, tir
from minitvm.reference.strategies import KINDS, Scheduled, prim_funcs, scheduled
from minitvm.script import tir as T
from minitvm.tir.schedule import PRIMITIVES

# %% [markdown]
# ## Programs from nothing
#
# Hypothesis is a Python library for such tests. In Hypothesis, a *strategy* describes a set of values, and the library
# draws examples from it. The strategy `prim_funcs()` describes programs of a few blocks. Each block has one of the
# kinds that the first line below lists, and may read the results of earlier blocks:

# %%
print(", ".join(KINDS))

programs = some(prim_funcs(), 20)
lengths = sorted(programs, key=lambda func: len(body_of(func)))
print(f"\n{len(programs)} programs, of {len(body_of(lengths[0]).splitlines())} to "
      f"{len(body_of(lengths[-1]).splitlines())} lines. One from the middle:\n")  # fmt: skip
print(body_of(lengths[len(lengths) // 2]))

# %% [markdown]
# We wanted 20 programs and got 20. No program had to be discarded, because every program that the strategy can draw is
# right: it stays in bounds, writes all of its outputs, and keeps numbers small enough that floats are exact. Writing
# such a strategy is worth the effort. A strategy that draws arbitrary programs would spend most of its time discarding
# wrong ones.
#
# ## Generating legal schedules
#
# Schedules can be generated in the same way. The strategy `scheduled()` draws a program and then the steps of a
# schedule. It draws each step from `Schedule.space`, which lists the calls that are legal at this moment. Which steps
# occur in twenty schedules, and how often? The picture shows it.

# %%
pairs = some(scheduled(max_steps=4), 20)
queries = {name for name, primitive in PRIMITIVES.items() if primitive.query}
times = Counter(inst.primitive.name for pair in pairs for inst in pair.schedule.trace)
counted = {name: count for name, count in times.most_common() if name not in queries}
print(", ".join(f"{name} {count}" for name, count in list(counted.items())[:8]), f"and {len(counted) - 8} others")
picture = drawings.bars(counted, "how often each primitive was drawn for 20 schedules")
print("the picture:", picture.save("primitives_drawn"))

# %% [markdown]
# Every schedule must have one property: the scheduled program computes the same result as the original program. That is
# the whole test. You do not have to write down expected values, because the result of the original program *is* the
# expected value.


# %%
def differs(pair: Scheduled) -> bool:
    """Whether the oracle finds a difference, on numbers for which floats are exact."""
    return not reference.check(pair.before, pair.after, modes=("exact", "shadow"), shrink=False)


predict("How many of these 20 schedules change the result?", sum(map(differs, pairs)))
print(f"{sum(map(differs, pairs))} of {len(pairs)} differ")

# %% [markdown]
# All 20 schedules have the property, so this test has found no bug so far.
#
# ## A bug
#
# If the factor does not divide the extent, `split` adds a condition, such as `i_0 * 2 + i_1 < 5`. What if its author
# had written `<=` by mistake? `off_by_one` puts that mistake into the package for a moment, inside a `with` statement:

# %%
NAMES = ("split", "reorder", "fuse", "compute_at", "cache_read")

with off_by_one():
    first, tried = search(scheduled(None, *NAMES), differs, hypothesis.Phase.generate)
assert first is not None
print(f"found by pair {tried}:\n")
print(body_of(first.before), *first.schedule.trace.as_python(), sep="\n")

# %% [markdown]
# The test needed only a few programs to find the bug. But what is the bug? The program has several blocks, the schedule
# has several steps, and most of these blocks and steps have nothing to do with the bug. The next lesson shows how the
# computer makes such a program smaller. Today we ask another question: can we rely on such a test?
#
# ## Bugs that no test generates are not found
#
# Now we plant another mistake: a `reorder` that does not check dependences (see lesson 05).


# %%
@contextmanager
def unquestioned() -> Iterator[None]:
    """`reorder` without its check of dependences."""
    reorder = PRIMITIVES["reorder"]
    right = reorder.requires
    reorder.requires = tuple(needed for needed in right if needed.name != "keeps_dependences")
    try:
        yield
    finally:
        reorder.requires = right


with unquestioned():
    pair_found, tried = search(scheduled(None, "reorder"), differs, hypothesis.Phase.generate)
print(f"{tried} pairs: {'found' if pair_found else 'nothing found'}")

# %% [markdown]
# 60 pairs were tried, and none of them fails. Is everything fine, then? No. Only a program with a distance such as (1,
# -1), in which two numbers have opposite signs, can expose this mistake, and our generator rarely draws such a program.
# A test that passes tells you only about the programs that it generated. So we need another generator. You write a
# strategy as a function with the decorator `composite`, and this function gets its random values from `draw`. Here is a
# strategy for the staircases of lesson 05:


# %%
@st.composite
def staircases(draw: Callable[..., int]) -> tir.PrimFunc:
    """A[i + w0, j + w1] = A[i + r0, j + r1] + 1, after A has become a copy of X."""
    n = draw(st.integers(2, 5))
    w0, w1, r0, r1 = (draw(st.integers(0, 2)) for _ in range(4))

    @T.prim_func
    def stairs(X: T.Buffer((n + 2, n + 2), "float32"), A: T.Buffer((n + 2, n + 2), "float32")):
        for i, j in T.grid(n + 2, n + 2):
            with T.block("start"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = X[vi, vj]
        for i, j in T.grid(n, n):
            with T.block("step"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi + w0, vj + w1] = A[vi + r0, vj + r1] + T.float32(1)

    return stairs


with unquestioned():
    pair_found, tried = search(
        scheduled(staircases(), "reorder", max_steps=3), differs, hypothesis.Phase.generate, hypothesis.Phase.shrink
    )
assert pair_found is not None
print(f"{tried} pairs, and the smallest one is\n")
print(body_of(pair_found.before), *pair_found.schedule.trace.as_python()[-1:], sep="\n")

# %% [markdown]
# The new generator finds the mistake. (Hypothesis has also made the failing program small; the next lesson shows how.)
# In this program, the block `step` writes `A[vi, vj + 1]` and reads `A[vi + 1, vj]`. This is the second staircase of
# lesson 05, with the distance (1, -1), so its loops must not be exchanged.
#
# So look at the programs that your generator draws, as we did in the first picture. If a primitive, a size or a
# combination of steps never occurs, then the test says nothing about it.
#
# ## The ledger
#
# Here is our example as it was written, and after two random legal schedules. The result stays the same, but the cost
# may change:

# %%
program = example.blocks(8, 8, 8)
args = example.inputs(8, 8, 8)
columns = {"as written": ledger.measure(program, *args)}
for seed in range(2):
    generator, sch = random.Random(seed), tir.Schedule(program, seed=seed)
    for _ in range(5):
        call = sch.draw(generator.randrange, *NAMES)
        assert call is not None
        sch.apply(call)
    assert reference.check(program, sch.func)
    columns[f"random {seed}"] = ledger.measure(sch.func, *args)
ledger.show(columns)

# %% [markdown]
# Every column has 512 multiplies and 576 adds. Loads and stores may differ, because some random steps, such as
# `cache_read`, copy elements.
#
# ## Your turn
#
# Write a strategy for the steps of a schedule. Every schedule that it draws must be legal, and together they must
# find eight planted bugs.
#
#     minitvm lesson 12 --start     (writes exercise_12.py, for you to fill in)
#     minitvm lesson 12 --check
