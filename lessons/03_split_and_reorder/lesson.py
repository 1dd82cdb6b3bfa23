# %% [markdown]
# # Split and reorder: the same work in another order
#
# The three loops of our example can be nested in six different orders. All six compute the same Y, but one order can be
# many times as fast as another. Today we change the order of the work, measure the effect, and see how minitvm keeps us
# from changing the result by accident.

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
# To change the order of the loops, minitvm needs the example in a form with *blocks*. A block holds the computation of
# one element. The block does not use the loop variables directly. It has its own *iterators*, here `vi`, `vj` and `vr`,
# and it declares the kind of each iterator:
#
# - S means *spatial*: each value of the iterator belongs to a different part of the result, for example to a different
#   row;
# - R means *reduction*: all values of the iterator contribute to the same sum.
#
# So `"SSR"` below declares that `vi` and `vj` are spatial and `vr` is a reduction. The loops around the block only
# determine the order in which the block computes the elements.

# %%
program = example.blocks(32, 32, 32)
program.show()

# %% [markdown]
# Look at the first block. The line with `T.axis.remap` binds `vi`, `vj` and `vr` to the loops `i`, `j` and `r`.
# `T.reads` and `T.writes` declare which elements the block touches, and `T.init` sets the start value of the sum.
#
# ## Reorder
#
# The innermost loop runs over `r`. From one iteration to the next, `A[vi, vr]` moves to the next element of a row. That
# element is usually in the cache already, because a cache fetches 64 bytes (16 elements) at a time. But `B[vr, vj]`
# moves down a column. Each step jumps over a whole row of B, so the program uses only 4 of the 64 bytes that the cache
# fetches.
#
# If `j` were the innermost loop, `B[vr, vj]` and `C[vi, vj]` would both walk along a row. A `Schedule` is an object
# that holds a program and changes it step by step. Its step `reorder` changes the order of the loops:

# %%
sch = tir.Schedule(program)
i, j, r = sch.get_loops("C")
sch.reorder(i, r, j)
reordered = sch.func
print("\n".join(reordered.script().splitlines()[5:8]))

# %% [markdown]
# Only the line with the loops has changed. The program still does the same multiplies, loads and stores. But our toy
# cache has to move a different number of bytes:

# %%
args = example.inputs(32, 32, 32)
counted = {"i j r": ledger.measure(program, *args), "i r j": ledger.measure(reordered, *args)}
predict(
    "In the order i j r the cache fetches more bytes than in the order i r j. How many times as many?",
    round(counted["i j r"].lines_fetched / counted["i r j"].lines_fetched),
)
for name, entry in counted.items():
    print(f"{name}   {sum(entry.loads.values()):>8,} loads   {entry.lines_fetched * ledger.LINE:>10,} bytes moved")

# %% [markdown]
# Both orders load 100,352 elements. But the cache moves 2,240,640 bytes in the order `i j r` and only 147,584 bytes in
# the order `i r j`, about one fifteenth as many. The reason is B: if the program reads B along its rows, all 16
# elements of a fetched line are used before the line leaves the cache.
#
# You can watch the difference in two films of a smaller product, 2 x 8 times 8 x 8. An element that is read is blue, an
# element that is written is orange, elements in a cache of 8 lines are green, and an element that had to be fetched is
# red. Look at B. In the first film almost every element that is read turns red, and in the second film only one in four
# does. (Open each film in a browser. It starts again when it has ended.)

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
# With `j` innermost, the program reads all of B for each row of A. B does not fit into our toy cache, so it is fetched
# again for each row. If we instead used a small *tile* of B, a rectangular part of it, for all rows of A before we went
# on to the next tile, each tile would be fetched only once.
#
# To make tiles, we split a loop into two loops. The outer loop goes from tile to tile, and the inner loop runs inside a
# tile. The step for this is called `split`. Here it cuts a loop of 8 iterations into pieces of 4:

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
# The loop `i` has become two loops, `i_0` with 2 iterations and `i_1` with 4. Each row number from 0 to 7 is
# `i_0 * 4 + i_1` for exactly one pair of i_0 and i_1, and the rows are visited in the same order as before. What
# happens to a loop of 7 iterations?

# %%
print(first_loops(7, 4))

# %% [markdown]
# The two loops now run 2 * 4 = 8 iterations, but there are only 7 rows, so the last iteration must do nothing. An
# incomplete last piece like this is called a *tail*. The new line, `T.where(i_0 * 4 + i_1 < 7)`, is a condition on the
# block: the block runs only if the condition holds. If you forgot the condition, the program would write beyond the end
# of C. If you rounded 7 / 4 down to 1 instead of up to 2, the last 3 rows would never be computed. Tails cause many of
# a compiler's problems, and in the exercise below you handle one yourself.
#
# Splitting alone does not change the order of the work. To get tiles, you split first and then reorder:

# %%
sch = tir.Schedule(program)
i, j, r = sch.get_loops("C")
j_0, j_1 = sch.split(j, factors=[None, 16])
r_0, r_1 = sch.split(r, factors=[None, 8])
sch.reorder(j_0, r_0, i, r_1, j_1)
tiled = sch.func
tiled.show()

# %% [markdown]
# Look at the line with the five loops. The two innermost loops, `r_1` and `j_1`, run over a tile of B with 8 rows of 16
# elements. Each row of the tile is one line of 64 bytes, so the tile takes 8 of the 16 lines of the cache. The tile
# stays there while `i` runs over all rows of A.
#
# ## Is it still the same program?
#
# `reference.check` runs the old and the new program and compares their results. It uses small whole numbers, for which
# float32 makes no rounding errors. So the order of the additions cannot change the sum, and *equal* can mean equal in
# every bit.

# %%
for name, changed in (("reordered", reordered), ("tiled", tiled)):
    print(f"{name:<10}", reference.check(program, changed))

# %% [markdown]
# Both lines begin with `equal`, so neither schedule has changed the result. The words in parentheses are the *modes* in
# which the programs were compared. The mode `exact` compares them on whole numbers, as we have just said. The mode
# `shadow` checks that no element is read before it is written. You will learn about the mode `field` in lesson 10.
#
# ## Steps that are refused
#
# A schedule refuses a step that makes no sense. For example, a loop that was split no longer exists, so you cannot
# reorder it:

# %%
try:
    sch.reorder(r, j_1)
except ScheduleError as error:
    print(error)

# %% [markdown]
# A schedule also refuses a step that would change the result. In the next program, each iteration reads an element that
# an earlier iteration wrote: the element in the previous row and the next column.


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
# The error marks the read and the write in the program. The line `found` names two iterations that both touch
# `A[1, 1]`: iteration (i=0, j=1) writes it and iteration (i=1, j=0) reads it. If `j` were the outer loop, the read
# would come first and find the old value. Because minitvm refuses such steps, you and minitvm can share the work: you
# choose the order of the loops, and minitvm proves that the result stays the same.
#
# ## The ledger
#
# The last row of this ledger shows how long the compiled code takes for 256 x 256 matrices on one thread.
# `minitvm.build` compiles the loops in exactly the order in which they are written.


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
# Compare the first two columns. The multiplies, loads and stores are the same, but the last row shows that the order
# `i r j` is many times as fast as the order `i j r`. Part of the gain comes from the cache, which moves fewer bytes.
# Another part comes from vector instructions: neighbours in memory can now be computed together, because `j` runs along
# the rows of B and C.
#
# Now compare the second and third columns. The tiled program moves the fewest bytes in our toy cache (45,184), but
# compiled code gains little or nothing from the tiles. The reason is that a real cache is much larger than the toy, so
# all of B fits into it. Counting shows you which schedules are worth trying, and only a measurement shows which one is
# faster.
#
# The loads and stores are the same in all three columns, so there is more to save: C is still loaded and stored in
# every iteration. A tile that is small enough for the *registers* avoids these loads and stores. minitvm chooses such
# tiles automatically, as you will see at the end of lesson 04.
#
# ## Your turn
#
# Write `split` yourself, for a plain loop without blocks. It must handle the tail.
#
#     minitvm lesson 03 --start     (writes exercise_03.py, for you to fill in)
#     minitvm lesson 03 --check
