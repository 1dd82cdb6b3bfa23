# %% [markdown]
# # Vectorise, unroll, parallel, and races
#
# A serial loop runs one iteration after another. A machine can do more: it can compute eight elements in one
# instruction, or run one half of the loop on each of two cores. Today we make a loop run in these ways, and look at the
# kernel that we get. We also see what goes wrong when two iterations touch the same element and the machine may run
# them in any order. Such a mistake is called a *race*.

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
# We use Y = relu(X) once more, for 8 elements. A schedule gives each loop a *kind*. When the program is lowered to a
# kernel, the kind determines the code that the loop turns into.


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
# Compare each kernel with the serial kernel.
#
# - **vectorize**: the loop is gone. `T.Ramp(0, 1, 8)` is the vector of indices 0, 1, ..., 7, so the kernel has one load
#   of 8 lanes, one max, and one store.
# - **unroll**: the loop is gone, and its body is repeated for each iteration, in the same order. This saves the work of
#   updating and testing the loop counter, and every index is now a constant. You will see at the end of the lesson why
#   constant indices help.
# - **parallel**: the loop is still there, but each thread runs a share of it. Look at the last two lines of the Python
#   text that will be compiled:

# %%
source = minitvm.lower(kinds["parallel"], stop_at="source")["relu"]
print("\n".join(source.splitlines()[-2:]))

# %% [markdown]
# With two threads, thread 0 computes i from 0 to 3 and thread 1 computes i from 4 to 7.
#
# Serial and unrolled loops guarantee the order of their iterations. Vectorised and parallel loops guarantee no order:
# an iteration may run before another one, after it, or at the same time.
#
# ## Who needs the order?
#
# The iterations of `relu` may run in any order, because each iteration has its own element of X and of Y. In the next
# loop the order matters, because each iteration reads the element that the previous iteration wrote. We write the
# parallel version of this loop by hand, because a schedule would refuse to make it:


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
# The first line is the right result. The three lines below it are three different results of the same parallel loop. In
# the order "backward", for example, the iteration i = 3 runs first: it reads the old 40 and writes 41 to the last
# element. On a real machine each run may give another result. The order "forward" happens to give the right result, so
# with some luck every test passes. That is why testing is not a good way to find races.
#
# ## A race
#
# **Two accesses race when they touch the same element, at least one of them writes, and nothing orders them.**
#
# The interpreter finds a race even in a run that gives the right result. In shadow mode, which is on unless you switch
# it off, it records which iterations touched each element. Then it checks whether the loops guarantee an order between
# these iterations. Below, the loop runs forward and all values are right, but the interpreter still finds the race:

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
# The error names two accesses to element 1: iteration i = 0 writes it and iteration i = 1 reads it, and nothing
# guarantees that the write comes first. Here both accesses are marked in the program:

# %%
print("\n".join(race.finding.script(parallel_chain).splitlines()[-4:]))

# %% [markdown]
# Two reads never race, because their order makes no difference. An iteration does not race with itself either, because
# the statements inside one iteration run in order.
#
# ## Lanes march in step
#
# The lanes of a vector are not quite like threads. First all lanes load, then all lanes add, and then all lanes store.
# So a vector *has* an order, but it is not the order of the loop. Here is the chain as a vector. We also try a second
# loop, `pull`, in which each iteration reads the element that the *next* iteration overwrites.


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
# The first two lines differ, so the chain is wrong as a vector: all lanes read the old elements before any lane writes.
# The last two lines agree, so `pull` is right as a vector, because `pull` is meant to read the old elements. If the
# loop ran on threads instead, both `chain` and `pull` would have a race. So `pull` would be legal as a vector loop but
# not as a parallel loop. minitvm does not make this distinction: `vectorize` has the same requirement as `parallel`. No
# iteration may touch an element that another iteration writes. So the result does not depend on how many lanes a vector
# has. This independence matters, for example, when a loop is too long for one vector and is cut into several vectors.
#
# ## Loops in loops
#
# Suppose that two accesses are inside several loops, and only some of the loops are parallel. Are the two accesses
# ordered? In lesson 05 we compared nested loops with a clock: the outer number decides, and the inner number matters
# only if the outer ones are equal. The same is true here. **The outermost loop in which the two iterations differ
# decides whether they are ordered.** If that loop is serial, one of its iterations ends before the next begins, even if
# loops inside it are parallel. If that loop is parallel, nothing orders the two accesses, even if loops inside it are
# serial.


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
# The first program has no race, because the outer loop over the rows is serial. In the second program the outer loop is
# parallel. One thread writes `A[1, 7]` in row i = 0 while another thread reads it in row i = 1, so they race.
#
# Here are both programs as films, in which the iterations of a parallel loop run at the same time. In the first film a
# row is complete before the next row reads it. In the second film three rows are written at the same time, and each row
# is computed from values that another thread is about to overwrite. The red frame marks the element that the
# interpreter named.

# %%
for program in (serial_outside, parallel_outside):
    film = Film.of(program, inout=["A"], title=program.name.replace("_", " "))
    print("the film:", picture.save(program.name, film.svg()))

# %% [markdown]
# In the first program each row waits until the whole row above it is complete: at the end of the loop over `j`, each
# thread waits for all the other threads. A point where all threads wait for each other is called a *barrier*.
#
# ## The schedule refuses
#
# The interpreter finds the races of one run. But when you write `sch.parallel(loop)`, the result must be right for all
# inputs. So the schedule solves equations, as in lesson 05. It looks for two iterations of the loop that touch the same
# element, where at least one of the two writes it. In the next program all iterations share one scratch value, `s[0]`:


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
# The line *found* names a pair that you can check by hand: the iterations i=0 and i=1 both write `s[0]`. In a serial
# loop this does no harm, because each iteration stores its own value in `s` before it uses it. In a parallel loop, one
# thread could square the value that another thread has just stored.
#
# What happens if the data determine the index? The next program stores each element of X at an index that it looks up
# in the array `to`:


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
# The error names the iterations i=0 and i=1, and an unknown index `e0` that is 0 in both. If the four indices in `to`
# are all different, no two iterations write the same element, and there is no race. But the schedule does not know the
# inputs. It only knows that `Y[to[vi]]` is some element of Y, so two iterations *might* write the same element. A
# schedule refuses every step that it cannot prove to be safe.
#
# ## How to make it legal
#
# There are three ways to make a parallel loop legal. The first way is nearly always the best: **give each iteration its
# own element.** Here the scratch buffer has an element for each `i`:


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
# The schedule accepted `parallel`, and the result is still equal to the result of the first version. In the end the
# larger buffer costs no memory. When minitvm lowers the function, it finds that each iteration uses only one element of
# `s`, and makes that element a local variable of the thread:

# %%
print(body_of(minitvm.lower(sch.func, stop_at="kernel")["scratch_for_each"]))

# %% [markdown]
# The second way is to **choose another loop.** In our example, all iterations of `r` add to the same element of C, so
# `r` cannot be parallel. But each iteration of `i` has its own row of C, and each iteration of `j` has its own column:

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
# The table shows that all three kinds are accepted for `i` and `j`, but only `unroll` for `r`. Unrolling does not
# change the order, so no check is needed for it.
#
# The error under the table suggests the third way: **`rfactor` makes partial sums**, so that each iteration again has
# its own element. Lesson 10 is about `rfactor`. If no loop can be parallel at all, as in the wavefront of lesson 05,
# another order of the iterations may help.
#
# ## The ledger
#
# The ledger is for our example in tiles of 4 rows and 16 columns of C. All four programs have *the same loops in the
# same order*, and each changes the kind of one more loop. In the first program all loops are serial. In the second
# program, the 16 columns of a tile are one vector. In the third program, the 4 rows of a tile are unrolled as well. In
# the fourth program, two threads share the tiles.


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
# Every column has 32,768 multiplies: lanes and threads save time, not work. Now look at the loads and stores.
#
# - With vectors, the loads fall from 100,352 to 69,632, because an element of A is loaded once and used for 16 columns.
# - With unrolled rows, the stores fall from 34,816 to 2,048. Now the tile of C has only constant indices, so minitvm
#   can keep it in *registers* while `r` runs. Then each element of C is stored only once, instead of once for each
#   product.
#
# Here is the innermost loop of the third program. Every fast matrix product has an innermost loop of this form:

# %%
lines = body_of(minitvm.lower(in_tiles(32, "vector", "unrolled"), stop_at="kernel")["example"]).splitlines()
start = next(k for k, line in enumerate(lines) if "for r in" in line)
print("\n".join(lines[start : start + 7]))

# %% [markdown]
# Each of the last four lines adds to one row of the tile. All of them use the same vector of B, `B_v`, which is loaded
# only once.
#
# Look at the times in the last two columns of the ledger. The two threads of the last column may save a lot of time or
# only a little. The gain depends on how many cores of your machine are idle, and on the size of the problem, because
# starting the threads takes a few microseconds even if they have little to do.
#
# ## Your turn
#
# Write a detector for races. It gets a list of accesses, each with its element and its iteration, and finds two
# accesses that race.
#
#     minitvm lesson 07 --start     (writes exercise_07.py, for you to fill in)
#     minitvm lesson 07 --check
