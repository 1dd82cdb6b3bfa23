# %% [markdown]
# # Invent a primitive
#
# `split`, `reorder` and the others are not built in. Each is a function in a file, and you can write one too, outside
# the package, in less than a hundred lines. Today we need one that is missing: lesson 05 ended with a loop nest in
# which no loop can run in parallel, and named the primitive that would help.

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
# An element of A is an element of X, plus half of the element above it, plus half of the element to its left, and both
# of these must be finished first. Gauss-Seidel solvers sweep over a grid like this. The edges are zero.

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
# Neither loop can run in parallel. But suppose that we had as many workers as we like. Then each element could be
# computed one step after the later one of its two neighbours.

# %%
ready = np.zeros((ROWS + 1, COLUMNS + 1), int)
for row in range(ROWS):
    for column in range(COLUMNS):
        ready[row + 1, column + 1] = 1 + max(ready[row, column + 1], ready[row + 1, column])
predict(
    "48 elements wait for their neighbours. With as many workers as you like, how many steps are needed?",
    int(ready.max()),
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
# diagonal inside. A `reorder` cannot do that, since there is no loop over diagonals yet. So we make one: every row
# begins one step later than the row above it. That makes the nest lean, and turns each diagonal into a column.
#
# ## The file
#
# `skew.py` is in this lesson's folder. Loading it registers the primitive in it.

# %%
skew = load(find("12") / "skew.py").skew
source = inspect.getsource(skew.function)
print(source[: source.index('"""')] + "    ..." + source.split('"""')[2])

# %% [markdown]
# A primitive gets a `state` and the current loops, as nodes, and replaces them with other nodes.
#
# * `wave` is the new loop's variable. In each row it begins `factor` steps later than in the row above, so j is
#   `wave - factor * i`, and `substitute` replaces j with that.
# * `wave` runs over all steps, from the first one of the first row to the last one of the last row. Only some of these
#   steps belong to a given row, so `guard` puts two conditions on the block.
# * `tidy` simplifies, and `state.replace` changes the program.
#
# The decorator above it has `requires=[...]`, the list of requirements. Most of them are shared with `split` and
# `fuse`; the last one is new. No requirement about dependences is needed, because the iterations still run in the same
# order. The docstring of a requirement is its formal statement:

# %%
for needed in skew.requires:
    print(f"{needed.name:<16} {needed.statement.splitlines()[0]}")

# %% [markdown]
# ## The new method

# %%
wave = sch.skew(i, j)
print("\n".join(sch.func.script().splitlines()[10:]))

# %% [markdown]
# `vj` is `j_skewed - i`, so it depends on both loops. Now we call `reorder` and `parallel`. They do not know `skew`,
# and check the same requirements as always:

# %%
sch.reorder(wave, i)
sch.parallel(i)
print("\n".join(sch.func.script().splitlines()[10:]))
verdict = reference.check(program, sch.func, modes=("exact", "field", "shadow", "order"))
print(verdict)

# %% [markdown]
# The loop over i is parallel. The mode "field" shows that the same formula is computed, "shadow" that no iteration
# touched an element that another one wrote, and "order" that the iterations may run in any order. ("exact" needs whole
# numbers, and this program has a half.)
#
# That is not guaranteed. Here is a nest whose elements need the one above and to the *right*. There, one step later for
# each row is not enough:


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
# ## More from the registration
#
# We wrote one function. Its registration gives us the rest, for example the instruction in the trace, as Python and as
# JSON:

# %%
print(sch.trace)
print(sch.trace.as_json()[0][2])
verify_trace_roundtrip(sch, program)

# %% [markdown]
# We also get its documentation, from the docstring (`minitvm explain skew --load skew.py` prints all of it, and
# `docs/generate.py --load skew.py` makes a page). The docstring shows a program before and after the call, and that
# example is a test:

# %%
print(skew.document().split("\n\nbefore:")[0])
verify_example(skew)

# %% [markdown]
# We get the errors, with the program and a mark at the right place. For each requirement the file has a call that must
# be refused:

# %%
print(*(bad.call for bad in skew.bad_calls), sep="\n", end="\n\n")
print(gallery(skew)["leans_over"])

# %% [markdown]
# And tests and tuners can use the new step. `space` lists calls that are worth trying. The program has two nests of
# loops i and j, so we also print the block that each call is about:

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
# With a `space`, the primitive also has a property test. It makes random programs and legal calls on them, and compares
# the programs before and after, as loops and as kernels. Here we run a few calls; `minitvm check skew.py` does all of
# this, with 200 calls:

# %%
tried = draw_pairs("skew", seed=0, pairs=12)
print(f"{tried.pairs} calls on {tried.programs} programs: no difference")

# %% [markdown]
# Would it find a mistake? We plant one in the file: the nest gets one column too few.

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
# When `skew` was new, the same test found a bug in an older pass: it moved the start of a sum out of its loop although,
# in a skewed nest, the first step of a later row is skipped. Random tests are good at programs that we would not have
# thought of, and a new primitive makes many of them.
#
# ## The ledger
#
# The work is the same, but with enough workers it takes far fewer steps. The toy cache fetches more, because neighbours
# on a diagonal are far apart in memory.

# %%
x = np.random.default_rng(12).integers(-3, 4, (ROWS, COLUMNS)).astype("float32")
columns = {}
for name, func, steps in (("row by row", program, ROWS * COLUMNS), ("wavefront", sch.func, int(sch.get(wave).extent))):
    a = np.full((ROWS + 1, COLUMNS + 1), np.nan, "float32")
    columns[name] = {**ledger.measure(func, x, a, cache_lines=4).lesson_rows(), "steps, one after another": f"{steps}"}
ledger.show(columns)

# %% [markdown]
# On a CPU, minitvm's kernels start their team of threads once, so a parallel loop inside another loop runs serially.
# This schedule is legal, but it would need larger tiles, one wave of *tiles* after another, to be fast. You know how to
# make them: `split` both loops, and `skew` the outer two.
#
# ## Your turn
#
# Deal the iterations of a loop out like cards. That changes their order, so this time you have to state when it is
# legal.
#
#     minitvm lesson 12 --start     (writes exercise_12.py, for you to fill in)
#     minitvm lesson 12 --check
