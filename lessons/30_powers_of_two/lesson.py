# %% [markdown]
# # Powers of two: a network on a machine without floats
#
# Lesson 22 converted a network to bytes, but every layer still ended with a multiplication by a float. A small
# accelerator cannot compute with floats. It has an array that multiplies bytes, and a second unit that adds, shifts and
# compares int32 numbers. In this lesson you see that such a machine can run a network if every scale is a power of two.

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
# Now a byte q represents q * 2^-e. We say that q counts in units of 2^-e. There is no zero point, so the byte 0
# represents the number 0. If you multiply a byte in units of 2^-a by a byte in units of 2^-b, the product counts in
# units of 2^-(a+b), and so does a sum of such products. To convert the sum to units of 2^-e, you divide it by
# 2^(a+b-e), which is a shift. The next two programs convert sums to bytes. The first one multiplies by a float, and the
# second one uses only integers:


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
    """The same conversion with integers alone."""

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
# The output is the result of the second program, and the last line of the code checks that the first program gives the
# same bytes. With a shift by 6, the sum 5000 becomes 78, and 100000 is limited to 127.
#
# ## Round to the nearest
#
# A shift alone rounds down. So the result is too small by half a step on average, and the next layer adds up hundreds
# of such errors. If you add half a step before the shift, the result is rounded to the nearest byte. This addition
# costs nothing. A layer adds a bias before the shift anyway, so the half step is added to the bias when the network is
# compiled.

# %%
rng = np.random.default_rng(26)
many = rng.integers(-(2**13), 2**13, 100_000)
predict("A shift by 6 rounds down. What is its error on average, in steps?", float(((many >> 6) - many / 64).mean()))
for name, half in (("rounded down", 0), ("to the nearest", 32)):
    error = ((many + half) >> 6) - many / 64
    print(f"{name:<15} mean error {error.mean():+.3f} steps, noise {np.sqrt((error**2).mean()):.3f}")

# %% [markdown]
# Rounding down has a mean error of about half a step. Rounding to the nearest has almost no mean error, and the noise
# (the root of the mean squared error) is half as large.
#
# ## Which power of two?
#
# Powers of two leave little choice. Suppose that, with a step of 1/16, the largest value of a tensor is stored as 65.
# Then nearly half of the numbers that a byte can hold are never used. With the next smaller step, 1/32, the largest
# value would have to be stored as 130, so it is cut off to 127. Which step is better depends on how many large values
# there are. `minitvm.quantize` tries three steps: the smallest step that can represent all values, and the next two
# below it. It chooses the step with the smallest squared error. The table shows the signal to noise ratio of the three
# steps for three kinds of tensors:

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
# For the flat tensor and for the tensor with long tails, the first step is the best (45.8 dB and 27.2 dB). For the
# bell, the second step is better (40.2 dB). A bell has few large values, so it is better to cut off a few of them and
# to use a smaller step for all the others.
#
# ## Adding two tensors
#
# In a network with a shortcut, a tensor in units of 2^-a is added to a tensor in units of 2^-b. You cannot add integers
# that count in different units. So the tensor with the coarser units is first shifted left to the finer units, which is
# exact in int32. Then the two tensors are added, and the sum is shifted to the units of the result and rounded once.
#
# ## A network
#
# Now we convert a small network, with three convolutions and a shortcut, and print the scale of each tensor:

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
# All scales in the table are powers of two: 0.03125 is 2^-5 and 0.01562 is 2^-6. Now look at the operators of the
# converted network. (`offset` is the bias plus the half step.)

# %%
print("\n".join(line for line in str(quantized.graph).splitlines() if "=" in line and "constant" not in line))

# %% [markdown]
# From `qnn.quantize` in the first line to `qnn.dequantize` near the end, all types are int8 or int32, so there is no
# float. Each convolution is followed by an addition, a shift, a `clip` and a conversion to int8. The `left_shift`
# belongs to the shortcut.
#
# ## On the accelerator
#
# The machine of lesson 27 can run such convolutions, with the addition, the shift, the limits and the conversion to
# int8. The other operators run on its host, an ordinary CPU. One program contains both parts. Integers are exact, so
# the result of this program is the same as the result of the interpreter, in every bit. Here are the kernels of the
# program, with the language of each kernel:

# %%
module = minitvm.build(quantized.graph, target="vta")
image = rng.standard_normal((1, 3, 16, 16)).astype("float32")
(expected,) = reference.graph.run(quantized.graph, [image])
assert np.array_equal(module(image), expected)
for kernel in module.executable.kernels:
    print(f"{kernel.language:<10} {kernel.name}")

# %% [markdown]
# The two kernels in `accel-asm` are convolutions that run on the array. The kernels in `numba` run on the host. The
# first convolution runs on the host, too. Its input has only three channels, but the array always processes sixteen
# channels at once, so most of the array's work would be wasted.
#
# ## The ledger
#
# The first two columns of the ledger are the programs from the beginning, which convert sixteen sums to bytes with a
# multiplication or with a shift. The other two columns are the convolutions that run on the array.

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
# The shift needs 0 multiplies instead of 16. The array is in use for 72 % of the cycles of each convolution.
#
# ## Your turn
#
# Write three functions. They choose a power of two for a tensor, shift sums to bytes, and add two tensors in different
# units. The last two functions must use integers only.
#
#     minitvm lesson 30 --start     (writes exercise_30.py, for you to fill in)
#     minitvm lesson 30 --check
