# %% [markdown]
# # Tensorize: loops that are one instruction
#
# A vector instruction does the same operation on many numbers, and compilers use such instructions automatically. Newer
# instructions multiply whole matrices, and a compiler hardly ever finds a use for them by itself. So you state in a
# schedule which loops an instruction should replace. The primitive that replaces the loops is called `tensorize`. It
# needs a description of the instruction, and it checks that the loops compute the same result as the instruction. Here
# is the description of one instruction:

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import numpy as np

from lessons import drawings, example, ledger
from lessons.predict import predict
from minitvm import reference, te, tir
from minitvm.errors import ScheduleError
from minitvm.script import tir as T
from minitvm.tir import TensorIntrin

dot = TensorIntrin.get("dot_4x16_u8i8i32")
print(dot.desc.script(with_header=False))

# %% [markdown]
# The instruction is `vpdpbusd`, which many CPUs have had since 2019. It multiplies four bytes of A by each of sixteen
# rows of four bytes of B, and adds the products to the sixteen sums in C. The text above is its *description*: plain
# loops that any interpreter can run. The instruction also has a *spelling* for each language in which it can be called.
# Only the code generator of that language uses the spelling.
#
# ## A product of bytes
#
# We want to use the instruction for a product of two matrices of bytes. The elements of B must be in the order in which
# the instruction reads them, which is in blocks of sixteen columns and four rows. This is the price of such
# instructions: the layout of the data has to be changed before the kernel runs. In the schedule, we put the loops `ji`
# and `ki` innermost, and then `tensorize` replaces them:

# %%
A = te.placeholder((4, 16), "uint8", name="A")
B = te.placeholder((1, 4, 16, 4), "int8", name="B")
ko, ki = te.reduce_axis((0, 4), name="ko"), te.reduce_axis((0, 4), name="ki")
Y = te.compute(
    (4, 1, 16),
    lambda i, jo, ji: te.sum(A[i, ko * 4 + ki].astype("int32") * B[jo, ko, ji, ki].astype("int32"), axis=[ko, ki]),
    name="Y",
)
before = te.create_prim_func([A, B, Y])

sch = tir.Schedule(before)
i, jo, ji, ko, ki = sch.get_loops("Y")
sch.reorder(i, jo, ko, ji, ki)
sch.decompose_reduction("Y", ko)
sch.tensorize(ji, "dot_4x16_u8i8i32")
around = [int(sch.get(loop).extent) for loop in sch.get_loops("Y_update_o")]
predict(
    "Y is 4 x 16, and each element is a sum of 16 products. How often does the instruction run?", int(np.prod(around))
)
print(sch.func.script(with_header=False))

# %%
run = {"A": (range(1, 2), range(8, 12)), "B": (range(8, 12), range(16)), "Y": (range(1, 2), range(16))}
picture = drawings.matrices(
    {"A": (4, 16), "B, as B[k, j]": (16, 16), "Y": (4, 16)},
    lambda name, row, column: (
        (drawings.ORANGE if name == "Y" else drawings.BLUE)
        if row in run[name[0]][0] and column in run[name[0]][1]
        else drawings.PALE
    ),
    title="one run of the instruction, for i = 1 and ko = 2: it reads the blue elements and adds to the orange ones",
    size=16,
)
print("the picture:", picture.save("instruction"))

# %% [markdown]
# The statement `T.instruction` has replaced the loops `ji` and `ki`. The loops `i`, `jo` and `ko` around it run 4 * 1 *
# 4 times, so the instruction runs 16 times. The two loops below the statement describe what the instruction does. So
# interpreters can run the statement like any other, and the compiler can find its dependences. No part of the compiler
# has to know about this instruction. Is the program still right?

# %%
print(reference.check(before, sch.func))

# %% [markdown]
# `reference.check` says that both programs are equal.
#
# ## The requirements of tensorize
#
# The loops and operands must match the description: the same number of loops, with the same extents, and operands of
# the same types with the same indices. Here are two mistakes. First we pass `tensorize` the outermost loop, which
# contains more work than one instruction. Then we pass it one of the two reduction loops:

# %%
for name, wrong, shown in (("four rows at once", "i", 99), ("a reduction loop", "ko", 1)):
    sch = tir.Schedule(before)
    loops = dict(zip(("i", "jo", "ji", "ko", "ki"), sch.get_loops("Y"), strict=True))
    try:
        sch.tensorize(loops[wrong], "dot_4x16_u8i8i32")
    except ScheduleError as error:
        lines = str(error).splitlines()
        print(f"{name}:", *lines[:shown], *(["    ...", lines[-1]] if shown < len(lines) else []), "", sep="\n")

# %% [markdown]
# Both calls are refused. In each case the last line, `found`, names a loop that does not fit: the instruction begins
# with a loop over 16, and `i` and `ko` run over 4. In the first error, marks show the two loops that differ.
#
# ## An instruction that does not exist
#
# An instruction consists only of a description and a spelling, so you can invent new ones. The next instruction adds
# eight pairs of numbers. No processor needs to have it, because we only run its description:


# %%
@T.prim_func
def add_8(A: T.Buffer((8,), strides=(1,)), B: T.Buffer((8,), strides=(1,)), C: T.Buffer((8,), strides=(1,))):
    with T.block("root"):
        T.reads(A[0:8], B[0:8])
        T.writes(C[0:8])
        for i in range(8):
            with T.block("add"):
                vi = T.axis.spatial(8, i)
                C[vi] = A[vi] + B[vi]


TensorIntrin.register("lesson.add_8", add_8, instruction={"numba-cpu": print}, override=True)
x, y = te.placeholder((32,), name="x"), te.placeholder((32,), name="y")
plain = te.create_prim_func([x, y, te.compute((32,), lambda i: x[i] + y[i], name="z")])
sch = tir.Schedule(plain)
_, eight = sch.split(sch.get_loops("z")[0], [None, 8])
sch.tensorize(eight, "lesson.add_8")
print(reference.check(plain, sch.func))

# %% [markdown]
# The program with the new instruction is equal to the plain program.
#
# ## Two machines, one description
#
# The accelerator of lesson 26 multiplies a row by a matrix. Gemmini, another accelerator, does the same with a
# *systolic array*, in which the weights stay in place and the rows move through. The two machines have different
# instructions, memories and programs. Let us compare the descriptions of their instructions:

# %%
from minitvm.machines.scratchpad.instruction_set import Elements

for machine in ("accel", "gemmini"):
    name = Elements(1, 16, 16, machine=machine).name("gemm")
    its = TensorIntrin.get(name)
    print(name, "written in", *its.instruction)
    print("   ", "\n    ".join(str(its.desc.script(with_header=False)).splitlines()[-5:]))

# %% [markdown]
# The descriptions are the same, and only their names and the languages of their spellings differ. So one schedule with
# `tensorize` can serve both machines.
#
# ## The ledger
#
# The first column of the ledger is our example in three loops, and the second is the product of bytes with the
# instruction. For the instruction, the interpreter counts the operations of its description.

# %%
loops = ledger.measure(example.three_loops(4, 16, 16), *example.inputs(4, 16, 16)).lesson_rows()
sch = tir.Schedule(before)
i, jo, ji, ko, ki = sch.get_loops("Y")
sch.reorder(i, jo, ko, ji, ki)
sch.decompose_reduction("Y", ko)
sch.tensorize(ji, "dot_4x16_u8i8i32")
rng = np.random.default_rng(0)
numbers = rng.integers(0, 200, (4, 16)).astype("uint8"), rng.integers(-99, 99, (1, 4, 16, 4)).astype("int8")
tensorized = ledger.measure(sch.func, *numbers, np.zeros((4, 1, 16), "int32")).lesson_rows()
ledger.show({"three loops": loops, "dot_4x16": tensorized})

# %% [markdown]
# Both programs do 1,024 multiplies. (The product of bytes has no bias, so it needs fewer adds.) The cache moves only
# 576 bytes instead of 70,144, because B is stored in the order in which the instruction reads it, and its elements are
# bytes.
#
# ## Your turn
#
# We chose the loops `ji` and `ki` by looking at the program. A compiler has to search for such loops. Write this
# search: given the loops and operands of a computation and of an instruction, find all ways to map the loops of the
# instruction to loops of the computation.
#
#     minitvm lesson 31 --start     (writes exercise_31.py, for you to fill in)
#     minitvm lesson 31 --check
