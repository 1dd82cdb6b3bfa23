# %% [markdown]
# # Invent a primitive
#
# The steps of a schedule, such as `split` and `reorder`, are called *primitives*. They are not built into the compiler:
# each primitive is a function in a file. You can write a primitive yourself, outside the package, in less than a
# hundred lines. Today we need a primitive that is missing. Lesson 05 described a loop nest in which no loop can run in
# parallel, and named the primitive that would help: skewing.

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
# In the next program, an element of A is the sum of an element of X, half of the element above it, and half of the
# element to its left. So the elements above and to the left must be finished first. The Gauss-Seidel method, which
# solves linear equations, sweeps over a grid in this way. The edges of the grid are zero.

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
# Both calls are refused: neither loop can run in parallel. But suppose that we had as many workers as we like. Then
# each element could be computed in the step after the elements above it and to its left are finished. We compute the
# number of this step for each element:

# %%
ready = np.zeros((ROWS + 1, COLUMNS + 1), int)
for row in range(ROWS):
    for column in range(COLUMNS):
        ready[row + 1, column + 1] = 1 + max(ready[row, column + 1], ready[row + 1, column])
predict(
    "48 elements wait for the elements above and to the left. With as many workers as you like, how many steps are "
    "needed?",
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
# The largest number is 13, so 13 steps are enough for all 48 elements. Equal numbers are on the same diagonal, where
# i + j is the same for all elements. So we want an outer loop over the diagonals, and an inner loop along a diagonal.
# `reorder` cannot make these loops, because there is no loop over diagonals yet. The trick is to let every row begin
# one step later than the row above it. Then the rows lean to the right, and each diagonal becomes a column.
#
# ## The file
#
# The primitive is in the file `skew.py` in the folder of this lesson. When you load the file, it registers the
# primitive. Here is its code:

# %%
skew = load(find("14") / "skew.py").skew
source = inspect.getsource(skew.function)
print(source[: source.index('"""')] + "    ..." + source.split('"""')[2])

# %% [markdown]
# A primitive is a function. Its arguments are a `state`, which holds the program, and the loops that you named, as
# nodes of the program's tree. The function replaces these nodes with other nodes. Read the code line by line:
#
# * `wave` is the variable of the new loop. In each row the work begins `factor` steps later than in the row above, so
#   the old j is `wave - factor * i`. `substitute` replaces j with this expression.
# * `wave` runs over all steps, from the first step of the first row to the last step of the last row. Each row has work
#   in only some of these steps, so `guard` puts two conditions on the block.
# * `tidy` simplifies the new loops, and `state.replace` puts them into the program.
#
# The decorator above the function has the argument `requires`, a list of *requirements*. A call is legal if it meets
# all requirements. `skew` shares most of its requirements with `split` and `fuse`; only the last requirement is new.
# None of the requirements is about dependences, because skewing alone does not change the order of the iterations. The
# docstring of each requirement states the requirement formally:

# %%
for needed in skew.requires:
    print(f"{needed.name:<16} {needed.statement.splitlines()[0]}")

# %% [markdown]
# Each line has the name of a requirement and its statement. For example, the last line requires that the factor is at
# least 1.
#
# ## The new method
#
# Loading the file has added the method `skew` to every schedule. We call it on our sweep:

# %%
wave = sch.skew(i, j)
print("\n".join(sch.func.script().splitlines()[10:]))

# %% [markdown]
# The inner loop now has 13 iterations, and `vj` is `j_skewed - i`, so it depends on both loops. The condition `T.where`
# skips the steps in which a row has no work. Next we call `reorder` and `parallel`. These primitives know nothing about
# `skew`, and they check the same requirements as always:

# %%
sch.reorder(wave, i)
sch.parallel(i)
print("\n".join(sch.func.script().splitlines()[10:]))
verdict = reference.check(program, sch.func, modes=("exact", "field", "shadow", "order"))
print(verdict)

# %% [markdown]
# Both calls were accepted, and the loop over i is now parallel. The line `equal (field, shadow, order)` lists the
# checks that the new program passed. "field" shows that the new program computes the same formula. "shadow" shows that
# no parallel iteration touched an element that another iteration wrote. "order" shows that the iterations of the
# parallel loop may run in any order. The mode "exact" could not run, because it needs whole numbers and the program
# contains 0.5.
#
# Skewing does not always make a loop parallel. In the next program each element needs an element of the row above, one
# column to the *right*. So it is not enough if each row begins one step later than the row above:


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
# With a factor of 1, `parallel` is refused: in the same step (j_skewed=1), row 0 writes `A[1, 1]` and row 1 reads it.
# With a factor of 2, each row begins two steps later than the row above, so row 0 has written the element before row 1
# reads it.
#
# ## More from the registration
#
# We wrote one function, and because it is registered, we get several other things without more code. For example,
# `skew` appears in the trace of a schedule, as Python and as JSON:

# %%
print(sch.trace)
print(sch.trace.as_json()[0][2])
verify_trace_roundtrip(sch, program)

# %% [markdown]
# We also get documentation from the docstring of the function. (`minitvm explain skew --load skew.py` prints the whole
# documentation, and `docs/generate.py --load skew.py` makes a page from it.) The docstring contains an example: a
# program before and after the call. `verify_example` tests that the call really changes the first program to the
# second:

# %%
print(skew.document().split("\n\nbefore:")[0])
verify_example(skew)

# %% [markdown]
# We get error messages that show the program, with a mark at the right place. For each requirement, the file lists one
# call that must be refused. Here are these calls, and then the complete error for the last of them:

# %%
print(*(bad.call for bad in skew.bad_calls), sep="\n", end="\n\n")
print(gallery(skew)["leans_over"])

# %% [markdown]
# Finally, tests and tuners can use the new step, because `space` lists the calls to `skew` that are worth trying. Our
# program has two nests with loops i and j, so for each call we also print the block inside the loops that the call
# names. Then we draw four random steps and apply them:

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
# `skew` was listed for both blocks, two of the random steps were calls to `skew`, and the result is still equal.
#
# A primitive that has a `space` also gets a property test (lesson 12). The test generates random programs and legal
# calls, and compares the programs before and after each call, as loops and as kernels. Here we run a few calls. The
# command `minitvm check skew.py` runs the same test with 200 calls:

# %%
tried = draw_pairs("skew", seed=0, pairs=12)
print(f"{tried.pairs} calls on {tried.programs} programs: no difference")

# %% [markdown]
# Would this test find a mistake? We plant one in the code of `skew`: the new nest leaves out the last column.

# %%
text = (find("14") / "skew.py").read_text(encoding="utf-8")
broken: dict[str, object] = {}
exec(text.replace("old < inner.extent)", "old < inner.extent - 1)"), broken)
try:
    draw_pairs("skew", seed=0, pairs=12)
except InternalError as error:
    print(str(error).splitlines()[0])
load(find("14") / "skew.py")

# %% [markdown]
# The test finds the mistake: 4 of 16 elements were never written, and the first of these elements is in column 3, the
# last column.
#
# When `skew` was new, the same test also found a bug in an older part of minitvm. That part moved the start value of a
# sum out of its loop, although in a skewed nest the first step of a later row is skipped. Random tests are good at
# finding programs that we would not have thought of, and a new primitive makes many such programs possible.
#
# ## The ledger
#
# The ledger compares two orders of the sweep: row by row, and along the diagonals (the *wavefront*). This time the toy
# cache has only 256 bytes.

# %%
x = np.random.default_rng(12).integers(-3, 4, (ROWS, COLUMNS)).astype("float32")
columns = {}
for name, func, steps in (("row by row", program, ROWS * COLUMNS), ("wavefront", sch.func, int(sch.get(wave).extent))):
    a = np.full((ROWS + 1, COLUMNS + 1), np.nan, "float32")
    columns[name] = {**ledger.measure(func, x, a, cache_lines=4).lesson_rows(), "steps, one after another": f"{steps}"}
ledger.show(columns)

# %% [markdown]
# Look at the last row: with enough workers, 13 steps are enough instead of 48. The first four rows show that both
# programs do the same work. But the cache moves 2,816 bytes instead of 704, because neighbours on a diagonal are far
# apart in memory.
#
# Is the wavefront now faster on your CPU? Not yet. A kernel of minitvm starts its team of threads only once, so a
# parallel loop inside another loop runs serially. To be fast, the program would need waves of whole *tiles* instead of
# waves of elements. You know how to make such waves: `split` both loops, and `skew` the two outer loops.
#
# ## Your turn
#
# Write a primitive that deals the iterations of a loop out to a number of hands, like cards to players. Dealing changes
# the order of the iterations, so you also have to state when it is legal.
#
#     minitvm lesson 14 --start     (writes exercise_14.py, for you to fill in)
#     minitvm lesson 14 --check
