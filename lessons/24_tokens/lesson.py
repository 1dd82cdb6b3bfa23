# %% [markdown]
# # Tokens, two halves, and a deadlock on a chart
#
# An accelerator loads, computes and stores at the same time. Only *tokens*, which the modules pass to each other, put
# these in order. Today we look at a chart of the times at which each module runs, make the array wait less by dividing
# each scratchpad into two halves, remove one token, and let three modules wait for each other forever.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

from dataclasses import replace

import numpy as np

from lessons.picture import save
from lessons.predict import predict
from lessons.token_film import chart, token_film
from minitvm.errors import ExecutionError, VerificationError
from minitvm.machines.vta.config import configured
from minitvm.machines.vta.isa import Program
from minitvm.machines.vta.layers import Conv2d, Tile, conv2d, pack_filters, pack_image, random_tensors
from minitvm.machines.vta.timing import simulate
from minitvm.machines.vta.verifier import verify
from minitvm.reference import accel

machine = configured("vta", "board")  # 8 bytes a cycle, and 100 cycles until the first one comes
layer, tile = Conv2d(14, 14, 64, 64, 3), Tile(rows=7, outs=2, ins=1)
one, two = (conv2d(layer, machine, contexts=n, tile=tile, name=f"{n} contexts") for n in (1, 2))
print("\n".join(f"{n:>3}  {text}" for n, text in list(enumerate(one.instructions))[1:7]))

# %% [markdown]
# This is a small convolution. Each `load` brings a part of the image or of the filters, and each `gemm` multiplies one
# part by the other. `push(compute)` means: when this instruction has ended, put a token into the queue from load to
# compute. `pop(load)` means: before this instruction begins, take a token out, and wait if there is none. There are
# four queues, one in each direction between load and compute and between compute and store.
#
# A token in one direction means *here are your data*. A token in the other direction means *the data are used, you may
# overwrite them*.
#
# ## The chart
#
# In the chart, time goes to the right, and each module has a row.


# %%
alone, hidden = simulate(one, machine), simulate(two, machine)
chart(alone, "one_context", until=16000)
for unit in ("load", "compute"):
    print(unit, alone.spent[unit])

# %% [markdown]
# While one module works, the other waits. It must, because there is only one place for a part of the image, and it
# cannot be overwritten while the array reads it.
#
# ## Two halves
#
# So we use two places. Each scratchpad is divided into halves, and two tiles of the result take turns. While the array
# computes with one half, the other half is loaded. The loads and the products are the same, in another order:

# %%
predict(
    "The same loads and products, but one half is loaded while the other one is used. How many per cent of the cycles "
    "does that save?",
    round(100 * (1 - hidden.cycles / alone.cycles)),
)
chart(hidden, "two_contexts", until=16000)
for unit in ("load", "compute"):
    print(unit, hidden.spent[unit])
print(f"saved {1 - hidden.cycles / alone.cycles:.0%}; both did {alone.micro_ops:,} micro-ops of products")

# %% [markdown]
# Here are both programs as films. Orange squares are tokens that wait in a queue, and a module is green while it runs.
# Look at load and compute: with one context they take turns, and each token is popped soon after it was pushed. With
# two contexts both are green at the same time.

# %%
for title, timeline in (("One context", alone), ("Two contexts", hidden)):
    print("the film:", save(title.replace(" ", "_").lower() + "_film", token_film(timeline, title, 16000)))

# %% [markdown]
# The authors of VTA call this *virtual threading*. The chip does not hide the latency; the program does.
#
# `minitvm accel run C8 --timeline c8.html` writes a larger chart, with the tokens as arrows and the reason why a module
# waits.
#
# ## One token fewer
#
# Is every token necessary? We remove one that means *you may overwrite*: a push from compute to load, and its pop.


# %%
def without(program: Program, number: int) -> Program:
    """The program without the token that compute pushes to load for the `number`-th time."""
    instructions = list(program.instructions)
    pushes = [i for i, x in enumerate(instructions) if x.push_prev and x.module.value == "compute"]
    pops = [i for i, x in enumerate(instructions) if x.pop_next and x.module.value == "load"]
    instructions[pushes[number]] = replace(instructions[pushes[number]], push_prev=False)
    instructions[pops[number]] = replace(instructions[pops[number]], pop_next=False)
    return replace(program, instructions=tuple(instructions), name="a token less")


broken = without(two, 0)
image, filters = random_tensors(layer)
inputs = {"image": pack_image(image, machine), "filters": pack_filters(filters, machine)}
right = accel.run(two, machine, inputs)["result"]
in_order = accel.run(broken, machine, inputs, ordered=False)["result"]
print("in the order of the program:", np.array_equal(in_order, right))
try:
    accel.explore(broken, machine, inputs)
except ExecutionError as error:
    print(error)

# %% [markdown]
# With a slow memory this program is right every time. With a faster memory it is not. If you try different orders, you
# only find the mistake if you try a wrong one. There is a better way. Each queue has one module that pushes and one
# that pops, so the third pop always gets the third token. Draw an arrow from each push to its pop, and one from each
# instruction of a module to the next. Suppose that two instructions touch the same place, one of them writes, and no
# path leads from one to the other. Then nothing orders them. You need no run to see that:

# %%
try:
    verify(broken, machine)
except VerificationError as error:
    print(str(error).split("found:  ")[1])

# %% [markdown]
# ## A deadlock
#
# Too many waits are just as bad. We let the first load wait for a token from compute. Compute waits for the load, and
# store waits for compute:

# %%
instructions = list(one.instructions)
instructions[1] = replace(instructions[1], pop_next=True)
stuck = replace(one, instructions=tuple(instructions), name="stuck")
try:
    accel.run(stuck, machine, inputs)
except accel.Deadlock as error:
    print(str(error).split("found:  ")[1])

# %% [markdown]
# ## Your turn
#
# Place the tokens of a program: enough of them, but none too many.
#
#     minitvm lesson 24 --start     (writes exercise_24.py, for you to fill in)
#     minitvm lesson 24 --check
