# %% [markdown]
# # Winograd: fewer multiplications
#
# In all lessons so far we did the same multiplications in a better order. In this lesson we do fewer multiplications.
# Two neighbouring results of a filter with three weights seem to need six products, but four are enough. For images, 16
# products can replace 36, or 36 can replace 144. Then a convolution can become faster than the multiply-add units seem
# to allow. We also prove that the trick is right for all inputs, and measure its price, which is a loss of accuracy.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import itertools
from fractions import Fraction

import numpy as np

import minitvm
from lessons import drawings, ledger
from lessons.predict import predict
from minitvm import reference
from minitvm.graph.builder import GraphBuilder
from minitvm.graph.nodes import Graph
from minitvm.machines.simd.strategy.algorithms import convolution_algorithms
from minitvm.machines.simd.topi.winograd import winograd_error_growth
from minitvm.script import tir as T
from minitvm.strategy.algorithms import Convolution, algorithm_name
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc

# %% [markdown]
# ## Four products
#
# A filter with three weights g0, g1, g2 slides over a signal d. Its first two results are y0 = d0 g0 + d1 g1 + d2 g2
# and y1 = d1 g0 + d2 g1 + d3 g2. Together they need six products. Winograd (1980) found a way to compute both results
# with only four products, m0 to m3:
#
#     m0 = (d0 - d2) g0                       y0 = m0 + m1 + m2
#     m1 = (d1 + d2) (g0 + g1 + g2) / 2       y1 = m1 - m2 - m3
#     m2 = (d2 - d1) (g0 - g1 + g2) / 2
#     m3 = (d1 - d3) g2
#
# We do not count the work for the sums of weights, such as (g0 + g1 + g2) / 2, because they are computed only once for
# the whole signal. Winograd's method is called F(2, 3), because it computes 2 results with 3 weights. Here are the
# direct filter and F(2, 3) as programs:


# %%
def direct(tiles: int) -> PrimFunc:
    """Y[i] = the sum of d[i + k] g[k]."""

    @T.prim_func
    def direct(
        d: T.Buffer((2 * tiles + 2,), "float32"), g: T.Buffer((3,), "float32"), Y: T.Buffer((2 * tiles,), "float32")
    ):
        for i in range(2 * tiles):
            Y[i] = d[i] * g[0] + d[i + 1] * g[1] + d[i + 2] * g[2]

    return direct


def winograd(tiles: int, last: float = -1.0) -> PrimFunc:
    """The same filter by F(2, 3); `last` is the sign of m3."""

    @T.prim_func
    def winograd(
        d: T.Buffer((2 * tiles + 2,), "float32"), g: T.Buffer((3,), "float32"), Y: T.Buffer((2 * tiles,), "float32")
    ):
        U = T.alloc_buffer((4,), scope="local")
        M = T.alloc_buffer((4,), scope="local")
        U[0] = g[0]
        U[1] = (g[0] + g[1] + g[2]) * T.float32(0.5)
        U[2] = (g[0] - g[1] + g[2]) * T.float32(0.5)
        U[3] = g[2]
        for t in range(tiles):
            M[0] = (d[2 * t] - d[2 * t + 2]) * U[0]
            M[1] = (d[2 * t + 1] + d[2 * t + 2]) * U[1]
            M[2] = (d[2 * t + 2] - d[2 * t + 1]) * U[2]
            M[3] = (d[2 * t + 1] - d[2 * t + 3]) * U[3]
            Y[2 * t] = M[0] + M[1] + M[2]
            Y[2 * t + 1] = M[1] - M[2] + T.float32(last) * M[3]

    return winograd


# %% [markdown]
# ## Is it right?
#
# You could compare the results as floats, but floats are rounded. Two right programs may differ in the last digits, and
# a wrong program may differ by just as little. So `reference.check` (the *oracle*) has a *field mode*, which you know
# from lesson 10. It runs both programs on random whole numbers modulo a prime p. Modulo p you can add, multiply and
# divide, and nothing is ever rounded. For example, modulo p = 2^31 - 1 the number 1/2 is 2^30, because 2 * 2^30 is
# 2^31, and that is 1 modulo p.
#
# Each result is a polynomial of the inputs, and its degree is 2, because each product multiplies one number of the
# signal by one weight. If two such polynomials are different, they agree with a probability of at most 2 / p at a
# random point (Schwartz and Zippel). So if the two programs agree once, they agree for *all* inputs, except with a
# chance of about one in a billion. The oracle compares twice, modulo two different primes above 2^31, because a mistake
# could be invisible modulo one of them.

# %%
verdict = reference.check(direct(4), winograd(4), modes=("field",))
print("2 of 2^31 is", f"{2 / 2**31:.1e};", "the programs:", verdict)
assert verdict

# %% [markdown]
# The programs are equal. Would the check notice a mistake? We change the sign of m3:

# %%
wrong = reference.check(direct(4), winograd(4, last=1.0), modes=("field",))
assert not wrong
print("with + m3,", str(wrong).replace("the programs differ", "they differ"))

# %% [markdown]
# The check finds the wrong sign and shows a small input where Y[1] differs.
#
# ## Three matrices
#
# F(2, 3) can be written with three matrices A, G and B: y = A [ (G g) * (B d) ], where * multiplies element by element.
# (Papers write A^T and B^T.) For example, the four rows of G g are g0, (g0 + g1 + g2) / 2, (g0 - g1 + g2) / 2 and g2.
# The result y is linear in d and linear in g. Two linear functions that agree on all vectors with a single 1 agree on
# all vectors. So it is enough to try the vectors with a single 1. We try them in exact fractions, which gives us a
# second proof:

# %%
Matrix = list[list[Fraction]]


def matrix(text: str) -> Matrix:
    """Rows between semicolons."""
    return [[Fraction(entry) for entry in row.split()] for row in text.split(";")]


A2, G2 = matrix("1 1 1 0; 0 1 -1 -1"), matrix("1 0 0; 1/2 1/2 1/2; 1/2 -1/2 1/2; 0 0 1")
B2 = matrix("1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1")
A4 = matrix("1 1 1 1 1 0; 0 1 -1 2 -2 0; 0 1 1 4 4 0; 0 1 -1 8 -8 1")
G4 = matrix("1/4 0 0; -1/6 -1/6 -1/6; -1/6 1/6 -1/6; 1/24 1/12 1/6; 1/24 -1/12 1/6; 0 0 1")
B4 = matrix("4 0 -5 0 1 0; 0 -4 -4 1 1 0; 0 4 -4 -1 1 0; 0 -2 -1 2 1 0; 0 2 -1 -2 1 0; 0 4 0 -5 0 1")
FORMS = {2: (A2, G2, B2), 4: (A4, G4, B4)}


def is_filter(a: Matrix, g: Matrix, b: Matrix) -> bool:
    """Whether A [ (G w) * (B d) ] is the filter, for all d and w: tried on each pair of unit vectors."""
    m, r = len(a), len(g[0])
    return all(
        sum(a[i][k] * g[k][weight] * b[k][place] for k in range(len(b))) == (place == i + weight)
        for i, weight, place in itertools.product(range(m), range(r), range(m + r - 1))
    )


for m, form in FORMS.items():
    print(f"F({m}, 3): {len(form[1])} products for {m} results, {3 * m} directly; right: {is_filter(*form)}")
    assert is_filter(*form)

# %% [markdown]
# Both forms are right. F(2, 3) needs 4 products instead of 6, and F(4, 3) needs 6 instead of 12.
#
# ## Where do the matrices come from?
#
# Suppose that you multiply two polynomials, s(x) with m coefficients and g(x) with r coefficients. The product has n =
# m + r - 1 coefficients. If you multiply each coefficient of s by each coefficient of g, you need m * r products. But
# there is another way: evaluate both polynomials at n points, multiply the n pairs of *values*, and compute the
# polynomial that has these values. This way needs only n products. (One of the points may be infinity. The value of a
# polynomial at infinity is defined as its highest coefficient.)
#
# Besides the n products of values, this way has three steps: evaluating s, evaluating g, and computing the polynomial
# from its values. Each of these three steps is a multiplication by a matrix. For a fixed g, the whole method is
# therefore one matrix, which turns the m coefficients of s into the n coefficients of the product. The transposed
# matrix turns n numbers into m numbers, exactly like our filter. F(2, 3) uses the points 0, 1, -1 and infinity, and
# F(4, 3) also uses 2 and -2. In the exercise you will compute the matrices for any points.
#
# ## Images
#
# For a 3 x 3 filter on an image, we use the matrices along the columns and along the rows: d becomes B d B^T, and g
# becomes G g G^T. A tile of m x m results takes (m + 2)^2 products:

# %%
predict("A 3 x 3 filter needs 9 products for each result. How many does F(4x4, 3x3) need?", (4 + 2) ** 2 / 4**2)
for m in (2, 4):
    print(f"F({m}x{m}, 3x3): {(m + 2) ** 2} products for {m * m} results: {(m + 2) ** 2 / m**2:g} each, not 9")

# %%
picture = drawings.matrices(
    {"directly": (9, 16), "F(2x2, 3x3)": (4, 16), "F(4x4, 3x3)": (6, 6)},
    lambda name, row, column: {"directly": drawings.GREY, "F(2x2, 3x3)": drawings.BLUE}.get(name, drawings.ORANGE),
    title="products for a tile of 4 x 4 results: a box is a product",
    size=14,
)
print("the picture:", picture.save("products"))

# %% [markdown]
# For each result, F(4x4, 3x3) needs only 2.25 products, a quarter of the 9 products of direct convolution.
#
# A layer of a network has many channels, and the products are summed over the channels of the input *before* A is
# applied. So B d B^T is computed only once for each channel of the input, and used for every channel of the result. For
# each of the (m + 2)^2 positions in a tile, this sum is a product of two matrices. A product of matrices is our usual
# example again, and the ladder of lesson 15 makes it fast.
#
# ## Rounding
#
# With exact numbers all forms give the same result. In float32 their results differ, because B adds and subtracts
# numbers that may be much larger than the result, and each operation rounds. For 64 channels of random numbers, we
# measure how much each form differs from the result in float64:


# %%
def in_float32(m: int, d: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Tiles d [tile, channel, m + 2, m + 2] with weights [channel, 3, 3], everything in float32; [tile, m, m]."""
    a, g, b = (np.array([[float(v) for v in row] for row in form]) for form in FORMS[m])
    u = (g @ w.astype("float64") @ g.T).astype("float32")  # weights are transformed once, with care
    a, b = a.astype("float32"), b.astype("float32")
    middle = ((b @ d @ b.T) * u).sum(axis=1, dtype="float32")
    return np.asarray(a @ middle @ a.T)


def directly(m: int, d: np.ndarray, w: np.ndarray, dtype: str) -> np.ndarray:
    """The same tiles by the definition of convolution; each sum adds one product after the other."""
    total = np.zeros((len(d), m, m), dtype)
    for channel, y, x in np.ndindex(*w.shape):
        total += d[:, channel, y : y + m, x : x + m].astype(dtype) * w[channel, y, x].astype(dtype)
    return total


rng = np.random.default_rng(16)
print("                 largest error   root mean square")
for m in (2, 4):
    d = rng.standard_normal((400, 64, m + 2, m + 2)).astype("float32")
    w = rng.standard_normal((64, 3, 3)).astype("float32")
    truth = directly(m, d, w, "float64")
    errors = {"direct": directly(m, d, w, "float32") - truth, f"F({m}x{m}, 3x3)": in_float32(m, d, w) - truth}
    for name, error in errors.items():
        print(f"{name:<14} {abs(error).max():>15.2e} {np.sqrt((error**2).mean()):>18.2e}")
    growth = np.sqrt(np.mean(errors[f"F({m}x{m}, 3x3)"] ** 2) / np.mean(errors["direct"] ** 2))
    print(f"{'':<14} {growth:.1f} times the error of direct convolution; bound: {winograd_error_growth(m):,.0f} times")
    assert growth < winograd_error_growth(m)

# %% [markdown]
# The third line says that F(2x2, 3x3) has 0.6 times the error of direct convolution. So F(2x2, 3x3) is even more
# accurate than direct convolution, which adds 9 * 64 products one after another and rounds after each addition. The
# last line says that F(4x4, 3x3) has about 4 times the error of direct convolution. Still larger forms lose so much
# accuracy that they are hardly used in float32. The bound at the end of these lines is the largest factor that can
# occur for any numbers. For random numbers the error is far below the bound. minitvm reports the bound when it chooses
# a form, and with `accuracy="strict"` it does not use Winograd's algorithm at all.
#
# ## Does it pay?
#
# Multiplying by A, B and G (the *transforms*) costs time, too, and the transformed weights are larger: (m + 2)^2
# numbers instead of 9. If a layer has few tiles or many channels, loading these weights takes long compared with the
# work. So the fastest form depends on the layer, and a model of the machine chooses the form. Here are four layers of
# the network ResNet-18, which all have the same number of multiplications. Each line lists the algorithms with the
# millions of cycles (Mcycles) that the model predicts, and the fastest algorithm comes first:

# %%
target = Target("cpu")
for name, side, channels in (("C2", 56, 64), ("C6", 28, 128), ("C9", 14, 256), ("C12", 7, 512)):
    layer = Convolution(1, channels, channels, (side, side), (3, 3), (1, 1), (1, 1))
    found = convolution_algorithms(layer, target.vector_lanes("float32"), target)
    print(f"{name:<4} {side:>2} x {side:<2} {channels:>4} channels:",
          ", ".join(f"{algorithm_name(one)} {one.cost.cycles / 1e6:.2f}" for one in found), "Mcycles")  # fmt: skip
    assert [one.cost.cycles for one in found] == sorted(one.cost.cycles for one in found)

# %% [markdown]
# Compare the first and the last line. For C2, with large images and few channels, F(4x4, 3x3) is predicted to be the
# fastest. For C12, with images of 7 x 7 and 512 channels, the smaller form F(2x2, 3x3) is better, because there are few
# tiles to share the cost of the larger weights. `build` uses the first algorithm of each line. (The order may be
# different on your machine.) Here are the measured times of direct convolution (`strict`) and of the algorithm that
# `build` chooses (`fast`), on one thread, for 64 channels of 28 x 28 pixels:


# %%
def layer_graph(channels: int, side: int) -> Graph:
    """One convolution."""
    b = GraphBuilder("layer")
    weights = np.random.default_rng(5).standard_normal((channels, channels, 3, 3)).astype("float32")
    x = b.input("x", (1, channels, side, side))
    return b.build(b.op("nn.conv2d", x, weights, padding=1))


image = rng.standard_normal((1, 64, 28, 28)).astype("float32")
results = {}
for accuracy in ("strict", "fast"):
    graph = layer_graph(64, 28)
    module = minitvm.build(graph, threads=1, accuracy=accuracy)
    chosen = next(
        item.op
        for group in minitvm.lower(graph, stop_at="fused", accuracy=accuracy).nodes
        for item in group.attrs["graph"].nodes
        if "conv" in item.op
    )
    results[accuracy] = np.asarray(module(image))
    taken = ledger.best_of(20, lambda run=module: run(image))
    rate = 2 * 28 * 28 * 64 * 64 * 9 / taken / 1e9
    print(f"{accuracy:<7} {chosen:<36} {ledger.duration(taken):>8}: {rate:>6.1f} GFLOP/s of direct convolution")
difference = abs(results["fast"] - results["strict"]).max() / abs(results["strict"]).max()
print(f"largest difference: {difference:.1e} of the largest result")
assert difference < 1e-4

# %% [markdown]
# Winograd's algorithm is faster, and the results differ by less than 0.0001 of the largest result. The rate counts the
# multiplications that direct convolution *would* do, so it may be above the peak of lesson 15.
#
# ## The ledger
#
# The ledger compares the two programs from the beginning of the lesson, for 256 results.

# %%
TILES = 128
signal = rng.integers(-4, 5, 2 * TILES + 2).astype("float32")
columns = {}
for name, program in (("direct", direct(TILES)), ("F(2, 3)", winograd(TILES))):
    columns[name] = ledger.measure(program, signal, np.array([1, -2, 3], "float32"), np.zeros(2 * TILES, "float32"))
ledger.show(columns)

# %% [markdown]
# The multiplies fall from 768 to 642. For every two results, four multiplications replace six. (The ledger also counts
# a fifth multiplication, by -1, which a compiler removes.) The adds are about the same, but the row for adds does not
# include subtractions, and F(2, 3) needs four subtractions for every two results. So in one dimension you gain nothing
# on a machine that multiplies and adds in one instruction. In two dimensions with many channels you do gain: the sums
# are computed once for each channel, while the products are computed for each *pair* of an input channel and an output
# channel.
#
# ## Your turn
#
# Write a function that computes the three matrices for any number of results, any number of weights, and any points.
#
#     minitvm lesson 18 --start     (writes exercise_18.py, for you to fill in)
#     minitvm lesson 18 --check
