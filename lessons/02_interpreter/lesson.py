# %% [markdown]
# # An interpreter in thirty lines
#
# What does a program mean? You can answer with a page of prose, or with another program that *executes* the first one.
# That is an interpreter. It may be slow, but it must be so simple that you can check it by reading it.
#
# Everything else in minitvm is judged by its interpreters. Today we look inside one, and you write half of it.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import inspect

import numpy as np

from lessons import drawings, example, ledger, values
from lessons.predict import predict
from minitvm import reference
from minitvm.errors import ExecutionError
from minitvm.expr import Var, const, walk
from minitvm.tir.nodes import Buffer, BufferStore, For, ForKind, Seq, Stmt, root_block, with_root

# %% [markdown]
# ## A program is a tree of statements
#
# In the last lesson expressions were trees. Statements are trees as well. Three kinds are enough for a lot of programs:
# `BufferStore` writes an element, `Seq` runs one statement after another, and `For` runs a statement many times.
#
# This program adds to each element of A the one before it:

# %%
A, i = Buffer("A", (5,), "int32"), Var("i")
store = BufferStore(A, A[i] + A[i - 1], (i,))
loop = For(i, const(1), const(4), ForKind.SERIAL, store)
print(loop)

# %% [markdown]
# A `For` has a start and an extent, which is how many times it runs. This one starts at 1 and has the extent 4: i is
# 1, 2, 3, 4. (The printed text follows Python's `range` and gives the end, 5.)
#
# ## The first half: the value of an expression
#
# Here is the whole first half. It has one case for each kind of node, and evaluates the operands before it applies the
# operator.

# %%
print(inspect.getsource(values.value))

# %% [markdown]
# Its arguments are the expression, the values of the variables that are in scope, and the arrays. Let us call it by
# hand for the first two iterations of the loop above:

# %%
memory = {A: np.array([1, 1, 1, 1, 1], "int32")}
for at in (1, 2):
    result = values.value(store.value, {i: at}, memory)
    print(f"i = {at}:  {store.value}  is  {result}")
    memory[A][at] = result
print("A is now", memory[A])

# %% [markdown]
# In the second iteration `A[i - 1]` is the value that the first one wrote. If you run the iterations in another order,
# you get another result. So an interpreter of loops has to respect their order, and a compiler that changes it has to
# prove that the result stays the same.
#
# Now the reference interpreter runs the whole loop. (`inout` says that A has a value when the program starts.)

# %%
program = with_root((A,), loop, {"global_symbol": "running_sum"})
array = np.array([1, 1, 1, 1, 1], "int32")
reference.tir.run(program, array, inout=["A"])
predict("A starts as five ones. What is A[4] when the loop has ended?", int(array[4]))
print(array)

# %%
history, now = [[1, 1, 1, 1, 1]], [1, 1, 1, 1, 1]
for at in range(1, 5):
    now = [*now[:at], now[at] + now[at - 1], *now[at + 1 :]]
    history.append(now)
picture = drawings.cells(
    [[str(value) for value in row] for row in history],
    [[drawings.ORANGE if column == at and at else drawings.LIGHT if column < at else drawings.PALE
      for column in range(5)] for at in range(5)],
    "A after each iteration; orange was just written",
    ["at first", *(f"after i = {at}" for at in range(1, 5))],
)  # fmt: skip
print("the picture:", picture.save("running_sum"))

# %% [markdown]
# ## A judge must refuse
#
# Suppose that you start the loop at 0. Then it reads `A[-1]`. In Python that is the last element, in C it is whatever
# happens to be in memory before A. Neither reports an error. Our interpreter does:

# %%
wrong = with_root((A,), For(i, const(0), const(5), ForKind.SERIAL, store), {"global_symbol": "off_by_one"})
try:
    reference.tir.run(wrong, array, inout=["A"])
except ExecutionError as error:
    print(error)

# %% [markdown]
# And what if A was never written? The array that we pass has *some* numbers in it, but the program must not depend on
# them. The interpreter records for each element whether it was written:

# %%
try:
    reference.tir.run(program, array)
except ExecutionError as error:
    print(error)

# %% [markdown]
# Third, the interpreter must refuse nodes that it does not know. `value` above ends with `raise Unsupported`. Without
# this line, the interpreter would silently give wrong results for nodes that are added later.
#
# ## The second half is yours
#
# You write `run`, which executes the three kinds of statement. The check compares your interpreter with the reference
# on more than a hundred random programs such as this one,

# %%
j = Var("j")
inner = For(j, const(0), i, ForKind.SERIAL, BufferStore(A, A[1] - j, (j,)))
sample = For(i, const(2), const(2), ForKind.SERIAL, Seq((BufferStore(A, A[i] * A[0], (const(1),)), inner)))
print(sample)

# %% [markdown]
# and then on our example. It has grown since lesson 00. The running sum now lives in `total`, a buffer of scope
# "local": a register. The program of lesson 00 loaded and stored the sum in memory in every iteration.

# %%
m, n, k = 2, 3, 4
program = example.in_a_register(m, n, k)
program.show()
kinds = {type(item).__name__ for item in walk(root_block(program).body) if isinstance(item, Stmt)}
print("\nkinds of statement:", ", ".join(sorted(kinds)))

# %% [markdown]
# ## The ledger
#
# Loads and stores of a register are not counted, because they cost next to nothing. Compare the two columns: the first
# one is the program of lesson 00.

# %%
args = example.inputs(m, n, k)
ledger.show(
    {
        "sum in memory": ledger.measure(example.three_loops(m, n, k), *args),
        "sum in a register": ledger.measure(program, *args),
    }
)

# %% [markdown]
# Each element of Y is stored once, and nothing is stored again. The arithmetic is the same.
#
# The interpreter needs a long time for so little work. It also has a fast mode, which runs many iterations at once with
# NumPy if they do not depend on each other, and gives the same bits. Here is the program of lesson 00 for 32 x 32 x 32:

# %%
args = example.inputs(32, 32, 32)
larger = example.three_loops(32, 32, 32)
slow = ledger.best_of(1, lambda: reference.tir.run(larger, *args, mode="slow"))
fast = ledger.best_of(2, lambda: reference.tir.run(larger, *args, mode="fast"))
numpy = ledger.best_of(3, lambda: example.expected(*args[:3]))
for name, seconds in (("slow", slow), ("fast", fast), ("NumPy", numpy)):
    print(f"{name:<6} {ledger.duration(seconds):>8}")

# %% [markdown]
# The slow mode is the definition. The fast mode is tested against it, on random programs, as your `run` will be now.
#
#     minitvm lesson 02 --start     (writes exercise_02.py, for you to fill in)
#     minitvm lesson 02 --check
