# %% [markdown]
# # One schedule is not enough: a matrix product for three GPUs
#
# A kernel for one GPU runs on another one, if both speak its language. It need not be fast there. Today we schedule one
# matrix product twice: once with nothing shared, once with tiles that a block fetches together into shared memory. We
# count what each loads, from where, and in how many steps. At the end the compiler chooses for three GPUs, and one
# word in a GPU's description changes its choice.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

from collections import Counter

import minitvm
from lessons import drawings, example, ledger
from lessons.predict import predict
from minitvm import reference, strategy, te, tir
from minitvm.arith import Analyzer
from minitvm.expr import Var, substitute, walk
from minitvm.target import Target
from minitvm.tir import work
from minitvm.tir.nodes import BufferStore, PrimFunc

# %% [markdown]
# ## The product
#
# Our example once more, this time as tensor expressions:


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
# ## Nothing shared
#
# A thread computes 4 rows by one vector of 4 columns, and keeps these 16 sums in registers. For each step of the sum it
# loads 4 elements of A and a vector of B, and does 16 multiply-adds with them. It knows nothing of its neighbours.


# %%
def in_registers(func: PrimFunc) -> PrimFunc:
    """A thread for each tile of 4 x 4 results; 64 threads a block."""
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
# The thread's tile is the same. But 8 x 8 threads are a block, and compute 32 x 32 results. All threads of a row need
# the same elements of A, all threads of a column the same elements of B. So for 8 steps of the sum at a time the block
# fetches a tile of A and a tile of B into shared memory, and each thread brings a 64th of both.
#
# `cache_read(..., "shared")` makes the copy, `compute_at` puts it inside the loop over pieces, and binding its loops
# shares it out among the threads. The tile of A is *turned around*: its lines are steps of the sum, so that the 4 rows
# of a thread are side by side. `reindex_cache_read` is a `cache_read` that also says where each element goes.


# %%
def in_shared_tiles(func: PrimFunc, apart: int = 4) -> PrimFunc:
    """The same tiles of threads, 8 x 8 of them a block; lines of A's tile are `apart` elements longer than 32."""
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
# (What `storage_align` is for comes further down. Each program is a kernel in CUDA and in OpenCL, as in lesson 21.)
#
# ## What a thread loads
#
# `work.count` counts a kernel's loads without running it. Barriers we count while the interpreter runs, and the ledger
# for the end of the lesson with them.


# %%
class WithBarriers(ledger.LessonLedger):
    """The ledger, and how often a thread comes to a barrier."""

    barriers = 0

    def barrier(self, scope: str) -> None:
        """A thread comes to a barrier."""
        self.barriers += 1


THREADS = 64  # of a block; the product is one block's
ledgers: dict[str, WithBarriers] = {}


def moved(name: str) -> dict[str, int]:
    """What a thread moves for the sum, in elements of A and B, and its barriers."""
    module = minitvm.lower(WAYS[name](product(*SIZES)), target="cuda", stop_at="kernel")["main"]
    counted, heard = work.count(module["main_kernel_0"]), ledgers.setdefault(name, WithBarriers())
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
print(f"{'':<14}" + "".join(f"{name + ', a thread':>26}{'a block':>9}" for name in counts))
for what in counts["registers"]:
    row = (f"{count[what]:>26}{count[what] * (THREADS if what != 'barriers' else 1):>9}" for count in counts.values())
    print(f"{what:<14}" + "".join(row))

# %% [markdown]
# 128 loads from memory become 16: a block fetches each element once for its 8 readers. The rest of the table is the
# price: the 128 loads are now loads from shared memory, and there are 16 stores and 4 barriers on top.
#
# Whether that pays depends on what shared memory *is*. On NVIDIA's and AMD's GPUs it is storage inside the
# multiprocessor, and fast. On a Mali it is memory like any other, and everything goes through the same cache:

# %%
print(f"{'through the cache, a thread':<32}" + "".join(f"{name:>14}" for name in counts))
for machine, whats in (
    ("shared memory is separate", ["global loads"]),
    ("shared memory is memory", ["global loads", "shared loads", "shared stores"]),
):
    print(f"  {machine:<30}" + "".join(f"{sum(count[what] for what in whats):>14}" for count in counts.values()))

# %% [markdown]
# On such a GPU shared tiles add a quarter to the traffic, and the barriers buy nothing.
#
# ## Banks
#
# Where shared memory is separate, it has **banks**: 32 of them on NVIDIA's GPUs. Element `e` (of 4 bytes) is in bank
# `e % 32`, and each bank loads or stores one element in a step. 32 threads are served in one step if they use 32
# different banks. If k different elements are in one bank, it takes k steps: a *bank conflict*.
#
# We ask the kernel itself which elements the first 32 threads store when they fetch A's tile: the index of the store,
# with the numbers of the thread put in.


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
    """Steps until 32 banks have served all of these different elements: what the busiest bank needs."""
    return max(Counter(element % 32 for element in elements).values())


predict(
    "Lines of 32 elements, and 8 neighbouring threads store into 8 lines. How many steps do 32 threads take?",
    steps(stored(in_shared_tiles(product(*SIZES), 0), "A_shared")),
)
print("line   elements of the first 12 threads                    banks used   steps")
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
    [f"line of {32 + apart}" for apart in counts_of],
    24,
)
print("the picture:", picture.save("banks"))

# %% [markdown]
# Eight neighbouring threads fetch eight neighbours of a row of A. Since the tile is turned around, they store into
# eight *lines*. With lines of 32 elements these eight elements are in one bank. The 32 threads use 4 banks, 8 steps
# each, and 28 banks are idle. Well-known advice is to make each line one element longer: that halves the steps, to 4.
# With 4 elements more, `storage_align(tile, 0, 0, 32, 4)`, each thread uses a bank of its own. Neither an index in the
# program nor a result changes. And 36 is a multiple of 4, so that vectors of 4 in the tile stay aligned.
#
# Fetching B's tile has no conflict: neighbours are stored side by side.

# %%
print(steps(stored(in_shared_tiles(product(*SIZES)), "B_shared")))

# %% [markdown]
# ## What a target says
#
# A target describes a machine by a few figures. It does not say which schedule is good, only what the machine has:

# %%
large = product(1024, 1024, 1024)
GPUS = ("cuda -arch=sm_80", "opencl -device=amd", "opencl -device=mali")
print(f"{'':<33}" + "".join(f"{gpu:>21}" for gpu in GPUS))
for title, field in (
    ("shared storage helps", "local_memory_helps"),
    ("shared bytes of a block", "max_shared_memory_per_block"),
    ("threads of a block, at most", "max_threads_per_block"),
    ("registers of a thread, at most", "max_registers_per_thread"),
    ("multiply-adds started in a cycle", "lanes"),
):
    print(f"{title:<33}" + "".join(f"{getattr(Target(gpu), field)!s:>21}" for gpu in GPUS))
print(f"{'floats of one load':<33}" + "".join(f"{Target(gpu).vector_lanes('float32'):>21}" for gpu in GPUS))

# %% [markdown]
# ## What `build` chooses
#
# `minitvm.build` calls `strategy.scheduled`, which compares hundreds of candidates by a formula
# (`machines/gpu/strategy/costs.py`), and builds only the one that it chooses. `strategy.choice_of` returns the choice:

# %%
for gpu in GPUS:
    choice = strategy.choice_of(strategy.scheduled(large, Target(gpu)))
    k = choice.taken.knobs
    if "thread_rows" in k:  # the rule for products whose extents are known, all of which share tiles
        rows, columns, where = k["thread_rows"], k["thread_columns"], f"tiles shared, {k['depth']} steps at a time"
        threads = k["rows"] * k["columns"] // (rows * columns)
    else:
        rows, columns, threads, where = k["rows"], k["vectors"] * k["lanes"], k["threads"], "nothing shared"
    print(f"{gpu:<20} 1 of {choice.count}: {rows} x {columns} results a thread, {threads} threads a block, {where}")

# %% [markdown]
# One program, one rule, three schedules. On a Mali a thread has 64 registers; 8 x 8 sums alone would take all of them.
# So its tile is smaller, and it shares nothing, like our `in_registers`.
#
# Does the one word `local_memory_helps` decide? We change it, and compare the best candidates of both kinds, in cycles
# that the formula predicts (`*`: the fewest):

# %%
print(f"{'':<46} best in registers   best with shared tiles")
for gpu in GPUS[:1] + GPUS[2:]:
    truth = Target(gpu).local_memory_helps
    for helps in (truth, not truth):
        options = strategy.candidates(large, Target(f"{gpu} -local_memory_helps={str(helps).lower()}"))
        options = [(o.cost.cycles, "thread_rows" in o.knobs or o.knobs.get("shared")) for o in options]
        best = {s: min(cycles for cycles, shares in options if shares is s) for s in (False, True)}
        taken = {s: "*" if cycles == min(best.values()) else " " for s, cycles in best.items()}
        line = f"{gpu}, shared storage helps: {helps}"
        print(f"{line:<46} {best[False]:>16,.0f}{taken[False]}   {best[True]:>21,.0f}{taken[True]}")

# %% [markdown]
# It does, on both GPUs. The figures are a model's: none of them was measured on such a GPU, and where two are a few per
# cent apart, a measurement may say otherwise. But you did not have to write a second kernel.
#
# ## The ledger
#
# What both schedules do, all threads together. Registers are not counted; shared memory is.

# %%
serial = ledger.LessonLedger()
reference.tir.run(example.blocks(*SIZES), *example.inputs(*SIZES), listeners=[serial])
columns = {name: heard.lesson_rows() for name, heard in {"serial": serial, **ledgers}.items()}
for rows in columns.values():
    rows.pop("time interpreted")  # the interpreter runs threads one after the other
ledger.show(columns)

# %% [markdown]
# The arithmetic is the same. (The serial program has its sums in memory.) Shared tiles have *more* loads and stores
# than registers alone: they pay only where most of these are cheaper. The row about a cache is of one core that runs
# the threads one after the other; no GPU does.
#
# ## Your turn
#
# Find the length of a tile's lines: one with the fewest steps for all that threads do with the tile, where vectors too
# are read, and several threads may read one element.
#
#     minitvm lesson 25 --start     (writes exercise_25.py, for you to fill in)
#     minitvm lesson 25 --check
