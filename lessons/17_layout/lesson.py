# %% [markdown]
# # Layout: the contents of a vector
#
# A batch of images with channels has four axes, but memory has only one. So some order must decide which elements are
# neighbours in memory. This order is called the *layout*. The layout does not change the results of a program. But a
# vector loads neighbours, so the layout can make a program much faster or slower. Today we change the order of the data
# instead of the order of the loops. At the end you know `NCHW[x]c`, a layout with blocks of channels, in which
# convolutions are fast.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

from collections.abc import Callable

import numpy as np

import minitvm
from lessons import drawings, example, ledger
from lessons.predict import predict
from lessons.text import body_of
from minitvm import reference, te, tir, transform
from minitvm.expr import Expr
from minitvm.graph.builder import GraphBuilder
from minitvm.graph.nodes import Graph
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc

# %% [markdown]
# ## Three layouts
#
# The data are N images with C channels, H rows and W columns. In the layout NCHW, neighbours in memory are neighbouring
# columns. In NHWC, they are neighbouring channels. NCHW[x]c has five axes: it cuts the channels into blocks of x, and
# the innermost axis runs over the channels of a block. NumPy can show where each element is. Here is an image with 4
# channels of 2 x 3 pixels. The number 213 means channel 2, row 1, column 3.

# %%
names = np.array([[[100 * c + 10 * (h + 1) + (w + 1) for w in range(3)] for h in range(2)] for c in range(4)])[None]
layouts = {
    "NCHW": names,
    "NHWC": names.transpose(0, 2, 3, 1),
    "NCHW2c": names.reshape(1, 2, 2, 2, 3).transpose(0, 1, 3, 4, 2),
}
for layout, array in layouts.items():
    print(f"{layout:<7}", *(f"{number:03}" for number in array.ravel()[:14]), "...")

# %%
picture = drawings.cells(
    [[f"{number:03}" for number in array.ravel()] for array in layouts.values()],
    [[drawings.SERIES[number // 100] for number in array.ravel()] for array in layouts.values()],
    "the 24 numbers in memory, from left to right; a colour is a channel",
    list(layouts),
)
print("the picture:", picture.save("layouts"))

# %% [markdown]
# Read each line from left to right: the numbers are in the order in which they are stored in memory. In NCHW the first
# three numbers are the three columns of one row. In NHWC the first four numbers are the four channels of one pixel. In
# NCHW2c the first four numbers are two channels of one pixel, and then the same two channels of the next pixel.
#
# ## The lanes of a vector
#
# A convolution does the same work for every channel of the result and for every pixel. So the lanes of a vector can be
# neighbouring columns or neighbouring channels. A good vector is *full*, which means that all of its lanes are used,
# and all of its lanes are in *one* cache line. The next table shows both properties for images of several sizes and
# vectors of 16 floats:

# %%
X, LINE = 16, 16  # floats in a vector; floats in a cache line


def quality(channels: int, side: int, layout: str, along: str) -> tuple[float, float]:
    """The share of lanes that are used, and the cache lines that a vector touches, on average."""
    place = np.arange(channels * side * side)
    if layout == "NCHW":
        at = place.reshape(channels, side, side)
    elif layout == "NHWC":
        at = place.reshape(side, side, channels).transpose(2, 0, 1)
    else:
        at = place.reshape(channels // X, side, side, X).transpose(0, 3, 1, 2).reshape(channels, side, side)
    rows = at.reshape(-1, side) if along == "columns" else at.reshape(channels, -1).T
    vectors = [row[start : start + X] for row in rows for start in range(0, len(row), X)]
    lines = [len(set(vector // LINE)) for vector in vectors]
    return rows.size / (X * len(vectors)), float(np.mean(lines))


predict(
    "16 neighbouring channels of one pixel, in the layout NCHW: in how many cache lines are they?",
    round(quality(64, 56, "NCHW", "channels")[1]),
)
print(f"{'':<24}", *(f"{side:>4} x {side:<4}" for side in (56, 28, 14, 7)))
for layout, along in (("NCHW", "columns"), ("NCHW", "channels"), ("NHWC", "channels"), ("NCHW16c", "channels")):
    row = [quality(64, side, layout, along) for side in (56, 28, 14, 7)]
    print(f"{layout:<8} along {along:<9}", *(f"{full:>4.0%} {lines:>5.2f}" for full, lines in row))
    assert layout != "NCHW16c" or row == [(1.0, 1.0)] * 4

# %% [markdown]
# Each entry has two numbers: the share of lanes that are used, and the number of cache lines that a vector touches.
#
# - *NCHW along columns*: in the last column of the table, only 44 % of the lanes are used, because a row of 7 pixels
#   does not fill a vector of 16. The last layers of a network have such small images. A row may also begin anywhere in
#   a cache line, and therefore many vectors touch two lines.
# - *NCHW along channels*: each vector touches 16 lines, because the channels of a pixel are far apart.
# - *NHWC* and *NCHW16c along channels*: all lanes are used and each vector is in one line, as long as 16 divides the
#   number of channels.
#
# Then why do we need blocks at all, if NHWC is just as good? In NHWC the next pixel of the same 16 channels is C floats
# further on. In NCHW16c the next pixel is the next vector. So the data of a tile of pixels are stored together, like a
# packed panel in lesson 15.
#
# ## Move the data
#
# Here is a convolution whose filter has only 1 x 1 pixel, as a tensor expression. Each pixel of the result is a sum
# over the channels of the same pixel. We vectorise it along the channels of the result, and look at its innermost loop:


# %%
def pointwise(channels: int, side: int) -> PrimFunc:
    """Y[o, h, w] = the sum of W[o, c] X[c, h, w] over c."""
    x = te.placeholder((channels, side, side), name="X")
    weight = te.placeholder((channels, channels), name="W")
    c = te.reduce_axis((0, channels), name="c")
    shape = (channels, side, side)
    y = te.compute(shape, lambda o, h, w: te.sum(weight[o, c] * x[c, h, w], axis=c), name="Y")
    return te.create_prim_func([x, weight, y])


def by_channels(sch: tir.Schedule, lanes: int) -> None:
    """A vector of channels of the result; the sums of 4 pixels run in registers."""
    o, h, w, c = sch.get_loops("Y")
    o_0, lane = sch.split(o, factors=[None, lanes])
    w_0, pixel = sch.split(w, factors=[None, 4])
    sch.reorder(o_0, h, w_0, c, pixel, lane)
    sch.vectorize(lane)
    sch.unroll(pixel)


plain = tir.Schedule(pointwise(8, 4))
by_channels(plain, 4)
kernel = body_of(minitvm.lower(plain.func, stop_at="kernel")["main"]).splitlines()
start = next(at for at, line in enumerate(kernel) if "for c in" in line)
print("\n".join(kernel[start : start + 6]))

# %% [markdown]
# Look at the second number of each `T.Ramp`, which is the distance between the lanes. `T.Ramp(o_0 * 32 + c, 8, 4)` is a
# vector of 4 elements that are 8 apart, because W is read down a column. The lanes of Y are 16 apart, because an image
# has 16 pixels. To get neighbours, we change the layout of W and Y. `cache_read` and `cache_write` make copies of them.
# Then `transform_layout` moves element (o, c) of the copy of W to position [o // 4, c, o % 4]. A layout is nothing more
# than such a map from indices to indices.


# %%
def blocked(sch: tir.Schedule, lanes: int) -> None:
    """The same loops; W and Y in blocks of channels."""
    sch.cache_read("Y", 0, "global")
    sch.transform_layout("Y", ("read", 0), lambda o, c: (o // lanes, c, o % lanes))
    sch.cache_write("Y", 0, "global")
    sch.transform_layout("Y", ("write", 0), lambda o, h, w: (o // lanes, h, w, o % lanes))
    by_channels(sch, lanes)


moved = tir.Schedule(pointwise(8, 4))
blocked(moved, 4)
print(body_of(moved.func))
print("the programs:", reference.check(pointwise(8, 4), moved.func))

# %%
kernel = body_of(minitvm.lower(moved.func, stop_at="kernel")["main"]).splitlines()
start = next(at for at, line in enumerate(kernel) if "for c in" in line)
print("\n".join(kernel[start : start + 10]))

# %% [markdown]
# In every `T.Ramp` the second number is now 1, so all lanes are neighbours. The new layout has another good effect: the
# sums stay in registers (`Y_global_sum`) while c runs, and they are stored only at the end. minitvm cannot keep sums in
# registers if their lanes are not neighbours in memory. The price is two more loops, one that copies W and one that
# copies Y. Such a copy is called a `layout_transform`.
#
# Here are the times for 64 channels of 28 x 28 pixels, on one thread. The second time includes the copies:

# %%
lanes = Target("cpu").description.vector_bytes // 4
rng = np.random.default_rng(15)
x = rng.integers(-3, 4, (64, 28, 28)).astype("float32")
weight = rng.integers(-3, 4, (64, 64)).astype("float32")


def time_of(steps: Callable[[tir.Schedule, int], object]) -> str:
    """The time of the convolution by a schedule."""
    sch = tir.Schedule(pointwise(64, 28))
    steps(sch, lanes)
    args = x, weight, np.zeros_like(x)
    return ledger.time_compiled(sch.func, args, lambda x, w: np.einsum("oc,chw->ohw", w, x), calls=20)


print("NCHW       ", time_of(by_channels))
print("in blocks  ", time_of(blocked))

# %% [markdown]
# The version in blocks is many times as fast, although it has to copy W and Y.
#
# ## A whole network
#
# In a network it would be a waste to copy the data before and after each convolution. Most operators between two
# convolutions can work on blocks as well. For example, for an addition or a relu the position of an element does not
# matter, and a pool combines pixels but not channels. So the compiler changes the layout only once at the beginning and
# once at the end. The weights are constants, so the compiler packs them when the network is built. Only an operator
# that works *across* channels, or that moves the axes, needs the plain layout in between. We look for the changes of
# layout in four networks:


# %%
def network(*between: tuple[str, dict[str, object]]) -> Graph:
    """Two convolutions with some operators between them."""
    b = GraphBuilder("net")
    rng = np.random.default_rng(3)

    def conv(value: object) -> object:
        weights = rng.integers(-2, 3, (32, int(value.shape[1]), 3, 3)).astype("float32")  # type: ignore[attr-defined]
        return b.op("nn.conv2d", value, weights, padding=1)

    value = conv(b.input("x", (1, 16, 8, 8)))
    for op, attrs in between:
        value = b.op(op, value, **attrs)
    return b.build(conv(value))


def operators(graph: Graph) -> list[str]:
    """The operators of a graph, including those inside fused groups."""
    return [item.op for group in graph.nodes for item in group.attrs["graph"].nodes]


def changes(graph: Graph) -> list[str]:
    """The operators that change a layout and do nothing else."""
    return [op for op in operators(graph) if "layout" in op]


pool = ("nn.max_pool2d", {"pool_size": 2, "strides": 2})
turn = ("transpose", {"axes": (0, 1, 3, 2)})
chains = {"relu": [("nn.relu", {})], "relu, pool": [("nn.relu", {}), pool], "transpose": [turn],
          "relu, transpose": [("nn.relu", {}), turn]}  # fmt: skip
for name, between in chains.items():
    found = changes(minitvm.lower(network(*between), stop_at="fused", accuracy="strict"))
    print(f"conv, {name + ', conv':<24}", " ".join(found))
    assert len(found) == (4 if "transpose" in name else 2)

# %% [markdown]
# `layout.block_axis` copies data into blocks, and `layout.unblock_axis` copies them back. The first two networks have
# one copy of each kind, because relu and pool work on blocks. The last two networks have two copies of each kind. A
# transpose does not work on blocks, so the data are converted to the plain layout before it, and to blocks again after
# it. Now look at the weights:

# %%
graph = minitvm.lower(network(), stop_at="fused", accuracy="strict")
for constant in graph.constants:
    print(constant.value.name, "x".join(map(str, constant.data.shape)))
assert not any("pack" in op for op in operators(graph))

# %% [markdown]
# The weights of the first convolution had the shape [32, 16, 3, 3]. For vectors of v floats, they now have the shape
# [32 / v, 16 / v, 3, 3, v, v]. The last axis, along which a vector loads, is a block of channels of the result. The
# last line of the code checks that no operator packs weights when the network runs.
#
# You can also choose the layout yourself. `ConvertLayout` converts all convolutions to the layout that you name. It
# inserts a change of layout only between two operators with different layouts:

# %%
chain = network(("nn.relu", {}))
image = np.random.default_rng(4).integers(-2, 3, (1, 16, 8, 8)).astype("float32")
(plain_result,) = reference.graph.run(chain, {"x": image})
for wanted in ("NHWC", "NCHW4c"):
    converted = transform.ConvertLayout({"nn.conv2d": [wanted, "default"]})(chain)
    (result,) = reference.graph.run(converted, {"x": image})
    print(f"{wanted:<7}", *(item.op for item in converted.nodes), f" equal: {(result == plain_result).all()}")

# %% [markdown]
# Both networks begin and end with a `layout_transform`, and there is none in between, because relu works in any layout.
#
# ## The ledger
#
# We use our example, Y = relu(A B + bias), with one difference: instead of B we store W, whose rows are the columns of
# B. Frameworks store the weights of a dense layer in this form. A vector along j then has its lanes in different cache
# lines. The ledger has three columns. In the first column, W is stored as it is. In the second column, the program
# copies W into blocks, [j // 16, r, j % 16], and the counts include this copy. In the third column, W was copied before
# the program runs, which is possible because weights are constants.

# %%
SIZE = (16, 32, 32)


def dense(form: str) -> PrimFunc:
    """The example with W[j, r] for B, in tiles of 4 x 16; W is copied into blocks, or is in blocks already."""
    m, n, k = SIZE
    a, bias = te.placeholder((m, k), name="A"), te.placeholder((n,), name="bias")
    w = te.placeholder((n // 16, k, 16) if form == "given in blocks" else (n, k), name="W")
    r = te.reduce_axis((0, k), name="r")

    def product(i: Expr, j: Expr) -> Expr:
        weight = w[j // 16, r, j % 16] if form == "given in blocks" else w[j, r]
        return te.sum(a[i, r] * weight, axis=r)

    c = te.compute((m, n), product, name="C")
    y = te.compute((m, n), lambda i, j: te.maximum(c[i, j] + bias[j], te.const(0, "float32")), name="Y")
    sch = tir.Schedule(te.create_prim_func([a, w, bias, y]))
    if form == "copied":
        sch.cache_read("C", 1, "global")
        sch.transform_layout("C", ("read", 1), lambda j, r: (j // 16, r, j % 16))
    i, j, r = sch.get_loops("C")
    i_0, row = sch.split(i, factors=[None, 4])
    j_0, lane = sch.split(j, factors=[None, 16])
    sch.reorder(j_0, i_0, r, row, lane)
    sch.vectorize(lane)
    sch.unroll(row)
    return sch.func


a, b, bias, y = example.inputs(*SIZE)
columns = {}
for form in ("as it is", "copied", "given in blocks"):
    kernel = minitvm.lower(dense(form), stop_at="kernel")["main"]
    w = np.ascontiguousarray(b.T)
    if form == "given in blocks":
        w = np.ascontiguousarray(w.reshape(-1, 16, SIZE[2]).transpose(0, 2, 1))
    columns[f"W {form}"] = ledger.measure(kernel, a, w, bias, y)
    assert (y == example.expected(a, b, bias)).all()
ledger.show(columns)

# %% [markdown]
# Look at the row *bytes moved by a cache*. The cache moves 333,952 bytes for W as it is, 96,384 if the program copies
# W, and only 26,752 if W is already in blocks. So even a copy in each run pays off here, and a copy made beforehand is
# better still.
#
# ## Your turn
#
# Write the index map of a blocked layout, in both directions. Your functions must also work if the number of channels
# is not a multiple of the block.
#
#     minitvm lesson 17 --start     (writes exercise_17.py, for you to fill in)
#     minitvm lesson 17 --check
