# %% [markdown]
# # Fusion: several operators in one kernel
#
# A network is a list of operators. Between two operators there is a tensor: the first operator writes it, and the
# second operator reads it. Today we count the cost of these tensors, and avoid as many of them as we can: we join
# operators, which is called *fusion*. Not every pair of operators can be joined. In the exercise you write the rule
# that decides.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import numpy as np

import minitvm
from lessons import example, ledger
from lessons.fusing import network
from lessons.picture import save
from lessons.predict import predict
from minitvm import reference, te, tir
from minitvm.film import Film
from minitvm.graph.builder import GraphBuilder
from minitvm.graph.nodes import Graph
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
# connection: the input is added to the result. (`network` is in lessons/fusing.py. The argument `accuracy="strict"`
# switches off Winograd's algorithm of lesson 18.)

# %%
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
# Such an `add` has two inputs, but it can join only one convolution. The result of the other one has to be in memory.
#
# The values between these functions need memory. The next lesson finds a place for each of them.
#
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
# Write the rule that decides which operators of a network become one kernel.
#
#     minitvm lesson 19 --start     (writes exercise_19.py, for you to fill in)
#     minitvm lesson 19 --check
