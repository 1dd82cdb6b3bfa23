# %% [markdown]
# # A memory plan: values that share bytes
#
# After fusion, a network is a list of functions with tensors between them. Each tensor is written once, read a few
# times, and then no longer needed. Today we find a place in memory for each of these tensors, so that no two tensors
# overlap while both are needed. The list of these places is called the *memory plan*. We also see what happens if a
# plan is wrong, and how good a plan can be.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import numpy as np

import minitvm
from lessons import arenas
from lessons.arenas import Live, arena, lower_bound, overlap, random_values
from lessons.fusing import network
from lessons.predict import predict
from minitvm import reference
from minitvm.errors import ExecutionError
from minitvm.executable.nodes import Barrier, CallKernel, Executable
from minitvm.link.plan_memory import Lifetime, plan_memory

# %% [markdown]
# ## Lifetimes
#
# We use the network of the last lesson again: convolutions with two branches and a skip connection.

# %%
net = network()
fused = minitvm.lower(net, stop_at="fused", accuracy="strict")
print(f"{len(net.nodes)} operators have become {len(fused.nodes)} functions")

# %% [markdown]
# The values between these functions need memory. A value *lives* from the step that writes it to the last step that
# reads it; after that its bytes are free. All values are in one block of memory, which is called the *arena*. The
# executable is a list of steps, and it contains the lifetime of each value and its position in the arena, the *offset*.
# (A barrier is a step, too, so the numbers of the kernels have a gap at each barrier. Two kernels without a gap do not
# depend on each other and may run at the same time, so their values share no bytes.)

# %%
program: Executable = minitvm.lower(net, stop_at="executable", accuracy="strict")
(memory,) = program.arenas
residents = memory.residents
predict(
    "An arena without sharing would have the bytes of all values. How large is our arena, in per cent of that?",
    round(100 * int(memory.size) / sum(int(value.nbytes) for value in residents)),  # type: ignore[arg-type]
)
print(f"{'value':<12} {'bytes':>7} {'from':>5} {'to':>3} {'offset':>7}")
for value in residents:
    print(f"{value.name:<12} {value.nbytes:>7,} {value.first:>5} {value.last:>3} {value.offset:>7,}")
lives = [Live(int(value.nbytes), value.first, value.last) for value in residents]  # type: ignore[arg-type]
offsets = [int(value.offset) for value in residents]  # type: ignore[arg-type]
print(f"all together {sum(v.nbytes for v in lives):,} bytes; the most at a time {lower_bound(lives):,}; "
      f"the arena has {memory.size:,}")  # fmt: skip
assert overlap(lives, offsets) is None and memory.size >= lower_bound(lives)

# %% [markdown]
# Look at the last line. All values together have 72,960 bytes, but never more than 50,176 of these bytes are needed at
# the same time. The arena has exactly this size, so the plan cannot be better. For example, `relu` and `relu_2` both
# have the offset 25,600. They can have the same offset because `relu` lives until step 5 and `relu_2` only from step 7
# on. (On another kind of processor the table may look a little different.)
#
# In the next drawing, each row is a kernel, each letter is a value, and a character is about a kilobyte:

# %%
SCALE = max(1, int(memory.size) // 64)  # type: ignore[arg-type]
for number, step in enumerate(program.steps):
    if isinstance(step, CallKernel):
        row = ["."] * -(-int(memory.size) // SCALE)  # type: ignore[arg-type]
        for letter, value, offset in zip("abcdefghijklmnop", lives, offsets):
            if value.first <= number <= value.last:
                row[offset // SCALE : (offset + value.nbytes) // SCALE] = letter * (value.nbytes // SCALE)
        print(f"{number:>3} {''.join(row)}")

# %% [markdown]
# Read a column from top to bottom to see how the same bytes are used again. For example, the bytes of `b` are free
# after step 5, and from step 7 on some of them belong to `e`.
#
# ## A plan that is wrong
#
# What happens if a plan gives the same bytes to two values, and one value is written while the other is still needed? A
# real machine reports nothing; it just computes wrong numbers. But the interpreter of executables records, for each
# byte, which value was written there. We change the plan: we move a value so that its second half overlaps the
# beginning of another value that is still needed. Then we run the executable:

# %%
x = np.random.default_rng(17).integers(-2, 3, (1, 16, 8, 8)).astype("float32")
(right_answer,) = reference.executable.run(program, {"x": x})
assert (right_answer == reference.graph.run(net, {"x": x})[0]).all()

victim, intruder = next(  # two values; what writes the second one runs alone, with barriers before and after it
    (i, j) for i, v in enumerate(lives) for j, w in enumerate(lives)
    if v.first < w.first < v.last and w.nbytes <= v.nbytes and offsets[i] >= w.nbytes
    and all(isinstance(program.steps[k], Barrier) for k in (w.first - 1, w.first + 1))
)  # fmt: skip
late, early = residents[intruder], residents[victim]
print(f"{late.name} is written in step {late.first}, and {early.name} is needed until step {early.last}")
nbytes = lives[intruder].nbytes
try:
    reference.executable.run(arenas.moved(program, offsets[intruder], offsets[victim] - nbytes // 2, nbytes), {"x": x})
except ExecutionError as error:
    print(error)
else:
    raise AssertionError("the interpreter has not seen it")

# %% [markdown]
# The first line names the two values that overlap. The interpreter stops in the step that reads `block_axis`, because
# the other value has overwritten the beginning of `block_axis`. The interpreter reports that these bytes have not been
# written, because they were not written as a part of `block_axis`.
#
# If a value is completely inside another value, the interpreter cannot report a mistake, because such a plan can be
# intended. For example, the parts of a concatenation are inside its result. Then only wrong numbers show the mistake.
# To find wrong numbers, we compare the result with the right answer, which the interpreter of graphs computed without
# an arena.

# %%
misplaced = arenas.moved(program, offsets[intruder], offsets[victim], nbytes)
(wrong_answer,) = reference.executable.run(misplaced, {"x": x})
print(f"{int((wrong_answer != right_answer).sum())} of {right_answer.size} numbers are wrong")
assert (wrong_answer != right_answer).any()

# %% [markdown]
# Most of the numbers are wrong, and no message was printed.
#
# ## How good can a plan be?
#
# Finding the smallest possible arena is hard. (It is as hard as the well-known problem of packing bins.) But we know a
# lower bound: the arena must be at least as large as the most bytes that live in the same step. We compare three ways
# to plan the memory of 200 random networks:
#
# - *a place for each*: each value gets its own bytes, which are never used again;
# - *first gap*: the values are placed in the order of the program, each in the first gap that is large enough;
# - *largest first*: the values are placed in the order of their size, each in the smallest gap that is large enough.
#   minitvm plans in this way.


# %%
def first_gap(values: list[Live]) -> list[int]:
    """Places values in the order of the program, each in the first gap between values that live at the same time."""
    placed: list[int] = []
    for value in values:
        busy = sorted(
            (offset, offset + other.nbytes)
            for other, offset in zip(values, placed)
            if other.first <= value.last and value.first <= other.last
        )
        end = 0
        for start, stop in busy:
            if start - end >= value.nbytes:
                break
            end = max(end, stop)
        placed.append(end)
    return placed


def largest_first(values: list[Live]) -> list[int]:
    """The offsets that minitvm plans."""
    plan = plan_memory([Lifetime(str(k), v.nbytes, v.first, v.last) for k, v in enumerate(values)])
    return [int(offset) for offset in plan.offsets]  # type: ignore[arg-type]


networks = [random_values(seed) for seed in range(200)]
least = sum(lower_bound(values) for values in networks)
never = sum(v.nbytes for values in networks for v in values)
sizes = {"a place for each": never}
for name, planner in (("first gap", first_gap), ("largest first", largest_first)):
    plans = [planner(values) for values in networks]
    assert all(overlap(values, plan) is None for values, plan in zip(networks, plans))
    sizes[name] = sum(arena(values, plan) for values, plan in zip(networks, plans))
for name, size in sizes.items():
    print(f"{name:<18} {size / least:>6.3f} of the lower bound")
assert sizes["largest first"] < sizes["first gap"] < never

# %% [markdown]
# Without sharing, the arenas are 2.863 times as large as the lower bound. Placing the largest value first comes within
# 2 % of the bound. Large values need large gaps, so it helps to place them while most of the arena is still empty.
#
# The picture shows one of these networks. Steps go down, bytes go to the right, and each box is a value. Grey bytes are
# not used.


# %%
shown = max(networks, key=len)
plan = largest_first(shown)
print("the picture:", arenas.plan_picture(shown, plan).save("memory_plan"))

# %% [markdown]
# ## Your turn
#
# Write a memory planner. It gives each value a position in the arena, so that two values never overlap while both live,
# and the arena is nearly as small as possible.
#
#     minitvm lesson 20 --start     (writes exercise_20.py, for you to fill in)
#     minitvm lesson 20 --check
