# %% [markdown]
# # From ONNX to a number
#
# Today we follow one model all the way down: from a file that a training framework wrote, to machine code, to a number.
# On the way it is translated from one small language to the next. We print it and run it in each of them: every level
# has its own interpreter.

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
# ONNX is a file format for models that most frameworks can write. A model is a list of operators on whole tensors. Ours
# has three, and they are our example once more: B and bias are constants (the *weights*, learned in training), A comes
# in, Y goes out.


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
# `minitvm.lower(model, stop_at=...)` goes down to a level and stops there.
#
# ## 1. The graph: operators on tensors
#
# The importer has translated the names of ONNX to those of minitvm and computed every shape.

# %%
graph = minitvm.lower(model, stop_at="graph")
print(graph)
compare("graph", reference.graph.run(graph, {"A": a})[0])

# %% [markdown]
# If you run the graph like this, each operator writes a whole tensor to memory, and the next one reads it again. So the
# compiler *fuses* operators: those that can be computed together become one. Its name shows another step: B is a
# constant, so the compiler has *packed* it, once and not in every run. Columns that fill a vector are next to each
# other, as panels [panel, k, column]. That is the order in which kernels read them.

# %%
fused = minitvm.lower(model, stop_at="fused")
predict("The graph has three operators. How many functions remain after fusion?", len(fused.nodes))
print(str(fused).partition("\n\n")[0])
compare("fused graph", reference.graph.run(fused, {"A": a})[0])

# %% [markdown]
# ## 2. Tensor expressions: a formula for each element
#
# A tensor expression is a formula for each element of a tensor. It has no loops, no order and no memory. `sum` is over
# k.

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
# ## 3. Loops
#
# Each tensor becomes a loop nest around a block; `tir` is the language of the previous lessons.

# %%
loops = minitvm.lower(model, stop_at="tir")[OPERATOR]
print(text_of(loops))
reference.tir.run(loops, a, packed, bias, y)
compare("tir", y)

# %% [markdown]
# Then it is scheduled, as you did by hand in lesson 03. Here a *strategy* chooses the steps. It knows the machine: the
# width of its vectors and the number of its registers. It records its steps, so you can read (and replay) them:

# %%
scheduled = minitvm.lower(model, stop_at="schedule")[OPERATOR]
for step in scheduled.attrs["schedule_trace"][:8]:
    print(step)
print("...")
y.fill(np.nan)
reference.tir.run(scheduled, a, packed, bias, y)
compare("schedule", y)

# %% [markdown]
# ## 4. Kernels
#
# Next the blocks go away, buffers become flat, and loops that were marked as unrolled or vectorised become statements
# on vectors. `T.Ramp(first, step, count)` is a vector of `count` indices. The result is close to the instructions that
# a processor has; the width of the vectors depends on yours.

# %%
module = minitvm.lower(model, stop_at="kernel")[OPERATOR]
print(*body_of(module).splitlines()[:16], "    ...", sep="\n")
y.fill(np.nan)
reference.kernel.run(module, a, packed, bias, y)
compare("kernel", y)

# %% [markdown]
# ## 5. Source, executable, number
#
# minitvm writes a kernel as Python for Numba, which compiles it to machine code.

# %%
source = minitvm.lower(model, stop_at="source")[OPERATOR]
lines = source.splitlines()
print(
    "\n".join(lines[next(at for at, line in enumerate(lines) if line.startswith("def ")) :][:18]), "    ...", sep="\n"
)

# %% [markdown]
# The *executable* contains the kernels and everything around them: the constants, the amount of memory, and a list of
# steps that call the kernels. It is plain data, so it has an interpreter as well, and you can save it and run it on
# another machine.

# %%
executable = minitvm.lower(model, stop_at="executable")
print(executable_text(executable))
compare("executable", reference.executable.run(executable, {"A": a})[0])

# %% [markdown]
# `minitvm.build` does all of this at once and returns a function that you can call.

# %%
run = minitvm.build(model, threads=1)
compare("machine code", run(a))
print("Y[0, 0] =", run(a)[0, 0])

# %% [markdown]
# ## A new operator
#
# Suppose that you invent a new layer. The compiler needs two functions. One defines the *meaning* of the operator in
# NumPy; the reference interpreter uses it. The other defines the same as a tensor expression, from which minitvm
# derives the loops, the schedule and the kernel. Neither may be derived from the other: if they differ, one of them has
# a mistake, and the comparison finds it.


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
# No pass knows this operator, yet it was fused: `Pattern.ELEMENTWISE` says that an element of the output needs one
# element of the input, and fusion needs no other information.
#
# ## The ledger
#
# The same model, 32 x 32 x 32, counted by the interpreters at three levels. The last row is compiled code for
# 256 x 256 x 256; compare with lesson 03.

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
# The number of multiplies is the same at each level, because the model determines it. The loads and stores went down.
# In the kernel a tile of sums stays in registers, and an element of B that was loaded is used for several rows. This is
# the tile that was missing at the end of lesson 03. (The interpreter does not become faster by this; the compiled code
# does.)
#
# ## Your turn
#
# Write the meaning and the tensor expression of an operator. The check compares the two.
#
#     minitvm lesson 04 --start     (writes exercise_04.py, for you to fill in)
#     minitvm lesson 04 --check
