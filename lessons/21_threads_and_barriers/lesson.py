# %% [markdown]
# # Threads, shared memory, and the barrier that was forgotten
#
# A GPU runs thousands of threads. They are grouped in *blocks*: the threads of one block share a small, fast memory,
# and can wait for each other. Nothing else orders them. Today we put loops on a grid by hand, let the threads of a
# block exchange values, forget to wait, and find the mistake *without a GPU*. At the end you see the same kernel in two
# languages.

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
# `bind` turns the iterations of a loop into *threads*. Two axes are enough to begin with: `blockIdx.x` is the number of
# a block, `threadIdx.x` the number of a thread in its block.


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
# The host calls the kernel with a *grid*: four blocks of 32 threads. 4 x 32 is 128, and there are 100 elements, so the
# condition leaves the last threads idle. The two loops are no longer loops. In the source of the kernel, each thread
# reads its own position:

# %%
print("\n".join(minitvm.lower(sch.func, target="cuda", stop_at="source")["relu"].splitlines()[-8:]))
print(reference.check(relu, sch.func))

# %% [markdown]
# ## Shared memory
#
# Now threads exchange values. Each block reverses its four elements: thread `t` writes one element into the shared
# array `S`, and reads another one, which *another thread* has written.


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
# In the program there are two loops over the threads, one after the other: first all threads write, then all threads
# read. The kernel is the program of one thread, which does both, and between the two there is
# `T.tvm_storage_sync("shared")`: a **barrier**. A thread that reaches it waits until all threads of its block have
# reached it. We did not write it: lowering saw that one thread reads an element of `S` that another one writes.
#
# ## The barrier that was forgotten
#
# Many kernels are written by hand, and then a barrier is easily forgotten. The interpreter runs kernels too:


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
# Here are the same two kernels as films, in which unordered threads run at the same time. Look at S. In the first film
# all threads wait at the barrier between their writes and their reads. In the second film they happen to run in step as
# well, but nothing makes them wait: the red frame is an element that one thread reads and another one writes.

# %%
for kernel in (module["turned_kernel_0"], forgotten):
    film = Film.of(kernel, np.arange(8, dtype="float32"), np.empty(8, "float32"))
    print("the film:", picture.save(kernel.name, film.svg()))

# %% [markdown]
# On a GPU this kernel may well give the right result, because the 32 threads of a *warp* often run in step. It does so
# until the block has 64 threads, or the compiler moves an instruction, or you use another GPU. The shadow mode does not
# depend on the order in which it runs the threads. It records, for each element, which threads touched it since the
# last barrier, and reports two accesses that nothing orders. That is why it needs neither a GPU nor luck.
#
# A barrier in the wrong place is just as bad. All threads must reach it, or those that do wait forever:


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
# ## How many barriers?
#
# A barrier costs time, because all threads wait for the last one. So a kernel should have as few barriers as possible.
# Suppose that a kernel has *stages*, in each of which thread `t` reads or writes one element of `S`. Two accesses need
# a barrier between them if
#
# - they touch the same element,
# - at least one of them writes, and
# - they belong to *different threads*, since each thread keeps its own order.
#
# The rule is greedy. Go through the stages and remember the accesses since the last barrier. The first stage that would
# race with one of them needs a barrier before it; then forget them and go on. Each barrier comes as late as possible,
# so it separates as many accesses as it can, and the rule gives the fewest barriers. You will write it in the exercise.
#
# ## One kernel, two languages
#
# From here on a kernel is text for another compiler. For NVIDIA's GPUs it is Python, which Numba CUDA compiles; for all
# others OpenCL C, which the device's driver compiles:

# %%
kernel = module["turned_kernel_0"]
in_python, in_c = numba_cuda.generate(kernel), opencl.generate(kernel)
print("\n".join(in_python.splitlines()[-7:]))
print()
print("\n".join(in_c.splitlines()[-7:]))

# %% [markdown]
# Both have the same statements. `cuda.blockIdx.x` is `get_group_id(0)`, `cuda.threadIdx.x` is `get_local_id(0)`,
# `shared_f32(4)` is `__local float S[4]`, `cuda.syncthreads()` is `barrier(CLK_LOCAL_MEM_FENCE)`. The important
# differences between GPUs are not in the language. GPUs differ in the number of threads that a block may have, in the
# width of a load, and in whether shared memory is faster than global memory. On most GPUs it is; on a Mali it is
# ordinary memory with the same cache, so copying into it only costs time. So the *schedule* differs, and the
# description of the target shows why:

# %%
for target in ("cuda -arch=sm_80", "opencl -device=mali"):
    machine = minitvm.target.Target(target)
    print(f"{target:<22} threads {machine.max_threads_per_block:<6} shared helps: {machine.local_memory_helps}")

# %% [markdown]
# ## The ledger
#
# This is our example with a row of C for each block, and a column for each thread.


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
# Threads save time, not work.
#
# ## Your turn
#
# Place the barriers of a kernel: enough of them, but none too many. The check builds the kernel with your barriers and
# runs it in shadow mode, which finds races.
#
#     minitvm lesson 21 --start     (writes exercise_21.py, for you to fill in)
#     minitvm lesson 21 --check
