# %% [markdown]
# # Eight bits
#
# A float32 has 24 bits of accuracy, but a trained network does not need that many bits. Eight bits are often enough. A
# vector holds four times as many bytes as floats, and many processors have a special instruction that multiplies bytes.
# In this lesson we convert a network from floats to bytes. The sums of its layers are then sums of whole numbers, which
# you can compute exactly.

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
# A byte q represents the float (q - z) * s. The *scale* s is the difference between the floats of two neighbouring
# bytes, and the *zero point* z is the byte that represents 0. The float 0 must be represented exactly, because images
# are padded with zeros, and after a relu about half of all values are zero. We compute the scale and the zero point for
# values from -1 to 3:

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
# The scale is 4 / 255, and byte 64 represents 0. The largest error is 0.00784, which is half a step, as you expect if
# every number is rounded to the nearest byte.
#
# ## A product of bytes
#
# Now we multiply bytes. The inputs of a layer, x (the *activations*), are unsigned bytes with a zero point z. The
# weights w are signed bytes without a zero point. Then a sum of products is
#
#     sum (qx - z) sx * qw sw = sx sw ( sum qx qw - z sum qw )
#
# The second sum contains only weights. So it can be computed when the network is compiled, and becomes a part of the
# bias. When the network runs, only the first sum remains, which is a sum of products of bytes. It is computed in int32,
# without any rounding, so `reference.check` can compare such programs exactly.
#
# Many processors have an instruction for such sums (`vpdpbusd` on x86, `usdot` on ARM, `dp4a` on GPUs). For every 32
# bits of a vector, it computes four products of bytes and their sum. In minitvm a *word* is an int32 that holds four
# bytes, and `dot4_u8i8(a, b)` is an ordinary function of two words. So vectors, register tiles and fusion work with
# this function without any change. Here are two programs for the same sum, one with bytes and one with words:


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
    """The same sum, four products at a time."""

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
# The two programs are equal, so `dot4_u8i8` computes the sum of four products, as we expect.
#
# Older machines have another instruction, which adds *two* products and stores the sum in sixteen bits. If the sum is
# too large, it *saturates*: the result is the largest number that fits. For example, 255 * 127 * 2 is 64770, but the
# largest int16 is 32767. Libraries that used this instruction computed wrong results for large weights, or had to limit
# weights to seven bits. On such machines minitvm does not use this instruction, and multiplies 16-bit numbers exactly
# instead.
#
# ## One scale, or one for each channel
#
# A layer has many filters, one for each output channel, and some filters have much smaller weights than others. If all
# filters share one scale, a filter with small weights uses only a few of the 255 steps. We compare one scale for all
# filters with one scale for each filter, for four filters whose weights become smaller and smaller. The table shows the
# signal to noise ratio of each filter in decibels (dB). A larger number means smaller rounding errors:

# %%
weights = rng.standard_normal((4, 64)) * np.array([[1.0], [0.3], [0.1], [0.03]])
predict(
    "All filters share one scale. How many of its eight bits does a filter lose if its weights are 0.03 times as "
    "large?",
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
# With one scale, the last filter has only 15.4 dB, which is about 30 dB less than the 44.9 dB with its own scale. Every
# 6 dB is worth one bit, so this filter has lost five of its eight bits. A separate scale for each output channel costs
# nothing, because each finished sum is multiplied by a scale anyway.
#
# ## A network
#
# `minitvm.quantize` runs a network on some sample inputs and records the range of each tensor. Then it converts the
# inputs of every product to bytes, and a later step of the compiler changes the network so that the scales are applied
# after the products. Between two layers, the int32 sums are multiplied by sx sw / sy (where y is the output of the
# layer) and rounded, and the zero point of y is added. The results are bytes again.


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
# Each line is a tensor with its range, its scale, and its signal to noise ratio, which is 34 dB or better. The samples
# must be similar to the inputs that you will use later. If the range of a tensor is too small, larger values are cut
# off; if it is too large, most of the 255 steps are never used. With the argument `percentile=99.9`, the few largest
# values are ignored. Here are the times of the network in floats and in bytes, on one thread:

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
# Are the bytes faster on your machine? That depends on your CPU. If your CPU has the instruction for four products, the
# bytes should be faster. Otherwise, as on CPUs with only AVX2, each sum takes several instructions. The floats also
# have an advantage here: they can use Winograd's algorithm (lesson 18), which needs less than half of the
# multiplications but does not work for bytes. On every machine you save memory, because the weights need only a quarter
# of the bytes. The last line of the output shows that the results are still close to those of the floats.
#
# ## The ledger
#
# Both columns of the ledger are for a sum of 64 products. The program with words has 0 multiplies, because it calls
# `dot4_u8i8` 16 times instead, and the ledger does not count these calls as multiplications.

# %%
args = [rng.integers(0, 256, 64).astype("uint8"), rng.integers(-128, 128, 64).astype("int8"), np.zeros(1, "int32")]
ledger.show({name: ledger.measure(func, *args) for name, func in (("bytes", by_bytes(16)), ("words", by_words(16)))})

# %% [markdown]
# The program with words saves only a few loads here, because it has to load each byte to put the words together. A
# compiled network does not need these loads. In its tensors the four bytes of a word are already neighbours in memory,
# so a vector of bytes *is* a vector of words.
#
# ## Your turn
#
# Write a layer that works on bytes. Its weights have a scale for each channel, its bias includes the term with the zero
# point, and its results are bytes again.
#
#     minitvm lesson 22 --start     (writes exercise_22.py, for you to fill in)
#     minitvm lesson 22 --check
