# %% [markdown]
# # Generate programs, and shrink what fails
#
# A test with one program finds only bugs that its author thought of. Today a machine generates the programs, and the
# schedules for them. We plant a bug, see how it is found, and see how a long failure becomes a short one.

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
# Hypothesis is a library for such tests. A *strategy* describes a set of values, and Hypothesis draws examples from it.
# `prim_funcs()` describes programs of a few blocks. A block has one of these kinds, and may read the results of the
# blocks before it:

# %%
print(", ".join(KINDS))

programs = some(prim_funcs(), 20)
lengths = sorted(programs, key=lambda func: len(body_of(func)))
print(f"\n{len(programs)} programs, of {len(body_of(lengths[0]).splitlines())} to "
      f"{len(body_of(lengths[-1]).splitlines())} lines. One from the middle:\n")  # fmt: skip
print(body_of(lengths[len(lengths) // 2]))

# %% [markdown]
# No program had to be discarded: each of them stays in bounds, writes all of its outputs, and keeps numbers small
# enough that floats are exact. It is worth writing a strategy whose programs are right by construction. A strategy that
# generates anything and discards wrong programs spends most of its time discarding.
#
# ## Generating legal schedules
#
# Schedules can be generated in the same way: `scheduled()` draws a program and then steps. Each step is one of
# `Schedule.space`, the calls that are legal *now*. Which steps occur in twenty schedules?

# %%
pairs = some(scheduled(max_steps=4), 20)
queries = {name for name, primitive in PRIMITIVES.items() if primitive.query}
times = Counter(inst.primitive.name for pair in pairs for inst in pair.schedule.trace)
counted = [f"{name} {count}" for name, count in times.most_common() if name not in queries]
print(", ".join(counted[:8]), f"and {len(counted) - 8} others")

# %% [markdown]
# A schedule must have one property: the program before and the program after mean the same. That is the whole test. It
# contains no expected values, because the program before *is* the expected value.


# %%
def differs(pair: Scheduled) -> bool:
    """Whether the oracle finds a difference, on numbers for which floats are exact."""
    return not reference.check(pair.before, pair.after, modes=("exact", "shadow"), shrink=False)


print(f"{sum(map(differs, pairs))} of {len(pairs)} differ")

# %% [markdown]
# ## A bug
#
# `split` puts a condition on the last tile when the factor does not fit: `i_0 * 2 + i_1 < 5`. What if its author had
# written `<=`? We put that mistake into the package for the duration of a `with`:


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
# The bug is found, but what is it? There are several blocks and several steps, and most of them have nothing to do with
# the bug. If this were someone else's report, you would start to remove parts, one after another, to see whether it
# still fails.
#
# ## Shrinking
#
# Hypothesis does that for us. It does not know what a program is. It only remembers the *numbers* that were drawn: the
# number of blocks, their kinds and sizes, the steps. It removes some of these numbers, or makes them smaller, builds a
# program from the rest, and keeps it if it still fails.

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
# One block and one step remain, and the verdict names the iteration that should not run. The size is the smallest one
# that a factor does not divide. Now you know where to look.
#
# Shrinking works well because of the way in which the strategy draws. It draws the *number* of blocks before the
# blocks, so that this number can be lowered. It draws each block and each step separately, so that one can be removed.
# Programs shrink well if their parts do not depend on each other more than necessary.
#
# The printed text is a complete bug report: save it as a file, and run it with `minitvm check`.

# %%
with tempfile.TemporaryDirectory() as folder, off_by_one():
    report = Path(folder) / "report.py"
    report.write_text(str(smallest) + "\n", encoding="utf-8")
    printed = io.StringIO()
    with redirect_stdout(printed):
        status = minitvm_command(["check", str(report)])
print(*printed.getvalue().splitlines()[:10], "...", f"exit status {status}", sep="\n")

# %% [markdown]
# ## Bugs that no test generates are not found
#
# Now we plant another mistake: a `reorder` that does not check dependences (lesson 05).


# %%
@contextmanager
def unquestioned() -> Iterator[None]:
    """`reorder` that does not ask whether a dependence breaks."""
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
# Is everything fine, then? No: only a program whose iterations depend on each other in two loops, and in opposite
# directions, can expose this mistake, and our generator rarely makes one. A test that passes is only evidence about the
# programs that it generated, so we need another generator. You write a strategy as a function decorated with
# `composite`, which gets its values from `draw`. Here is one for the staircases of lesson 05:


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
# The numbers in the indices are as small as they can be: this is the smallest staircase whose loops must not be
# exchanged. In lesson 05 you saw why.
#
# ## By hand
#
# Back to the long failure. A trace is a list of steps, and we try to remove them one at a time. Without a step, the
# trace either still fails, or is fine, or cannot be replayed, because a later step needs a block or loop that the
# missing step would have returned. A shrinker counts the last case as "does not fail", because it is a different
# failure.


# %%
def outcome(steps: list[Any]) -> str:
    """What becomes of the first program with these steps of its trace."""
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
# Which steps can you remove *together*? If you remove a step, you may also be able to remove the steps whose results it
# needs. That is the exercise.
#
# ## The ledger
#
# Here is the example, as written and after two random legal schedules. The meaning stays the same; the cost does not.

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
# ## Your turn
#
# Write a shrinker for lists of steps.
#
#     minitvm lesson 11 --start     (writes exercise_11.py, for you to fill in)
#     minitvm lesson 11 --check
