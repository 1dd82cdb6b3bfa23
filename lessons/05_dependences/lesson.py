# %% [markdown]
# # Dependences, and why an order is refused
#
# In lesson 03 a `reorder` was refused. In this lesson you find out why: first we watch a program run, then we do one
# subtraction, and then we read the error. At the end you can tell from the indices alone which orders of a loop nest
# are legal.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import itertools

from lessons import example, ledger, picture
from lessons.predict import predict
from minitvm import reference, tir
from minitvm.errors import ScheduleError
from minitvm.events import Access, Listener, Loop
from minitvm.film import Film
from minitvm.reference import random_inputs
from minitvm.script import tir as T
from minitvm.tir.nodes import PrimFunc

# %% [markdown]
# ## The staircase, again
#
# First A becomes a copy of X. Then each iteration reads one element of A and writes another.

# %%
N = 4


def staircase(written: tuple[int, int], read: tuple[int, int], transposed: bool = False) -> PrimFunc:
    """A[i + written[0], j + written[1]] = A[i + read[0], j + read[1]] + 1, for j in the inner loop or in the outer."""
    w0, w1 = written
    r0, r1 = read

    @T.prim_func
    def stairs(X: T.Buffer((N + 2, N + 2), "float32"), A: T.Buffer((N + 2, N + 2), "float32")):
        for i, j in T.grid(N + 2, N + 2):
            with T.block("start"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = X[vi, vj]
        for i, j in T.grid(N, N):
            with T.block("step"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi + w0, vj + w1] = A[vi + r0, vj + r1] + T.float32(1)

    @T.prim_func
    def other(X: T.Buffer((N + 2, N + 2), "float32"), A: T.Buffer((N + 2, N + 2), "float32")):
        for i, j in T.grid(N + 2, N + 2):
            A[i, j] = X[i, j]
        for j, i in T.grid(N, N):
            A[i + w0, j + w1] = A[i + r0, j + r1] + T.float32(1)

    return other if transposed else stairs


program = staircase((1, 0), (0, 1))
print("\n".join(program.script().splitlines()[-6:]))

# %% [markdown]
# ## Watch
#
# An interpreter reports every load, store and iteration to its listeners. This listener records, for each element,
# which iterations touched it. If another iteration touches the same element, and one of the two accesses is a store,
# there is a *dependence*: the two must stay in this order.


# %%
class Diary(Listener):
    """Pairs of iterations of loops i and j that touch one element of A, one of them storing."""

    def __init__(self) -> None:
        self.now: dict[str, int] = {}
        self.touched: dict[int, list[tuple[str, tuple[int, ...]]]] = {}
        self.pairs: list[tuple[str, tuple[int, ...], str, tuple[int, ...]]] = []
        self.recording = False

    def loop_iteration(self, loop: Loop, value: int) -> None:
        self.now[loop.var] = value

    def block(self, name: str) -> None:
        self.recording = name == "step"

    def load(self, access: Access) -> None:
        self.touch("reads", access)

    def store(self, access: Access) -> None:
        self.touch("writes", access)

    def touch(self, verb: str, access: Access) -> None:
        if not self.recording or access.buffer != "A":
            return
        at = (self.now["i"], self.now["j"])
        earlier = self.touched.setdefault(access.offset, [])
        for before, where in earlier:
            if where != at and "writes" in (before, verb):
                self.pairs.append((before, where, verb, at))
        earlier.append((verb, at))


def distances(watched: PrimFunc) -> set[tuple[int, ...]]:
    """How far apart, in each loop, two iterations are that depend on each other."""
    diary = Diary()
    reference.tir.run(watched, *random_inputs(watched), listeners=[diary])
    for before, p, verb, q in diary.pairs[:3]:
        print(f"  {p} {before} an element, and {q} {verb} it later: distance ({q[0] - p[0]}, {q[1] - p[1]})")
    apart = {tuple(b - a for a, b in zip(p, q)) for _, p, _, q in diary.pairs}
    print(f"  {len(diary.pairs)} pairs; distances {', '.join(map(str, sorted(apart)))}")
    return apart


print("written (1, 0), read (0, 1):")
assert distances(program) == {(1, -1)}

# %% [markdown]
# There are many pairs, but only one distance: one row down, one column to the left. You can find it without running the
# program. Iteration p writes A[p + written], and iteration q reads A[q + read]. They touch the same element when
#
#     q = p + (written - read)
#
# so the distance is `written - read`, here (1, 0) - (0, 1) = (1, -1).
#
# Loops count like a clock with hours and minutes: the outer one decides, and the inner one matters only if the outer
# ones are equal. So an iteration comes later if the first number of the distance that is not 0 is positive. If you
# exchange the loops, the distance becomes (-1, 1): the later iteration now runs first, and reads an element that has
# not been written yet.
#
# Two films show this. Orange squares have been written, grey ones have not. Look at the blue square, which is read.
# With i outside, it is orange already, except in the first row and the last column. With j outside, it is still grey:
# its new value comes too late.

# %%


@T.prim_func
def i_outside(A: T.Buffer((5, 5), "float32")):
    for i, j in T.grid(4, 4):
        A[i + 1, j] = A[i, j + 1] + T.float32(1)


@T.prim_func
def j_outside(A: T.Buffer((5, 5), "float32")):
    for j, i in T.grid(4, 4):
        A[i + 1, j] = A[i, j + 1] + T.float32(1)


for order in (i_outside, j_outside):
    print("the film:", picture.save(order.name, Film.of(order, inout=["A"]).svg()))

# %% [markdown]
# **An order of loops is legal if, for every distance with its numbers put in that order, the first number that is not 0
# is still positive.**
#
# ## The other sign
#
# What if `written - read` is negative from the start? Then no iteration reads too early. Instead, an iteration reads an
# element that a later one *overwrites*. The later one must not run first, or the old value is lost. This is a
# dependence as well; its distance is `read - written`, because the reader is the earlier one.

# %%
print("written (0, 1), read (1, 0):")
assert distances(staircase((0, 1), (1, 0))) == {(1, -1)}

# %% [markdown]
# ## The judge agrees
#
# We exchange the loops by hand, which no check prevents, and compare with `reference.check`. The table has four
# programs, each with the verdict of our rule, the answer of `reorder`, and the result of the comparison:

# %%
cases = [((1, 0), (0, 1)), ((0, 1), (1, 0)), ((1, 1), (0, 0)), ((0, 0), (0, 1))]
print("written  read     distance   rule     reorder    by hand")
for written, read in cases:
    apart = tuple(w - r for w, r in zip(written, read))
    apart = max(apart, tuple(-d for d in apart))
    legal = (apart[1], apart[0]) > (0, 0)
    sch = tir.Schedule(staircase(written, read))
    i, j = sch.get_loops("step")
    try:
        sch.reorder(j, i)
        answer = "accepted"
    except ScheduleError:
        answer = "refused"
    verdict = reference.check(staircase(written, read), staircase(written, read, transposed=True))
    assert bool(verdict) == legal == (answer == "accepted")
    print(f"{written}   {read}   {apart!s:<8}   {'legal' if legal else 'illegal':<7}  {answer:<8}   "
          f"{'same' if verdict else 'another program'}")  # fmt: skip

# %% [markdown]
# ## Read the error
#
# `reorder` does not run anything. It uses a library that solves equations over whole numbers: are there two iterations
# that touch the same element and that would change places? If there are, the error shows one such pair.

# %%
sch = tir.Schedule(program)
i, j = sch.get_loops("step")
try:
    sch.reorder(j, i)
except ScheduleError as error:
    print(error)

# %% [markdown]
# The first line names the call and the rule that it broke (`minitvm explain reorder` lists all of its rules). Both
# accesses are marked in the program. The line *found* gives a pair of iterations that you can check with a pencil: A[1,
# 1] is written at (0, 1) and read at (1, 0), and if j is the outer loop, (1, 0) comes first. A refused call does not
# change the schedule.
#
# ## The wavefront
#
# Suppose that an iteration reads the elements that the iterations above it and to its left wrote. Then there are two
# distances, (1, 0) and (0, 1). Both orders are legal. But neither loop can run in parallel, because each carries one
# of the two distances. The iterations on one diagonal, however, do not depend on each other, so they could run in
# parallel. To rewrite the nest so that a loop follows the diagonals is called skewing; lesson 12 does it.
#
# ## And our example?
#
# `C[vi, vj] = C[vi, vj] + ...` reads and writes the same element, for every r. The distance is (0, 0, 1): r must not
# run backward. But i, j and r may be nested in any order, since the 1 is always the only number that is not 0. minitvm
# allows even more: the kind of iterator `vr` is R, a sum, and a sum may be computed in any order.

# %%
program = example.blocks(32, 32, 32)
inputs = example.inputs(32, 32, 32)
columns = {}
accepted = 0
for order in itertools.permutations("ijr"):
    sch = tir.Schedule(program)
    loops = dict(zip("ijr", sch.get_loops("C")))
    sch.reorder(*(loops[name] for name in order))
    accepted += 1
    if order in (("i", "j", "r"), ("i", "r", "j"), ("r", "i", "j")):
        columns[" ".join(order)] = ledger.measure(sch.func, *inputs)
predict("Three loops can be nested in six orders. How many of them does `reorder` accept here?", accepted)
print(f"{accepted} orders are accepted")

# %% [markdown]
# ## The ledger

# %%
ledger.show(columns)

# %% [markdown]
# Legal does not mean fast: the three orders do the same work, but the toy cache moves many times more bytes in one of
# them than in another. Dependences tell you which orders you *may* choose, and the ledger tells you which one you
# should.
#
# ## Your turn
#
# Write the rule as a function, for three loops. The check compares it with the schedule.
#
#     minitvm lesson 05 --start     (writes exercise_05.py, for you to fill in)
#     minitvm lesson 05 --check
