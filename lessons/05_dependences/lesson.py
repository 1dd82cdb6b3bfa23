# %% [markdown]
# # Dependences, and why an order is refused
#
# In lesson 03 minitvm refused a `reorder`. In this lesson you find out why. First we watch a program run, then we do
# one subtraction, and then we read the error again. At the end you can tell from the indices alone which orders of a
# loop nest are legal.

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
# We begin with the program that lesson 03 called `staircase`. First A becomes a copy of X. Then each iteration reads
# one element of A and writes another.

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
# Look at the last line. Iteration (i, j) reads the element one column further to the right, and writes the element one
# row further down.
#
# ## Watch
#
# An interpreter reports every load, store and iteration to its listeners. This listener records, for each element,
# which iterations touched it (read or wrote it). If two iterations touch the same element, and at least one of the two
# accesses is a store, there is a *dependence* between them: these two iterations must stay in their order.


# %%
class Diary(Listener):
    """Records each pair of iterations (i, j) that touch the same element of A, if at least one of them writes it."""

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
# The last line says that there are 9 such pairs, but they all have the same distance, (1, -1). The later iteration is
# one row further down and one column further to the left. You can find this distance without running the program.
# Iteration p writes A[p + written], and iteration q reads A[q + read]. They touch the same element when
#
#     q = p + (written - read)
#
# so the distance is `written - read`, here (1, 0) - (0, 1) = (1, -1).
#
# Two nested loops count like the hours and minutes of a clock. To see which of two times is later, you compare the
# hours, and you look at the minutes only if the hours are equal. In the same way, an iteration comes later if the first
# number of the distance that is not 0 is positive. Here that number is 1, so the reader comes after the writer. If you
# exchange the loops, the distance becomes (-1, 1), and its first number is negative. Then the reader runs first, and it
# reads an element that has not been written yet.
#
# Two films show both orders of the loops. Orange squares have been written, and grey squares have not. The blue square
# is the element that is being read. Look at the colour of a square just before it turns blue. If i is the outer loop,
# the square is orange, except in the first row and in the last column. If j is the outer loop, the square is still
# grey, because the new value of its element is written too late.

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
# So we have a rule. **Write the numbers of each distance in the new order of the loops. The order is legal if, for each
# distance, the first number that is not 0 is still positive.**
#
# ## The other sign
#
# What if `written - read` is negative from the start? For example, (0, 1) - (1, 0) is (-1, 1). Then the reader is the
# earlier of the two iterations, and the later iteration *overwrites* the element. The later iteration must not run
# first, because then the old value would be lost before it is read. So there is a dependence in this case as well. The
# distance of a dependence is counted from the earlier iteration to the later one, so here it is `read - written`.

# %%
print("written (0, 1), read (1, 0):")
assert distances(staircase((0, 1), (1, 0))) == {(1, -1)}

# %% [markdown]
# Compare this output with the first output. The words `writes` and `reads` have changed places, but the distance is (1,
# -1) again, and so the same orders are legal.
#
# ## The judge agrees
#
# Is our rule right? We exchange the two loops by hand, which no check prevents, and let `reference.check` compare the
# two programs. The table shows four programs. Each line has the verdict of our rule, the answer of `reorder`, and the
# result of the comparison:

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
# The last three columns agree in each line. The two programs with the distance (1, -1) are illegal by our rule,
# `reorder` refuses them, and exchanging their loops by hand gives another program. The other two programs pass all
# three tests, because both numbers of their distances are positive or 0.
#
# ## Read the error
#
# `reorder` does not run anything. It uses a library that solves equations over whole numbers. The question for the
# library is whether there are two iterations that touch the same element and would run in the opposite order. If there
# are, the error shows one such pair.

# %%
sch = tir.Schedule(program)
i, j = sch.get_loops("step")
try:
    sch.reorder(j, i)
except ScheduleError as error:
    print(error)

# %% [markdown]
# The first line names the call and the rule that it broke, `keeps_dependences`. (The command `minitvm explain reorder`
# lists all rules of `reorder`.) The carets mark both accesses in the program. The line *found* gives a pair of
# iterations that you can check with a pencil: `A[1, 1]` is written at (i=0, j=1) and read at (i=1, j=0). If j is the
# outer loop, j=0 runs before j=1, so the read comes first. A refused call does not change the schedule.
#
# ## The wavefront
#
# Suppose that an iteration reads two elements: the element that the iteration above it wrote, and the element that the
# iteration to its left wrote. Then there are two distances, (1, 0) and (0, 1). Both orders of the loops are legal. But
# neither loop can run its iterations in parallel: neighbours in i depend on each other because of (1, 0), and
# neighbours in j depend on each other because of (0, 1). The iterations on one diagonal, however, do not depend on each
# other, so they could run in parallel. You can rewrite the loops so that one of them follows the diagonals. Rewriting
# the loops in this way is called *skewing*, and you will do it in lesson 14.
#
# ## And our example?
#
# In our example, `C[vi, vj] = C[vi, vj] + ...` reads and writes the same element for every r. So the distance is (0, 0,
# 1), and r must not run backward. But i, j and r may be nested in any order, because the 1 is the only number that is
# not 0. minitvm even allows r to run in another order. The block declares that `vr` is a reduction (R), which means
# that the block computes a sum, and minitvm may add the terms of a sum in any order.

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
# All six orders are accepted, as our rule predicts.
#
# ## The ledger
#
# The ledger shows the counts for three of the six orders:

# %%
ledger.show(columns)

# %% [markdown]
# All three orders are legal and do the same work. But the cache moves 2,240,640 bytes in the order `i j r` and only
# 147,584 in the order `i r j`, because a program with the order `i r j` reads B along its rows. So an order that is
# legal need not be fast. Dependences tell you which orders you *may* choose, and the ledger helps you to see which of
# them you *should* choose.
#
# ## Your turn
#
# Write the rule as a function, for three loops. The check compares your answers with those of `Schedule.reorder`.
#
#     minitvm lesson 05 --start     (writes exercise_05.py, for you to fill in)
#     minitvm lesson 05 --check
