# %% [markdown]
# # Attention as a schedule
#
# Attention looks at m keys for each of n queries: scores, a softmax of each row, and a weighted sum of the values. The
# textbook version reads each row of scores three times, and keeps all n * m of them. Flash attention reads them once
# and keeps only a tile. It is known as a clever kernel. Here it is a *schedule*: one reduction, `rfactor`, and
# `compute_at`, and the oracle checks that the result is still the same.

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
# The maximum is subtracted first, so that no exponential overflows. `total` needs `top`, and `O` needs both. So there
# are three loops over j, one after another, and S has to be kept for all of them.


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
# What if a larger score comes later? Then every weight so far has to be multiplied by the same factor, exp(old top -
# new top). So we multiply the sums by it and go on (Milakov and Gimelshein, 2018). Three values are updated together:
# the maximum, the sum of weights, and the weighted row.


# %%
def one_pass(n: int, m: int, d: int) -> PrimFunc:
    """The same with sums that are relative to a running maximum."""

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
# Why does `top` start from the lowest *finite* number and not from -inf? Because of masks. A masked key has the score
# -inf. If the first key were masked and `top` were -inf, then -inf - -inf would give NaN, for the rest of the row. With
# the lowest finite number, the weight of the masked key is exp(-inf) = 0, and the first real score becomes the new
# maximum.
#
# ## It is a reduction
#
# Suppose that you have two parts of a row, each with its (top, total, row). You combine them like this:
#
#     top = max(top1, top2)
#     total = total1 exp(top1 - top) + total2 exp(top2 - top)        and the row alike
#
# This is associative, so it is a *reducer* like sum and max. minitvm has it registered, for up to three sums of numbers
# or rows, and you can register your own with `register_reducer`. `rfactor` needs to know no more than that. We cut the
# keys into tiles of 2:

# %%
sch = Schedule(one_pass(2, 4, 3))
tile, _ = sch.split(sch.get_loops("softmax")[1], [None, 2])
partial = sch.rfactor(tile, 0)
print(body_of(sch.func).partition('with T.block("softmax"):')[2].partition("    for i, c")[0])

# %% [markdown]
# minitvm derived this combination: two parts, each scaled to the larger maximum. The exponentials are before the loop
# over the row, because they are the same for all of its elements.
#
# ## Inside a tile: passes again
#
# The partial results are still rescaled for every key, which costs d multiplications more for each key. Inside a tile
# we can afford three passes, because a tile of scores is small. The reducer declares that its sums are *relative* to a
# reference, so they can be computed after the reference is known. `reduce_in_passes` computes the maximum first, then
# the weights, then each sum. The row has become an ordinary product of matrices, which you can tile and vectorise like
# any other.

# %%
weights, row, total = sch.reduce_in_passes(partial)
print(body_of(sch.func).partition('with T.block("row_rf"):')[2].partition("    for ")[0])

# %% [markdown]
# ## Compute at
#
# Now we change the order. For each tile of queries and each tile of keys, the program should compute scores, maximum,
# weights, sums, and combination. So everything moves under the loop over the tiles of keys, the producers last.


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
# This is flash attention (Dao, Fu, Ermon, Rudra and Re, 2022), and we derived it instead of writing it by hand. Its
# advantage is that it needs less memory. Here is the total size of its buffers in bytes, for 64 queries and 64 keys
# with rows of 8, after lowering has shrunk each buffer to the size that one step needs:


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
# The buffers of the first grow with n * m. Those of the second do not grow with the length at all: only O and the
# inputs do.
#
# ## Is it fast?
#
# The right order alone is not fast. As in lesson 13, we also need register tiles and vectors. We put the *queries* into
# the lanes. Then no maximum and no sum goes across a vector: a row of 16 queries is one vector everywhere. For that we
# transpose the buffers with `transform_layout`, so that the keys come before the queries.


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
# Was flash faster? On many CPUs it is not, for two reasons. `build` schedules each of the three operators separately,
# with tiles that a model of your machine chose; our schedule has one tile size, written by hand. And 1024 x 1024 scores
# are 4 MB, which fit into the last cache of most CPUs, so there is little traffic to memory that flash attention could
# save. It always saves memory. It saves time if the scores do not fit: with many more keys, or on a GPU, whose fast
# memory is small.
#
# (Here the graph also returns the weights, so that the operators stay separate. Otherwise `build` would make one
# function of the three, which computes whole rows of scores for a few queries at a time; see
# `machines/cpu/large_attention.py`.)
#
# ## The ledger
#
# The ledger is for 16 queries and 32 keys with rows of 4, and a cache of 16 lines. It measures the lowered programs:
# buffers for a tile are local, in registers or the fastest memory, and only the others are counted.

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
# One pass alone does more work, because it rescales for every key. With passes inside a tile and one combination for
# each tile, there is almost as little work as with three passes, and only the result is stored.
#
# ## Your turn
#
# Write the running state yourself, so that you can merge parts of a row in any order. This makes attention over several
# machines possible. Remember the masks.
#
#     minitvm lesson 18 --start     (writes exercise_18.py, for you to fill in)
#     minitvm lesson 18 --check
