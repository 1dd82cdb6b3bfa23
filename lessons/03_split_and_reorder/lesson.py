# %% [markdown]
# # Split and reorder: the same work in another order
#
# The three loops of our example can be nested in six ways. All six compute the same Y, but one can be many times faster
# than another. Today we change the order of the work, measure the effect, and see how minitvm keeps us from changing
# the result.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

from lessons import example, ledger, picture
from lessons.predict import predict
from minitvm import reference, tir
from minitvm.errors import ScheduleError
from minitvm.film import Film
from minitvm.script import tir as T

# %% [markdown]
# ## Blocks
#
# We write the example in the form that minitvm schedules. The computation is in *blocks*. A block has its own
# iterators, `vi`, `vj` and `vr`, and declares the kind of each: S is *spatial* (each value is independent of the
# others), and R is a *reduction* (all values are added up). The loops outside only determine the order in which the
# block runs.

# %%
program = example.blocks(32, 32, 32)
program.show()

# %% [markdown]
# ## Reorder
#
# The innermost loop runs over `r`. From one iteration to the next, `A[vi, vr]` moves one element further, and this
# element is in the cache already, since a cache fetches 64 bytes at a time. But `B[vr, vj]` moves down a column, a
# whole row further each time, and uses only 4 of the 64 bytes that the cache fetches.
#
# If `j` ran innermost, `B[vr, vj]` and `C[vi, vj]` would both walk along a row. A `Schedule` does it:

# %%
sch = tir.Schedule(program)
i, j, r = sch.get_loops("C")
sch.reorder(i, r, j)
reordered = sch.func
print("\n".join(reordered.script().splitlines()[5:8]))

# %% [markdown]
# The multiplies, the loads and the stores are the same. But the number of bytes that our toy cache has to move is
# different:

# %%
args = example.inputs(32, 32, 32)
counted = {"i j r": ledger.measure(program, *args), "i r j": ledger.measure(reordered, *args)}
predict(
    "In the order i j r the cache fetches more bytes than in the order i r j. How many times more?",
    round(counted["i j r"].lines_fetched / counted["i r j"].lines_fetched),
)
for name, entry in counted.items():
    print(f"{name}   {sum(entry.loads.values()):>8,} loads   {entry.lines_fetched * ledger.LINE:>10,} bytes moved")

# %% [markdown]
# Watch both orders, as two films of a small product, 2 x 8 times 8 x 8. Blue is read, orange is written, green is in a
# cache of 8 lines, and red had to be fetched. Look at B: in the first film almost every element is red, and in the
# second film one element in four. (Each film is a picture for a browser; it repeats when it has ended.)

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
# With `j` innermost, the program reads all of B for each row of A. B does not fit into the cache, so it is fetched
# again for each row. If we worked on a small tile of B until we are done with it, it would be fetched once.
#
# To do that, we split a loop into two: one that goes from tile to tile, and one inside the tile. `split` does this.
# Here is a loop of 8 iterations in pieces of 4:

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
# Every i from 0 to 7 is `i_0 * 4 + i_1` for one i_0 and one i_1, and the order stays the same. What about a loop of 7?

# %%
print(first_loops(7, 4))

# %% [markdown]
# Two times 4 make 8 iterations: one too many. This is the *tail*. `T.where` is a condition on the block: the block runs
# only if the condition holds. If you forget it, the program writes beyond the end of C. If you round down instead of
# up, the last rows are never computed. Tails cause many of a compiler's problems, and in the exercise below you write
# one.
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
# `reference.check` runs both programs on small whole numbers, for which float32 makes no rounding errors. So the order
# of the additions does not matter, and equal means *equal, bit for bit*.

# %%
for name, changed in (("reordered", reordered), ("tiled", tiled)):
    print(f"{name:<10}", reference.check(program, changed))

# %% [markdown]
# ## Steps that are refused
#
# A loop that was split no longer exists:

# %%
try:
    sch.reorder(r, j_1)
except ScheduleError as error:
    print(error)

# %% [markdown]
# And some orders are wrong. In this program an iteration reads an element that an iteration of the previous row wrote,
# one column further to the right:


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
# The error shows the program with the two places marked, and a pair of iterations that would come in the wrong order.
# An accepted schedule keeps the meaning. So the work is shared: you choose the order, and minitvm proves that the
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
    return ledger.time_compiled(sch.func, example.inputs(256, 256, 256), example.expected)


counted["tiled"] = ledger.measure(tiled, *args)
ledger.show({name: {**entry.lesson_rows(), "time compiled, 256": compiled(name)} for name, entry in counted.items()})

# %% [markdown]
# The second column has exactly as many multiplies, loads and stores as the first; only the order is different. Part of
# the gain comes from the cache. Another part comes from vector instructions: neighbours in memory can now be computed
# together.
#
# The tiled program moves the fewest bytes in our toy cache, but in compiled code the tiles gain little or nothing. A
# real cache is much larger than the toy, and all of B fits into it. Counting shows which schedules are worth trying;
# only a measurement shows which one is faster. The ledger also shows what you can still save: C is loaded and stored in
# every iteration. A tile small enough for the *registers* avoids that. minitvm chooses such tiles automatically, as you
# will see at the end of lesson 04.
#
# ## Your turn
#
# Write `split` yourself, for a plain loop without blocks. It must handle the tail.
#
#     minitvm lesson 03 --start     (writes exercise_03.py, for you to fill in)
#     minitvm lesson 03 --check
