# %% [markdown]
# # Tiles in shared memory, and the banks that hold them
#
# The threads of a block on a GPU can share a small memory. Today we schedule one matrix product in two ways. In the
# first schedule, the threads share nothing. In the second schedule, the threads of a block fetch tiles together into
# shared memory. We count how often each kernel loads from each kind of memory, and how many steps these loads take. The
# number of steps depends on the place of each element, and in the exercise you find the best places.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

from collections import Counter

import minitvm
from lessons import drawings, example, ledger
from lessons.predict import predict
from minitvm import reference, te, tir
from minitvm.arith import Analyzer
from minitvm.expr import Var, substitute, walk
from minitvm.tir import work
from minitvm.tir.nodes import BufferStore, PrimFunc

# %% [markdown]
# ## The product
#
# This is our example once more, this time as tensor expressions:


# %%
def product(m: int, n: int, k: int) -> PrimFunc:
    """Y = relu(A @ B + bias)."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    bias, r = te.placeholder((n,), name="bias"), te.reduce_axis((0, k), name="r")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    y = te.compute((m, n), lambda i, j: tir.max(c[i, j] + bias[j], tir.const(0.0, "float32")), name="Y")
    return te.create_prim_func([a, b, bias, y])


SIZES = 32, 32, 16
print(reference.check(example.blocks(*SIZES), product(*SIZES)))

# %% [markdown]
# The tensor expressions compute the same result as the blocks of the earlier lessons.
#
# ## Nothing shared
#
# In the first schedule, a thread computes a tile of 4 rows and 4 columns (one vector), and keeps these 16 sums in
# registers. In each step of the sum it loads 4 elements of A and a vector of B, and does 16 multiply-adds with them.
# The thread shares nothing with its neighbours.


# %%
def in_registers(func: PrimFunc) -> PrimFunc:
    """A thread for each tile of 4 x 4 results; 64 threads per block."""
    sch = tir.Schedule(func)
    sch.set_scope("C", 0, "local")
    sums = sch.get_block("C")
    vector = sch.cache_read(sums, 1, "local")
    i, j, r = sch.get_loops(sums)
    down, row = sch.split(i, [None, 4])
    over, lane = sch.split(j, [None, 4])
    sch.reorder(down, over, r, row, lane)
    block, thread = sch.split(sch.fuse(down, over), [None, 64])
    sch.bind(block, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    sch.reverse_compute_at("Y", thread)
    sch.compute_at(vector, r)
    start = sch.decompose_reduction(sums, r)
    for part in (start, vector, sums, "Y"):
        sch.vectorize(sch.get_loops(part)[-1])
    return sch.func


# %% [markdown]
# ## Tiles fetched together
#
# In the second schedule, each thread computes a tile of the same size. But now a block has 8 x 8 threads, which compute
# 32 x 32 results. All threads in a row of the block need the same elements of A, and all threads in a column need the
# same elements of B. So the block fetches a tile of A and a tile of B into shared memory, enough for 8 steps of the sum
# at a time. Each of the 64 threads fetches 1/64 of both tiles.
#
# In the schedule, `cache_read(..., "shared")` makes a copy in shared memory, `compute_at` moves the copy into the loop
# over pieces of the sum, and binding the loops of the copy divides the work among the threads. The tile of A is
# *transposed*: its rows are steps of the sum, so the 4 elements that a thread needs in one step are next to each other.
# `reindex_cache_read` is a `cache_read` that also changes the order of the elements.


# %%
def in_shared_tiles(func: PrimFunc, apart: int = 4) -> PrimFunc:
    """The same tiles of threads, 8 x 8 of them per block; rows of A's tile are `apart` elements longer than 32."""
    sch = tir.Schedule(func)
    sch.set_scope("C", 0, "local")
    sums = sch.get_block("C")
    tile_of_a = sch.reindex_cache_read(sums, 0, "shared", lambda i, j, r: (r, i))
    tile_of_b = sch.cache_read(sums, 1, "shared")
    vector = sch.cache_read(sums, 1, "local")
    i, j, r = sch.get_loops(sums)
    down, up, row = sch.split(i, [None, 8, 4])
    over, across, lane = sch.split(j, [None, 8, 4])
    piece, step = sch.split(r, [None, 8])
    sch.reorder(down, over, up, across, piece, step, row, lane)
    for loop, axis in ((down, "blockIdx.y"), (over, "blockIdx.x"), (up, "threadIdx.y"), (across, "threadIdx.x")):
        sch.bind(loop, axis)
    sch.reverse_compute_at("Y", across)
    sch.compute_at(vector, step)
    for tile in (tile_of_a, tile_of_b):
        sch.compute_at(tile, piece)
        _, up, across = sch.split(sch.fuse(*sch.get_loops(tile)[-2:]), [None, 8, 8])
        sch.bind(up, "threadIdx.y")
        sch.bind(across, "threadIdx.x")
    start = sch.decompose_reduction(sums, piece)
    for part in (start, vector, sums, "Y"):
        sch.vectorize(sch.get_loops(part)[-1])
    if apart:
        sch.storage_align(tile_of_a, 0, 0, 32, apart)
    return sch.func


WAYS = {"registers": in_registers, "shared tiles": in_shared_tiles}
for name, way in WAYS.items():
    print(f"{name:<13}", reference.check(product(*SIZES), way(product(*SIZES)), modes=("exact", "shadow")))

# %% [markdown]
# Both schedules are right. (You will see the purpose of `storage_align` below. Both programs can become kernels for
# CUDA or for OpenCL, as in lesson 24.)
#
# ## The loads of a thread
#
# How often does each thread load? `work.count` counts the loads and stores of a kernel without running it. The barriers
# are counted while the interpreter runs the kernel. The table shows the counts for one thread and for its block:


# %%
THREADS = 64  # of a block; the product is one block's
ledgers: dict[str, ledger.LessonLedger] = {}


def moved(name: str) -> dict[str, int]:
    """The elements of A and B that a thread loads and stores for the sum, and its barriers."""
    module = minitvm.lower(WAYS[name](product(*SIZES)), target="cuda", stop_at="kernel")["main"]
    counted, heard = work.count(module["main_kernel_0"]), ledgers.setdefault(name, ledger.LessonLedger())
    reference.kernel.run(module, *example.inputs(*SIZES), mode="slow", listeners=[heard])
    assert counted.exact
    scopes = [(buffer.scope, n) for buffer, n in counted.loads.items() if buffer.name != "bias"]
    totals = {
        "global loads": sum(n for scope, n in scopes if scope == "global"),
        "shared loads": sum(n for scope, n in scopes if scope == "shared"),
        "shared stores": sum(n for buffer, n in counted.stores.items() if buffer.scope == "shared"),
        "barriers": heard.barriers,
    }
    return {name: n // THREADS for name, n in totals.items()}


counts = {name: moved(name) for name in WAYS}
print(f"{'':<14}" + "".join(f"{name + ', thread':>26}{'block':>9}" for name in counts))
for what in counts["registers"]:
    row = (f"{count[what]:>26}{count[what] * (THREADS if what != 'barriers' else 1):>9}" for count in counts.values())
    print(f"{what:<14}" + "".join(row))

# %% [markdown]
# Look at the row *global loads*. With shared tiles, each thread has 16 loads from global memory instead of 128, because
# the block fetches each element once and 8 threads use it. The other rows show the price: each thread now has 128 loads
# from shared memory, 16 stores to it, and 4 barriers.
#
# Whether this is a good bargain depends on the hardware. On GPUs of NVIDIA and AMD, shared memory is fast and separate
# from the cache. On other GPUs it is ordinary memory. The next lesson shows how the compiler decides.
#
# ## Banks
#
# If shared memory is separate, it is divided into **banks**. GPUs of NVIDIA have 32 banks. Element number e (of 4
# bytes) is in bank e % 32, and each bank can load or store one element in a step. If 32 threads access 32 different
# banks, they need only one step. If k of their elements are in the same bank, they need k steps. Such a delay is called
# a *bank conflict*.
#
# Are there bank conflicts when the first 32 threads store the tile of A? To find out, we take the index of the store
# from the kernel and insert the numbers of each thread. We try rows of 32 elements, and rows that are 1, 2, 3 or 4
# elements longer:


# %%
def stored(scheduled: PrimFunc, tile: str) -> list[int]:
    """The elements of a tile in shared memory that the first 32 threads of a block store at the same time."""
    kernel = minitvm.lower(scheduled, target="cuda", stop_at="kernel")["main"]["main_kernel_0"]
    store = next(n for n in walk(kernel.body) if isinstance(n, BufferStore) and n.buffer.name == tile)
    (index,) = store.indices
    names = {n.name: n for n in walk(index) if isinstance(n, Var)}
    elements = []
    for thread in range(32):
        numbers = {"i_1": thread // 8, "j_1": thread % 8}  # threadIdx.y and threadIdx.x
        values = {var: tir.const(numbers.get(name, 0), "int32") for name, var in names.items()}
        elements.append(int(Analyzer().simplify(substitute(index, values)).value))
    return elements


def steps(elements: list[int]) -> int:
    """Steps that 32 banks need for all of these different elements: those of the busiest bank."""
    return max(Counter(element % 32 for element in elements).values())


predict(
    "Rows of 32 elements, and 8 neighbouring threads store into 8 rows. How many steps do 32 threads take?",
    steps(stored(in_shared_tiles(product(*SIZES), 0), "A_shared")),
)
print("row    elements of the first 12 threads                    banks used   steps")
for apart in (0, 1, 2, 3, 4):
    elements = stored(in_shared_tiles(product(*SIZES), apart), "A_shared")
    first = " ".join(f"{element:>3}" for element in elements[:12])
    print(f"{32 + apart:>4}   {first:<51} {len({e % 32 for e in elements}):>10}   {steps(elements):>5}")

# %%
counts_of = {
    apart: Counter(e % 32 for e in stored(in_shared_tiles(product(*SIZES), apart), "A_shared")) for apart in (0, 1, 4)
}
picture = drawings.cells(
    [[str(used[bank] or "") for bank in range(32)] for used in counts_of.values()],
    [
        [drawings.shade(used[bank] / 8) if used[bank] else drawings.PALE for bank in range(32)]
        for used in counts_of.values()
    ],
    "how many of 32 threads store into each of the 32 banks; the busiest bank decides",
    [f"row of {32 + apart}" for apart in counts_of],
    24,
)
print("the picture:", picture.save("banks"))

# %% [markdown]
# Read the first line. The first eight threads store the elements 0, 32, 64 and so on up to 224. All of these are in
# bank 0, because a row has 32 elements and the eight threads store into eight different *rows* of the transposed tile.
# The 32 threads together use only 4 banks, so they need 8 steps, and 28 banks are idle.
#
# Now read the last column from top to bottom. The usual advice is to make each row one element longer. Here one more
# element reduces the steps to 4, but not to 1. With rows of 36 elements each thread uses its own bank, and one step is
# enough. The call `storage_align(tile, 0, 0, 32, 4)` in the schedule makes the rows 4 elements longer. This call
# changes only the place of each element in memory. And 36 is a multiple of 4, so vectors of 4 elements stay aligned.
#
# The tile of B is not transposed, so neighbouring threads store neighbouring elements, which are in different banks.
# One step is enough:

# %%
print(steps(stored(in_shared_tiles(product(*SIZES)), "B_shared")))

# %% [markdown]
# ## The ledger
#
# The ledger counts the work of all threads together. It counts loads and stores of shared memory, but not of registers.

# %%
serial = ledger.LessonLedger()
reference.tir.run(example.blocks(*SIZES), *example.inputs(*SIZES), listeners=[serial])
columns = {name: heard.lesson_rows() for name, heard in {"serial": serial, **ledgers}.items()}
for rows in columns.values():
    rows.pop("time interpreted")  # the interpreter runs threads one after the other
ledger.show(columns)

# %% [markdown]
# The arithmetic is the same in all columns. Shared tiles need *more* loads than registers alone, 10,240 instead of
# 9,216, and more stores. So shared tiles pay off only if shared memory is fast, because then most of these accesses are
# cheap. (The serial program has the most loads because it keeps its sums in memory. The bytes moved by the cache are
# counted for a single core that runs the threads one after another, which no GPU does.)
#
# ## Your turn
#
# Write a function that finds the best row length for a tile in shared memory, that is, the length with which all
# accesses to the tile take the fewest steps in total. In the exercise, threads may also read vectors, and several
# threads may read the same element.
#
#     minitvm lesson 28 --start     (writes exercise_28.py, for you to fill in)
#     minitvm lesson 28 --check
