# %% [markdown]
# # Threads, shared memory, and the barrier that was forgotten
#
# A GPU runs thousands of threads. The threads are grouped in *blocks*. The threads of a block share a small, fast
# memory, and they can wait for each other. Nothing else puts their work in order. Today we turn loops into threads by
# hand and let the threads of a block exchange values. Then we forget to make the threads wait, and find this mistake
# *without a GPU*. At the end you see the same kernel in two languages.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import numpy as np

import minitvm
from lessons import example, ledger, picture
from lessons.predict import predict
from lessons.text import body_of
from minitvm import reference, tir
from minitvm.errors import ExecutionError
from minitvm.film import Film
from minitvm.machines.cuda.codegen import numba_cuda
from minitvm.machines.opencl.codegen import statements as opencl
from minitvm.script import tir as T
from minitvm.tir.nodes import PrimFunc

# %% [markdown]
# ## A loop on a grid
#
# `bind` turns the iterations of a loop into *threads*. You name an axis of the GPU for each loop. Two axes are enough
# for now: `blockIdx.x` is the number of a block, and `threadIdx.x` is the number of a thread in its block. (Such a
# block of threads is not the same as a block of a program, which you know from lesson 11.)


# %%
@T.prim_func
def relu(X: T.Buffer((100,), "float32"), Y: T.Buffer((100,), "float32")):
    for i in range(100):
        with T.block("Y"):
            vi = T.axis.spatial(100, i)
            Y[vi] = T.max(X[vi], T.float32(0))


sch = tir.Schedule(relu)
(i,) = sch.get_loops("Y")
blocks, threads = sch.split(i, factors=[None, 32])
sch.bind(blocks, "blockIdx.x")
sch.bind(threads, "threadIdx.x")
predict("100 elements, in blocks of 32 threads: how many threads have nothing to do?", -(-100 // 32) * 32 - 100)
print(body_of(minitvm.lower(sch.func, target="cuda", stop_at="kernel")["relu"]))

# %% [markdown]
# All blocks together are called a *grid*. This kernel runs on a grid of four blocks of 32 threads, which makes 128
# threads. But there are only 100 elements, so the condition `i_0 * 32 + i_1 < 100` leaves the last 28 threads idle. No
# thread runs the loops over `i_0` and `i_1`. Instead, in the source of the kernel, each thread reads its own position:

# %%
print("\n".join(minitvm.lower(sch.func, target="cuda", stop_at="source")["relu"].splitlines()[-8:]))
print(reference.check(relu, sch.func))

# %% [markdown]
# Each thread sets `i_0` and `i_1` to its own position, tests the condition, and computes at most one element. The last
# line says that the program on the grid computes the same result as the loop.
#
# ## Shared memory
#
# Now the threads exchange values. In the next program each block reverses its four elements. Thread `t` writes an
# element into the shared array `S`, and then reads an element that *another thread* has written.


# %%
@T.prim_func
def turned(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    S = T.alloc_buffer((4,), "float32", scope="shared")
    for b in T.thread_binding(2, thread="blockIdx.x"):
        for t in T.thread_binding(4, thread="threadIdx.x"):
            with T.block("S"):
                vb, vt = T.axis.remap("SS", [b, t])
                S[vt] = A[vb * 4 + vt]
        for t in T.thread_binding(4, thread="threadIdx.x"):
            with T.block("B"):
                vb, vt = T.axis.remap("SS", [b, t])
                B[vb * 4 + vt] = S[3 - vt]


module = minitvm.lower(turned, target="cuda", stop_at="kernel")["turned"]
print(body_of(module["turned_kernel_0"]))

# %% [markdown]
# Our program has two loops over the threads, one after the other: first all threads write, then all threads read. The
# kernel has only one such loop, whose body is the program of one thread. The thread writes and then reads, and between
# the write and the read there is the new line `T.tvm_storage_sync("shared")`. This line is a **barrier**: a thread that
# reaches it waits until all threads of its block have reached it. We did not write the barrier. minitvm added it when
# it lowered the program, because one thread reads an element of `S` that another thread writes.
#
# ## The barrier that was forgotten
#
# Many kernels are written by hand, and then it is easy to forget a barrier. Here is the same kernel without the
# barrier. We run both kernels in the interpreter:


# %%
@T.prim_func(lowered=True)
def forgotten(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for b in T.thread_binding(2, thread="blockIdx.x"):
        S = T.decl_buffer((4,), scope="shared")
        for t in T.thread_binding(4, thread="threadIdx.x"):
            S[t] = A[b * 4 + t]
            B[b * 4 + t] = S[3 - t]


def finding(kernel: PrimFunc) -> str:
    """The error of the interpreter's shadow mode for a kernel from 8 floats to 8 floats."""
    try:
        reference.kernel.run(kernel, np.arange(8, dtype="float32"), np.empty(8, "float32"))
    except ExecutionError as error:
        return str(error)
    return "nothing to say"


print(finding(module["turned_kernel_0"]))
print(finding(forgotten))

# %% [markdown]
# The first line is for the kernel with the barrier: the interpreter found nothing. For the other kernel it reports that
# thread 1 reads `S[2]` and thread 2 writes it, and that nothing orders the two.
#
# Here are both kernels as films, in which threads run at the same time unless something orders them. Look at S. In the
# first film all threads wait at the barrier between their writes and their reads. In the second film nothing makes them
# wait. The red frame marks an element that one thread reads and another thread writes.

# %%
for kernel in (module["turned_kernel_0"], forgotten):
    film = Film.of(kernel, np.arange(8, dtype="float32"), np.empty(8, "float32"))
    print("the film:", picture.save(kernel.name, film.svg()))

# %% [markdown]
# On a GPU the kernel without the barrier may well give the right result. The threads of a GPU run in groups of 32,
# called *warps*, and the threads of a warp often run in step. But one day the block has 64 threads, or the compiler
# moves an instruction, or you use another GPU, and then the result is wrong. The shadow mode of the interpreter does
# not depend on the order in which the threads run. It records, for each element, which threads touched it since the
# last barrier. It reports two accesses if nothing orders them. That is why it needs neither a GPU nor luck.
#
# A barrier in the wrong place is just as bad. If some threads of a block never reach a barrier, the others wait
# forever. In the next kernel only the threads 0 and 1 reach the second barrier:


# %%
@T.prim_func(lowered=True)
def half_wait(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for b in T.thread_binding(2, thread="blockIdx.x"):
        S = T.decl_buffer((4,), scope="shared")
        for t in T.thread_binding(4, thread="threadIdx.x"):
            S[t] = A[b * 4 + t]
            T.tvm_storage_sync("shared")
            if t < 2:
                T.tvm_storage_sync("shared")
            B[b * 4 + t] = S[3 - t]


print(finding(half_wait).splitlines()[0])

# %% [markdown]
# Thread 0 waits at the second barrier, and thread 2 never gets there.
#
# ## How many barriers?
#
# A barrier costs time, because all threads wait for the slowest one. So a kernel should have as few barriers as
# possible. Suppose that a kernel consists of *stages*. In each stage, every thread reads or writes one element of `S`.
# Two accesses need a barrier between them if
#
# - they touch the same element,
# - at least one of them writes, and
# - they belong to *different threads*, because each single thread runs its stages in order.
#
# Here is a rule for placing the barriers. Go through the stages and remember all accesses since the last barrier. When
# you come to a stage that would race with one of these accesses, put a barrier before this stage, forget the accesses,
# and go on. The rule is greedy: it places each barrier as late as possible. So each barrier separates as many accesses
# as it can, and there are as few barriers as possible. You will write this rule in the exercise.
#
# ## One kernel, two languages
#
# From here on, a kernel is text for another compiler. For NVIDIA's GPUs it is Python, which Numba CUDA compiles. For
# all other GPUs it is OpenCL C, which the driver of the device compiles:

# %%
kernel = module["turned_kernel_0"]
in_python, in_c = numba_cuda.generate(kernel), opencl.generate(kernel)
print("\n".join(in_python.splitlines()[-7:]))
print()
print("\n".join(in_c.splitlines()[-7:]))

# %% [markdown]
# Compare the two texts line by line. They have the same statements with other names: for example, `cuda.syncthreads()`
# in Python is `barrier(CLK_LOCAL_MEM_FENCE)` in OpenCL. So the language is not an important difference between GPUs.
# GPUs differ in the number of threads that a block may have, in the width of a load, and in the speed of shared memory.
# On most GPUs shared memory is faster than global memory. On a Mali, shared memory is ordinary memory with the same
# cache, so copying data into shared memory only costs time. That is why different GPUs need different *schedules*.
# minitvm finds such facts in the description of the target:

# %%
for target in ("cuda -arch=sm_80", "opencl -device=mali"):
    machine = minitvm.target.Target(target)
    print(f"{target:<22} threads {machine.max_threads_per_block:<6} shared helps: {machine.local_memory_helps}")

# %% [markdown]
# On the NVIDIA GPU (`cuda`) shared memory helps. On the Mali shared memory does not help, and a block may have only 256
# threads.
#
# ## The ledger
#
# The ledger compares our serial example with a version on a grid. In this version each block computes a row of C, and
# each thread of the block computes one element of the row.


# %%
def on_a_grid(n: int) -> PrimFunc:
    """The example with side n, one thread for each element of C."""
    sch = tir.Schedule(example.blocks(n, n, n))
    for block in ("C", "Y"):
        i, j = sch.get_loops(block)[:2]
        sch.bind(i, "blockIdx.x")
        sch.bind(j, "threadIdx.x")
    return sch.func


args = example.inputs(32, 32, 32)
columns = {}
for name, program in (("serial", example.blocks(32, 32, 32)), ("on a grid", on_a_grid(32))):
    lowered = minitvm.lower(program, target="cuda", stop_at="kernel")["example"]
    assert reference.check(example.blocks(32, 32, 32), lowered, modes=("exact", "shadow"))
    columns[name] = ledger.measure(lowered, *args)
ledger.show(columns)

# %% [markdown]
# All counts are the same in both columns. Threads do not save any work. They save time on a GPU, because they run at
# the same time; the interpreter runs them one after another.
#
# ## Your turn
#
# Write a function that places as few barriers in a kernel as possible. The check builds the kernel with your barriers
# and runs it in shadow mode, which finds races.
#
#     minitvm lesson 24 --start     (writes exercise_24.py, for you to fill in)
#     minitvm lesson 24 --check
