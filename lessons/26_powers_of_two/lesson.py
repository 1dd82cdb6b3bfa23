# %% [markdown]
# # Powers of two: a network on a machine without floats
#
# Lesson 19 converted a network to bytes, but every layer still ended in a multiplication by a float. A small
# accelerator has no floats. It has an array that multiplies bytes, and an ALU that adds, shifts and compares int32.
# That is enough if every scale is a power of two.

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
from minitvm.machines.scratchpad.simulated_device import timelines
from minitvm.script import tir as T
from minitvm.tir.nodes import PrimFunc

# %% [markdown]
# ## Scales that are shifts
#
# A byte q represents q * 2^-e. There is no zero point: the byte 0 represents 0. A product of a byte in units of 2^-a
# and one in units of 2^-b is in units of 2^-(a+b), and so is a sum of such products. To convert it to units of 2^-e,
# divide by 2^(a+b-e), which is a shift. Both programs below convert the same sums to bytes:


# %%
def by_multiplication(n: int, places: int) -> PrimFunc:
    """Sums times 2^-places, rounded to the nearest integer with halves up, kept between -128 and 127."""

    @T.prim_func
    def narrow(S: T.Buffer((n,), "int32"), Q: T.Buffer((n,), "int8")):
        for i in range(n):
            Q[i] = T.Cast(
                "int8",
                T.max(
                    T.min(T.floor(T.Cast("float64", S[i]) * T.float64(2.0**-places) + T.float64(0.5)), T.float64(127)),
                    T.float64(-128),
                ),
            )

    return narrow


def by_shift(n: int, places: int) -> PrimFunc:
    """The same with integers alone."""

    @T.prim_func
    def narrow(S: T.Buffer((n,), "int32"), Q: T.Buffer((n,), "int8")):
        for i in range(n):
            Q[i] = T.Cast("int8", T.max(T.min((S[i] + (1 << (places - 1))) >> places, 127), -128))

    return narrow


sums = np.array([0, 1, 31, 32, 33, -31, -32, -33, 5000, -9000, 100_000, -100_000], "int32")
multiplied, shifted = np.zeros(12, "int8"), np.zeros(12, "int8")
reference.tir.run(by_multiplication(12, 6), sums, multiplied)
reference.tir.run(by_shift(12, 6), sums, shifted)
print(shifted)
assert (multiplied == shifted).all()

# %% [markdown]
# ## Round to the nearest
#
# A shift rounds down. On average that loses half a step, always in the same direction, and the next layer adds up
# hundreds of these errors. If you add half a step before the shift, the result is rounded to the nearest. This costs
# nothing: a layer adds a bias before it shifts, and the half step is added to the bias when the network is compiled.

# %%
rng = np.random.default_rng(26)
many = rng.integers(-(2**13), 2**13, 100_000)
predict("A shift by 6 rounds down. What is its error on average, in steps?", float(((many >> 6) - many / 64).mean()))
for name, half in (("rounded down", 0), ("to the nearest", 32)):
    error = ((many + half) >> 6) - many / 64
    print(f"{name:<15} mean error {error.mean():+.3f} steps, noise {np.sqrt((error**2).mean()):.3f}")

# %% [markdown]
# ## Which power
#
# The steps 1/16 and 1/32 are far apart: with the first the largest value of a tensor may be stored as 65, and half of
# the bytes are never used; with the second it may be cut off. Which one is better depends on the number of large
# values. `minitvm.quantize` tries three steps, the one that covers everything and the two below, and chooses the one
# with the smallest squared error:

# %%
tensors = {
    "flat": rng.uniform(-3, 3, 10_000),
    "a bell": rng.standard_normal(10_000),
    "long tails": rng.standard_t(3, 10_000),
}
noise: dict[str, float] = {}
for name, x in tensors.items():
    covering = int(np.floor(np.log2(127.5 / abs(x).max())))
    errors = []
    for e in range(covering, covering + 3):
        rounded = np.clip(np.rint(x * 2.0**e), -128, 127) * 2.0**-e
        errors.append(10 * np.log10((x**2).mean() / ((x - rounded) ** 2).mean()))
    print(f"{name:<11}", "  ".join(f"2^-{covering + k}: {value:4.1f} dB" for k, value in enumerate(errors)))
    noise |= {f"{name}, 2^-{covering + k}": float(value) for k, value in enumerate(errors)}

# %%
picture = drawings.bars(
    noise, "signal to noise with three steps for each tensor; orange is the best one", "dB",
    [drawings.ORANGE if value == max(noise[other] for other in noise if other.split(",")[0] == name.split(",")[0])
     else drawings.GREY for name, value in noise.items()],
)  # fmt: skip
print("the picture:", picture.save("steps"))

# %% [markdown]
# ## Adding two tensors
#
# A shortcut adds a tensor in units of 2^-a to one in units of 2^-b. Integers of different units cannot be added. The
# coarser one is shifted left to the units of the finer one, which is exact in int32; then the sum is shifted to the
# units of the result, and rounded once.
#
# ## A network

# %%


def network() -> Graph:
    """A first convolution of three channels, and a block with a shortcut."""
    b, seeded = GraphBuilder("network"), np.random.default_rng(3)

    def weights(*shape: int) -> np.ndarray:
        return (seeded.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype("float32")

    x = b.op("nn.relu", b.op("nn.conv2d", b.input("x", (1, 3, 16, 16)), weights(32, 3, 3, 3), padding=1))
    y = b.op("nn.relu", b.op("nn.conv2d", x, weights(32, 32, 3, 3), padding=1))
    y = b.op("nn.conv2d", y, weights(32, 32, 3, 3), padding=1)
    return b.build(b.op("nn.global_avg_pool", b.op("nn.relu", b.op("add", x, y))))


samples = [rng.standard_normal((1, 3, 16, 16)).astype("float32") for _ in range(4)]
quantized = minitvm.quantize(network(), samples, dtype="int8")
print(quantized)

# %% [markdown]
# From the first `qnn.quantize` to the last `qnn.dequantize` there is no float. `offset` is the bias plus the half step:

# %%
print("\n".join(line for line in str(quantized.graph).splitlines() if "=" in line and "constant" not in line))

# %% [markdown]
# ## On the accelerator
#
# The machine of lesson 24 can run convolutions that end like this: an addition, a shift, limits, int8. Other operators
# run on its host. One program contains both, and integers are exact, so the result is the same as that of the
# interpreter, bit for bit.

# %%
module = minitvm.build(quantized.graph, target="vta")
image = rng.standard_normal((1, 3, 16, 16)).astype("float32")
(expected,) = reference.graph.run(quantized.graph, [image])
assert np.array_equal(module(image), expected)
for kernel in module.executable.kernels:
    print(f"{kernel.language:<10} {kernel.name}")

# %% [markdown]
# The first convolution has three channels. The array processes sixteen at once, so thirteen of them would be zeros.
# Therefore the host computes this convolution.
#
# ## The ledger
#
# The first two columns convert sixteen sums to bytes, in both ways. The others are the convolutions on the array.

# %%
args = [rng.integers(-9000, 9000, 16).astype("int32"), np.zeros(16, "int8")]
columns = {
    "multiplied": ledger.measure(by_multiplication(16, 6), *args).lesson_rows(),
    "shifted": ledger.measure(by_shift(16, 6), *args).lesson_rows(),
}
for number, line in enumerate(timelines(module.executable).values(), 1):
    columns[f"convolution {number}"] = {"cycles": f"{line.cycles:,}", "array in use": f"{line.utilisation:.0%}"}
ledger.show(columns)

# %% [markdown]
# ## Your turn
#
# Choose a power of two, shift sums to bytes, and add two tensors of different units, with integers alone.
#
#     minitvm lesson 26 --start     (writes exercise_26.py, for you to fill in)
#     minitvm lesson 26 --check
