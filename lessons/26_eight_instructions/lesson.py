# %% [markdown]
# # A machine of eight instructions
#
# A CPU has caches that guess which data you will need, and registers for a few numbers. An *accelerator* for neural
# networks has no caches and no such registers. It has an array that multiplies a whole matrix in one cycle, and small
# memories next to it, which are called *scratchpads*. The program decides which data are in the scratchpads at any
# time. Today we write such a program by hand and run it. In the exercise you write the machine itself.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import numpy as np

from lessons import drawings, example, ledger
from lessons.picture import Picture
from lessons.predict import predict
from minitvm.errors import ExecutionError
from minitvm.machines.vta.assembler import assemble
from minitvm.machines.vta.config import Scratchpad, configured
from minitvm.machines.vta.encoding import encode, fields
from minitvm.machines.vta.timing import simulate
from minitvm.machines.vta.verifier import verify
from minitvm.reference import accel

machine = configured("vta")
for pad in (Scratchpad.INP, Scratchpad.WGT, Scratchpad.ACC):
    shape = " x ".join(map(str, machine.shape(pad)))
    print(f"{pad.word}: {machine.depth(pad):>5} elements, each {shape} of {machine.dtype(pad)}")

# %% [markdown]
# This machine is VTA, which the authors of TVM built. The output lists three of its scratchpads. `inp` is for inputs,
# `wgt` is for weights, and `acc` is for results. The elements of `acc` are called *registers*. An element is not a
# single number but a block of numbers that the array processes at once: for example, an element of `wgt` is a matrix of
# 16 x 16 bytes. The array has a single operation, which multiplies a row by such a matrix and adds the result to a
# register:
#
#     acc[dst] += inp[src] @ wgt[w].T
#
# In one cycle, this operation computes 256 products. The machine has eight instructions:
#
# - LOAD copies rows from DRAM, the large main memory, into a scratchpad;
# - STORE copies registers to DRAM;
# - GEMM runs the operation above;
# - MIN, MAX, ADD and SHR (shift right) change registers;
# - FINISH ends the program.
#
# ## The example, by hand
#
# We compute `Y = relu(A @ B + bias)` with an A of 4 x 16 bytes and a B of 16 x 16 bytes. A row of A is one element of
# `inp`, and the whole of B is one element of `wgt`. The program loads the bias into the registers first. A LOAD with a
# stride of 0 reads the same element four times, once for each row. Then GEMM adds the sums to the bias, and MAX with 0
# is the ReLU. The results must be bytes again, so SHR shifts them to the right by 8 bits, and MIN limits them to 127.

# %%
TEXT = """
.constant kernel uop at 0 count 1
    0 0 0                                                    ; a micro-op: dst, src, wgt
.input A inp at 64 count 4
.input B wgt at 256 count 1
.input bias acc at 512 count 1
.output Y out at 1024 count 4
load.uop sram=0 dram=kernel x=1
load.wgt sram=0 dram=B x=1
load.inp sram=0 dram=A x=4 push(compute)
load.acc sram=0 dram=bias y=4 x=1 stride=0                   ; the same row, four times
gemm uops=0:1 loops=4,1 dst=1,0 src=1,0 wgt=0,0 pop(load)    ; four rows, one set of weights
alu.max uops=0:1 loops=4,1 dst=1,0 imm=0
alu.shr uops=0:1 loops=4,1 dst=1,0 imm=8
alu.min uops=0:1 loops=4,1 dst=1,0 imm=127 push(store)
store.out sram=0 dram=Y x=4 pop(compute) push(compute)
finish pop(store)
"""
program = assemble(TEXT, machine, "example")
verify(program, machine)

rng = np.random.default_rng(0)
A = rng.integers(0, 128, (4, 1, 16), dtype=np.int8)
B = rng.integers(-40, 60, (1, 16, 16), dtype=np.int8)
bias = rng.integers(-5000, 5000, (1, 1, 16), dtype=np.int32)
Y = accel.run(program, machine, {"A": A, "B": B, "bias": bias})["Y"]

sums = A[:, 0].astype(np.int32) @ B[0].astype(np.int32).T + bias[0]
print("first results:", Y[0, 0, :6], " equal:", np.array_equal(Y[:, 0], np.minimum(np.maximum(sums, 0) >> 8, 127)))

# %% [markdown]
# ## Micro-ops, and loops around them
#
# The machine and NumPy compute the same result. But where does GEMM get its three indices dst, src and w from? They are
# not in the instruction. They are in a list of *micro-ops*, in another scratchpad. The instruction names a part of this
# list, and runs it inside two loops. In each iteration of a loop, constants from the instruction are added to the
# indices:
#
#     for i in range(outer): for j in range(inner): for k in range(uop_begin, uop_end): dst = uop[k].dst + i * dst[0] +
#     j * dst[1]        # src and wgt in the same way
#
# Here `dst[0]` and `dst[1]` are the two numbers after `dst=` in the text. In this way a whole convolution needs only
# one instruction and a short list: the list goes through the filter, and the two loops run over the rows and columns of
# the image.
#
# ## 128 bits
#
# The machine does not read the text that we wrote. For the machine, an instruction is a number of 128 bits, and each
# *field* of the instruction has a fixed position in it. Here is the GEMM as a number in hexadecimal, with the positions
# of its first ten fields:

# %%
gemm = program.instructions[4]
word = encode(gemm, machine)
print(f"{word:032x}  {gemm}")
for place in fields(type(gemm), machine.widths)[:10]:
    print(f"  bits {place.low:>3} to {place.low + place.bits - 1:>3}  {place.path}")

# %% [markdown]
# The number of bits in a field limits the hardware. For example, the field `dst` (not shown above) has 11 bits, which
# is enough for 2048 registers. A machine with more registers and the same field could not use all of them, so minitvm
# refuses to describe such a machine:

# %%
try:
    configured("vta", acc_bytes=1 << 20, widths=machine.widths)
except ValueError as error:
    print(error)

# %% [markdown]
# This machine would have 16384 registers, but a field of 11 bits can count only from 0 to 2047.
#
# ## Integers that wrap
#
# The machine multiplies bytes and adds up the products in 32 bits. If a sum is too large, it *wraps*: it continues at
# the smallest negative number, without a flag or an error. STORE keeps only the low 8 bits of a register. That is why
# our program has a MIN with 127. Here is a careless version, which shifts by only 2 bits and limits the results to
# 30000:

# %%
careless = assemble(TEXT.replace("imm=127", "imm=30000").replace("imm=8", "imm=2"), machine, "careless")
wrong = accel.run(careless, machine, {"A": A, "B": B, "bias": bias})["Y"]
print("sums >> 2:", np.maximum(sums, 0)[0, :6] >> 2)
print("stored:   ", wrong[0, 0, :6])

# %% [markdown]
# The first shifted sum is 3075, but the byte that is stored is 3, because 3075 = 12 * 256 + 3. The second shifted sum,
# 5536, even becomes a negative number. The machine reports nothing.
#
# What happens if a program reads an element of a scratchpad that it has not loaded? In real hardware the element would
# contain old data. The interpreter remembers which elements were written, and refuses to read the others. Here we load
# only three of the four rows of A:

# %%
try:
    accel.run(assemble(TEXT.replace("dram=A x=4", "dram=A x=3"), machine, "three rows"), machine,
              {"A": A, "B": B, "bias": bias})  # fmt: skip
except ExecutionError as error:
    print(str(error).splitlines()[0])

# %% [markdown]
# Instruction 4 is the GEMM. It reads row 3 of A, which was never loaded.
#
# ## How long?
#
# How many cycles does our program take? The machine loads, computes and stores at the same time, except where a *token*
# makes one of these activities wait for another. With the words `push` and `pop`, our program passes such tokens. You
# will learn about tokens in lesson 27. In our small program each step has to wait for the step before it:

# %%
timeline = simulate(program, machine)
predict(
    "The array multiplies for 4 cycles. How many cycles does the whole program take?",
    timeline.cycles,
)
print(timeline.text())

# %%
colours = {"fetch": drawings.GREY, "load": drawings.BLUE, "compute": drawings.ORANGE, "store": "#b2df8a"}
picture = Picture(840, 60 + 40 * len(colours))
picture.words(20, 26, f"the {timeline.cycles} cycles, from left to right", 14)
for row, (unit, colour) in enumerate(colours.items()):
    picture.words(20, 64 + 40 * row, unit, 12)
    picture.box(90, 44 + 40 * row, 5 * timeline.cycles, 30, drawings.PALE)
    for busy in timeline.intervals:
        if busy.unit == unit:
            picture.box(90 + 5 * busy.start, 44 + 40 * row, 5 * (busy.end - busy.start), 30, colour, "#999999")
print("the picture:", picture.save("one_layer"))

# %% [markdown]
# The first line says that the program takes 138 cycles. In the table, each column is a part of the machine, and each
# row is a way to spend cycles. The row `gemm` shows that the array multiplies in only 4 of the 138 cycles, which is the
# 2.9 % of the second line. In most of the other cycles the array waits for data from memory. Every accelerator spends
# most of its time waiting if its program runs one step after another, like ours. In lesson 27 you will see how a
# program can avoid the waiting.
#
# ## The ledger
#
# The ledger compares our example in three loops with the program for the machine. For the machine we count elements:
# loading the weights is one load, of 256 bytes.

# %%
loops = ledger.measure(example.three_loops(4, 16, 16), *example.inputs(4, 16, 16)).lesson_rows()
transfers = {Scratchpad.UOP: 1, Scratchpad.WGT: 1, Scratchpad.INP: 4, Scratchpad.ACC: 4, Scratchpad.OUT: 4}
moved = sum(count * machine.element_bytes(pad) for pad, count in transfers.items())
array = {
    "multiplies": f"{timeline.micro_ops * machine.macs_per_cycle:,}",
    "adds": f"{timeline.micro_ops * machine.macs_per_cycle:,}",
    "loads": f"{sum(transfers.values()) - 4:,}",
    "stores": "4",
    "bytes loaded and stored": f"{moved:,}",
}
ledger.show({"three loops": loops, "accelerator": array})

# %% [markdown]
# Both columns have 1,024 multiplies. But the loads fall from 3,200 to 10, because each element is a whole row or
# matrix, and the array uses the whole element at once.
#
# ## Your turn
#
# Write the machine: an interpreter for eight instructions. To keep the exercise short, the array multiplies single
# numbers instead of matrices. The check runs random programs on your interpreter and on the reference interpreter.
#
#     minitvm lesson 26 --start     (writes exercise_26.py, for you to fill in)
#     minitvm lesson 26 --check
