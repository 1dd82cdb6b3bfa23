# %% [markdown]
# # Split and reorder: the same work in another order
#
# The three loops of our example can be nested in six ways. All six compute the same Y. One can be many times
# faster than another. Today we change the order of the work, measure what it does, and see who guards us
# from changing the result.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import minitvm
from lessons import example, ledger, picture
from lessons.predict import predict
from minitvm import reference, tir
from minitvm.errors import ScheduleError
from minitvm.film import Film
from minitvm.script import tir as T

# %% [markdown]
# ## Blocks
#
# We write the example in the form that minitvm schedules. The computation is in *blocks*. A block has iterators
# of its own, `vi`, `vj`, `vr`, and declares their kinds: S is *spatial*, each value is independent of the others; R is
# a *reduction*, all values are added up. The loops outside only determine the order in which the block runs.

# %%
program = example.blocks(32, 32, 32)
program.show()

# %% [markdown]
# ## Reorder
#
# In the innermost loop `r` runs. From one iteration to the next, `A[vi, vr]` goes one element further; its neighbour
# is there already, since a cache fetches 64 bytes at a time. But `B[vr, vj]` goes down a column, a whole row further
# each time, and uses 4 of the 64 bytes that it fetches.
#
# If `j` ran innermost, `B[vr, vj]` and `C[vi, vj]` would both walk along a row. A `Schedule` does it:

# %%
sch = tir.Schedule(program)
i, j, r = sch.get_loops("C")
sch.reorder(i, r, j)
reordered = sch.func
print("\n".join(reordered.script().splitlines()[5:8]))

# %% [markdown]
# The same multiplies, the same loads, the same stores. What our toy cache has to move is another matter:

# %%
args = example.inputs(32, 32, 32)
counted = {"i j r": ledger.measure(program, *args), "i r j": ledger.measure(reordered, *args)}
predict(
    "How many times as many bytes does the cache fetch in the order i j r as in the order i r j?",
    round(counted["i j r"].lines_fetched / counted["i r j"].lines_fetched),
)
for name, entry in counted.items():
    print(f"{name}   {sum(entry.loads.values()):>8,} loads   {entry.lines_fetched * ledger.LINE:>10,} bytes moved")

# %% [markdown]
# Watch both orders, as two films of a small product, 2 x 8 times 8 x 8. Blue is read, orange is written, green is what
# a cache of 8 lines holds, and red had to be fetched. Look at B: in the first film almost every element is red, and in
# the second film one element of four. (Each film is a picture for a browser; it starts anew when it has ended.)

# %%
for order in ("ijr", "irj"):
    sch = tir.Schedule(example.blocks(2, 8, 8))
    loops = dict(zip("ijr", sch.get_loops("C")))
    sch.reorder(*(loops[name] for name in order))
    film = Film.of(sch, cache_lines=8, buffers=["A", "B", "C"], title=f"Loops in the order {' '.join(order)}")
    print("the film:", picture.save(f"order_{order}", film.svg()))

# %% [markdown]
# ## Split
#
# With `j` innermost, all of B passes by for each row of A. It does not fit into the cache, so it is
# fetched anew for each row. If we worked on a small tile of B until we are done with it, it would be fetched once.
#
# For that a loop must become two: one that goes from tile to tile, and one inside the tile. `split` does this.
# A loop of 8, in pieces of 4:

# %%


def first_loops(m: int, factor: int) -> str:
    """The loops and the block of the example with m rows, its i split by a factor."""
    split = tir.Schedule(example.blocks(m, 2, 2))
    rows, _, _ = split.get_loops("C")
    split.split(rows, factors=[None, factor])
    lines = split.func.script().splitlines()[5:]
    return "\n".join(line for line in lines[: next(k for k, x in enumerate(lines) if "T.reads" in x)])


print(first_loops(8, 4))

# %% [markdown]
# Every i from 0 to 7 is `i_0 * 4 + i_1` for one i_0 and one i_1, and they come in the same order. What about a loop
# of 7?

# %%
print(first_loops(7, 4))

# %% [markdown]
# Two rounds of 4 make 8 iterations: one too many. This is the *tail*. `T.where` is a condition on the block: it
# runs only where the condition holds. Forget it, and the program writes beyond the end of C. Round down instead of up,
# and the last rows are never computed. Much of a compiler's trouble lives in tails, and you will meet one below.
#
# Splitting alone changes nothing. Splitting and then reordering makes tiles:

# %%
sch = tir.Schedule(program)
i, j, r = sch.get_loops("C")
j_0, j_1 = sch.split(j, factors=[None, 16])
r_0, r_1 = sch.split(r, factors=[None, 8])
sch.reorder(j_0, r_0, i, r_1, j_1)
tiled = sch.func
tiled.show()

# %% [markdown]
# A tile of B is 8 rows of 16 elements: 8 lines of the cache, which has 16. It stays there while `i` runs over all rows
# of A.
#
# ## Is it still the same program?
#
# `reference.check` runs both on whole numbers so small that float32 makes no rounding error, so that the order
# of the additions does not matter and equal means *equal, bit for bit*.

# %%
for name, changed in (("reordered", reordered), ("tiled", tiled)):
    print(f"{name:<10}", reference.check(program, changed))

# %% [markdown]
# ## What is refused
#
# A loop that was split is gone:

# %%
try:
    sch.reorder(r, j_1)
except ScheduleError as error:
    print(error)

# %% [markdown]
# And some orders are wrong. In this program an iteration reads what one of the row before wrote, one place to the
# right:


# %%
@T.prim_func
def staircase(A: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(7, 7):
        with T.block("S"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi + 1, vj] = A[vi, vj + 1] + T.float32(1)


sch = tir.Schedule(staircase)
i, j = sch.get_loops("S")
try:
    sch.reorder(j, i)
except ScheduleError as error:
    print(error)

# %% [markdown]
# The error shows the program with the two places marked, and a pair of iterations that would come in the wrong order. A
# schedule that is accepted keeps the meaning. That is the bargain: you choose the order, and minitvm proves that the
# result stays the same.
#
# ## The ledger
#
# The last row is the time of compiled code, for 256 x 256 x 256, on one thread. `minitvm.build` compiles the loops
# exactly as they are written.


# %%
def compiled(order: str) -> str:
    """The time of the example of side 256, scheduled in one of three ways and compiled."""
    sch = tir.Schedule(example.blocks(256, 256, 256))
    i, j, r = sch.get_loops("C")
    if order == "i r j":
        sch.reorder(i, r, j)
    elif order == "tiled":
        j_0, j_1 = sch.split(j, factors=[None, 128])
        r_0, r_1 = sch.split(r, factors=[None, 32])
        sch.reorder(j_0, r_0, i, r_1, j_1)
    function = minitvm.build(sch.func, threads=1)
    large = example.inputs(256, 256, 256)
    function(*large)
    assert (large[-1] == example.expected(*large[:3])).all()
    return ledger.duration(ledger.best_of(5, lambda: function(*large)))


counted["tiled"] = ledger.measure(tiled, *args)
ledger.show({name: {**entry.lesson_rows(), "time compiled, 256": compiled(name)} for name, entry in counted.items()})

# %% [markdown]
# From the first column to the second: not one multiply, load or store less, only another order. Part of the gain is
# the cache. Another part is that neighbours in memory can now be computed together, several in one instruction.
#
# The tiles move the least in our toy cache, and by the clock they gain little or nothing. A real cache is much larger
# than the toy, and all of B fits into it. Counting tells what is worth trying; the clock tells whether it was. What
# is left to save is in the ledger, too: C is loaded and stored in every iteration. A tile small enough for the
# *registers* would end that. minitvm chooses such tiles by itself, as you will see at the end of lesson 04.
#
# ## Your turn
#
# Write `split` yourself, on a bare loop without blocks, tail and all.
#
#     minitvm lesson 03 --start     (writes exercise_03.py, for you to fill in)
#     minitvm lesson 03 --check
