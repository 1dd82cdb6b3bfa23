# %% [markdown]
# # Generate programs, and shrink what fails
#
# A test with one fixed program finds only the bugs that its author thought of. Today the computer generates the
# programs, and also the schedules for them. We plant a bug in minitvm on purpose, and see how random tests find it.
# Then we see how a long program that fails is turned into a short program that still fails.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import io
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import strategies as st

from lessons import drawings, example, ledger
from lessons.picture import Picture
from lessons.predict import predict
from lessons.sampling import search, some
from lessons.text import body_of
from minitvm import reference, tir
from minitvm.errors import MinitvmError
from minitvm.reference.strategies import KINDS, Scheduled, prim_funcs, scheduled
from minitvm.script import tir as T
from minitvm.tir.nodes import Stmt
from minitvm.tir.schedule import PRIMITIVES, Trace
from minitvm.tir.schedule.primitives import loops
from minitvm.tools.cli import main as minitvm_command

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
# occur in twenty schedules, and how often?

# %%
pairs = some(scheduled(max_steps=4), 20)
queries = {name for name, primitive in PRIMITIVES.items() if primitive.query}
times = Counter(inst.primitive.name for pair in pairs for inst in pair.schedule.trace)
counted = [f"{name} {count}" for name, count in times.most_common() if name not in queries]
print(", ".join(counted[:8]), f"and {len(counted) - 8} others")

# %% [markdown]
# Every schedule must have one property: the scheduled program computes the same result as the original program. That is
# the whole test. You do not have to write down expected values, because the result of the original program *is* the
# expected value.


# %%
def differs(pair: Scheduled) -> bool:
    """Whether the oracle finds a difference, on numbers for which floats are exact."""
    return not reference.check(pair.before, pair.after, modes=("exact", "shadow"), shrink=False)


print(f"{sum(map(differs, pairs))} of {len(pairs)} differ")

# %% [markdown]
# All 20 schedules have the property, so this test has found no bug so far.
#
# ## A bug
#
# If the factor does not divide the extent, `split` adds a condition, such as `i_0 * 2 + i_1 < 5`. What if its author
# had written `<=` by mistake? We put that mistake into the package for a moment, inside a `with` statement:


# %%
@contextmanager
def off_by_one() -> Iterator[None]:
    """`split` with a condition that lets one iteration too many through."""
    right = loops.guard

    def wrong(body: Stmt, condition: Any) -> Stmt:
        return right(body, condition.a <= condition.b)

    loops.guard = wrong
    try:
        yield
    finally:
        loops.guard = right


NAMES = ("split", "reorder", "fuse", "compute_at", "cache_read")

with off_by_one():
    first, tried = search(scheduled(None, *NAMES), differs, hypothesis.Phase.generate)
assert first is not None
print(f"found by pair {tried}:\n\n{first}")

# %% [markdown]
# The test needed only a few programs to find the bug. But what is the bug? The program has several blocks, the schedule
# has several steps, and most of these blocks and steps have nothing to do with the bug. If you had to find the bug by
# hand, you would remove one part after another and see whether the rest still fails.
#
# ## Shrinking
#
# Hypothesis does this work for us. It does not know what a program is. It only remembers the *numbers* that it drew,
# for example the number of blocks, their kinds, their sizes, and the steps. It removes some of these numbers or makes
# them smaller, and builds a program from the rest. If that program still fails, Hypothesis continues with its numbers.

# %%
with off_by_one():
    smallest, tried = search(scheduled(None, *NAMES), differs, hypothesis.Phase.generate, hypothesis.Phase.shrink)
    assert smallest is not None
    verdict = reference.check(smallest.before, smallest.after)
before, after = (len(str(pair).splitlines()) for pair in (first, smallest))
predict("How many lines of the failing pair remain after shrinking?", after)
print(f"{before} lines became {after}, in {tried} comparisons:\n")
print(body_of(smallest.before), *smallest.schedule.trace.as_python(), "", verdict, sep="\n")

# %%
picture = Picture(620, 60 + 9 * before)
for left, name, pair in ((20, "before shrinking", first), (330, "after", smallest)):
    lines = str(pair).splitlines()
    picture.words(left, 26, f"{name}: {len(lines)} lines", 14)
    for row, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        in_trace = "sch" in line
        length = 2 * min(len(line.strip()), 120)
        picture.box(left + 4 * indent, 42 + 9 * row, length, 6, drawings.ORANGE if in_trace else drawings.BLUE)
picture.words(20, 52 + 9 * before, "a bar is a line: blue for the program, orange for the schedule", 11)
print("the picture:", picture.save("shrunk"))

# %% [markdown]
# Only one block and one step of the first failure remain: a `split` of a loop whose extent the factor does not divide.
# The last lines name the iteration that should not have run: its `vi` is one past the end of the loop. Now you know
# where to look: `split` lets one iteration too many through.
#
# Shrinking works so well because of the way in which the strategy draws its values. It draws the *number* of blocks
# before the blocks, so Hypothesis can lower this number. It draws each block and each step separately, so Hypothesis
# can remove one of them. If you write a strategy yourself, let its parts depend on each other as little as possible.
#
# The printed text of a failing pair is a complete bug report. You can save it as a file and run it with
# `minitvm check`:

# %%
with tempfile.TemporaryDirectory() as folder, off_by_one():
    report = Path(folder) / "report.py"
    report.write_text(str(smallest) + "\n", encoding="utf-8")
    printed = io.StringIO()
    with redirect_stdout(printed):
        status = minitvm_command(["check", str(report)])
print(*printed.getvalue().splitlines()[:10], "...", f"exit status {status}", sep="\n")

# %% [markdown]
# The first part of the report is fine: the program alone runs correctly at every level. The part that begins with
# `sch:` says DIFFERENT, so the schedule changes the result, and the exit status is 1.
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
# The new generator finds the mistake. In the smallest failing program, the block `step` writes `A[vi, vj + 1]` and
# reads `A[vi + 1, vj]`. This is the second staircase of lesson 05, with the distance (1, -1), so its loops must not be
# exchanged.
#
# ## By hand
#
# Now we go back to the long failing schedule that the first bug gave us, and try to shrink it by hand. The *trace* of a
# schedule is the list of its steps. We remove the steps one at a time and replay the rest. There are three possible
# outcomes:
#
# - the shorter trace still fails;
# - the shorter trace is fine, which means that the original program and the scheduled program agree;
# - the shorter trace cannot be replayed, because a later step needs a block or a loop that the missing step would have
#   returned. A shrinker counts this outcome as "does not fail", because it does not show the bug that we are looking
#   for.


# %%
def outcome(steps: list[Any]) -> str:
    """Return what happens if only these steps are applied to the first failing program."""
    sch = tir.Schedule(first.before)
    try:
        Trace(steps).apply_to_schedule(sch)
    except MinitvmError:
        return "cannot be replayed"
    return "still fails" if differs(Scheduled(first.before, sch)) else "is fine"


steps = list(first.schedule.trace)
with off_by_one():
    for position, line in enumerate(first.schedule.trace.as_python()):
        without = steps[:position] + steps[position + 1 :]
        print(f"{outcome(without):<18} without   {line.split('(')[0]}(...)")

# %% [markdown]
# Some lines say `still fails`: each of these steps can be left out if all the others stay. The lines that say
# `cannot be replayed` are mostly steps that return a block or loops. Once you have removed a step that uses a loop, you
# may also be able to remove the step that returned this loop. So one pass is not enough. In the exercise you write a
# shrinker that does better.
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
# Write a shrinker for lists of steps.
#
#     minitvm lesson 11 --start     (writes exercise_11.py, for you to fill in)
#     minitvm lesson 11 --check
