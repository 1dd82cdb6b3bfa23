# %% [markdown]
# # Vectorise, unroll, parallel, and races
#
# A serial loop runs one iteration after another. A machine can do more: eight elements in one instruction, or one half
# of the loop on each of two cores. Today we make a loop run in another way, look at the kernel, and see what goes wrong
# when iterations touch the same elements: a *race*.

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
# Y = relu(X) once more, for 8 elements. A schedule gives the loop a *kind*, which lowering to a kernel turns into code.


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
# - **unroll**: the loop is gone, and its body is repeated for each iteration, in the same order. This saves the
#   counting, and every index is now a constant. You will see at the end why that helps.
# - **parallel**: the loop is still there, but each thread runs a share of it. Look at the last two lines of the Python
#   text that will be compiled:

# %%
source = minitvm.lower(kinds["parallel"], stop_at="source")["relu"]
print("\n".join(source.splitlines()[-2:]))

# %% [markdown]
# A serial loop guarantees an order. So does an unrolled one. A vectorised or a parallel loop guarantees none: an
# iteration may run before, after or in the middle of another one.
#
# ## Who needs the order?
#
# `relu` does not, because each iteration has its own element of X and of Y. The next program does, because an iteration
# reads an element that the previous one wrote. We write it by hand, to avoid the check:


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
    """The final contents of A, if it starts as 10, 20, 30, 40, 50."""
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
# Three orders give three results, and on a real machine each run may give another one. The order "forward" gives the
# right one, so with some luck every test passes. That is why testing is not a good way to find races.
#
# ## A race
#
# **Two accesses race when they touch the same element, at least one of them writes, and nothing orders them.**
#
# The interpreter finds a race even in a run that gives the right result. In shadow mode, which is on unless you switch
# it off, it records which iterations touched each element, and checks whether an order between them is guaranteed. Here
# it runs the loop forward, the values are right, and it still finds the race:

# %%


def race_in(program: PrimFunc) -> UndefinedBehaviour | None:
    """The race that the shadow mode finds in a program, or None."""
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
# The error names two accesses, each with its iteration. Here they are marked in the program:

# %%
print("\n".join(race.finding.script(parallel_chain).splitlines()[-4:]))

# %% [markdown]
# Two reads never race, because their order makes no difference. And an iteration does not race with itself, because its
# statements run in order.
#
# ## Lanes march in step
#
# Vectors are not quite like threads. All lanes load, then all lanes add, then all lanes store. So a vector *has* an
# order, but not the order of the loop. Here is the chain as a vector, and a second loop in which each iteration reads
# the element that the *next* one overwrites.


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
# The chain is wrong as a vector. `pull` is right, because the vector reads everything before it writes anything.
# (Threads would race in both.) minitvm does not use this: `vectorize` has the same requirement as `parallel`, that no
# iteration touches an element that another one writes. Then the result does not depend on the number of lanes of an
# instruction. For example, a loop that is too long for one vector becomes several vectors.
#
# ## Loops in loops
#
# Which accesses are ordered if some of the loops around them are parallel and some are not? In lesson 05 we compared
# loops to a clock: the outer number decides, and the inner one matters only if the outer ones are equal. The same is
# true here: **the outermost loop in which the two differ decides.** If it is serial, one iteration ends before the next
# one begins, even if loops inside are parallel. If it is parallel, nothing orders the two accesses, even if loops
# inside are serial.


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
# Here are both as films, in which the iterations of a parallel loop run at the same time. In the first film a row is
# complete before the next row reads it. In the second film three rows are written at the same time, each from values
# that another thread is about to write. The red frame is the element that the interpreter named.

# %%
for program in (serial_outside, parallel_outside):
    film = Film.of(program, inout=["A"], title=program.name.replace("_", " "))
    print("the film:", picture.save(program.name, film.svg()))

# %% [markdown]
# In the first program each row waits for the whole row above it: at the end of `j`, each thread waits for all others.
# Such a wait is called a *barrier*.
#
# ## The schedule refuses
#
# An interpreter finds the races of one run. A schedule must be right for all inputs, so it solves equations, as in
# lesson 05: is there an element that two iterations of this loop touch, one of them writing? In this program all
# iterations share one scratch value:


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
# The line *found* has a pair that you can check by hand: both iterations write `s[0]`. (In a serial loop this is fine,
# because each iteration uses only its own value of `s`. In a parallel loop, one thread may square the value that
# another one has just stored.)
#
# What if the data determine the index? This program stores each element of X at an index that it looks up:


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
# If the four indices in `to` are all different, nothing races. But the schedule does not know the inputs. It only knows
# that `Y[to[vi]]` is somewhere in Y (`e0` is the index), so two iterations *may* touch the same element, and it
# refuses. A schedule refuses every step that it cannot prove to be safe.
#
# ## How to make it legal
#
# **Give each iteration its own element.** That is nearly always the answer. Here is a scratch buffer with an element
# for each `i`:


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
# In the end this costs no memory: when minitvm lowers the function, it finds that each iteration uses only one element,
# and makes that element a local variable of the thread.

# %%
print(body_of(minitvm.lower(sch.func, stop_at="kernel")["scratch_for_each"]))

# %% [markdown]
# **Choose another loop.** In our example, all iterations of `r` add to the same element, so it is refused. But `i` and
# `j` each have their own row and column of C:

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
# Unrolling does not change the order, so no check is needed. The third way is in the error: `rfactor` makes partial
# sums, so that each iteration again has its own element. Lesson 09 is about it. And if no loop can be parallel, as with
# the wavefront of lesson 05, another order of the iterations may help.
#
# ## The ledger
#
# The ledger is for our example in tiles of 4 rows and 16 columns of C. Its four columns have *the same loops in the
# same order*. First all are serial; then the 16 columns become one vector; then the 4 rows are unrolled; then the tiles
# are shared among two threads.


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
    threads = 2 if "parallel" in kinds else 1
    return ledger.time_compiled(in_tiles(256, *kinds), example.inputs(256, 256, 256), example.expected, threads)


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
# indices, and minitvm keeps it in *registers* while `r` runs: C is stored to memory once for each element, instead of
# once for each product. This is the innermost loop of every fast matrix product:

# %%
lines = body_of(minitvm.lower(in_tiles(32, "vector", "unrolled"), stop_at="kernel")["example"]).splitlines()
start = next(k for k, line in enumerate(lines) if "for r in" in line)
print("\n".join(lines[start : start + 7]))

# %% [markdown]
# The gain from threads depends on the number of idle cores, and on the size of the problem: starting the threads takes
# a few microseconds, however little they do.
#
# ## Your turn
#
# Write the detector: from a list of accesses, each with its element and its iteration, find two that race.
#
#     minitvm lesson 07 --start     (writes exercise_07.py, for you to fill in)
#     minitvm lesson 07 --check
