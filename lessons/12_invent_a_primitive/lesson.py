# %% [markdown]
# # Invent a primitive
#
# `split`, `reorder` and the others are not built in. Each is a function in a file, and you can write one too: outside
# of the package, in less than a hundred lines. Today we need one that is missing: lesson 05 ended with a loop nest of
# which no loop can run in parallel, and said what would help.

# %%
from minitvm.tools.cli.lesson import find, load, open_lessons

open_lessons()

import inspect
import random

import numpy as np

from lessons import drawings, ledger
from lessons.predict import predict
from minitvm import reference, tir
from minitvm.errors import InternalError, ScheduleError
from minitvm.reference.strategies import draw_pairs
from minitvm.script import tir as T
from minitvm.tir.schedule.examples import gallery, verify_example
from minitvm.tir.schedule.testing import verify_trace_roundtrip

# %% [markdown]
# ## A sweep
#
# An element is what X puts there, plus half of the element above it, plus half of the element at its left, and both of
# these must be finished first. Solvers of Gauss and Seidel's kind sweep over a grid like this. The edges are zero.

# %%
ROWS, COLUMNS = 6, 8


def sweep(rows: int, columns: int) -> tir.PrimFunc:
    """A[i + 1, j + 1] = X[i, j] + (A[i, j + 1] + A[i + 1, j]) / 2, row by row."""

    @T.prim_func
    def sweep(X: T.Buffer((rows, columns), "float32"), A: T.Buffer((rows + 1, columns + 1), "float32")):
        for i, j in T.grid(rows + 1, columns + 1):
            with T.block("edge"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = T.float32(0)
        for i, j in T.grid(rows, columns):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                with T.init():
                    A[vi + 1, vj + 1] = X[vi, vj]
                A[vi + 1, vj + 1] = A[vi + 1, vj + 1] + (A[vi, vj + 1] + A[vi + 1, vj]) * T.float32(0.5)

    return sweep


program = sweep(ROWS, COLUMNS)
sch = tir.Schedule(program)
i, j = sch.get_loops("A")
for loop in (i, j):
    try:
        sch.parallel(loop)
    except ScheduleError as error:
        print(str(error).splitlines()[0].split("[")[0].strip())
        print(str(error).splitlines()[-1])

# %% [markdown]
# Neither loop. But look when each element could be computed, if there were workers without end: one step after the
# later one of its two neighbours.

# %%
ready = np.zeros((ROWS + 1, COLUMNS + 1), int)
for row in range(ROWS):
    for column in range(COLUMNS):
        ready[row + 1, column + 1] = 1 + max(ready[row, column + 1], ready[row + 1, column])
predict(
    "48 elements wait for their neighbours. With workers without end, how many steps does it take?", int(ready.max())
)
print(ready[1:, 1:])
print(f"{ROWS * COLUMNS} elements, {ready.max()} steps")

# %%
picture = drawings.cells(
    [[str(step) for step in row] for row in ready[1:, 1:]],
    [[drawings.SERIES[step % 6] for step in row] for row in ready[1:, 1:]],
    "the step in which each element can be computed; a colour is a wave",
)
print("the picture:", picture.save("wavefront"))

# %% [markdown]
# Equal numbers are on diagonals: i + j is the same there. We want a loop over the diagonals outside and one along a
# diagonal inside. A `reorder` cannot do that, since there is no loop over diagonals yet. So make one: let every row
# begin one step later than the row above it. That leans the nest over, and what was a diagonal is now a column.
#
# ## The file
#
# `skew.py` is in this lesson's folder. Loading it registers the primitive in it.

# %%
skew = load(find("12") / "skew.py").skew
source = inspect.getsource(skew.function)
print(source[: source.index('"""')] + "    ..." + source.split('"""')[2])

# %% [markdown]
# A primitive gets a `state` and the loops as they are *now*, as nodes, and puts other nodes in their place.
#
# * `wave` is the new loop's variable. In every row it counts `factor` further than j did, so j is
#   `wave - factor * i`, and `substitute` writes that wherever j stood.
# * `wave` runs over all steps, from the first one of the first row to the last one of the last row. In a row only
#   some of them belong to it: `guard` puts these two conditions on the block.
# * `tidy` simplifies, and `state.replace` changes the program.
#
# The decorator above it says `requires=[...]`: what must hold. Most of it is borrowed from `split` and
# `fuse`; the last one is our own. There is nothing about dependences, and none is needed, since the iterations still
# run in the same order. A requirement's docstring is its formal statement:

# %%
for needed in skew.requires:
    print(f"{needed.name:<16} {needed.statement.splitlines()[0]}")

# %% [markdown]
# ## It is a method

# %%
wave = sch.skew(i, j)
print("\n".join(sch.func.script().splitlines()[10:]))

# %% [markdown]
# `vj` is `j_skewed - i`: neither loop tells `vj` alone, both do. Now `reorder` and `parallel`, which know nothing of
# `skew`, and which ask what they always ask:

# %%
sch.reorder(wave, i)
sch.parallel(i)
print("\n".join(sch.func.script().splitlines()[10:]))
verdict = reference.check(program, sch.func, modes=("exact", "field", "shadow", "order"))
print(verdict)

# %% [markdown]
# The loop over i is parallel. "field" says that the same formula is computed for all inputs, "shadow" that no iteration
# touched what another one wrote, and "order" that they may run in any order. ("exact" wants whole numbers, and we have
# a half.)
#
# That is not guaranteed. Here is a nest whose elements need the one above and to the *right*. One step a row is not
# enough there:


# %%
@T.prim_func
def leaning(X: T.Buffer((6, 8), "float32"), A: T.Buffer((7, 9), "float32")):
    for i, j in T.grid(7, 9):
        with T.block("edge"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = T.float32(0)
    for i, j in T.grid(6, 8):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            with T.init():
                A[vi + 1, vj] = X[vi, vj]
            A[vi + 1, vj] = A[vi + 1, vj] + A[vi, vj + 1]


for factor in (1, 2):
    other = tir.Schedule(leaning)
    i2, j2 = other.get_loops("A")
    wave2 = other.skew(i2, j2, factor)
    other.reorder(wave2, i2)
    try:
        other.parallel(i2)
        print(f"factor {factor}: accepted;", reference.check(leaning, other.func))
    except ScheduleError as error:
        print(f"factor {factor}: refused; {str(error).splitlines()[-1].split(':', 1)[1].strip()}")

# %% [markdown]
# ## What else came with it
#
# We wrote one function. From its registration alone follow the instruction in the trace, as Python and as JSON:

# %%
print(sch.trace)
print(sch.trace.as_json()[0][2])
verify_trace_roundtrip(sch, program)

# %% [markdown]
# ... its documentation, from the docstring (`minitvm explain skew --load skew.py` prints all of it, and
# `docs/generate.py --load skew.py` makes a page). It has a program before and after, and that example is a test:

# %%
print(skew.document().split("\n\nbefore:")[0])
verify_example(skew)

# %% [markdown]
# ... the errors, with the program and the spot in it. For each requirement the file has a call that must be refused:

# %%
print(*(bad.call for bad in skew.bad_calls), sep="\n", end="\n\n")
print(gallery(skew)["leans_over"])

# %% [markdown]
# ... and its place among the steps that tests and tuners draw. `space` names calls that are worth a try. The program
# has two nests of loops i and j, so a call is not told by its text alone:

# %%
untouched = tir.Schedule(program)
for call in untouched.space("skew"):
    (block,) = untouched.get_child_blocks(call.arguments["inner"])
    print(f"  {call!s:<22} around block {untouched.get(block).name}")
generator = random.Random(12)
drawn = tir.Schedule(program, seed=0)
for _ in range(4):
    call = drawn.draw(generator.randrange, "skew", "split", "reorder")
    drawn.apply(call)
    print(" ", call)
print(reference.check(program, drawn.func))

# %% [markdown]
# With a space there is a property test. It makes random programs and legal calls on them, and compares before and
# after, as loops and as kernels. A few here; `minitvm check skew.py` does all of this, and 200 calls:

# %%
tried = draw_pairs("skew", seed=0, pairs=12)
print(f"{tried.pairs} calls on {tried.programs} programs: no difference")

# %% [markdown]
# Would it find anything? We break the file: the nest gets one column too few.

# %%
text = (find("12") / "skew.py").read_text(encoding="utf-8")
broken: dict[str, object] = {}
exec(text.replace("old < inner.extent)", "old < inner.extent - 1)"), broken)
try:
    draw_pairs("skew", seed=0, pairs=12)
except InternalError as error:
    print(str(error).splitlines()[0])
load(find("12") / "skew.py")

# %% [markdown]
# The same test, when `skew` was new, found a bug in a pass that is older: the start of a sum was moved out of its loop
# although, in a skewed nest, the first step of a later row is skipped. Unexpected programs are what random tests are
# for, and a new primitive makes many of them.
#
# ## The ledger
#
# The same work, in far fewer steps, if there are workers for it. The toy cache does not like diagonals.

# %%
x = np.random.default_rng(12).integers(-3, 4, (ROWS, COLUMNS)).astype("float32")
columns = {}
for name, func, steps in (("row by row", program, ROWS * COLUMNS), ("wavefront", sch.func, int(sch.get(wave).extent))):
    a = np.full((ROWS + 1, COLUMNS + 1), np.nan, "float32")
    columns[name] = {**ledger.measure(func, x, a, cache_lines=4).lesson_rows(), "steps, one after another": f"{steps}"}
ledger.show(columns)

# %% [markdown]
# On a CPU, minitvm's kernels start their team of threads once, so a parallel loop inside of another runs in turn there:
# this schedule shows what is legal, and would need larger tiles, one wave of *tiles* after another, to be fast. You
# know how to make them: `split` both loops, and `skew` the outer two.
#
# ## Your turn
#
# Deal the iterations of a loop out like cards. That changes their order, so this time you have to say when it is legal.
#
#     minitvm lesson 12 --start     (writes exercise_12.py, for you to fill in)
#     minitvm lesson 12 --check
