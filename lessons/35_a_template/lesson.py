# %% [markdown]
# # A template: you write the steps, a search finds the numbers
#
# In lesson 15 we chose the tile of a matrix product with a formula for one machine. On another machine, or for matrices
# of another size, other numbers are better. A *template* is a schedule in which you leave such numbers open. You choose
# the steps, and a search chooses the sizes of the tiles.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

from lessons import drawings, example, ledger
from lessons.predict import predict
from minitvm import tir

M, N, K = 12, 32, 16
SIZES = {"i": M, "j": N, "r": K}

# %% [markdown]
# ## Leave a number open
#
# `sample_perfect_tile(loop, 2)` draws two random factors whose product is the extent of the loop. You can use these
# factors in the schedule like numbers. The argument `max_innermost_factor` limits the last factor. Here, for example, a
# tile may have at most six rows, so that it fits into registers, and at most eight columns.


# %%
def template(sch: tir.Schedule) -> None:
    """Register tiles of any height and width, with the sum in blocks."""
    i, j, r = sch.get_loops("C")
    i_0, i_1 = sch.split(i, sch.sample_perfect_tile(i, 2, max_innermost_factor=6))
    j_0, j_1 = sch.split(j, sch.sample_perfect_tile(j, 2, max_innermost_factor=8))
    r_0, r_1 = sch.split(r, sch.sample_perfect_tile(r, 2, max_innermost_factor=16))
    sch.reorder(i_0, j_0, r_0, r_1, i_1, j_1)


def draw(seed: int) -> tir.Schedule:
    """A schedule of the template, with the numbers that this seed draws."""
    sch = tir.Schedule(example.blocks(M, N, K), seed=seed)
    template(sch)
    return sch


def decisions(sch: tir.Schedule) -> list[list[int]]:
    """The numbers that were drawn, in order."""
    return [inst.decision for inst in sch.trace.insts if inst.decision is not None]


one = draw(7)
print(one.trace)

# %% [markdown]
# The trace contains the numbers that were drawn, the *decisions*. For example, `decision=[12, 1]` means that i was
# split into 12 * 1. If you replay the trace, you get the same schedule again. Other seeds draw other decisions:

# %%
for seed in (7, 70_000, 700_000_000):
    print(
        f"seed {seed:>11}: "
        + ", ".join(f"{name} = {a} x {b}" for name, (a, b) in zip("ijr", decisions(draw(seed)), strict=True))
    )

# %% [markdown]
# The three seeds have drawn different tiles for i and r. The tile for j happens to be the same.
#
# ## Compare the candidates
#
# A real tuner runs each schedule and measures its time. Here we count cache lines instead, so that you see the same
# numbers on every machine: we count how many lines a small cache of 16 lines fetches while the interpreter runs the
# program. We draw twelve schedules, which all do the same multiplications:

# %%
predict(
    "i runs over 12, and the inner factor is at most 6. How many different tiles can be drawn for i?",
    sum(M % inner == 0 for inner in range(1, 7)),
)
rows = {}
for number in range(12):
    sch = draw(1_000_003 * (number + 1) ** 3)
    tile = " ".join(f"{a}x{b}" for a, b in decisions(sch))
    rows[tile] = ledger.measure(sch.func, *example.inputs(M, N, K)).lines_fetched, sch
for tile, (lines, _) in sorted(rows.items(), key=lambda row: row[1][0]):
    print(f"i, j, r = {tile:<16} {lines:>6} lines")

# %% [markdown]
# The best schedules fetch 342 lines and the worst fetches 1622, so the sizes of the tiles matter a lot. (The output has
# only eleven rows because two of the twelve schedules are the same.)
#
# ## Improve the best schedule
#
# A search need not only draw by chance. You can take the best schedule, change one of its decisions, and replay its
# trace. `with_decision` returns a trace with another decision, and replaying it repeats all other steps. We change one
# decision at a time and keep a change if fewer lines are fetched:

# %%
best_lines, best = min(rows.values(), key=lambda row: row[0])
tried = 0
improved = True
while improved:
    improved = False
    for inst in [inst for inst in best.trace.insts if inst.decision is not None]:
        extent = inst.decision[0] * inst.decision[1]
        most = inst.arguments["max_innermost_factor"]
        for inner in (d for d in range(1, most + 1) if extent % d == 0 and d != inst.decision[1]):
            other = tir.Schedule(example.blocks(M, N, K))
            best.trace.with_decision(inst, [extent // inner, inner], remove_postproc=False).apply_to_schedule(other)
            lines = ledger.measure(other.func, *example.inputs(M, N, K)).lines_fetched
            tried += 1
            if lines < best_lines:
                best_lines, best, improved = lines, other, True
                break
        if improved:
            break
print(
    f"{tried} more schedules tried; the best fetches {best_lines} lines: "
    + " ".join(f"{a}x{b}" for a, b in decisions(best))
)

# %%
found = {tile: float(lines) for tile, (lines, _) in sorted(rows.items(), key=lambda row: -row[1][0])}
found["improved: " + " ".join(f"{a}x{b}" for a, b in decisions(best))] = float(best_lines)
picture = drawings.bars(
    found, "lines fetched by each schedule", "lines", [*[drawings.BLUE] * len(rows), drawings.ORANGE]
)
print("the picture:", picture.save("draws"))

# %% [markdown]
# The search tried only a few more schedules and went from 342 lines to 214. The best tile has 6 rows and 8 columns.
#
# ## The same template on a real machine
#
# `tune.tune_func` searches in the same way, with measured times instead of a simulated cache. It draws decisions, and
# compiles the schedules in other processes. It runs each schedule alternately with the schedule that `build` would
# choose, and measures both. From the measured times it learns which decisions it should try next:
#
#     from minitvm import tune
#     best = tune.tune_func(func, schedule=template, budget=30)
#     module = minitvm.build(best.mod)
#
# You can also add parameters of your own, which are called knobs:
#
#     def template(sch, order, unroll): ...
#     tune.tune_func(func, schedule=template, knobs={"order": ["ij", "ji"], "unroll": [1, 2, 4]})
#
# You find the details in [Tuning](../../docs/tuning.md).
#
# ## The ledger
#
# The ledger compares the program as it was written, the first schedule that we drew, and the best schedule that we
# found:

# %%
ledger.show({
    "as written": ledger.measure(example.blocks(M, N, K), *example.inputs(M, N, K)),
    "the first draw": ledger.measure(one.func, *example.inputs(M, N, K)),
    "the best": ledger.measure(best.func, *example.inputs(M, N, K)),
})  # fmt: skip

# %% [markdown]
# All three programs do the same multiplies, loads and stores. But the cache moves 398,720 bytes for the program as it
# was written, 54,656 for the first draw, and 13,696 (214 lines of 64 bytes) for the best schedule.
#
# ## Your turn
#
# Write a template for the micro-kernel of a matrix product.
#
#     minitvm lesson 35 --start     (writes exercise_35.py, for you to fill in)
#     minitvm lesson 35 --check
