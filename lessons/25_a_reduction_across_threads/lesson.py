# %% [markdown]
# # A reduction across threads
#
# If one thread adds up a row, it needs as many steps as the row has elements. A block of threads can share the work:
# each thread adds up a part of the row, and then their results must be combined. Today you see three ways to do this: a
# loop in one thread, a *tree* in shared memory, and *shuffles*, with which threads read each other's registers. We also
# forget a barrier in the tree, find the mistake without a GPU, and count the cost of each way.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import numpy as np

import minitvm
from lessons import drawings, example, ledger
from lessons.picture import Picture
from lessons.predict import predict
from lessons.text import body_of
from minitvm import reference, te, tir
from minitvm.errors import ExecutionError
from minitvm.machines.cuda.codegen import numba_cuda
from minitvm.script import tir as T
from minitvm.tir.nodes import IRModule, PrimFunc

# %% [markdown]
# ## One thread
#
# Our program computes the sums of four rows. Each row has 64 elements. In the first version a single thread adds up a
# whole row:


# %%
def sums() -> PrimFunc:
    """Sums over the rows of a matrix."""
    a = te.placeholder((4, 64), name="A")
    k = te.reduce_axis((0, 64), name="k")
    return te.create_prim_func([a, te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="B")])


def serial() -> PrimFunc:
    """A block of one thread for each row."""
    sch = tir.Schedule(sums())
    i, _ = sch.get_loops("B")
    sch.bind(i, "blockIdx.x")
    return sch.func


print(body_of(minitvm.lower(serial(), target="cuda", stop_at="kernel")["main"]["main_kernel_0"]))

# %% [markdown]
# Only the loop `i` is bound, and it is bound to blocks. So each block has one thread, and its loop `k` takes 64 steps,
# one after another.
#
# ## Many threads
#
# You can also bind a *reduction* loop to threads, but only to `threadIdx`, because only the threads of one block can
# exchange values. The meaning of the program stays the same: the values of all iterations are added up. When minitvm
# lowers the program, it decides how the threads add up these values. Here we split `k` and bind its inner part to 8
# threads:


# %%
def across(threads: int) -> PrimFunc:
    """`threads` threads for each row."""
    sch = tir.Schedule(sums())
    i, k = sch.get_loops("B")
    sch.bind(i, "blockIdx.x")
    sch.bind(sch.split(k, [None, threads])[1], "threadIdx.x")
    return sch.func


print(reference.check(sums(), across(8)))

# %% [markdown]
# On some targets, for example OpenCL, threads cannot read each other's registers. On such a target the threads combine
# their results in shared memory. Each of the 8 threads first adds up its share of the row, which is 8 elements. Then
# pairs of results are added, so 8 results become 4, then 2, and then 1. Here is the kernel:

# %%
tree = minitvm.lower(across(8), target="opencl", stop_at="kernel")["main"]
print(body_of(tree["main_kernel_0"]))

# %%
picture = Picture(560, 275)
picture.words(20, 26, "8 threads: three levels; a neighbour was just added to each orange element", 14)
for level in range(4):
    y = 60 + 56 * level
    picture.words(20, y + 16, f"level {level}" if level else "shares", 12)
    for thread in range(8):
        adds = level and thread % 2**level == 0
        alive = thread % 2 ** max(level - 1, 0) == 0
        x = 90 + 56 * thread
        picture.box(x, y, 44, 26, drawings.ORANGE if adds else drawings.LIGHT if alive else drawings.PALE, "#999999")
        picture.words(x + 22, y + 17, f"S[{thread}]", 11, "middle")
        if adds:
            for source in (thread, thread + 2 ** (level - 1)):
                picture.line([(112 + 56 * source, y - 30), (x + 22, y)], "#666666", 1.2)
print("the picture:", picture.save("tree"))

# %% [markdown]
# The three lines that begin with `if` and add two elements of `B_total_shared` are the three levels of the tree. With 8
# threads there are 3 levels, because each level halves the number of results. There is a barrier (`T.tvm_storage_sync`)
# before each level, because a thread reads an element that another thread has written. There is one more barrier after
# the last level, because then *all* threads read the total. A softmax, for example, needs the total in every thread,
# because each thread divides by the total.
#
# ## A barrier is forgotten
#
# Here is such a tree for 4 threads, written by hand. One barrier is missing:


# %%
@T.prim_func(lowered=True)
def forgotten(A: T.Buffer((4,), "float32"), B: T.Buffer((1,), "float32")):
    S = T.decl_buffer((4,), scope="shared")
    for t in T.thread_binding(4, thread="threadIdx.x"):
        S[t] = A[t]
        T.tvm_storage_sync("shared")
        if t % 2 == 0:
            S[t] = S[t] + S[t + 1]
        if t == 0:
            B[0] = S[0] + S[2]


def finding(kernel: PrimFunc) -> str:
    """The error of the interpreter's shadow mode for a kernel from 4 floats to one."""
    try:
        reference.kernel.run(kernel, np.arange(4, dtype="float32"), np.empty(1, "float32"))
    except ExecutionError as error:
        return str(error)
    return "nothing to say"


print(finding(forgotten))

# %% [markdown]
# Both accesses are to `S[2]`: thread 0 reads `S[2]` for the second level, and thread 2 writes `S[2]` in the first
# level. Without a barrier between the levels, thread 0 may read the element too early. On a GPU the result would still
# be right most of the time.
#
# ## Shuffles
#
# On NVIDIA's GPUs, 32 threads form a *warp*, and the threads of a warp are also called its lanes. With a *shuffle*, a
# thread can read a register of another thread in its warp. For example, `tvm_warp_shuffle_down(mask, value, 4, 32, 32)`
# gives lane 0 the `value` of lane 4, gives lane 1 the `value` of lane 5, and so on. Shuffles need neither shared memory
# nor a barrier. Here is our program for CUDA:

# %%
shuffles = minitvm.lower(across(8), target="cuda", stop_at="kernel")["main"]
print(body_of(shuffles["main_kernel_0"]))

# %% [markdown]
# The three shuffles read from lanes that are 1, 2 and 4 positions further on, so they are the three levels of the tree.
# The last shuffle, `tvm_warp_shuffle`, gives the total of lane 0 to all lanes.
#
# The first argument of a shuffle is a mask with one bit for each lane that takes part; 255 means the lanes 0 to 7. All
# of these lanes must reach the shuffle, and none of them may read from a lane that is not in the mask. In CUDA the
# result of such a read is undefined. Our interpreter reports such a read:


# %%
@T.prim_func(lowered=True)
def too_far(A: T.Buffer((4,), "float32"), B: T.Buffer((1,), "float32")):
    for t in T.thread_binding(4, thread="threadIdx.x"):
        with T.LetStmt(T.tvm_warp_shuffle_down(T.uint32(15), A[t], 1, 32, 32)) as other:
            if t == 0:
                B[0] = A[t] + other


print(finding(too_far))

# %% [markdown]
# Lane 3 reads from lane 4, but only lanes 0 to 3 take part. This is an error even though the program does not use the
# value. To avoid it, use the fourth argument, which divides the warp into sections: a lane at the end of a section gets
# its own value. With `tvm_warp_shuffle_down(mask, value, 1, 4, 32)` the sections have four lanes, so lane 3 would
# simply get its own value back.
#
# ## The cost of each way
#
# Now we compare the tree with the shuffles. While the interpreter runs the kernels, we count the barriers at which each
# thread waits, and the loads from shared memory in each block:


# %%
def costs(module: IRModule, threads: int) -> tuple[int, int]:
    """Barriers of one thread, and loads of shared memory of one block."""
    counted = ledger.LessonLedger()
    reference.kernel.run(module, np.ones((4, 64), "float32"), np.empty(4, "float32"), mode="slow", listeners=[counted])
    shared = sum(count for buffer, count in counted.loads.items() if buffer.endswith("_shared"))
    return counted.barriers // (4 * threads), shared // 4


predict(
    "32 threads add up a row in a tree. At how many barriers does each thread wait?",
    costs(minitvm.lower(across(32), target="opencl", stop_at="kernel")["main"], 32)[0],
)
print("threads   way        barriers   shared loads")
for threads in (1, 8, 32, 64):
    for way, target in (("tree", "opencl"), ("shuffles", "cuda")):
        lowered = minitvm.lower(across(threads), target=target, stop_at="kernel")["main"]
        barriers, loads = costs(lowered, threads)
        print(f"{threads:>7}   {way:<9}  {barriers:>8}   {loads:>12}")

# %% [markdown]
# With 32 threads, each thread waits at 6 barriers in the tree, one before each of the 5 levels and one at the end. With
# shuffles there is no barrier. With 64 threads, the shuffles need 1 barrier and 4 loads from shared memory. Why? A
# block of 64 threads is two warps. Each warp adds up its own values with shuffles, and its first lane writes the result
# to shared memory. All threads wait *once*, and then each warp adds the two results. So all threads have the total
# without waiting again.
#
# In the source for CUDA, each shuffle is a function call:

# %%
print("\n".join(numba_cuda.generate(shuffles["main_kernel_0"]).splitlines()[-9:]))

# %% [markdown]
# Each `warp_shuffle_down` is one level of the tree, and `warp_shuffle` gives the total to all threads.
#
# ## The ledger
#
# The ledger compares our serial example with a version in which a block of 8 threads shares the sum of each element of
# C.


# %%
def on_teams(n: int) -> PrimFunc:
    """The example with side n, 8 threads for each element of C."""
    sch = tir.Schedule(example.blocks(n, n, n))
    i, j, k = sch.get_loops("C")
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "blockIdx.y")
    sch.bind(sch.split(k, [None, 8])[1], "threadIdx.x")
    return sch.func


args = example.inputs(16, 16, 16)
columns = {}
for name, program in (("serial", example.blocks(16, 16, 16)), ("in teams", on_teams(16))):
    lowered = minitvm.lower(program, target="cuda", stop_at="kernel")["example"]
    assert reference.check(example.blocks(16, 16, 16), lowered, modes=("exact", "shadow"))
    columns[name] = ledger.measure(lowered, *args)
ledger.show(columns)

# %% [markdown]
# Both programs do 4,096 multiplies. But the teams need 10,496 adds instead of 4,352, because the 8 partial sums of each
# element have to be combined. For such short sums, a team has more additional work than it saves. Teams help if the
# sums are long.
#
# ## The exercise
#
# Write a function that plans a tree. The tree adds up the values of any number of threads, for example 5 or 7, in as
# few levels as possible. Check it with `minitvm lesson 25 --check`.
