# %% [markdown]
# # Blocks: a program describes itself
#
# To move a computation, a compiler has to know what the computation reads and writes, and how often it runs. The
# compiler could derive these facts from the loops, again in each step of a schedule. Or the program can declare them. A
# *block* is a computation with such a declaration, like a function with a signature: the loops around the block may
# change, and no step has to look inside the block. Today we take a block apart and see how far you can rely on its
# declarations. Then we give a whole tile one signature, so that an instruction can replace it.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import numpy as np

from lessons import drawings, example, ledger
from lessons.predict import predict
from lessons.text import body_of
from minitvm import reference, tir
from minitvm.errors import ScheduleError, VerificationError
from minitvm.script import tir as T
from minitvm.tir.verifier import verify

# %% [markdown]
# ## The parts
#
# This is block C of our example, taken apart. You have seen its lines before. Now you learn the purpose of each line.


# %%
def regions(declared: tuple) -> str:
    """Regions of buffers as they are written in a program."""
    return ", ".join(f"{r.buffer.name}[{', '.join(str(at.start) for at in r.region)}]" for r in declared)


program = example.blocks(8, 8, 8)
sch = tir.Schedule(program)
block = sch.get(sch.get_block("C"))
print("name      ", block.name)
print("iterators ", ", ".join(f"{it.var} in [0, {it.dom.extent}), {it.kind}" for it in block.iter_vars))
print("reads     ", regions(block.reads))
print("writes    ", regions(block.writes))
print("init      ", block.init)
print("body      ", block.body)

# %% [markdown]
# * **Iterators** are the block's own variables. Inside the block there are no loops i, j, r, only `vi`, `vj` and `vr`.
#   An iterator of kind S is spatial: each of its values has its own result. An iterator of kind R is a reduction: all
#   of its values contribute to the same result.
# * **Reads** and **writes** are the parts of buffers that one run of the block touches, written in terms of its
#   iterators. Such a part is called a *region*.
# * **Init** sets the start value of a result, before the first step of the reduction.
# * The **body** is the computation.
#
# Two more things belong to the place of the block in the program, and not to the block. The first is the *binding*: the
# values that its iterators get from the loops. The second is the **predicate**, which decides in which iterations the
# block runs at all. `split` and `reorder` change the loops, the binding and the predicate, but nothing inside the
# block. If you split 8 iterations into pieces of 3, you get 3 * 3 = 9 iterations, so a predicate appears:

# %%
i, j, r = sch.get_loops("C")
i_0, i_1 = sch.split(i, factors=[None, 3])
sch.reorder(r, i_0, j, i_1)
pieces, piece = (int(sch.get(loop).extent) for loop in (i_0, i_1))
predict("8 rows in pieces of 3: for how many pairs of i_0 and i_1 does the block not run?", pieces * piece - 8)
print("\n".join(body_of(sch.func).splitlines()[1:9]))
print("the block is the same object:", sch.get(sch.get_block("C")) is block)

# %% [markdown]
# The loops and the line with `i_0 * 3 + i_1` are new, and so is `T.where`. But the last line says that the block is
# still the same Python object. So a step that moves loops cannot break anything inside a block.
#
# ## A signature is a claim
#
# A step that moves a block may rely on the declarations of the block. What happens if these declarations are wrong?
# Here is a block that declares that it reads one element of A, but its body reads two elements. A part of minitvm
# called the *verifier* compares the declarations with the body:


# %%
@T.prim_func
def modest(A: T.Buffer((9,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes(B[vi])
            B[vi] = A[vi] + A[vi + 1]


try:
    verify(modest)
except VerificationError as error:
    print(error)

# %% [markdown]
# The mark is under `A[vi + 1]`, which the block reads and does not declare.
#
# A region that is too large is not wrong, but it is less useful. Suppose that a block reads one element of a buffer
# `half` but declares that it reads all eight. If `compute_at` relied on this claim, it would have to compute all eight
# elements in each iteration: 64 additions instead of 8. We count the additions:


# %%
def two_steps(modest: bool) -> tir.PrimFunc:
    """Y = 2 * (A + 1) in two blocks; the second declares that it reads one element of the first, or all of them."""

    @T.prim_func
    def exact(A: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32")):
        half = T.alloc_buffer((8,), "float32")
        for i in range(8):
            with T.block("half"):
                vi = T.axis.spatial(8, i)
                half[vi] = A[vi] + T.float32(1)
        for i in range(8):
            with T.block("Y"):
                vi = T.axis.spatial(8, i)
                T.reads(half[vi])
                T.writes(Y[vi])
                Y[vi] = half[vi] * T.float32(2)

    @T.prim_func
    def sweeping(A: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32")):
        half = T.alloc_buffer((8,), "float32")
        for i in range(8):
            with T.block("half"):
                vi = T.axis.spatial(8, i)
                half[vi] = A[vi] + T.float32(1)
        for i in range(8):
            with T.block("Y"):
                vi = T.axis.spatial(8, i)
                T.reads(half[0:8])
                T.writes(Y[vi])
                Y[vi] = half[vi] * T.float32(2)

    return exact if modest else sweeping


for claims, modest_one in (("half[vi]", True), ("half[0:8]", False)):
    moved = tir.Schedule(two_steps(modest_one))
    moved.compute_at("half", moved.get_loops("Y")[0])
    counted = ledger.measure(moved.func, np.ones(8, "float32"), np.empty(8, "float32"))
    verdict = reference.check(two_steps(True), moved.func)
    print(f"reads {claims:<10} {counted.operations['add']:>2} additions; {verdict}")

# %% [markdown]
# Both versions do 8 additions, because minitvm's `compute_at` does not rely on the declaration here. It looks at the
# element that the block really reads, `half[vi]`. A compiler that uses only the signature, as Apache TVM does here,
# would compute all elements in each iteration. So the regions in a good signature are as small as possible. If you
# write no `T.reads`, minitvm computes the smallest regions when it reads the program.
#
# The kinds of iterators are claims, too. The letter S claims that each value of the iterator has its own result. The
# next block declares S for `vi`, but all of its iterations write the same element:


# %%
@T.prim_func
def pretends(A: T.Buffer((8,), "float32"), C: T.Buffer((1,), "float32")):
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[0] = A[vi]


sch = tir.Schedule(pretends)
try:
    sch.parallel(sch.get_loops("C")[0])
except ScheduleError as error:
    print(str(error).splitlines()[-1].strip())

# %% [markdown]
# minitvm refuses, because `parallel` does not rely on the claim that `vi` is spatial. It searches for two iterations
# that write the same element, and it finds i=0 and i=1.
#
# ## A tile with one signature
#
# A block can contain other blocks. `blockize` turns a loop and everything inside it into a new block, and computes the
# regions that this block reads and writes as a whole. We first cut the loops into tiles of 4 x 4 x 4, and then turn the
# inside of a tile into a block:


# %%
def in_tiles(func: tir.PrimFunc) -> tuple[tir.Schedule, object]:
    """The schedule, and the loop around a tile of 4 x 4 x 4."""
    sch = tir.Schedule(func)
    i, j, r = sch.get_loops("C")
    pairs = [sch.split(loop, factors=[None, 4]) for loop in (i, j, r)]
    sch.reorder(*(outer for outer, _ in pairs), *(inner for _, inner in pairs))
    return sch, pairs[0][1]


sch, inside = in_tiles(program)
tile = sch.blockize(inside)
print("\n".join(sch.func.script().splitlines()[5:24]))

# %%
run = {"A": (0, 4), "B": (4, 0), "C": (0, 0)}  # the first row and column of each tile, for vi_o = vj_o = 0 and vr_o = 1


def part(name: str, row: int, column: int) -> str:
    """The colour of an element: is it in the tile that this run touches?"""
    top, left = run[name]
    inside_tile = top <= row < top + 4 and left <= column < left + 4
    return (drawings.ORANGE if name == "C" else drawings.BLUE) if inside_tile else drawings.PALE


picture = drawings.matrices(
    dict.fromkeys("ABC", (8, 8)),
    part,
    title="one run of C_o, for vr_o = 1: it reads the blue tiles and writes the orange one",
)
print("the picture:", picture.save("regions"))

# %% [markdown]
# Read the signature of the new block, `C_o`. Its iterators count tiles: `vi_o` runs from 0 to 1 because there are 2
# tiles of rows. The block reads a tile of A and a tile of B, and it writes a tile of C. Steps that move the loops
# around the block do not look inside the block. For such a step the block *is* a multiplication of small matrices.
#
# Now look for the init. It has moved from the inner block to `C_o`. The iterator `vr_o` is a reduction, so the init
# runs once for each tile of C, when `vr_o` is 0, and the inner block only adds. If the init had stayed in the inner
# block, the sums would start again from zero for each value of `vr_o`.
#
# The outer loops can move as before. minitvm does not check the inside of the block again, because the signature is
# enough:

# %%
i_0, j_0, r_0 = sch.get_loops(tile)
sch.reorder(j_0, i_0, r_0)
sch.parallel(j_0)
print("accepted;", reference.check(program, sch.func))

# %% [markdown]
# Both steps are accepted, and the program is still equal to the first one.
#
# ## An instruction
#
# Some processors have an instruction that computes a whole tile, and for other processors there is very good
# hand-written code. To use such an instruction or such code, you describe it as a *tensor intrinsic*, which is a pair
# of programs: `desc` defines the meaning in plain loops, and `impl` is the implementation. `tensorize` compares a block
# with `desc`. If both compute the same result, it replaces the block with `impl`.

# %%
intrinsic = tir.TensorIntrin.get("matmul_4x4x4_f32")
print("desc\n" + body_of(intrinsic.desc))
print("impl\n" + body_of(intrinsic.impl))
sch.tensorize(tile, "matmul_4x4x4_f32")
print(reference.check(program, sch.func))

# %% [markdown]
# The last line shows that the program with the intrinsic is equal to the original. minitvm also checks each intrinsic
# when it is registered: `desc` and `impl` must compute the same result. And `tensorize` refuses to replace a block that
# computes something else. In the next program B is transposed:


# %%
@T.prim_func
def transposed(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    for i, j, r in T.grid(8, 8, 8):
        with T.block("C"):
            vi, vj, vr = T.axis.remap("SSR", [i, j, r])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vr] * B[vj, vr]


other, inside = in_tiles(transposed)
try:
    other.tensorize(inside, "matmul_4x4x4_f32")
except ScheduleError as error:
    print(str(error).splitlines()[0].split("[step")[0].strip())
    print("\n".join(str(error).splitlines()[-3:]))

# %% [markdown]
# The last lines show the difference. The description reads `B[vk, vj]`, but in this program the two indices of B have
# changed places.
#
# ## The ledger
#
# The last row shows how long the compiled code takes for 128 x 128 matrices on one thread.


# %%
def compiled(tensorized: bool) -> str:
    """The time of a larger product."""
    func = example.blocks(128, 128, 128)
    sch, inside = in_tiles(func)
    if tensorized:
        sch.tensorize(inside, "matmul_4x4x4_f32")
    func = sch.func if tensorized else func
    return ledger.time_compiled(func, example.inputs(128, 128, 128), example.expected)


args = example.inputs(8, 8, 8)
ledger.show(
    {
        "blocks": {**ledger.measure(program, *args).lesson_rows(), "time compiled, 128": compiled(False)},
        "tensorized": {**ledger.measure(sch.func, *args).lesson_rows(), "time compiled, 128": compiled(True)},
    }
)

# %% [markdown]
# All rows of counts are the same, but in the last row the tensorized program takes only a small part of the time. It
# does the same multiplications, but it does them in vectors and registers. You could get the same speed with `reorder`,
# `unroll` and `vectorize` as well, but you would have to repeat these steps for each program. With the intrinsic you
# need only one step. The intrinsic itself is checked only once, and then you can use it in every program that contains
# such a tile.
#
# ## Your turn
#
# Write a tile with its signature by hand. It needs iterators, reads, writes, and an init in the right place.
#
#     minitvm lesson 11 --start     (writes exercise_11.py, for you to fill in)
#     minitvm lesson 11 --check
