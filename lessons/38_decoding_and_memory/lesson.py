# %% [markdown]
# # Why decoding waits for memory
#
# A language model writes its answer token by token. This is called *decoding*. For each token the program multiplies
# one row of numbers by every matrix of the model, so it reads every weight once, and uses it once. In this lesson we
# count the bytes and the operations of one token, measure how fast your machine reads and computes, and predict how
# many tokens per second a model can write. Then we see why weights of 4 bits make a model faster, and why reading a
# question is many times faster than writing the answer.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import math
import time

import numpy as np

import minitvm
from lessons import drawings, ledger
from lessons.predict import predict
from minitvm.expr import SizeVar
from minitvm.frontends.common.block_weights import PackedWeights
from minitvm.frontends.gguf.formats import FORMATS
from minitvm.graph import Graph, GraphBuilder
from minitvm.reference import block_formats
from minitvm.script import tir as T
from minitvm.tir.nodes import PrimFunc

# %% [markdown]
# ## Count one token
#
# The matrices of SmolLM2-135M, the model of lesson 37, have these sizes. Each layer has seven of them, and there are 30
# layers. The last matrix computes a logit for each of the 49,152 tokens.

# %%
WIDTH, HIDDEN, KEYS, LAYERS, VOCABULARY = 576, 1536, 192, 30, 49152  # three heads of keys with 64 features: 192
layer = 2 * WIDTH * WIDTH + 2 * KEYS * WIDTH + 3 * HIDDEN * WIDTH  # queries, result; keys, values; the gate
WEIGHTS = LAYERS * layer + VOCABULARY * WIDTH
print(f"weights: {LAYERS} * {layer:,} + {VOCABULARY * WIDTH:,} = {WEIGHTS:,}")
print(f"operations for a token: {2 * WEIGHTS:,}")

# %% [markdown]
# Each weight needs two operations: a multiplication and an addition. That is a quarter of a billion operations for each
# token. A core of a CPU does 50 to 300 billion operations per second, so it should write hundreds of tokens per second.
# Does it? The weights also have to come from memory:

# %%
predict(
    "In float32, a weight has 4 bytes, and it is used for two operations. How many operations is that per byte?", 2 / 4
)
BITS = {"float32": 32, "float16": 16, "8 bits": 8.5, "4 bits": 5}  # that a kernel reads per weight
for name, bits in BITS.items():
    print(f"{name:<8} {WEIGHTS * bits / 8 / 1e6:>6.0f} MB per token, {2 * 8 / bits:.2f} operations per byte")

# %% [markdown]
# In the last two rows, weights are integers of 8 or 4 bits that share scales, so a weight has half a bit or one bit
# more than its integer. We come to them soon. First we measure your machine.
#
# ## Measure the machine: how fast does it read?
#
# This program reads an array of 42 MB once, and keeps the largest number of each of its 64 columns. It does almost
# nothing except read, so it shows how fast one core gets data from memory. It reads four parts of the array in turn,
# because then the processor fetches more data ahead of time.

# %%
STREAMS, STEPS, LANES = 4, 163_840, 16


@T.prim_func
def reading(x: T.Buffer((STREAMS, STEPS, LANES), "float32"), y: T.Buffer((STREAMS, LANES), "float32")):
    for s in T.unroll(STREAMS):
        for v in T.vectorized(LANES):
            y[s, v] = T.float32(0)
    for i in range(STEPS):
        for s in T.unroll(STREAMS):
            for v in T.vectorized(LANES):
                y[s, v] = T.max(y[s, v], x[s, i, v])


memory, columns = np.ones((STREAMS, STEPS, LANES), "float32"), np.zeros((STREAMS, LANES), "float32")
read = minitvm.build(reading, threads=1)
read_rate = memory.nbytes / ledger.best_of(20, lambda: read(memory, columns), time.thread_time)
print(f"one core reads {read_rate / 1e9:.1f} GB/s")
for name, bits in BITS.items():
    print(f"{name:<8} at most {read_rate / (WEIGHTS * bits / 8):>6.0f} tokens per second")

# %% [markdown]
# These are upper bounds: even if computing took no time, one core could not write more tokens per second. In float32
# the bound is low. The only way to raise it is to read fewer bytes.
#
# (If your machine has a cache of more than 42 MB, part of the array stays in it, and your numbers are higher. We
# measure with the clock of our thread, which stops while other programs run.)
#
# ## Weights of 4 bits
#
# In the format Q4_1, 32 neighbouring weights form a *block*. The block stores the smallest weight, the *minimum*, and
# the *scale*, which is the difference from one step to the next. Each weight is an integer q from 0 to 15, which means
# scale * q + minimum. We round some random weights and look at the error, as in lesson 22:

# %%
rng = np.random.default_rng(38)
BLOCK = 32


def rounded(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Blocks [.., 32] of weights as integers from 0 to 15, their scales, and their minima."""
    minimum = weights.min(axis=-1)
    scale = (weights.max(axis=-1) - minimum) / 15
    q = np.rint((weights - minimum[..., None]) / scale[..., None])
    return q.astype("uint8"), scale.astype("float16"), minimum.astype("float16")


weights = rng.standard_normal((1000, BLOCK))
q, scale, minimum = rounded(weights)
error = scale[:, None] * q + minimum[:, None] - weights
print(f"signal to noise: {10 * np.log10((weights**2).mean() / (error**2).mean()):.1f} dB")
print("the first block:", q[0].tolist(), f"scale {scale[0]}, minimum {minimum[0]}")

# %% [markdown]
# 22 dB are not much: the errors are nearly a tenth of the weights. But the errors of the hundreds of products in a sum
# partly cancel, and a language model works well with them.
#
# In the file, a block has 20 bytes: the scale (s in the picture) and the minimum (m) as float16, and 16 bytes with two
# integers each. The low four bits of byte i, its low *nibble*, are integer i, and its high nibble is integer 16 + i:

# %%
nibbles = q[0, :16] | q[0, 16:] << 4
block = scale[:1].tobytes() + minimum[:1].tobytes() + nibbles.tobytes()
restored = block_formats.numbers("Q4_1", block)
assert np.array_equal(restored, scale[0].astype("float32") * q[0] + minimum[0].astype("float32"))
empty = [""] * 4
picture = drawings.cells(
    [
        ["s", "s", "m", "m", *(f"{byte:02x}" for byte in nibbles)],
        [*empty, *map(str, q[0, :16])],
        [*empty, *map(str, q[0, 16:])],
    ],
    [
        [drawings.ORANGE] * 4 + [drawings.BLUE] * 16,
        [*empty, *[drawings.LIGHT] * 16],
        [*empty, *[drawings.GREY] * 16],
    ],
    "a block of Q4_1, and the two integers in each byte",
    ["bytes", "q0 to q15", "q16 to q31"],
    size=23,
)
print("the picture:", picture.save("block"))

# %% [markdown]
# So 32 weights have 20 bytes, which is 5 bits per weight. The format of 8 bits in our table has no minimum: 8 + 16 / 32
# = 8.5 bits.
#
# ## The kernel
#
# The kernel must not turn the weights into floats first, because that would cost more than the product. Instead it
# rounds the *row* to bytes b, in the same blocks, each with its own step: x is about step * b. Then it multiplies
# integers:
#
#     sum of (scale * q + minimum) * step * b
#         =  step * (scale * (sum of q * b)  +  minimum * (sum of b))
#
# In this formula, scale, minimum and step are used once for each block, and both sums are sums of integers. The second
# sum does not depend on the weights. So here is a program for the first sum, for each block of one column of weights. A
# *word* has 32 bits, so it holds eight weights: the low nibbles of its four bytes are four neighbours, and so are the
# high nibbles. The program loads a word once and then unpacks the nibbles: it shifts the word to the right by 0, 4, 8,
# ... or 28 bits, and keeps the lowest four bits of the result with `bitwise_and`.


# %%
def by_nibbles(blocks: int) -> PrimFunc:
    """Y = for each block, the sum of the products of 32 weights in nibbles and 32 bytes of the row."""

    @T.prim_func
    def column(
        W: T.Buffer((blocks, 4), "int32"), X: T.Buffer((blocks, 32), "int8"), Y: T.Buffer((blocks,), "int32"),
    ):  # fmt: skip
        for b in range(blocks):
            Y[b] = 0
            for w in range(4):
                word: T.int32 = W[b, w]
                for half, byte in T.grid(2, 4):
                    Y[b] = Y[b] + T.bitwise_and(T.shift_right(word, 8 * byte + 4 * half), 15) * T.Cast(
                        "int32", X[b, 16 * half + 4 * w + byte]
                    )

    return column


def by_floats(blocks: int) -> PrimFunc:
    """Y = the same sums in floats."""

    @T.prim_func
    def column(
        W: T.Buffer((blocks, 32), "float32"), X: T.Buffer((blocks, 32), "float32"), Y: T.Buffer((blocks,), "float32"),
    ):  # fmt: skip
        for b in range(blocks):
            Y[b] = T.float32(0)
            for k in range(32):
                Y[b] = Y[b] + W[b, k] * X[b, k]

    return column


words = np.stack([q[:4, :16] | q[:4, 16:] << 4]).view("int32")[0]
row = rng.integers(-127, 128, (4, BLOCK)).astype("int8")
sums = np.zeros(4, "int32")
in_nibbles = ledger.measure(by_nibbles(4), words, row, sums)
assert (sums == (q[:4].astype("int32") * row).sum(axis=1)).all()
in_floats = ledger.measure(by_floats(4), q[:4].astype("float32"), row.astype("float32"), np.zeros(4, "float32"))
print("bytes of the weights that are loaded:", in_nibbles.bytes_read["W"], "and", in_floats.bytes_read["W"])
ledger.show({"nibbles": in_nibbles, "floats": in_floats})

# %% [markdown]
# Both programs compute the same sums. The one with nibbles has more operations (the table also counts the products in 8
# * byte + 4 * half), but it loads 64 bytes of weights instead of 512. If memory is slow and computing is fast, this is
# a good exchange. The real kernel does the same with vectors: one instruction shifts 16 words at once, and `dot4_u8i8`
# of lesson 22 multiplies four bytes of each.
#
# ## Predict and measure
#
# For a measurement we need a model that does not fit into the caches. It makes no difference for memory how its weights
# are divided into matrices. So we take one large matrix, with half as many weights as SmolLM2. It has 42 MB, like the
# array above. `product` is the formula from above, for any number of rows: `rounded` is b, `total` is the sum of b,
# `layout.words` puts four bytes into a word, and the last operator is the kernel.

# %%
DEPTH, UNITS = 4096, 16384
BLOCKS = DEPTH // BLOCK
stored = np.frombuffer(rng.bytes(UNITS * BLOCKS * 20), "uint8").reshape(UNITS, BLOCKS, 20).copy()
scales = (0.02 + 0.01 * rng.random((UNITS, BLOCKS, 1))).astype("<f2")
stored[..., :4] = np.concatenate([scales, -8 * scales], axis=2).view("uint8")  # scales and minima; the rest is random
matrix = FORMATS[3].unpack(stored)  # 3 is the number of Q4_1
packed = PackedWeights.of(matrix)  # in the order in which the kernel reads them
nbytes = sum(array.nbytes for array in packed.arrays)


def product(rows: int | SizeVar) -> Graph:
    """x [rows, 4096] times the matrix."""
    b = GraphBuilder("product")
    x = b.op("reshape", b.input("x", (rows, DEPTH)), newshape=(rows, BLOCKS, BLOCK))
    step = b.op("divide", b.op("max", b.op("abs", x), axis=(-1,), keepdims=True), 127.0)
    rounded = b.op("cast", b.op("round", b.op("divide", x, step)), dtype="int8")
    step = b.op("squeeze", step, axis=(-1,))
    total = b.op("cast", b.op("sum", b.op("cast", rounded, dtype="int32"), axis=(-1,)), dtype="float32")
    operands = b.op("layout.words", rounded), step, b.op("multiply", total, step)
    return b.build(b.op("qnn.contrib_dense_of_blocks", *operands, *packed.arrays, bits=4, units=UNITS))


one_row = minitvm.build(product(1), threads=1)
x = rng.standard_normal((1, DEPTH)).astype("float32")
exact = x @ matrix.floats().T
noise = 10 * np.log10((exact**2).mean() / ((one_row(x) - exact) ** 2).mean())
print(f"signal to noise of the product, from rounding the row: {noise:.0f} dB")
assert noise > 30
seconds = ledger.best_of(20, lambda: one_row(x), time.thread_time)
print(f"{nbytes / 1e6:.0f} MB; predicted from memory: {read_rate / nbytes:.0f} products per second")
print(f"measured: {1 / seconds:.0f}, which read {nbytes / seconds / 1e9:.1f} GB/s")
print(f"so SmolLM2 would write {nbytes / seconds / (WEIGHTS * 5 / 8):.0f} tokens per second on one core")

# %% [markdown]
# How close are the two numbers on your machine? If the measured one is nearly as high as the predicted one, the kernel
# computes as fast as memory delivers, and no better kernel could be much faster. (In the real model, a few matrices
# have 8 bits, and attention and the other operators take some time, too.)
#
# ## Many rows
#
# If the program has several rows, it loads a block once and uses it for all of them. We measure 1 to 128 rows. The
# operations per byte grow with the rows, while the bytes of the weights stay the same.

# %%
many_rows = minitvm.build(product(SizeVar("rows")), threads=1)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128)
rates = {}
print(f"{'rows':>4} {'operations/byte':>16} {'milliseconds':>13} {'ms per row':>11} {'GOP/s':>7}")
for rows in ROWS:
    x = rng.standard_normal((rows, DEPTH)).astype("float32")
    seconds = ledger.best_of(8, lambda x=x: many_rows(x), time.thread_time)
    operations = 2 * rows * UNITS * DEPTH
    rates[operations / nbytes] = operations / seconds
    print(f"{rows:>4} {operations / nbytes:>16.1f} {seconds * 1e3:>13.1f} {seconds * 1e3 / rows:>11.2f} "
          f"{operations / seconds / 1e9:>7.0f}")  # fmt: skip

# %% [markdown]
# Look at the milliseconds. At the beginning of the table, more rows cost hardly any more time: while the next weights
# come from memory, the core can work on the rows. From some number of rows on, the time doubles with the rows, because
# now the core has no time to spare. In this part, the rate in the last column stays the same.
#
# ## The roofline
#
# These two parts are the two sides of a *roofline* (Williams, Waterman and Patterson, 2009). A program that does n
# operations per byte can be limited by memory, to n * (bytes per second), or by the core, to its peak. The smaller of
# the two is the roof. Both axes of the picture are logarithmic, so the left side of the roof is a straight line, too.

# %%
peak = max(rates.values())
least = min(read_rate * min(rates), min(rates.values())) / 2
most = 2 * max(peak, read_rate * min(rates))


def across(intensity: float) -> float:
    """The place of a number of operations per byte on the axis."""
    return math.log(intensity / min(rates)) / math.log(max(rates) / min(rates))


def up(rate: float) -> float:
    """The place of a rate on the axis."""
    return math.log(rate / least) / math.log(most / least)


knee = min(max(peak / read_rate, min(rates)), max(rates))
corners = (min(rates), knee, max(rates))
picture = drawings.curves(
    {
        "roof": [(across(n), up(min(peak, read_rate * n))) for n in corners],
        "measured": [(across(n), up(rate)) for n, rate in rates.items()],
    },
    {across(n): f"{n:.0f}" if n > 10 else f"{n:.1f}" for n in rates},
    {up(rate * 1e9): str(rate) for rate in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if least < rate * 1e9 < most},
    "operations per second (in 10^9) of 1 to 128 rows; the roof is what memory and core allow",
    "operations per byte of the weights",
)
print("the picture:", picture.save("roofline"))
print(f"the corner of the roof is at {peak / read_rate:.0f} operations per byte")

# %% [markdown]
# One row with weights of 4 bits is at the left end of the picture, far from the corner. In float32 it would be even
# further left, at 0.5. This explains three things about language models:
#
# - The tokens of the *prompt*, the text that you write, are all known at once. So they are the rows of one product, and
#   reading a prompt is limited by the core. In `minitvm chat`, a token of a long prompt is read in about a ninth of the
#   time in which a token of the answer is written.
# - A program that answers several people at once can put their next tokens into one product, so eight answers take
#   hardly more time than one. This is called *batching*.
# - A faster kernel does not make a model write faster once it reads as fast as memory delivers. Fewer bytes do: fewer
#   bits per weight, or fewer weights.
#
# The weights are not all that is read. Attention reads the keys and values of all earlier tokens, too:

# %%
cached = LAYERS * 2 * KEYS * 4  # keys and values in float32
print(f"each earlier token: {cached / 1e3:.0f} KB")
print(f"{WEIGHTS * 5 / 8 / cached:,.0f} tokens have as many bytes as the weights")

# %% [markdown]
# In a long conversation, the caches become as expensive as the weights. Three heads of queries share their keys and
# values in this model; without that, the caches would be three times as large.
#
# ## Your turn
#
# Write another format, Q5_0: what its bytes mean, and the unpacking in a kernel. Its integers have five bits, so each
# fifth bit is stored in another place.
#
#     minitvm lesson 38 --start     (writes exercise_38.py, for you to fill in)
#     minitvm lesson 38 --check
