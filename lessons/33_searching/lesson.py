# %% [markdown]
# # Searching: chance, evolution, and a formula that learns
#
# A tuner has a few *knobs*, such as the size of a tile, and a *candidate* is a choice of a value for each knob.
# Measuring a candidate takes about a second. How many candidates do we have to measure before we find a good one? We
# compare four ways to search, and draw their progress in one plot. Each search gets twenty tries. To make the
# comparison fast, we do not use a real machine but simulate one. The simulated machine takes the cycles of the core
# model of lesson 15, and some more cycles that our formula does not know about.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

from collections.abc import Callable
from functools import cache

import numpy as np

from lessons import drawings
from lessons.pipeline import Core, cycles_a_step
from lessons.predict import predict

core = Core(registers=16, latency=4, ports=2, loads=2)
M, N, LANES = 100, 200, 8
KNOBS = {
    "rows": range(1, 13),
    "vectors": range(1, 7),
    "unroll": (1, 2, 4, 8),
    "order": (0, 1),
    "ahead": (1, 2, 4, 8, 16, 32),
}
SPACE = [
    (rows, vectors, unroll, order, ahead)
    for rows in KNOBS["rows"] for vectors in KNOBS["vectors"]
    for unroll in KNOBS["unroll"] for order in KNOBS["order"] for ahead in KNOBS["ahead"]
]  # fmt: skip
Candidate = tuple[int, int, int, int, int]

# %% [markdown]
# ## The machine
#
# The time of the simulated machine is the time of all steps of all tiles, including their tails. Four more effects
# change this time, and the formula of lesson 32 knows nothing about them:
#
# - the instructions of the loop itself cost time, but less if the loop is unrolled;
# - long code does not fit into the instruction cache;
# - columns compete for the same places in the cache if the tiles are visited in the wrong order;
# - data may be prefetched too late, or so early that they are evicted before they are used.


# %%
@cache
def played(rows: int, vectors: int) -> float:
    """Cycles of a step on the small core."""
    return cycles_a_step(rows, vectors, core, steps=18)


def tiles(rows: int, vectors: int) -> int:
    """How many tiles cover the result."""
    return -(-M // rows) * -(-N // (vectors * LANES))


def spilled(rows: int, vectors: int) -> int:
    """The number of registers that are missing."""
    return max(0, rows * vectors + vectors + 1 - core.registers)


def machine(candidate: Candidate) -> float:
    """A measurement: cycles for each term of the sums."""
    rows, vectors, unroll, order, ahead = candidate
    step = played(rows, vectors) + 1.4 * spilled(rows, vectors) + 3 / unroll
    crowded = 1.0 + 0.02 * max(0, rows * vectors * unroll - 48)
    late = 1.0 + 0.05 * (np.log2(ahead) - 3) ** 2
    return tiles(rows, vectors) * step * crowded * late * (1.15 if order == 0 and vectors > 1 else 1.0)


def formula(candidate: Candidate) -> float:
    """The prediction of lesson 32: it depends on the tile, and ignores the other knobs."""
    rows, vectors, *_ = candidate
    step = max(core.latency, rows * vectors / core.ports, (rows + vectors) / core.loads) + spilled(rows, vectors)
    return tiles(rows, vectors) * step


truth = np.array([machine(one) for one in SPACE])
said = np.array([formula(one) for one in SPACE])
print(f"{len(SPACE)} candidates, from {truth.min():.0f} to {truth.max():.0f} cycles; the best: {SPACE[truth.argmin()]}")
print(f"measured over predicted: from {(truth / said).min():.2f} to {(truth / said).max():.2f}")

# %% [markdown]
# There are 3456 candidates, and the worst one takes about 75 times as long as the best. The last line shows how wrong
# the formula is: a candidate takes between 1.09 and 24.26 times the predicted cycles.
#
# ## Four searchers
#
# A searcher gets the candidates that were measured so far, with their cycles, and chooses the candidate to measure
# next.
#
# - *random* chooses any candidate by chance;
# - *evolution* takes one of the four best candidates so far and changes one of its knobs;
# - *formula* chooses the candidate with the best prediction among those that were not measured yet;
# - *learned* corrects the prediction of each candidate: it multiplies the prediction by a *residual*, an estimate of
#   the ratio of measured to predicted cycles. The estimate is computed from the candidates that were measured so far.
#   For the first four candidates, *learned* does the same as *formula*.
#
# The logarithm of the residual is approximated by a linear function of some *features*: the logarithms of the knobs,
# their squares and two products. The weights of this function are found by ridge regression, which you will write in
# the exercise. There are only a few measurements to learn from, so the function must not trust them too much. A penalty
# for large weights limits this trust.

# %%
rng = np.random.default_rng(0)
INDEX = {one: number for number, one in enumerate(SPACE)}
Known = dict[int, float]


def random(known: Known) -> int:
    """A random candidate that was not measured."""
    return int(rng.choice([n for n in range(len(SPACE)) if n not in known]))


def evolution(known: Known) -> int:
    """A good candidate with another value of one knob."""
    for _ in range(50):
        if len(known) < 4:
            break
        parent = list(SPACE[int(rng.choice(sorted(known, key=lambda n: known[n])[:4]))])
        knob = int(rng.integers(len(KNOBS)))
        parent[knob] = int(rng.choice([*KNOBS.values()][knob]))
        if (child := INDEX[tuple(parent)]) not in known:
            return child
    return random(known)


def first(order: np.ndarray, known: Known) -> int:
    """The first candidate in an order that was not measured."""
    return next(int(n) for n in order if n not in known)


def by_formula(known: Known) -> int:
    """The candidate with the best prediction; among equal predictions, a random one."""
    return first(np.lexsort((rng.random(len(SPACE)), said)), known)


knobs = np.log2(np.array([(r, v, u, o + 1, a) for r, v, u, o, a in SPACE]))
features = np.concatenate([knobs, knobs**2, knobs[:, :1] * knobs[:, 1:3]], axis=1)
features = (features - features.mean(axis=0)) / features.std(axis=0)


def plane(x: np.ndarray, y: np.ndarray, penalty: float) -> np.ndarray:
    """The residual of all candidates: the plane w with the least |y - mean - x w|^2 + penalty |w|^2."""
    middle = x.mean(axis=0)
    z = x - middle
    weights = np.linalg.solve(z.T @ z + penalty * np.eye(x.shape[1]), z.T @ (y - y.mean()))
    return y.mean() + (features - middle) @ weights


def learned(known: Known) -> int:
    """The candidate with the best prediction after the correction by the residual."""
    if len(known) < 4:
        return by_formula(known)
    numbers = list(known)
    residual = plane(features[numbers], np.log(np.array(list(known.values())) / said[numbers]), penalty=0.1)
    return first(np.argsort(said * np.exp(residual), kind="stable"), known)


# %% [markdown]
# ## One plot
#
# We let each searcher measure 40 candidates, and repeat this twenty times. The plot shows the best candidate so far
# after each measurement (the median of the twenty tries):

# %%
TRIALS, TRIES = 40, 20


def course(searcher: Callable[[Known], int]) -> np.ndarray:
    """The best so far after each measurement, as a multiple of the optimum; the median of all tries."""
    tries = []
    for _ in range(TRIES):
        known: Known = {}
        while len(known) < TRIALS:
            number = searcher(known)
            known[number] = truth[number]
        tries.append(np.minimum.accumulate(list(known.values())) / truth.min())
    return np.median(tries, axis=0)


searchers = {"random": random, "evolution": evolution, "formula": by_formula, "learned": learned}
curves = {name: course(searcher) for name, searcher in searchers.items()}
predict(
    "There are 3,456 candidates. After how many measurements has `learned` one within 5 % of the best?",
    int(np.flatnonzero(curves["learned"] <= 1.05)[0]) + 1,
)
print(f"{'measurements':<14}" + "".join(f"{n:>8}" for n in (1, 5, 10, 20, 40)) + "   within 5 % after")
for name, curve in curves.items():
    close = np.flatnonzero(curve <= 1.05)
    print(f"{name:<14}" + "".join(f"{curve[n - 1]:>8.2f}" for n in (1, 5, 10, 20, 40))
          + f"   {close[0] + 1 if len(close) else f'more than {TRIALS}'}")  # fmt: skip

picture = drawings.curves(
    {
        name: [(n / (TRIALS - 1), min(2.0, float(value)) - 1) for n, value in enumerate(curve)]
        for name, curve in curves.items()
    },
    across={(n - 1) / (TRIALS - 1): str(n) for n in (1, 10, 20, 30, 40)},
    up={level - 1: f"{level:.2f}" for level in (1.0, 1.25, 1.5, 1.75, 2.0)},
    title="cycles of the best so far, divided by the optimum (median of 20 tries)",
    below="measurements",
)
print("the picture:", picture.save("searching"))

# %% [markdown]
# Each number in the table is the time of the best candidate so far, divided by the time of the best of all candidates.
# Look at the first column. After one measurement *formula* is at 1.58, a level that *random* and *evolution* reach only
# after five or ten, because the formula knows the cost of a tile. But candidates that differ only in the other knobs
# are equal for the formula, so it has to try them one after another, and needs 16 measurements to come within 5 % of
# the best. *learned* needs only 9, because the residual learns the effect of the other knobs from the first few
# measurements. A linear function is enough for these effects. The formula already describes the large and irregular
# part of the time, which depends on how well the tiles fit the registers and the matrix. The remaining part is small
# and smooth.
#
# `minitvm tune` works like *learned*. It derives its formulas from the loads and stores of an operator, and it learns
# the residual from all earlier measurements of similar schedules. A candidate replaces the best candidate so far only
# if it is faster when the two run alternately.
#
# ## Your turn
#
# Write a function for ridge regression.
#
#     minitvm lesson 33 --start     (writes exercise_33.py, for you to fill in)
#     minitvm lesson 33 --check
