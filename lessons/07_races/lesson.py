# %% [markdown]
# # Vectorise, unroll, parallel, and races
#
# A loop says "one after the other". A machine can do more: eight elements in one instruction, or one half of the loop
# on each of two cores. Today we tell a loop to run in another way, see what the kernel becomes, and meet what goes
# wrong when the iterations do not mind their own business: a *race*.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import numpy as np

import minitvm
from lessons import example, ledger, picture
from lessons.predict import predict
from lessons.text import body_of
from minitvm import reference, tir
from minitvm.errors import ScheduleError
from minitvm.film import Film
from minitvm.reference.meaning.findings import UndefinedBehaviour
from minitvm.script import tir as T
from minitvm.tir.nodes import PrimFunc

# %% [markdown]
# ## Four kinds of loop
#
# Y = relu(X) once more, for 8 elements. A schedule gives its loop a *kind*; on the way to a kernel the kind becomes
# code.


# %%
@T.prim_func
def relu(X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("Y"):
            vi = T.axis.spatial(8, i)
            Y[vi] = T.max(X[vi], T.float32(0))


kinds = {}
for kind in ("serial", "vectorize", "unroll", "parallel"):
    sch = tir.Schedule(relu)
    if kind != "serial":
        getattr(sch, kind)(sch.get_loops("Y")[0])
    kinds[kind] = sch.func
    print(kind)
    print(body_of(minitvm.lower(sch.func, stop_at="kernel")["relu"]))

# %% [markdown]
# - **vectorize**: the loop is gone. `T.Ramp(0, 1, 8)` is the index 0, 1, ..., 7: one load of 8 lanes, one max, one
#   store.
# - **unroll**: the loop is gone, and its body is written out. Nothing changes places. It saves the counting, and every
#   index is now a constant. What that is good for, we shall see at the end.
# - **parallel**: the loop is still there, but each thread runs a share of it. Look at the last two lines of the Python
#   text that will be compiled:

# %%
source = minitvm.lower(kinds["parallel"], stop_at="source")["relu"]
print("\n".join(source.splitlines()[-2:]))

# %% [markdown]
# A serial loop promises an order. So does an unrolled one. A vectorised or a parallel loop takes the promise back: what
# an iteration does may come before, after or in the middle of what another one does.
#
# ## Who needs the order?
#
# `relu` does not; each iteration has an X and a Y of its own. This program does, because an iteration reads what the
# one before it wrote. We write it by hand, so that it cannot be refused:


# %%
@T.prim_func
def chain(A: T.Buffer((5,), "int32")):
    for i in range(4):
        A[i + 1] = A[i] + 1


@T.prim_func
def parallel_chain(A: T.Buffer((5,), "int32")):
    for i in T.parallel(4):
        A[i + 1] = A[i] + 1


def run(program: PrimFunc, order: str = "forward") -> np.ndarray:
    """What is in A at the end, when it starts as 10, 20, 30, 40, 50."""
    a = np.array([10, 20, 30, 40, 50], "int32")
    reference.tir.run(program, a, inout=["A"], order=order, mode="slow", shadow=False)
    return a


predict(
    "The parallel loop runs forward, backward, and shuffled. How many different results are there?",
    len({run(parallel_chain, order).tobytes() for order in ("forward", "backward", "shuffled")}),
)
print(f"{'serial':<22}", run(chain))
for order in ("forward", "backward", "shuffled"):
    print(f"parallel, {order:<12}", run(parallel_chain, order))
assert len({run(parallel_chain, order).tobytes() for order in ("forward", "backward", "shuffled")}) == 3

# %% [markdown]
# Three orders, three results, and on a real machine each run may bring another one. The order "forward" gives the right
# one: on a quiet day every test passes. That is why you should not look for races by testing.
#
# ## A race
#
# **Two accesses race when they touch the same element, at least one of them writes, and nothing orders them.**
#
# The interpreter need not be unlucky to find one. In shadow mode, which is on unless you switch it off, it writes down
# who touched each element last, and checks whether a promised order is between the two. It runs the loop forward, and
# the values are right; still it finds the race:

# %%


def race_in(program: PrimFunc) -> UndefinedBehaviour | None:
    """What the shadow mode says about a program on an A of any values; None when it finds nothing."""
    a = np.zeros([int(size) for size in program.params[0].shape], "int32")
    try:
        reference.tir.run(program, a, inout=["A"])
    except UndefinedBehaviour as error:
        return error
    return None


race = race_in(parallel_chain)
assert race is not None and race_in(chain) is None
print(race)

# %% [markdown]
# Two accesses, each with the iteration that it belongs to. Marked in the program:

# %%
print("\n".join(race.finding.script(parallel_chain).splitlines()[-4:]))

# %% [markdown]
# Two reads never race: it makes no difference which came first. And an iteration does not race with itself: within one
# iteration, the order is fixed.
#
# ## Lanes march in step
#
# Vectors are not quite like threads. All lanes load, then all lanes add, then all lanes store. So a vector *has* an
# order, only it is another one than that of the loop. Here is the chain as a vector, and a loop that runs the other
# way: each iteration reads what the *next* one overwrites.


# %%
@T.prim_func
def vector_chain(A: T.Buffer((5,), "int32")):
    A[T.Ramp(1, 1, 4)] = A[T.Ramp(0, 1, 4)] + T.Broadcast(1, 4)


@T.prim_func
def pull(A: T.Buffer((5,), "int32")):
    for i in range(4):
        A[i] = A[i + 1] + 1


@T.prim_func
def vector_pull(A: T.Buffer((5,), "int32")):
    A[T.Ramp(0, 1, 4)] = A[T.Ramp(1, 1, 4)] + T.Broadcast(1, 4)


for program in (chain, vector_chain, pull, vector_pull):
    print(f"{program.name:<13} {run(program)}")
assert (run(chain) != run(vector_chain)).any() and (run(pull) == run(vector_pull)).all()

# %% [markdown]
# The chain is wrong as a vector. `pull` is right: the vector has read everything before it writes anything. (Threads
# would race in both.) minitvm does not use this: `vectorize` asks for the same as `parallel`, that no iteration touches
# what another one writes. Then the result does not depend on how many lanes an instruction has, nor on whether it has
# any: a loop that is too long for one vector becomes several.
#
# ## Loops in loops
#
# Which accesses are ordered, when some of the loops around them are parallel and some are not? Lesson 05 had the clock:
# the outer hand decides, the inner ones only where the outer ones are equal. The same here: **the outermost loop in
# which the two differ decides.** If it is serial, all of one iteration is done before the next one begins, whatever
# runs in parallel inside. If it is parallel, nothing orders them, whatever is serial inside.


# %%
@T.prim_func
def serial_outside(A: T.Buffer((4, 8), "int32")):
    for i in range(3):
        for j in T.parallel(8):
            A[i + 1, j] = A[i, 7 - j] + 1


@T.prim_func
def parallel_outside(A: T.Buffer((4, 8), "int32")):
    for i in T.parallel(3):
        for j in range(8):
            A[i + 1, j] = A[i, 7 - j] + 1


for program in (serial_outside, parallel_outside):
    print(f"{program.name}: {race_in(program) or 'no race'}")

# %% [markdown]
# As films, in which the iterations of a parallel loop run side by side. In the first film a row is complete before the
# next row reads it. In the second film three rows are written at the same time, each from values that another thread
# is about to write. The red frame is the element that the interpreter named.

# %%
for program in (serial_outside, parallel_outside):
    film = Film.of(program, inout=["A"], title=program.name.replace("_", " "))
    print("the film:", picture.save(program.name, film.svg()))

# %% [markdown]
# In the first program each row waits for all of the row above it: the threads meet at the end of `j`. Such a meeting is
# called a *barrier*.
#
# ## The schedule refuses
#
# An interpreter sees the races of one run. A schedule must be sure for all inputs, so it solves equations, as in
# lesson 05. Is there an element that two iterations of this loop touch, one of them writing? Here a scratch value is
# kept in one place for all:


# %%
@T.prim_func
def one_scratch(X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32")):
    s = T.alloc_buffer((1,), "float32")
    for i in range(8):
        with T.block("s"):
            vi = T.axis.spatial(8, i)
            s[0] = X[vi] * T.float32(2)
        with T.block("Y"):
            vi = T.axis.spatial(8, i)
            Y[vi] = s[0] * s[0]


sch = tir.Schedule(one_scratch)
(i,) = sch.get_loops("Y")
try:
    sch.parallel(i)
except ScheduleError as error:
    print(error)

# %% [markdown]
# Found is a pair that you can check by hand, as always: both iterations write `s[0]`. (`s` is used up within the
# iteration, so serially all is well; in parallel, one thread squares what another one has just stored.)
#
# And when the data decide? This program sends each X to a place that it looks up:


# %%
@T.prim_func
def scatter(to: T.Buffer((4,), "int32"), X: T.Buffer((4,), "float32"), Y: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("Y"):
            vi = T.axis.spatial(4, i)
            Y[to[vi]] = X[vi]


sch = tir.Schedule(scatter)
try:
    sch.parallel(sch.get_loops("Y")[0])
except ScheduleError as error:
    print("\n".join(str(error).splitlines()[-2:]))

# %% [markdown]
# `to` may hold four places that are all different; then nothing races. But the schedule must answer for inputs that it
# will never see. Of `Y[to[vi]]` it knows that it is somewhere in Y (`e0` is the place), so two iterations *may* meet,
# and it refuses. What cannot be shown to be safe is not done.
#
# ## How to make it legal
#
# **Give each iteration a place of its own.** That is nearly always the answer. A scratch with an element for each `i`:


# %%
@T.prim_func
def scratch_for_each(X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32")):
    s = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("s"):
            vi = T.axis.spatial(8, i)
            s[vi] = X[vi] * T.float32(2)
        with T.block("Y"):
            vi = T.axis.spatial(8, i)
            Y[vi] = s[vi] * s[vi]


sch = tir.Schedule(scratch_for_each)
(i,) = sch.get_loops("Y")
sch.parallel(i)
print(reference.check(one_scratch, sch.func))

# %% [markdown]
# It costs no memory in the end: when the function is lowered, minitvm notices that each iteration uses one element
# only, and makes it a local variable of the thread.

# %%
print(body_of(minitvm.lower(sch.func, stop_at="kernel")["scratch_for_each"]))

# %% [markdown]
# **Take another loop.** In our example, `r` adds everything up in one place, and is refused. But `i` and `j` each have
# their own row and column of C:

# %%
program = example.blocks(32, 32, 32)
refused = {}
print("    vectorize   unroll      parallel")
for at, name in enumerate("ijr"):
    answers = []
    for kind in ("vectorize", "unroll", "parallel"):
        sch = tir.Schedule(program)
        try:
            getattr(sch, kind)(sch.get_loops("C")[at])
            answers.append("accepted")
        except ScheduleError as error:
            refused[kind, name] = str(error)
            answers.append("refused")
    print(f"{name}   {answers[0]:<12}{answers[1]:<12}{answers[2]}")
print("\n".join(refused["parallel", "r"].splitlines()[-4:]))

# %% [markdown]
# Unrolling takes no promise back, so there is nothing to check. The third way is in the error: `rfactor` makes partial
# sums, so that each iteration has, again, a place of its own. Lesson 09 is about it. And where no loop will do, as on
# the staircase of lesson 05, another order may make one.
#
# ## The ledger
#
# Our example in tiles of 4 rows and 16 columns of C. The four columns of the ledger have *the same loops in the same
# order*. First all are serial; then the 16 columns become one vector; then the 4 rows are unrolled; then the tiles are
# shared among two threads.


# %%
def in_tiles(n: int, *kinds: str) -> PrimFunc:
    """The example with side n in tiles, some loops of other kinds."""
    sch = tir.Schedule(example.blocks(n, n, n))
    i, j, r = sch.get_loops("C")
    i_0, i_1 = sch.split(i, factors=[None, 4])
    j_0, j_1 = sch.split(j, factors=[None, 16])
    sch.reorder(i_0, j_0, r, i_1, j_1)
    if "vector" in kinds:
        sch.vectorize(j_1)
    if "unrolled" in kinds:
        sch.unroll(i_1)
    if "parallel" in kinds:
        sch.parallel(i_0)
    return sch.func


def compiled(*kinds: str) -> str:
    """The time of the example of side 256, compiled."""
    function = minitvm.build(in_tiles(256, *kinds), threads=2 if "parallel" in kinds else 1)
    large = example.inputs(256, 256, 256)
    function(*large)
    assert (large[-1] == example.expected(*large[:3])).all()
    return ledger.duration(ledger.best_of(5, lambda: function(*large)))


args = example.inputs(32, 32, 32)
columns = {}
for added in ((), ("vector",), ("vector", "unrolled"), ("vector", "unrolled", "parallel")):
    lowered = minitvm.lower(in_tiles(32, *added), stop_at="kernel")["example"]
    assert reference.check(program, lowered, modes=("exact", "shadow"))
    columns["+ " + added[-1] if added else "serial"] = {
        **ledger.measure(lowered, *args).lesson_rows(),
        "time compiled, 256": compiled(*added),
    }
ledger.show(columns)

# %% [markdown]
# The multiplies are the same in all columns: lanes and threads save time, not work. But look at the loads and stores.
# One vector loads an element of A once for 16 columns. And once the rows are unrolled, the tile of C has only constant
# indices, and minitvm keeps it in *registers* while `r` runs: C goes to memory once for each element, and not once for
# each product. This is the innermost loop of every fast matrix product:

# %%
lines = body_of(minitvm.lower(in_tiles(32, "vector", "unrolled"), stop_at="kernel")["example"]).splitlines()
start = next(k for k, line in enumerate(lines) if "for r in" in line)
print("\n".join(lines[start : start + 7]))

# %% [markdown]
# What the threads bring depends on how many cores are idle, and on the size: to start them takes some microseconds,
# whatever they do.
#
# ## Your turn
#
# Write the detector: from a list of who touched what in which iteration, find two accesses that race.
#
#     minitvm lesson 07 --start     (writes exercise_07.py, for you to fill in)
#     minitvm lesson 07 --check
