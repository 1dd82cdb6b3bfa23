# %% [markdown]
# # A machine of eight instructions
#
# A CPU has caches that guess which data you will need, and registers for a few numbers. An *accelerator* for neural
# networks has neither. It has an array that multiplies a whole matrix in a cycle, and small memories next to it, called
# *scratchpads*. The program decides which data they hold at any time. Today we write such a program by hand and run it,
# and at the end you write the machine.

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
# This is VTA, a machine that the authors of TVM built. `inp` holds inputs, `wgt` weights, and `acc` results (its
# elements are called *registers*). An element is not a number but the block of numbers that the array processes at
# once. Its only multiplication is
#
#     acc[dst] += inp[src] @ wgt[w].T
#
# That is 256 products in one cycle. There are eight instructions: LOAD (rows of DRAM into a scratchpad), STORE
# (registers to DRAM), GEMM (the line above), MIN, MAX, ADD and SHR (shift right) on registers, and FINISH.
#
# ## The example, by hand
#
# `Y = relu(A @ B + bias)` with A of 4 x 16 bytes, B of 16 x 16. A row of A is an element of `inp`, and all of B is one
# element of `wgt`. The bias comes first: LOAD with a stride of 0 reads the same element four times. GEMM adds the sums
# to it. MAX with 0 is the ReLU. A result must be a byte again, so it is shifted and limited to 127.

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
# GEMM does not hold its three indices. They are in a list of *micro-ops* in another scratchpad, and the instruction
# names the part of the list to run, in two loops. In each iteration of a loop, factors are added to the indices:
#
#     for i in range(outer):
#         for j in range(inner):
#             for k in range(uop_begin, uop_end):
#                 dst = uop[k].dst + i * dst[0] + j * dst[1]        # src and wgt alike
#
# So a whole convolution is one instruction and a short list: the list covers the filter, and the loops run over rows
# and columns.
#
# ## 128 bits
#
# The machine does not read this text. For the machine, an instruction is a number of 128 bits, with each field at a
# fixed position:

# %%
gemm = program.instructions[4]
word = encode(gemm, machine)
print(f"{word:032x}  {gemm}")
for place in fields(type(gemm), machine.widths)[:10]:
    print(f"  bits {place.low:>3} to {place.low + place.bits - 1:>3}  {place.path}")

# %% [markdown]
# The width of a field limits the hardware. `dst` has 11 bits because there are 2048 registers. A machine with more
# registers and the same field could not address them all, so minitvm refuses its description:

# %%
try:
    configured("vta", acc_bytes=1 << 20, widths=machine.widths)
except ValueError as error:
    print(error)

# %% [markdown]
# ## Integers that wrap
#
# The machine multiplies bytes and sums the products in 32 bits that *wrap*, without a flag or an error. STORE keeps the
# low 8 bits of a register and discards the rest. That is why the program has a MIN with 127. Without it, results are
# wrong:

# %%
careless = assemble(TEXT.replace("imm=127", "imm=30000").replace("imm=8", "imm=2"), machine, "careless")
wrong = accel.run(careless, machine, {"A": A, "B": B, "bias": bias})["Y"]
print("sums >> 2:", np.maximum(sums, 0)[0, :6] >> 2)
print("stored:   ", wrong[0, 0, :6])

# %% [markdown]
# A scratchpad contains only data that the program loaded. In real hardware it would contain old data; the interpreter
# remembers which elements were written, and refuses to read others:

# %%
try:
    accel.run(assemble(TEXT.replace("dram=A x=4", "dram=A x=3"), machine, "three rows"), machine,
              {"A": A, "B": B, "bias": bias})  # fmt: skip
except ExecutionError as error:
    print(str(error).splitlines()[0])

# %% [markdown]
# ## How long?
#
# The words `push` and `pop` in the text are the subject of lesson 24: loads, products and stores run at the same time
# unless a *token* makes one wait. Here each step waits for the one before it, and the array is mostly idle:

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
# Products take four cycles. In the other cycles the array waits for bytes, which is how accelerators spend their time
# if the program does not prevent it.
#
# ## The ledger
#
# The columns are the example in three loops and on the machine. For the machine we count elements: a load of weights is
# one load, of 256 bytes.

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
# ## Your turn
#
# Write the machine: an interpreter for eight instructions, with an array of one number. The check runs random programs
# on your interpreter and on the reference interpreter.
#
#     minitvm lesson 23 --start     (writes exercise_23.py, for you to fill in)
#     minitvm lesson 23 --check
