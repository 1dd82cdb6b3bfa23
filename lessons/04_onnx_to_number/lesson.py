# %% [markdown]
# # From ONNX to a number
#
# Today we follow one model all the way down, from a file that a training framework could have written, through machine
# code, to a number. On the way minitvm translates the model from one small language to the next. We call each of these
# languages a *level*. Every level has its own interpreter, so we can print the model and run it at each level.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import minitvm
from lessons import drawings, example, ledger
from lessons.predict import predict
from lessons.text import body_of
from minitvm import reference, te
from minitvm.executable.printer import script as executable_text
from minitvm.graph import Pattern, register
from minitvm.graph.builder import GraphBuilder
from minitvm.reference.operators.table import operator

# %% [markdown]
# ## A model
#
# ONNX is a file format for models, and most frameworks can write it. An ONNX model is a list of operators on whole
# *tensors*, which are arrays of any number of dimensions. Our model has three operators, and together they compute our
# usual example. A is the input and Y is the output. B and bias are constants: they are the *weights*, which were
# learned in training.


# %%
def model_of(m: int, n: int, k: int) -> tuple[object, tuple[np.ndarray, ...]]:
    """Y = relu(A @ B + bias) as an ONNX model, and the arrays A, B, bias and Y."""
    a, b, bias, y = example.inputs(m, n, k)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["A", "B"], ["AB"]),
            helper.make_node("Add", ["AB", "bias"], ["sum"]),
            helper.make_node("Relu", ["sum"], ["Y"]),
        ],
        "example",
        [helper.make_tensor_value_info("A", TensorProto.FLOAT, [m, k])],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, [m, n])],
        [numpy_helper.from_array(b, "B"), numpy_helper.from_array(bias, "bias")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), (a, b, bias, y)


model, (a, b, bias, y) = model_of(2, 16, 3)
expected = example.expected(a, b, bias)
print("A =", a.tolist())
print("Y should be\n", expected, sep="")


def compare(level: str, result: np.ndarray) -> None:
    """Print whether a level computed the same as NumPy."""
    print(f"{level}: {'the same as NumPy, bit for bit' if (result == expected).all() else 'NOT the same as NumPy'}")


def text_of(program: object) -> str:
    """A program without its attributes and regions, which are long and not today's subject."""
    hidden = ("T.func_attr(", "T.block_attr(", "T.reads(", "T.writes(", "# from", "@T.prim_func")
    lines = (line for line in program.script().splitlines() if line)  # type: ignore[attr-defined]
    return "\n".join(line for line in lines if not line.lstrip().startswith(hidden))


# %% [markdown]
# `minitvm.lower(model, stop_at=...)` translates the model down to the level that you name, and stops there. We compare
# the result of each level with the Y that NumPy has just computed.
#
# ## 1. The graph: operators on tensors
#
# The first level is the graph. The importer has replaced the ONNX names of the operators by minitvm's own names, and
# has computed the shape of every tensor.

# %%
graph = minitvm.lower(model, stop_at="graph")
print(graph)
compare("graph", reference.graph.run(graph, {"A": a})[0])

# %% [markdown]
# If the graph ran exactly like this, each operator would write a whole tensor to memory, and the next operator would
# read it again. To avoid these writes and reads, the compiler *fuses* operators: it joins operators that can be
# computed together into one function.

# %%
fused = minitvm.lower(model, stop_at="fused")
predict("The graph has three operators. How many functions remain after fusion?", len(fused.nodes))
print(str(fused).partition("\n\n")[0])
compare("fused graph", reference.graph.run(fused, {"A": a})[0])

# %% [markdown]
# The three operators have become one function, `dense_packed_add_relu`, which is named after them. (`dense` is another
# name for a matrix product.) The name also shows that the compiler has *packed* B, which means that it has stored the
# elements of B in another order. The compiler can pack B once, before the first run, because B is a constant. The
# packed B has the shape [panel, k, column], where a panel is a group of neighbouring columns that fill one vector.
# Kernels read B in exactly this order, so they read the memory of B from start to end.
#
# ## 2. Tensor expressions: a formula for each element
#
# A tensor expression is a formula for each element of a tensor. It has no loops, no order and no memory. For example,
# `sum(..., axis=[k])` below adds up the products for all k, but does not determine the order of the additions.

# %%
OPERATOR = "dense_packed_add_relu"
tensors = minitvm.lower(model, stop_at="te")[OPERATOR]


def definitions(tensor: te.Tensor) -> list[str]:
    """A tensor's element, after those of the tensors that it is made from."""
    if not isinstance(tensor.op, te.ComputeOp):
        return [f"{tensor.name}: an input of shape ({', '.join(map(str, tensor.shape))})"]
    above = [line for source in tensor.op.input_tensors for line in definitions(source)]
    axes = ", ".join(axis.var.name for axis in tensor.op.axis)
    return [*above, f"{tensor.name}[{axes}] = {tensor.op.body[0]}"]


print("\n".join(definitions(tensors[-1])))
p0, p1, p2, result = tensors
width = int(p1.shape[-1])  # of the vectors of your machine


def in_panels(matrix: np.ndarray) -> np.ndarray:
    """A matrix [k, n] as panels of `width` columns."""
    depth, columns = matrix.shape
    return np.ascontiguousarray(matrix.reshape(depth, columns // width, width).transpose(1, 0, 2))


packed = in_panels(b)
compare("te", reference.te.evaluate(result, {p0: a, p1: packed, p2: bias})[0])

# %%
order = {value: place for place, value in enumerate(in_panels(np.arange(b.size).reshape(b.shape)).ravel())}
picture = drawings.cells(
    [[str(order[row * b.shape[1] + column]) for column in range(b.shape[1])] for row in range(b.shape[0])],
    [[drawings.SERIES[column // width % 8] for column in range(b.shape[1])] for _ in range(b.shape[0])],
    "B, and the place of each element when it is packed; a colour is a panel",
    [f"k = {row}" for row in range(b.shape[0])],
)
print("the picture:", picture.save("packed"))

# %% [markdown]
# The four lines that define tensors are the whole computation. In the line for `dense`, the index
# `p1[i1 // 16, k, i1 % 16]` finds column i1 of B in the packed array: the panel is `i1 // 16`, and the column inside
# the panel is `i1 % 16`. (If the vectors of your machine are shorter, you see a smaller number instead of 16.)
#
# ## 3. Loops
#
# At the next level, each tensor becomes a nest of loops around a block. This level is called `tir`, and its language is
# the one that you know from the previous lessons.

# %%
loops = minitvm.lower(model, stop_at="tir")[OPERATOR]
print(text_of(loops))
reference.tir.run(loops, a, packed, bias, y)
compare("tir", y)

# %% [markdown]
# Each tensor has its own loops, and two of the tensors, `dense` and `T_add`, are buffers that are written completely
# before they are read.
#
# Then the program is *scheduled*: steps such as `split` and `reorder` change its loops. In lesson 03 you chose these
# steps by hand. Here a part of minitvm called a *strategy* chooses the steps. The strategy knows how wide the vectors
# of your machine are and how many registers the machine has. Each step is recorded, so you can read the steps and run
# them again:

# %%
scheduled = minitvm.lower(model, stop_at="schedule")[OPERATOR]
for step in scheduled.attrs["schedule_trace"][:8]:
    print(step)
print("...")
y.fill(np.nan)
reference.tir.run(scheduled, a, packed, bias, y)
compare("schedule", y)

# %% [markdown]
# The output shows the first eight steps. For example, `compute_inline` puts the formula of `T_add` into the place where
# its value is used, so the buffer `T_add` disappears.
#
# ## 4. Kernels
#
# At the next level there are no blocks any more. Buffers have only one dimension, and loops that the schedule marked as
# unrolled or vectorised have become statements on vectors. `T.Ramp(first, step, count)` is a vector of `count` indices,
# so `p1[T.Ramp(0, 1, 16)]` loads 16 neighbours at once. These statements are close to the instructions of a processor.
# The width of the vectors depends on your processor.

# %%
module = minitvm.lower(model, stop_at="kernel")[OPERATOR]
print(*body_of(module).splitlines()[:16], "    ...", sep="\n")
y.fill(np.nan)
reference.kernel.run(module, a, packed, bias, y)
compare("kernel", y)

# %% [markdown]
# This program is shorter than the program at the level `tir`. For each value of `ax2`, which is k, it loads one vector
# of B. For each of the two rows, it multiplies this vector by an element of A and adds the product to a vector of sums.
# The sums are in `dense_local`, whose scope "local" means registers.
#
# ## 5. Source, executable, number
#
# minitvm writes each kernel as a Python function. The library Numba then compiles this function to machine code.

# %%
source = minitvm.lower(model, stop_at="source")[OPERATOR]
lines = source.splitlines()
print(
    "\n".join(lines[next(at for at, line in enumerate(lines) if line.startswith("def ")) :][:18]), "    ...", sep="\n"
)

# %% [markdown]
# Compare this source with the kernel above. The statements on vectors have become calls, and each call stands for an
# instruction of the processor: `load`, `store`, `maximum`, and `fma`, which multiplies and adds in one step.
#
# The *executable* contains the kernels and everything else that a run needs: the constants, the amount of memory, and a
# list of steps that call the kernels. It is plain data, so it has an interpreter as well, and you can save it and run
# it on another machine.

# %%
executable = minitvm.lower(model, stop_at="executable")
print(executable_text(executable))
compare("executable", reference.executable.run(executable, {"A": a})[0])

# %% [markdown]
# The executable has two constants (bias and the packed B), one kernel, and one step, in the last line, that calls the
# kernel.
#
# `minitvm.build` goes through all of these levels at once and returns a function that you can call.

# %%
run = minitvm.build(model, threads=1)
compare("machine code", run(a))
print("Y[0, 0] =", run(a)[0, 0])

# %% [markdown]
# Every level gave the same bits as NumPy, and `Y[0, 0]` is 13.0, as the first output promised.
#
# ## A new operator
#
# Suppose that you invent a new kind of layer. The compiler needs two functions from you. The first defines the
# *meaning* of the operator in NumPy, and the reference interpreter uses it. The second defines the same operator as a
# tensor expression, from which minitvm derives the loops, the schedule and the kernel. You must write the two functions
# independently. Then a mistake in one of them makes the results differ, and a comparison of the results finds it.


# %%
@operator("lesson.shifted_relu")
def shifted_relu_meaning(x: np.ndarray, by: float) -> np.ndarray:
    """Zero where x is less than `by`, x - by elsewhere."""
    return np.maximum(x - np.float32(by), np.float32(0))


@register("lesson.shifted_relu", pattern=Pattern.ELEMENTWISE)
def shifted_relu(x: te.Tensor, *, by: float) -> te.Tensor:
    """Zero where x is less than `by`, x - by elsewhere."""
    return te.compute(x.shape, lambda *i: te.maximum(x[i] - by, 0.0), name="shifted_relu")


builder = GraphBuilder("example")
A = builder.input("A", a.shape)
biased = builder.op("add", builder.op("nn.matmul", A, b), bias)
grown = builder.build(builder.op("lesson.shifted_relu", biased, by=2.0))

print(str(minitvm.lower(grown, stop_at="fused")).partition("\n\n")[0])
by_meaning = reference.graph.run(grown, {"A": a})[0]
compiled = minitvm.build(grown, threads=1)(a)
print("meaning and machine code agree:", bool((by_meaning == compiled).all()))

# %% [markdown]
# The name of the function, `dense_packed_add_shifted_relu`, shows that the new operator was fused with the others,
# although no part of the compiler knows this operator. The declaration `Pattern.ELEMENTWISE` was enough. It declares
# that each element of the output needs only one element of the input, and fusion needs no other information.
#
# ## The ledger
#
# This ledger shows the counts of the same model, with matrices of 32 x 32, at three levels. The last row shows how long
# the compiled code takes for 256 x 256 matrices. Compare this time with the last row of the ledger in lesson 03.

# %%
larger, (more_a, more_b, *others) = model_of(32, 32, 32)
arrays = (more_a, in_panels(more_b), *others)
columns = {
    level: ledger.measure(minitvm.lower(larger, stop_at=level)[OPERATOR], *arrays).lesson_rows()
    for level in ("tir", "schedule", "kernel")
}
largest, (big_a, *_) = model_of(256, 256, 256)
fast = minitvm.build(largest, threads=1)
columns["kernel"]["time compiled, 256"] = ledger.duration(ledger.best_of(5, lambda: fast(big_a)))
ledger.show(columns)

# %% [markdown]
# The number of multiplies is 32,768 at each level, because the model determines it. But the loads fall from 101,376 to
# about 4,000 (the exact number depends on your machine), and the stores fall from 35,840 to 1,024. In the kernel a tile
# of sums stays in registers, and each vector of B is loaded once and then used for several rows. Such a tile in
# registers was missing at the end of lesson 03. Fewer loads make the compiled code faster, but not the interpreter.
#
# ## Your turn
#
# Write the meaning and the tensor expression of an operator. The check compares the results of the two functions.
#
#     minitvm lesson 04 --start     (writes exercise_04.py, for you to fill in)
#     minitvm lesson 04 --check
