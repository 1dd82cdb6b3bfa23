# %% [markdown]
# # Layout: the contents of a vector
#
# Images with channels have four axes, and memory has one. Which elements are neighbours in memory? For the meaning of a
# program that does not matter. For a vector, which loads neighbours, it matters most. Today we change the order of the
# data instead of the loops: channels in blocks, `NCHW[x]c`, is the layout in which convolutions are fast.

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
# The data are N images with C channels, H rows and W columns. NCHW puts the columns innermost, and NHWC the channels.
# NCHW[x]c cuts the channels into blocks of x, and puts the channels of a block innermost, which makes five axes. NumPy
# can show which element is where. Here is an image of 4 channels with 2 x 3 pixels; the number 213 is channel 2, row 1,
# column 3.

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
# ## The lanes of a vector
#
# A convolution does the same for every channel of the result and for every pixel. So the lanes of a vector can be
# neighbouring columns or neighbouring channels. A good vector is *full*, and its lanes are in *one* cache line. The
# table is for images of several widths, and vectors of 16 floats:

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
# Each entry has two numbers: the share of lanes that are used, and the number of lines that a vector touches. Along the
# columns, small images leave lanes empty, and the last layers of a network have small images. Also, rows begin anywhere
# in a line. (With a stride of 2, every second lane would be empty as well.) Along the channels, NCHW needs a line for
# each lane. NHWC and NCHW16c are perfect, as long as 16 divides the number of channels. Then why blocks? In NHWC the
# next pixel of the same 16 channels is C floats further; in NCHW16c it is the next vector. So the data of a tile of
# pixels are stored together, like a packed panel in lesson 13.
#
# ## Move the data
#
# Here is a convolution with a kernel of 1 x 1, as a tensor expression:


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
# `T.Ramp(start, 8, 4)` is a vector of 4 elements that are 8 apart: W is read down a column. The lanes of Y are 16
# apart, which is the size of an image. So we change the layout of W and Y. `cache_read` and `cache_write` make copies
# that we can change, and `transform_layout` moves element (o, c) of a copy to [o // 4, c, o % 4]. A layout is nothing
# more than such an index map.


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
# All vectors have stride 1 now. This has a second effect: the sums stay in registers while c runs, and are stored at
# the end. (That is not possible for lanes that are not adjacent.) The price is two loops that copy; such a copy is
# called a `layout_transform`.
#
# Here are the times for 64 channels of 28 x 28, on one thread. They include the copies:

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
# ## A whole network
#
# A copy before and after each convolution would be a waste. Most operators between two convolutions can work in blocks
# as well: for addition and relu the position of an element does not matter, and a pool combines pixels, not channels.
# So the compiler changes the layout once at the beginning and once at the end, and packs the weights when the network
# is built, because they are constants. Only an operator that works *across* channels, or moves the axes themselves,
# needs the plain layout in between.


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
    """The operators of a graph, those inside of fused groups too."""
    return [item.op for group in graph.nodes for item in group.attrs["graph"].nodes]


def changes(graph: Graph) -> list[str]:
    """Those that change a layout and do nothing else."""
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
# `layout.block_axis` and `layout.unblock_axis` are the copies. The relu and the pool work in blocks; the transpose does
# not, so the data are converted to the plain layout before it, and blocked again after it. Now look at the weights:

# %%
graph = minitvm.lower(network(), stop_at="fused", accuracy="strict")
for constant in graph.constants:
    print(constant.value.name, "x".join(map(str, constant.data.shape)))
assert not any("pack" in op for op in operators(graph))

# %% [markdown]
# [32, 16, 3, 3] has become [32 / v, 16 / v, 3, 3, v, v], for vectors of v floats; the last axis, the one that a vector
# loads, is a block of the channels of the result. No operator packs them when the network runs.
#
# You can also choose the layout yourself. `ConvertLayout` converts convolutions to the layout that you choose, and
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
# ## The ledger
#
# We use our example, Y = relu(A B + bias), with one difference: B is stored with its columns as rows, W[j, r], as
# frameworks store the weights of a dense layer. The lanes of a vector along j are then in different lines. The second
# column has W in blocks, [j // 16, r, j % 16], and includes the copy. In the third column, W was copied beforehand,
# which is possible because weights are constants.

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
# ## Your turn
#
# Write the index map of a blocked layout, in both directions. It must also work for numbers of channels that are not a
# multiple of the block.
#
#     minitvm lesson 15 --start     (writes exercise_15.py, for you to fill in)
#     minitvm lesson 15 --check
