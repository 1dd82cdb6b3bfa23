# %% [markdown]
# # Fusion and memory planning
#
# A network is a list of operators. Between two operators there is a tensor: the first operator writes it, the second
# operator reads it, and after that the tensor is no longer needed. Today we count the cost of these tensors. First we
# avoid as many of these tensors as we can: we join operators, which is called *fusion*. Then we find a place in memory
# for each of the other tensors, so that no two tensors overlap while both are needed. The list of these places is
# called the *memory plan*.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import numpy as np

import minitvm
from lessons import arenas, example, ledger
from lessons.arenas import Live, arena, lower_bound, overlap, random_values
from lessons.picture import save
from lessons.predict import predict
from minitvm import reference, te, tir
from minitvm.errors import ExecutionError
from minitvm.executable.nodes import Barrier, CallKernel, Executable
from minitvm.film import Film
from minitvm.graph.builder import GraphBuilder
from minitvm.graph.nodes import Graph
from minitvm.link.plan_memory import Lifetime, plan_memory
from minitvm.tir.work import count

# %% [markdown]
# ## Three operators, or one
#
# As a graph, our example consists of three operators: a product, an addition and a maximum. `build` joins them into one
# function. For comparison, we also build a separate graph for each operator, which gives three functions.


# %%
def graph_of(*ops: str, m: int, n: int, k: int) -> Graph:
    """A part of the example as a graph."""
    b = GraphBuilder("example")
    value = b.input("A", (m, k)) if ops[0] == "nn.matmul" else b.input("value", (m, n))
    for op in ops:
        if op == "nn.matmul":
            value = b.op(op, value, b.input("B", (k, n)))
        else:
            value = b.op(op, value, b.input("bias", (n,))) if op == "add" else b.op(op, value)
    return b.build(value)


OPS = ("nn.matmul", "add", "nn.relu")
fused = minitvm.lower(graph_of(*OPS, m=64, n=64, k=64), stop_at="fused")
print(fused)

# %% [markdown]
# How many bytes does a kernel have to move at least? The function `count` looks at the loops and computes how many
# different bytes a kernel reads from memory and writes to it. (It does not count registers and other local buffers.)


# %%
def moved(graph: Graph) -> int:
    """The bytes that the kernels of a graph read and write."""
    total = 0
    for module in minitvm.lower(graph, stop_at="kernel").values():
        for _, func in module.items():
            if not func.attrs.get("host"):
                work = count(func)
                total += sum(size for buffer, size in (*work.reads.items(), *work.writes.items())
                             if buffer.scope == "global")  # fmt: skip
    return total


M, N, K = 512, 512, 8
alone = {op: moved(graph_of(op, m=M, n=N, k=K)) for op in OPS}
together = moved(graph_of(*OPS, m=M, n=N, k=K))
predict(
    "Two tensors of M x N floats disappear when the operators are fused. "
    "How many times M x N floats of memory traffic does fusion save?",
    (sum(alone.values()) - together) // (4 * M * N),
)
print({op: f"{size:,}" for op, size in alone.items()}, f"together {sum(alone.values()):,}; fused {together:,}")
assert sum(alone.values()) - together == 4 * (4 * M * N)

# %% [markdown]
# The three separate kernels move 5,277,696 bytes, and the fused kernel moves only 1,083,392. The difference is exactly
# 4 * M * N floats: the two tensors between the operators have M * N floats each, and without fusion each of them is
# written once and read once. Fusion did not save a single multiplication, but it saved this traffic. Does it also save
# time? We measure a product with K = 8, so there is little to compute for each element of the result:

# %%
rng = np.random.default_rng(17)
M, N, K = 1024, 1024, 8
a, b, bias = (rng.integers(-3, 4, shape).astype("float32") for shape in ((M, K), (K, N), (N,)))
one = minitvm.build(graph_of(*OPS, m=M, n=N, k=K), threads=1)
matmul, add, relu = (minitvm.build(graph_of(op, m=M, n=N, k=K), threads=1) for op in OPS)
y, c, d, z = (np.zeros((M, N), "float32") for _ in range(4))


def three() -> None:
    """One operator after the other."""
    matmul(a, b, out=c)
    add(c, bias, out=d)
    relu(d, out=z)


def fused_call() -> None:
    """The three operators as one function."""
    one(a, b, bias, out=y)


three()
fused_call()
assert (y == z).all() and (y == example.expected(a, b, bias)).all()
print("three:", ledger.duration(ledger.best_of(10, three)), " fused:", ledger.duration(ledger.best_of(10, fused_call)))

# %% [markdown]
# The fused function is much faster, because memory was the bottleneck.
#
# Here are both versions as films, for a product of 4 x 2 and 2 x 8, with a cache of 6 lines of 16 bytes. Look at the
# two tensors between the operators. In the first film each of these tensors is written, evicted from the cache, and
# fetched again (red). In the second film, one number at a time goes from the product to the result without ever being
# stored in memory.

# %%
apart = minitvm.lower(graph_of(*OPS, m=4, n=8, k=2), stop_at="tir")["matmul_add_relu"]
sch = tir.Schedule(apart)
product, addition, maximum = sch.get_child_blocks(sch.get_block("root"))
sch.compute_inline(addition)
sch.reverse_compute_at(maximum, sch.get_loops(product)[1])
sch.set_scope(product, 0, "local")
for title, func in (("One operator after the other", apart), ("Fused", sch.func)):
    print("the film:", save(title.replace(" ", "_").lower(), Film.of(func, cache_lines=6, title=title).svg()))

# %% [markdown]
# ## What can be fused?
#
# The fused kernel computes a tile of C in registers, adds the bias, takes the maximum, and then stores the result (see
# lesson 08). This fusion works because the addition needs only *one* element of C for each element of its result. So
# the important question is how an operator uses its input. minitvm puts operators that use their inputs in the same way
# into one class:
#
# - *element-wise* and *broadcast* (for example relu and add): the operator that computes their input can move into
#   their loops;
# - *injective* (for example transpose): again, the operator that computes their input can move into their loops, but
#   the indices change;
# - *complex* (for example matmul and convolution): other operators can work on their results, but no operator can move
#   into their loops. Their loops use each element of an input many times, so an operator inside the loops would compute
#   the same element many times;
# - *reductions* (for example sum): the operator that computes their input can move into their loops if it is injective;
# - *opaque* (for example sort): these operators are never fused.
#
# A value that several operators read has to stay in memory. Here is a small network with two branches and a skip
# connection. (The argument `accuracy="strict"` switches off Winograd's algorithm of lesson 16.)


# %%
def network(side: int = 8, channels: int = 16) -> Graph:
    """Convolutions with bias and relu: a stem, two branches that are added, and a skip connection."""
    b = GraphBuilder("net")
    rng = np.random.default_rng(7)

    def layer(value: object, width: int, size: int, name: str) -> object:
        inside = int(value.shape[1])  # type: ignore[attr-defined]
        weight = rng.integers(-1, 2, (width, inside, size, size)).astype("float32")
        made = b.op("nn.conv2d", value, weight, padding=size // 2, name=name)
        return b.op("nn.relu", b.op("add", made, rng.integers(-2, 3, (width, 1, 1)).astype("float32")))

    x = b.input("x", (1, channels, side, side))
    stem = layer(x, 4 * channels, 1, "stem")
    left = layer(stem, channels, 1, "left")
    right = layer(layer(layer(stem, channels, 3, "right_1"), 2 * channels, 1, "right_2"), channels, 1, "right_3")
    out = layer(b.op("add", left, right), channels, 3, "out")
    return b.build(b.op("add", out, x))


net = network()
fused = minitvm.lower(net, stop_at="fused", accuracy="strict")
print(f"{len(net.nodes)} operators have become {len(fused.nodes)}:")
for node in fused.nodes:
    inner = node.attrs["graph"]
    print("  ", " + ".join(item.op for item in inner.nodes), " ->  ", node.output.name)
assert len(fused.nodes) < len(net.nodes) / 2

# %% [markdown]
# Each line is now one function. For example, the third line is a convolution whose addition and relu are done on its
# tiles in registers. The last two lines end with an additional `add`, which joins the branches or the skip connection.
#
# ## Lifetimes
#
# The values between these functions need memory. A value *lives* from the step that writes it to the last step that
# reads it; after that its bytes are free. All values are in one block of memory, which is called the *arena*. The
# executable is a list of steps, and it contains the lifetime of each value and its position in the arena, the *offset*.
# (A barrier is a step, too, so the numbers of the kernels have a gap at each barrier. Two kernels without a gap do not
# depend on each other and may run at the same time, so their values share no bytes.)

# %%
program: Executable = minitvm.lower(net, stop_at="executable", accuracy="strict")
(memory,) = program.arenas
residents = memory.residents
print(f"{'value':<12} {'bytes':>7} {'from':>5} {'to':>3} {'offset':>7}")
for value in residents:
    print(f"{value.name:<12} {value.nbytes:>7,} {value.first:>5} {value.last:>3} {value.offset:>7,}")
lives = [Live(int(value.nbytes), value.first, value.last) for value in residents]  # type: ignore[arg-type]
offsets = [int(value.offset) for value in residents]  # type: ignore[arg-type]
print(f"all together {sum(v.nbytes for v in lives):,} bytes; the most at a time {lower_bound(lives):,}; "
      f"the arena has {memory.size:,}")  # fmt: skip
assert overlap(lives, offsets) is None and memory.size >= lower_bound(lives)

# %% [markdown]
# Look at the last line. All values together have 72,960 bytes, but never more than 50,176 of these bytes are needed at
# the same time. The arena has exactly this size, so the plan cannot be better. For example, `relu` and `relu_2` both
# have the offset 25,600. They can have the same offset because `relu` lives until step 5 and `relu_2` only from step 7
# on. (On another kind of processor the table may look a little different.)
#
# In the next drawing, each row is a kernel, each letter is a value, and a character is about a kilobyte:

# %%
SCALE = max(1, int(memory.size) // 64)  # type: ignore[arg-type]
for number, step in enumerate(program.steps):
    if isinstance(step, CallKernel):
        row = ["."] * -(-int(memory.size) // SCALE)  # type: ignore[arg-type]
        for letter, value, offset in zip("abcdefghijklmnop", lives, offsets):
            if value.first <= number <= value.last:
                row[offset // SCALE : (offset + value.nbytes) // SCALE] = letter * (value.nbytes // SCALE)
        print(f"{number:>3} {''.join(row)}")

# %% [markdown]
# Read a column from top to bottom to see how the same bytes are used again. For example, the bytes of `b` are free
# after step 5, and from step 7 on some of them belong to `e`.
#
# ## A plan that is wrong
#
# What happens if a plan gives the same bytes to two values, and one value is written while the other is still needed? A
# real machine reports nothing; it just computes wrong numbers. But the interpreter of executables records, for each
# byte, which value was written there. We change the plan: we move a value so that its second half overlaps the
# beginning of another value that is still needed. Then we run the executable:

# %%
x = rng.integers(-2, 3, (1, 16, 8, 8)).astype("float32")
(right_answer,) = reference.executable.run(program, {"x": x})
assert (right_answer == reference.graph.run(net, {"x": x})[0]).all()

victim, intruder = next(  # two values; what writes the second one runs alone, with barriers before and after it
    (i, j) for i, v in enumerate(lives) for j, w in enumerate(lives)
    if v.first < w.first < v.last and w.nbytes <= v.nbytes and offsets[i] >= w.nbytes
    and all(isinstance(program.steps[k], Barrier) for k in (w.first - 1, w.first + 1))
)  # fmt: skip
late, early = residents[intruder], residents[victim]
print(f"{late.name} is written in step {late.first}, and {early.name} is needed until step {early.last}")
nbytes = lives[intruder].nbytes
try:
    reference.executable.run(arenas.moved(program, offsets[intruder], offsets[victim] - nbytes // 2, nbytes), {"x": x})
except ExecutionError as error:
    print(error)
else:
    raise AssertionError("the interpreter has not seen it")

# %% [markdown]
# The first line names the two values that overlap. The interpreter stops in the step that reads `block_axis`, because
# the other value has overwritten the beginning of `block_axis`. The interpreter reports that these bytes have not been
# written, because they were not written as a part of `block_axis`.
#
# If a value is completely inside another value, the interpreter cannot report a mistake, because such a plan can be
# intended. For example, the parts of a concatenation are inside its result. Then only wrong numbers show the mistake.
# To find wrong numbers, we compare the result with the right answer, which the interpreter of graphs computed without
# an arena.

# %%
misplaced = arenas.moved(program, offsets[intruder], offsets[victim], nbytes)
(wrong_answer,) = reference.executable.run(misplaced, {"x": x})
print(f"{int((wrong_answer != right_answer).sum())} of {right_answer.size} numbers are wrong")
assert (wrong_answer != right_answer).any()

# %% [markdown]
# Most of the numbers are wrong, and no message was printed.
#
# ## How good can a plan be?
#
# Finding the smallest possible arena is hard. (It is as hard as the well-known problem of packing bins.) But we know a
# lower bound: the arena must be at least as large as the most bytes that live in the same step. We compare three ways
# to plan the memory of 200 random networks:
#
# - *a place for each*: each value gets its own bytes, which are never used again;
# - *first gap*: the values are placed in the order of the program, each in the first gap that is large enough;
# - *largest first*: the values are placed in the order of their size, each in the smallest gap that is large enough.
#   minitvm plans in this way.


# %%
def first_gap(values: list[Live]) -> list[int]:
    """Places values in the order of the program, each in the first gap between values that live at the same time."""
    placed: list[int] = []
    for value in values:
        busy = sorted(
            (offset, offset + other.nbytes)
            for other, offset in zip(values, placed)
            if other.first <= value.last and value.first <= other.last
        )
        end = 0
        for start, stop in busy:
            if start - end >= value.nbytes:
                break
            end = max(end, stop)
        placed.append(end)
    return placed


def largest_first(values: list[Live]) -> list[int]:
    """The offsets that minitvm plans."""
    plan = plan_memory([Lifetime(str(k), v.nbytes, v.first, v.last) for k, v in enumerate(values)])
    return [int(offset) for offset in plan.offsets]  # type: ignore[arg-type]


networks = [random_values(seed) for seed in range(200)]
least = sum(lower_bound(values) for values in networks)
never = sum(v.nbytes for values in networks for v in values)
sizes = {"a place for each": never}
for name, planner in (("first gap", first_gap), ("largest first", largest_first)):
    plans = [planner(values) for values in networks]
    assert all(overlap(values, plan) is None for values, plan in zip(networks, plans))
    sizes[name] = sum(arena(values, plan) for values, plan in zip(networks, plans))
for name, size in sizes.items():
    print(f"{name:<18} {size / least:>6.3f} of the lower bound")
assert sizes["largest first"] < sizes["first gap"] < never

# %% [markdown]
# Without sharing, the arenas are 2.863 times as large as the lower bound. Placing the largest value first comes within
# 2 % of the bound. Large values need large gaps, so it helps to place them while most of the arena is still empty.
#
# The picture shows one of these networks. Steps go down, bytes go to the right, and each box is a value. Grey bytes are
# not used.


# %%
shown = max(networks, key=len)
plan = largest_first(shown)
print("the picture:", arenas.plan_picture(shown, plan).save("memory_plan"))

# %% [markdown]
# ## The ledger
#
# The first column of the ledger is our example in three stages. In the second column, the addition is inlined into the
# maximum. In the third column, C is computed one tile at a time, and the addition and the maximum are done while the
# tile is in registers. The last row is the largest number of bytes that were allocated at the same time.

# %%
SIZE = (16, 32, 16)


def in_stages() -> tir.Schedule:
    """C = A B; D = C + bias; Y = max(D, 0)."""
    m, n, k = SIZE
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    bias, r = te.placeholder((n,), name="bias"), te.reduce_axis((0, k), name="r")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    d = te.compute((m, n), lambda i, j: c[i, j] + bias[j], name="D")
    y = te.compute((m, n), lambda i, j: te.maximum(d[i, j], te.const(0, "float32")), name="Y")
    return tir.Schedule(te.create_prim_func([a, b, bias, y]))


def in_tiles(sch: tir.Schedule) -> None:
    """C and Y together, 4 x 16 elements at a time."""
    i, j = sch.get_loops("Y")
    i_0, row = sch.split(i, factors=[None, 4])
    j_0, column = sch.split(j, factors=[None, 16])
    sch.reorder(i_0, j_0, row, column)
    sch.compute_at("C", j_0)
    *_, c_row, c_column, r = sch.get_loops("C")
    sch.reorder(r, c_row, c_column)
    for rows, columns in ((c_row, c_column), (row, column)):
        sch.unroll(rows)
        sch.vectorize(columns)


columns = {}
stages = in_stages().func
for name in ("three stages", "D inlined", "C at tiles"):
    sch = in_stages()
    if name != "three stages":
        sch.compute_inline("D")
    if name == "C at tiles":
        in_tiles(sch)
    kernel = minitvm.lower(sch.func, stop_at="kernel")[sch.func.name]
    assert reference.check(stages, kernel, modes=("exact", "shadow"))
    counted = ledger.measure(kernel, *example.inputs(*SIZE))
    columns[name] = {**counted.lesson_rows(), "bytes live, registers too": f"{counted.peak_bytes:,}"}
ledger.show(columns)

# %% [markdown]
# The multiplies stay the same. From the first to the last column the stores fall from 1,536 (three tensors of 512
# elements) to 512 (only the result), and the live bytes fall from 4,096 to 256, which is one tile of C.
#
# ## Your turn
#
# Write a memory planner. It gives each value a position in the arena, so that two values never overlap while both live,
# and the arena is nearly as small as possible.
#
#     minitvm lesson 17 --start     (writes exercise_17.py, for you to fill in)
#     minitvm lesson 17 --check
