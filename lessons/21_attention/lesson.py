# %% [markdown]
# # Attention as a schedule
#
# Attention compares each of n queries with m keys. It computes a score for each pair, takes the softmax of each row of
# scores, and uses the results as weights in a sum of the values. The textbook version stores all n * m scores and reads
# each row three times. Flash attention reads each score once and keeps only one tile of scores at a time. Flash
# attention is known as a clever kernel that is written by hand. In this lesson it is a *schedule*, with the steps
# `rfactor` and `compute_at` that you know, and `reference.check` (the *oracle*) shows that the result is still the
# same.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import re

import numpy as np

import minitvm
from lessons import drawings, ledger
from lessons.picture import Picture
from lessons.predict import predict
from lessons.text import body_of
from minitvm import reference
from minitvm.graph.builder import GraphBuilder
from minitvm.script import tir as T
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import Schedule

# %% [markdown]
# ## Three passes
#
# The textbook computes three things for each row of scores S: its maximum `top`, the sum `total` of the weights exp(S -
# top), and the weighted sum `row` of the values. The maximum is subtracted so that no exponential overflows. `total`
# needs the finished `top`, and the weights of `row` need the finished `top`, too. So there are three loops over j, one
# after another, and S has to be stored until the last loop ends.


# %%
def three_passes(n: int, m: int, d: int) -> PrimFunc:
    """O = softmax(Q K) V as in a textbook."""

    @T.prim_func
    def attention(
        Q: T.Buffer((n, d), "float32"), K: T.Buffer((m, d), "float32"), V: T.Buffer((m, d), "float32"),
        O: T.Buffer((n, d), "float32"),
    ):  # fmt: skip
        S = T.alloc_buffer((n, m))
        top = T.alloc_buffer((n,))
        total = T.alloc_buffer((n,))
        row = T.alloc_buffer((n, d))
        for i, j, k in T.grid(n, m, d):
            with T.block("S"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    S[vi, vj] = T.float32(0)
                S[vi, vj] = S[vi, vj] + Q[vi, vk] * K[vj, vk]
        for i, j in T.grid(n, m):
            with T.block("top"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    top[vi] = T.min_value("float32")
                top[vi] = T.max(top[vi], S[vi, vj])
        for i, j in T.grid(n, m):
            with T.block("total"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    total[vi] = T.float32(0)
                total[vi] = total[vi] + T.exp(S[vi, vj] - top[vi])
        for i, j, c in T.grid(n, m, d):
            with T.block("row"):
                vi, vj, vc = T.axis.remap("SRS", [i, j, c])
                with T.init():
                    row[vi, vc] = T.float32(0)
                row[vi, vc] = row[vi, vc] + V[vj, vc] * T.exp(S[vi, vj] - top[vi])
        for i, c in T.grid(n, d):
            with T.block("O"):
                vi, vc = T.axis.remap("SS", [i, c])
                O[vi, vc] = row[vi, vc] / total[vi]

    return attention


# %% [markdown]
# ## One pass
#
# Is one loop enough? We could use the largest score *so far* as the maximum. But what if a larger score comes later?
# Then all weights so far are too large by the same factor, and must be multiplied by exp(old top - new top). We need
# not multiply each old weight: it is enough to multiply the two sums by this factor (Milakov and Gimelshein, 2018). So
# one loop updates three values together: the maximum, the sum of the weights, and the weighted row.


# %%
def one_pass(n: int, m: int, d: int) -> PrimFunc:
    """The same attention, with sums that are relative to a running maximum."""

    @T.prim_func
    def attention(
        Q: T.Buffer((n, d), "float32"), K: T.Buffer((m, d), "float32"), V: T.Buffer((m, d), "float32"),
        O: T.Buffer((n, d), "float32"),
    ):  # fmt: skip
        S = T.alloc_buffer((n, m))
        top = T.alloc_buffer((n,))
        total = T.alloc_buffer((n,))
        row = T.alloc_buffer((n, d))
        for i, j, k in T.grid(n, m, d):
            with T.block("S"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    S[vi, vj] = T.float32(0)
                S[vi, vj] = S[vi, vj] + Q[vi, vk] * K[vj, vk]
        for i, j in T.grid(n, m):
            with T.block("softmax"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    top[vi] = T.min_value("float32")
                    total[vi] = T.float32(0)
                    for c in range(d):
                        row[vi, c] = T.float32(0)
                now: T.float32 = T.max(top[vi], S[vi, vj])
                old: T.float32 = T.exp(top[vi] - now)
                new: T.float32 = T.exp(S[vi, vj] - now)
                for c in range(d):
                    row[vi, c] = row[vi, c] * old + V[vj, c] * new
                total[vi] = total[vi] * old + new
                top[vi] = now
        for i, c in T.grid(n, d):
            with T.block("O"):
                vi, vc = T.axis.remap("SS", [i, c])
                O[vi, vc] = row[vi, vc] / total[vi]

    return attention


verdict = reference.check(three_passes(1, 3, 1), one_pass(1, 3, 1))
print("three passes and one:", verdict)
assert verdict

# %% [markdown]
# The first line says that both programs are equal. The other two lines explain why two of the checks could not be used:
# `exp` rounds, and it has no meaning in a field. The check was done with the mode "bound" of lesson 10 instead.
#
# Why does `top` start from the lowest *finite* number and not from -inf? The reason is masks. A key can be masked,
# which means that its score is set to -inf. If the first key were masked and `top` were -inf, then -inf - -inf would
# give NaN, and the whole row would become NaN. With the lowest finite number, the weight of the masked key is
# exp(-inf) = 0, and the first real score becomes the new maximum.
#
# ## It is a reduction
#
# Suppose that you have two parts of a row, each with its (top, total, row). You combine the two parts like this:
#
#     top = max(top1, top2) total = total1 exp(top1 - top) + total2 exp(top2 - top)        and row in the same way
#
# This combination is associative: you may combine several parts in any grouping. An operation that can be used in a
# reduction is called a *reducer*, and this combination is a reducer like sum and max. minitvm knows this reducer
# already, and you can register other reducers with `register_reducer`. `rfactor` needs to know only the reducer. We cut
# the keys into tiles of 2, and print the block that combines the partial results of the tiles:

# %%
sch = Schedule(one_pass(2, 4, 3))
tile, _ = sch.split(sch.get_loops("softmax")[1], [None, 2])
partial = sch.rfactor(tile, 0)
print(body_of(sch.func).partition('with T.block("softmax"):')[2].partition("    for i, c")[0])

# %% [markdown]
# Compare the text with the formula above. `v_0` and `v_1` are the two exponentials, `v_total` is the new total, and
# `row` is scaled by the same factors. minitvm derived this block from the reducer. The exponentials are computed before
# the loop over c, because they are the same for all elements of the row.
#
# ## Inside a tile: passes again
#
# Inside a tile, the partial results are still rescaled for every key. Rescaling costs d more multiplications for each
# key. But a tile of scores is small, so inside a tile we can afford three passes again. The step `reduce_in_passes`
# computes the maximum of a tile first, then the weights, and then each sum. Here is the block that computes the
# weighted row:

# %%
weights, row, total = sch.reduce_in_passes(partial)
print(body_of(sch.func).partition('with T.block("row_rf"):')[2].partition("    for ")[0])

# %% [markdown]
# This block no longer rescales anything. It is an ordinary product of matrices, the weights times V, which you can tile
# and vectorise like any other product.
#
# ## Compute at
#
# Now we change the order of the work. For each tile of queries and each tile of keys, the program should compute the
# scores, the maximum, the weights and the sums, and then combine the sums with those of earlier tiles. So `compute_at`
# moves all of these blocks into the loop over the tiles of keys. We begin with the block that is needed last, because a
# block can move into a loop only if the blocks that use its result are already there.


# %%
def flash(func: PrimFunc, queries: int, keys: int) -> Schedule:
    """Tiles of `queries` rows; for each, the scores of `keys` columns at a time."""
    sch = Schedule(func)
    tile, _ = sch.split(sch.get_loops("softmax")[1], [None, keys])
    partial = sch.rfactor(tile, 0)
    weights, row, total = sch.reduce_in_passes(partial)
    rows, tile = sch.get_loops("softmax")
    outer, inner = sch.split(rows, [None, queries])
    sch.reorder(outer, tile, inner)
    for block in (total, row, weights, partial, "S"):
        sch.compute_at(block, tile)
    sch.reverse_compute_at("O", outer)
    return sch


verdict = reference.check(one_pass(2, 4, 1), flash(one_pass(2, 4, 1), 1, 2).func)
print("flash attention:", verdict)
assert verdict

# %% [markdown]
# The new program is equal to the program with a single pass. This is flash attention (Dao, Fu, Ermon, Rudra and Re,
# 2022), and we derived it instead of writing it by hand. Its advantage is that it needs less memory. We compare the
# total size of all buffers in bytes, for 64 queries and 64 keys with rows of 8 numbers. (Lowering has made each buffer
# as small as possible.)


# %%
def kept(func: PrimFunc) -> int:
    """The bytes of all buffers of a lowered program."""
    lowered = str(minitvm.lower(func, stop_at="kernel"))
    return 4 * sum(int(extent) for extent in re.findall(r"(?:alloc|decl)_buffer\(\((\d+),\)", lowered))


predict(
    "With twice as many keys, how many more bytes does flash attention keep?",
    kept(flash(one_pass(64, 128, 8), 8, 16).func) - kept(flash(one_pass(64, 64, 8), 8, 16).func),
)
for name, func in (("three passes", three_passes(64, 64, 8)), ("flash", flash(one_pass(64, 64, 8), 8, 16).func)):
    print(f"{name:<13} {kept(func):>6} bytes")
assert kept(flash(one_pass(64, 128, 8), 8, 16).func) == kept(flash(one_pass(64, 64, 8), 8, 16).func)

# %%
picture = Picture(440, 400)
picture.words(20, 26, "scores of 64 queries and 64 keys; flash keeps one tile at a time", 14)
for query in range(0, 64, 8):
    for key in range(0, 64, 16):
        now, done = (query, key) == (24, 32), (query, key) < (24, 32)
        colour = drawings.ORANGE if now else drawings.LIGHT if done else drawings.PALE
        picture.box(90 + 5 * key, 50 + 5 * query, 79, 39, colour, "#999999")
    picture.words(20, 74 + 5 * query, f"{query} to {query + 7}", 11)
picture.words(90, 390, "keys go right; orange is kept now, light blue is already added up", 11)
print("the picture:", picture.save("flash"))

# %% [markdown]
# Three passes keep 18,956 bytes, mostly the 64 * 64 scores, and this number grows with n * m. Flash attention keeps
# 1,664 bytes, and this number does not depend on n or m at all, because it keeps only one tile of scores at a time.
#
# ## Is it fast?
#
# The right order alone does not make a program fast. As in lesson 15, we also need register tiles and vectors. We put
# the *queries* into the lanes of the vectors. Then each lane has its own maximum and its own sums, and we never have to
# combine the lanes of a vector. A vector loads neighbours in memory, so the 16 queries of a vector must be neighbours.
# That is why we transpose the buffers with `transform_layout`.


# %%
def in_lanes(sch: Schedule, lanes: int = 16, rows: int = 8) -> None:
    """Queries in vectors; both products in register tiles of `rows` x all queries of the tile."""
    outer = sch.get_loops("S")[0]
    sch.transform_layout("S", ("write", 0), lambda i, j: (j, i))
    sch.transform_layout("softmax_rf_weights", ("write", 0), lambda tile, i, j: (tile, j, i))
    sch.transform_layout("row_rf", ("write", 0), lambda tile, i, c: (tile, c, i))
    sch.transform_layout("softmax", ("write", 2), lambda i, c: (c, i))
    queries = sch.cache_read("S", 0, "global")
    sch.compute_at(queries, outer)
    sch.transform_layout(queries, ("write", 0), lambda i, k: (k, i))
    for name, order in (("S", (1, 0, 2)), ("row_rf", (2, 0, 1))):  # which of its loops: rows, queries, summed
        product = sch.get_block(name)
        loops = sch.get_loops(product)[2:]
        row, query, summed = (loops[k] for k in order)
        tile, row = sch.split(row, [None, rows])
        block, lane = sch.split(query, [None, lanes])
        sch.reorder(tile, summed, row, block, lane)
        start = sch.decompose_reduction(product, summed)
        for loop in (sch.get_loops(product), sch.get_loops(start)):
            sch.unroll(loop[-3])
            sch.unroll(loop[-2])
            sch.vectorize(loop[-1])
    for name in ("softmax_rf", "total_rf"):
        query, key = sch.get_loops(name)[2:]
        block, lane = sch.split(query, [None, lanes])
        sch.reorder(block, key, lane)
        start = sch.decompose_reduction(name, key)
        sch.vectorize(lane)
        sch.vectorize(sch.get_loops(start)[-1])
    query, key = sch.get_loops("softmax_rf_weights")[2:]
    sch.reorder(key, query)
    sch.vectorize(sch.split(query, [None, lanes])[1])
    sch.vectorize(sch.split(sch.get_loops("softmax")[-1], [None, lanes])[1])
    sch.vectorize(sch.split(sch.get_loops("O")[-1], [None, lanes])[1])


n = m = 1024
d = 64
sch = flash(one_pass(n, m, d), 32, 64)
in_lanes(sch)
compiled = minitvm.build(sch.func, target="cpu")
rng = np.random.default_rng(18)
q, k, v = (rng.standard_normal((rows, d)).astype("float32") for rows in (n, m, m))
q /= 8
o = np.zeros((n, d), "float32")
compiled(q, k, v, o)

b = GraphBuilder("attention")
query, key, value = b.input("q", (1, n, d)), b.input("k", (1, m, d)), b.input("v", (1, m, d))
scores = b.op("nn.softmax", b.op("nn.batch_matmul", query, key, transpose_b=True), axis=-1)
mixed = b.op("nn.batch_matmul", scores, value, transpose_b=False)
operators = minitvm.build(b.build([mixed, scores]), threads=1)
difference = abs(o - np.asarray(operators(q=q[None], k=k[None], v=v[None])[0])[0]).max()
print(f"largest difference: {difference:.1e}")
assert difference < 1e-5

for name, run in (
    ("three operators", lambda: operators(q=q[None], k=k[None], v=v[None])),
    ("flash", lambda: compiled(q, k, v, o)),
):
    seconds = ledger.best_of(10, run)
    print(f"{name:<16} {ledger.duration(seconds):>9}: {4 * n * m * d / seconds / 1e9:>6.1f} GFLOP/s")

# %% [markdown]
# Was flash attention faster on your machine? On many CPUs it is hardly faster, or not at all. There are two reasons.
# First, `build` schedules each of the three operators separately and chooses tiles that fit your machine, while our
# schedule uses a single tile size that we chose by hand. Second, 1024 x 1024 scores are 4 MB. They fit into the last
# cache of most CPUs, so there is little traffic to memory that flash attention could save. Flash attention always saves
# memory. It saves time if the scores do not fit into the cache, for example with many more keys, or on a GPU, whose
# fast memory is small.
#
# (We made the graph return the weights as well, so that the three operators stay separate. Otherwise `build` would join
# them into one function, which computes whole rows of scores for a few queries at a time. You can find this function in
# `machines/cpu/large_attention.py`.)
#
# ## The ledger
#
# The ledger is for 16 queries and 32 keys with rows of 4 numbers, and a cache of 16 lines. It measures the lowered
# programs. In these programs the buffers for a tile are local, which means that they are in registers or in the fastest
# memory. The ledger counts only loads and stores of the other buffers.

# %%
args = [rng.standard_normal(shape).astype("float32") for shape in ((16, 4), (32, 4), (32, 4), (16, 4))]
ledger.show(
    {
        name: ledger.measure(minitvm.lower(func, stop_at="kernel")["attention"], *args)
        for name, func in (
            ("three passes", three_passes(16, 32, 4)),
            ("one pass", one_pass(16, 32, 4)),
            ("flash", flash(one_pass(16, 32, 4), 4, 8).func),
        )
    }
)

# %% [markdown]
# Compare the rows for multiplies and stores. One pass needs 6,656 multiplies instead of 4,096, because it rescales the
# sums for every key. Flash attention rescales the sums only once for each tile, so it needs just 4,608. And it stores
# only 64 elements, which are the result, while each of the other two programs stores 2,720 elements, because it keeps
# the scores in memory.
#
# ## Your turn
#
# Write the state of a row yourself (its maximum and its two sums), so that you can merge parts of a row in any order.
# With such a state, several machines can share the keys of a row. Remember the masks.
#
#     minitvm lesson 21 --start     (writes exercise_21.py, for you to fill in)
#     minitvm lesson 21 --check
