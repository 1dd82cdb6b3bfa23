# %% [markdown]
# # Eight bits
#
# A trained network does not need 24 bits of each number. Eight are often enough: four times as many fit into a vector,
# and processors have a special instruction that multiplies them. The way from floats to bytes and back is arithmetic
# that you can get exactly right.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import numpy as np

import minitvm
from lessons import drawings, ledger
from lessons.predict import predict
from minitvm import reference
from minitvm.graph.builder import GraphBuilder
from minitvm.graph.nodes import Graph
from minitvm.script import tir as T
from minitvm.tir.nodes import PrimFunc

# %% [markdown]
# ## A step and a zero
#
# A byte q represents the float (q - z) * s. The *scale* s is the step between two bytes, and the *zero point* z is the
# byte that represents 0. Zero must be exact: images are padded with it, and after a relu half of all values are zero.
# Here are both for values from -1 to 3:

# %%
low, high = -1.0, 3.0
scale = (high - low) / 255
zero = round(-low / scale)
print(f"scale {scale:.5f}, zero point {zero}")


def to_bytes(x: np.ndarray, scale: float, zero: int) -> np.ndarray:
    """The nearest byte."""
    return np.clip(np.rint(x / scale) + zero, 0, 255).astype("uint8")


def to_floats(q: np.ndarray, scale: float, zero: int) -> np.ndarray:
    """The float that a byte represents."""
    return (q.astype("int32") - zero) * np.float64(scale)


rng = np.random.default_rng(19)
x = rng.uniform(low, high, 10000)
error = abs(to_floats(to_bytes(x, scale, zero), scale, zero) - x).max()
print(f"largest error {error:.5f}, half a step {scale / 2:.5f}")
assert error <= scale / 2 * 1.01
assert to_floats(to_bytes(np.zeros(1), scale, zero), scale, zero) == 0

# %% [markdown]
# ## A product of bytes
#
# Activations are unsigned bytes with a zero point, and weights are signed bytes without one. Then a sum of products is
#
#     sum (qx - z) sx * qw sw = sx sw ( sum qx qw - z sum qw )
#
# The second sum contains only weights, so it is known when the network is compiled, and becomes a part of the bias.
# Only a sum of products of bytes remains to be computed, in int32. It is not rounded: integers are exact, and so is the
# oracle.
#
# The machine has an instruction for it (`vpdpbusd` on x86, `usdot` on ARM, `dp4a` on GPUs): four products of bytes and
# their sum, for every 32 bits of a vector. For the compiler a *word* is an int32 that holds four bytes, and
# `dot4_u8i8(a, b)` is a function of two words like any other. So vectors, register tiles and fusion work with it
# without changes. Here is the sum by bytes and by words:


# %%
def by_bytes(n: int) -> PrimFunc:
    """The sum of 4 n products."""

    @T.prim_func
    def dot(A: T.Buffer((4 * n,), "uint8"), B: T.Buffer((4 * n,), "int8"), C: T.Buffer((1,), "int32")):
        C[0] = 0
        for k in range(4 * n):
            C[0] = C[0] + T.Cast("int32", A[k]) * T.Cast("int32", B[k])

    return dot


def by_words(n: int) -> PrimFunc:
    """The same, four at a time."""

    @T.prim_func
    def dot(A: T.Buffer((4 * n,), "uint8"), B: T.Buffer((4 * n,), "int8"), C: T.Buffer((1,), "int32")):
        X = T.alloc_buffer((n,), "int32")
        Y = T.alloc_buffer((n,), "int32")
        for k in range(n):
            X[k] = (
                T.Cast("int32", A[4 * k])
                | (T.Cast("int32", A[4 * k + 1]) << 8)
                | (T.Cast("int32", A[4 * k + 2]) << 16)
                | (T.Cast("int32", A[4 * k + 3]) << 24)
            )
            Y[k] = (
                T.Cast("int32", T.reinterpret("uint8", B[4 * k]))
                | (T.Cast("int32", T.reinterpret("uint8", B[4 * k + 1])) << 8)
                | (T.Cast("int32", T.reinterpret("uint8", B[4 * k + 2])) << 16)
                | (T.Cast("int32", T.reinterpret("uint8", B[4 * k + 3])) << 24)
            )
        C[0] = 0
        for k in range(n):
            C[0] = C[0] + T.dot4_u8i8(X[k], Y[k])

    return dot


verdict = reference.check(by_bytes(2), by_words(2))
print("by bytes and by words:", verdict)
assert verdict

# %% [markdown]
# Older machines have another instruction, which adds *two* products in sixteen bits and saturates: 255 * 127 * 2 =
# 64770, but the largest int16 is 32767. Libraries that used it gave wrong results for large weights, or limited weights
# to seven bits. On such machines minitvm uses two exact 16-bit products.
#
# ## One scale, or one for each channel
#
# The filters of a layer differ. With one scale for all, a filter with small weights uses only a few of the steps:

# %%
weights = rng.standard_normal((4, 64)) * np.array([[1.0], [0.3], [0.1], [0.03]])
predict(
    "One scale for all: how many of its eight bits does a filter lose if its weights are 0.03 times as large?",
    int(np.log2(1 / 0.03)),
)
bits: dict[str, float] = {}
for name, axis in (("one scale", None), ("one for each channel", 1)):
    step = abs(weights).max(axis=axis, keepdims=True) / 127
    rounded = np.rint(weights / step) * step
    noise = [10 * np.log10((w**2).mean() / ((w - r) ** 2).mean()) for w, r in zip(weights, rounded, strict=True)]
    print(f"{name:<22}", "  ".join(f"{value:5.1f} dB" for value in noise))
    bits |= {f"filter {number}, {name}": float(value) for number, value in enumerate(noise)}
bits = dict(sorted(bits.items(), key=lambda row: row[0].split(",")[0]))

# %%
picture = drawings.bars(
    bits, "signal to noise of four filters, in dB; 6 dB are one bit", "dB", [drawings.GREY, drawings.BLUE] * 4
)
print("the picture:", picture.save("scales"))

# %% [markdown]
# Every 6 dB is worth one bit, so the last filter has lost five of its eight bits. A separate scale for each output
# channel costs nothing, because the finished sum is simply multiplied by it.
#
# ## A network
#
# `minitvm.quantize` runs the network on samples, records the range of each tensor, and converts the inputs of every
# product to bytes. The pass `integer_products` then moves the scales after the products. Between two layers, the int32
# sums are multiplied by sx sw / sy, the zero point is added, and the result is rounded to the nearest byte.


# %%
def network() -> Graph:
    """Three convolutions of 64 channels, seeded."""
    b, seeded = GraphBuilder("network"), np.random.default_rng(3)
    x = b.input("x", (1, 64, 28, 28))
    for _ in range(3):
        w = seeded.standard_normal((64, 64, 3, 3)) / 24
        x = b.op("nn.relu", b.op("nn.conv2d", x, w.astype("float32"), padding=1))
    return b.build(b.op("nn.global_avg_pool", x))


samples = [rng.standard_normal((1, 64, 28, 28)).astype("float32") for _ in range(4)]
quantized = minitvm.quantize(network(), samples)
print(quantized)

# %% [markdown]
# Samples must be similar to the real inputs: a range that is too small cuts values off, and one that is too large
# wastes steps. `percentile=99.9` ignores the few largest values. Here are the times, on one thread:

# %%
image = rng.standard_normal((1, 64, 28, 28)).astype("float32")
results = {}
for name, graph in (("floats", network()), ("bytes", quantized.graph)):
    module = minitvm.build(graph, threads=1)
    results[name] = np.asarray(module(image)).ravel()
    print(f"{name:<8} {ledger.duration(ledger.best_of(20, lambda run=module: run(image))):>9}")
difference = results["bytes"] - results["floats"]
noise = 10 * np.log10((results["floats"] ** 2).mean() / (difference**2).mean())
print(f"signal to noise of a new image: {noise:.1f} dB")
assert noise > 20

# %% [markdown]
# Are the bytes faster? That depends on your CPU. With an instruction for four products (`vpdpbusd`), they are. Without
# one, as on CPUs that have only AVX2, each sum takes several instructions. The floats also have an advantage here: they
# use Winograd's algorithm (lesson 16), which needs less than half of the multiplications but does not work for bytes.
# On every machine you save memory: the weights are a quarter of the size.
#
# ## The ledger
#
# Both columns are for a sum of 64 products. The program that works on words calls `dot4_u8i8` 16 times, and the ledger
# does not count these calls as multiplications.

# %%
args = [rng.integers(0, 256, 64).astype("uint8"), rng.integers(-128, 128, 64).astype("int8"), np.zeros(1, "int32")]
ledger.show({name: ledger.measure(func, *args) for name, func in (("bytes", by_bytes(16)), ("words", by_words(16)))})

# %% [markdown]
# A compiled network does not assemble the words one by one: the bytes are already in this order, and a vector of bytes
# *is* a vector of words.
#
# ## Your turn
#
# Write a layer of bytes: its weights with a scale for each channel, its bias with the zero point folded in, and its
# result in bytes again.
#
#     minitvm lesson 19 --start     (writes exercise_19.py, for you to fill in)
#     minitvm lesson 19 --check
