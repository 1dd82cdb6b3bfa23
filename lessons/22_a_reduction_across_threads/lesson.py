# %% [markdown]
# # A reduction across threads
#
# One thread needs as many steps to add up a row as the row has elements. A block of threads can share the work: each
# adds up a part, and then their results must be combined. Today you see three ways: a loop in one thread, a *tree* in
# shared memory, and *shuffles*, in which threads read each other's registers. We forget a barrier in the tree and find
# it without a GPU, and count the cost of each way.

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
# The program computes the sum of each of four rows of 64 elements.


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
# The thread takes 64 steps, one after another, and the block has no other threads that could help.
#
# ## Many threads
#
# You can also bind a *reduction* loop, but only to `threadIdx`. The meaning stays the same: the values of all
# iterations are added up. Lowering decides how the threads do that.


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
# On some targets, for example OpenCL, threads cannot read each other's registers. Then they combine their results in
# shared memory. Each thread adds up its share: with 8 threads, that is 8 elements. Then neighbours are added: 8 results
# become 4, 2, 1.

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
# Three levels for 8 threads: the number of steps is the logarithm. Before each level there is a barrier, because a
# thread reads what its neighbour has written. There is one more after the last level, because then *all* threads read
# the total. A softmax needs that: every thread divides by the total.
#
# ## A barrier is forgotten
#
# Here is the same tree by hand, for 4 threads, with one barrier missing:


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
# Thread 0 may read `S[2]` before thread 2 has added to it. On a GPU the result would be right most of the time.
#
# ## Shuffles
#
# On NVIDIA's GPUs 32 threads are a *warp*, and a thread can read a register of another thread in its warp. That is a
# *shuffle*. `tvm_warp_shuffle_down(mask, value, 4, 32, 32)` gives each lane the `value` of the lane 4 further on. It
# needs neither memory nor a barrier:

# %%
shuffles = minitvm.lower(across(8), target="cuda", stop_at="kernel")["main"]
print(body_of(shuffles["main_kernel_0"]))

# %% [markdown]
# The mask names the lanes that take part. All of them must reach the shuffle, and none may read from a lane that is not
# in the mask: in CUDA the result is then undefined. The interpreter reports this:


# %%
@T.prim_func(lowered=True)
def too_far(A: T.Buffer((4,), "float32"), B: T.Buffer((1,), "float32")):
    for t in T.thread_binding(4, thread="threadIdx.x"):
        with T.LetStmt(T.tvm_warp_shuffle_down(T.uint32(15), A[t], 1, 32, 32)) as other:
            if t == 0:
                B[0] = A[t] + other


print(finding(too_far))

# %% [markdown]
# Lane 3 reads from lane 4, but there are only four lanes, 0 to 3. It is an error even though the value is not used.
# With sections of four lanes, `tvm_warp_shuffle_down(mask, value, 1, 4, 32)`, lane 3 would get its own value.
#
# ## The cost of each way
#
# We count the barriers of each thread and the loads from shared memory while the interpreter runs.


# %%
def costs(module: IRModule, threads: int) -> tuple[int, int]:
    """Barriers of one thread, and loads of shared memory of one block."""
    counted = ledger.LessonLedger()
    reference.kernel.run(module, np.ones((4, 64), "float32"), np.empty(4, "float32"), mode="slow", listeners=[counted])
    shared = sum(count for buffer, count in counted.loads.items() if buffer.endswith("_shared"))
    return counted.barriers // (4 * threads), shared // 4


predict(
    "32 threads add up in a tree. At how many barriers does each of them wait?",
    costs(minitvm.lower(across(32), target="opencl", stop_at="kernel")["main"], 32)[0],
)
print("threads   way        barriers   shared loads")
for threads in (1, 8, 32, 64):
    for way, target in (("tree", "opencl"), ("shuffles", "cuda")):
        lowered = minitvm.lower(across(threads), target=target, stop_at="kernel")["main"]
        barriers, loads = costs(lowered, threads)
        print(f"{threads:>7}   {way:<9}  {barriers:>8}   {loads:>12}")

# %% [markdown]
# A block of 64 threads is two warps. Each warp adds up its own values with shuffles, and its first lane writes one
# element to shared memory. All threads wait *once*, and each warp adds these two elements. Then all threads have the
# total, and no thread waits again.
#
# In the CUDA source the shuffles are calls:

# %%
print("\n".join(numba_cuda.generate(shuffles["main_kernel_0"]).splitlines()[-9:]))

# %% [markdown]
# ## The ledger
#
# This is our example with a block for each element of C, whose 8 threads share the sum. The number of products is the
# same, and combining the results of the threads takes additional work.


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
# ## The exercise
#
# Write the steps of a tree that adds up the results of any number of threads, also 5 or 7, in as few levels as
# possible: `minitvm lesson 22 --check`.
