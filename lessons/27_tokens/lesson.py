# %% [markdown]
# # Tokens, two halves, and a deadlock on a chart
#
# An accelerator has three *modules*, which load, compute and store at the same time. Only *tokens*, which the modules
# pass to each other, put their work in order. Today we draw a chart of the times at which each module works. We divide
# each scratchpad into two halves, so that the array has to wait less. Then we remove one token, and see a wrong result.
# Finally we add one wait too many, so that all three modules wait for each other forever.

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
# These are the first instructions of a small convolution. Each `load` fetches a part of the image or of the filters,
# and each `gemm` multiplies a part of the image by a part of the filters. Tokens travel in queues. There are four
# queues: one in each direction between load and compute, and one in each direction between compute and store. In line
# 2, `push(compute)` means that the load module puts a token into the queue from load to compute when this instruction
# has ended. In line 4, `pop(load)` means that compute takes a token out of this queue before the instruction begins. If
# the queue is empty, compute waits for a token.
#
# A token from load to compute means *your data are here*. A token in the other direction means *I have used the data,
# you may overwrite them*.
#
# ## The chart
#
# The next cell simulates the program and saves a chart. In the chart, time runs from left to right, and each module
# has its own row. The cell also prints how load and compute spend their cycles:


# %%
alone, hidden = simulate(one, machine), simulate(two, machine)
chart(alone, "one_context", until=16000)
for unit in ("load", "compute"):
    print(unit, alone.spent[unit])

# %% [markdown]
# The program takes 47,312 cycles, and the array is in use for 60 % of them. The load module spends 27,612 cycles
# waiting for compute, and compute spends 12,712 cycles waiting for load. So while one module works, the other waits.
# The reason is that the scratchpad has only one place for a part of the image, and load must not overwrite it while the
# array is still reading it.
#
# ## Two halves
#
# So we use two places. We divide each scratchpad into two halves, and two tiles of the result take turns. While the
# array computes with one half, the next data are loaded into the other half. (Each of the two tiles with its halves is
# called a *context*.) The loads and the products are the same as before, only in another order:

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
# The program now takes 33,138 cycles, which is 30 % less, although it does exactly the same products. Compute waits for
# load in only 712 cycles instead of 12,712.
#
# Here are both programs as films. Orange squares are tokens that wait in a queue, and a module is green while it works.
# Look at load and compute. With one context they take turns, and each token is popped soon after it was pushed. With
# two contexts both are green at the same time.

# %%
for title, timeline in (("One context", alone), ("Two contexts", hidden)):
    print("the film:", save(title.replace(" ", "_").lower() + "_film", token_film(timeline, title, 16000)))

# %% [markdown]
# The authors of VTA call this method *virtual threading*. Loading still takes as long as before, but it happens while
# the array computes. On this accelerator the program has to make loading and computing overlap; the hardware does not
# do that.
#
# The command `minitvm accel run C8 --timeline c8.html` writes a larger chart. The chart shows the tokens as arrows, and
# the reason for each wait.
#
# ## One token fewer
#
# Is every token necessary? We remove one token that means *you may overwrite the data*: we delete one of compute's
# pushes, and the pop with which load takes that token. Then we run the program in two ways: in the order in which it is
# written, and in several other orders that the remaining tokens allow.


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
# In the order of the program the result is right. But there is another order in which load overwrites data too early,
# and then the first number of the result is 79 instead of -23. On a machine with a slow memory such a program may be
# right every time, and on a machine with a faster memory it is wrong. If you test different orders, you find the
# mistake only if you happen to test an order with a wrong result.
#
# There is a better way, which does not run the program at all. Each queue has one module that pushes and one module
# that pops, so the third pop always gets the third token. Draw an arrow from each push to its pop, and an arrow from
# each instruction of a module to its next instruction. Now look at two instructions that touch the same place, where at
# least one of them writes. If no path of arrows leads from one to the other, nothing orders them, and the program is
# wrong. The verifier looks for such pairs:

# %%
try:
    verify(broken, machine)
except VerificationError as error:
    print(str(error).split("found:  ")[1])

# %% [markdown]
# The verifier has found a pair without running the program: one instruction reads `inp[0]`, instruction 9 writes it,
# and no tokens order the two.
#
# ## A deadlock
#
# Too many waits are just as bad. We let the first load wait for a token from compute. But compute waits for this load,
# and store waits for compute, so none of the three modules can ever go on. Such a situation is called a *deadlock*:

# %%
instructions = list(one.instructions)
instructions[1] = replace(instructions[1], pop_next=True)
stuck = replace(one, instructions=tuple(instructions), name="stuck")
try:
    accel.run(stuck, machine, inputs)
except accel.Deadlock as error:
    print(str(error).split("found:  ")[1])

# %% [markdown]
# The interpreter stops and lists, for each of the three modules, the instruction at which it waits and the module from
# which it expects a token. All four queues are empty.
#
# ## Your turn
#
# Write a function that places the tokens of a program: enough tokens to keep it correct, but no unnecessary token.
#
#     minitvm lesson 27 --start     (writes exercise_27.py, for you to fill in)
#     minitvm lesson 27 --check
