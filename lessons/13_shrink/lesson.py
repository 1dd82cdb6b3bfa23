# %% [markdown]
# # Shrink what fails
#
# In the last lesson a random test found a bug: a long program and a long schedule, which together give a wrong result.
# Most of their parts have nothing to do with the bug. If you had to find the bug by hand, you would remove one part
# after another and see whether the rest still fails. Today the computer does this work. Then you write a program that
# does it.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import io
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import hypothesis

from lessons import drawings
from lessons.picture import Picture
from lessons.predict import predict
from lessons.sampling import off_by_one, search
from lessons.text import body_of
from minitvm import reference, tir
from minitvm.errors import MinitvmError
from minitvm.reference.strategies import Scheduled, scheduled
from minitvm.tir.schedule import Trace
from minitvm.tools.cli import main as minitvm_command

# %% [markdown]
# ## A long counterexample
#
# We plant the same bug as in the last lesson: the condition that `split` adds lets one iteration too many through.
# Then we search again for a program and a schedule that expose it. The printed text of such a pair is a Python file
# with the program and its schedule:


# %%
def differs(pair: Scheduled) -> bool:
    """Whether the oracle finds a difference, on numbers for which floats are exact."""
    return not reference.check(pair.before, pair.after, modes=("exact", "shadow"), shrink=False)


NAMES = ("split", "reorder", "fuse", "compute_at", "cache_read")

with off_by_one():
    first, tried = search(scheduled(None, *NAMES), differs, hypothesis.Phase.generate)
assert first is not None
print(f"found by pair {tried}:\n\n{first}")

# %% [markdown]
# Which of these 40 lines would you look at first?
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
        status = minitvm_command(["check", str(report), "--target", "interpreter"])
print(*printed.getvalue().splitlines()[:10], "...", f"exit status {status}", sep="\n")

# %% [markdown]
# The first part of the report is fine: the program alone runs correctly at every level. The part that begins with
# `sch:` says DIFFERENT, so the schedule changes the result, and the exit status is 1.
#
# ## By hand
#
# Now we go back to the long failing schedule, and try to shrink it by hand. The *trace* of a schedule is the list of
# its steps. We remove the steps one at a time and replay the rest. There are three possible outcomes:
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
# ## Your turn
#
# Write a shrinker for lists of steps.
#
#     minitvm lesson 13 --start     (writes exercise_13.py, for you to fill in)
#     minitvm lesson 13 --check
