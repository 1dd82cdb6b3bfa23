# %% [markdown]
# # Tensorize: loops that are one instruction
#
# A vector instruction does one thing to many numbers, and compilers use it automatically. Newer instructions multiply
# whole matrices, and a compiler hardly ever finds a use for them by itself. So you state it in a schedule: *these loops
# are that instruction*. The primitive is called `tensorize`. It needs a description of the instruction, and it checks
# that the loops compute the same.

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
# This is `vpdpbusd`, an instruction of CPUs since 2019: it multiplies four bytes of A with each of sixteen rows of four
# bytes, and adds the products to sixteen sums. The text above is its *description*: plain loops that any interpreter
# can run. It also has a *spelling* for each language that has the instruction, which only a code generator reads.
#
# ## A product of bytes
#
# B must be in the order in which the instruction reads it: blocks of sixteen columns and four rows. That is the price
# of such an instruction. You pay it with a change of layout before the kernel runs.

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
# One statement, `T.instruction`, has replaced two loops. It contains its description, so interpreters run it like any
# other statement, the compiler derives dependences from it, and no part of the compiler needs to know `dot_4x16`.

# %%
print(reference.check(before, sch.func))

# %% [markdown]
# ## Its requirements
#
# The loops have to be those of the instruction: the same number of loops with the same extents, over operands of the
# same types with the same indices. Here are two ways to get it wrong:

# %%
for name, wrong, shown in (("four rows at once", "i", 99), ("the loop of the sum", "ko", 1)):
    sch = tir.Schedule(before)
    loops = dict(zip(("i", "jo", "ji", "ko", "ki"), sch.get_loops("Y"), strict=True))
    try:
        sch.tensorize(loops[wrong], "dot_4x16_u8i8i32")
    except ScheduleError as error:
        lines = str(error).splitlines()
        print(f"{name}:", *lines[:shown], *(["    ...", lines[-1]] if shown < len(lines) else []), "", sep="\n")

# %% [markdown]
# ## An instruction that does not exist
#
# An instruction is a description and a spelling, so you can invent instructions. Here is one that adds eight numbers.
# Its spelling is never called: we only run the description.


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
# ## Two machines, one description
#
# The accelerator of lesson 23 multiplies a row by a matrix. So does a machine with a *systolic array*, in which weights
# stay in the array and rows pass through. They have different instructions, memories and programs, but for `tensorize`
# they are the same loops with two names.

# %%
from minitvm.machines.scratchpad.instruction_set import Elements

for machine in ("accel", "gemmini"):
    name = Elements(1, 16, 16, machine=machine).name("gemm")
    its = TensorIntrin.get(name)
    print(name, "written in", *its.instruction)
    print("   ", "\n    ".join(str(its.desc.script(with_header=False)).splitlines()[-5:]))

# %% [markdown]
# ## The ledger
#
# The columns are the example in three loops, and the product of bytes with the instruction. The interpreter counts the
# operations of the description: the work is the same, with fewer loops around it.

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
# ## Your turn
#
# Which loops match those of the instruction? A person sees it; a compiler has to search. Write the search: from the
# loops and operands of a computation and of an instruction, find all ways to map one to the other.
#
#     minitvm lesson 27 --start     (writes exercise_27.py, for you to fill in)
#     minitvm lesson 27 --check
