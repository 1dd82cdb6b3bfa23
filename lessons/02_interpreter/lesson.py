# %% [markdown]
# # An interpreter in thirty lines
#
# What does a program mean? You can answer with a page of prose, or with another program that *executes* the first one.
# Such a program is called an interpreter. It may be slow, but it must be simple enough that you can check it by reading
# it.
#
# minitvm's interpreters are the judges of everything else in minitvm. Today we look inside an interpreter, and you
# write half of it.

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
# In the last lesson expressions were trees. Statements are trees as well. Three kinds of statement are enough for many
# programs: `BufferStore` writes an element, `Seq` runs one statement after another, and `For` runs a statement many
# times.
#
# This program adds to each element of A the element before it:

# %%
A, i = Buffer("A", (5,), "int32"), Var("i")
store = BufferStore(A, A[i] + A[i - 1], (i,))
loop = For(i, const(1), const(4), ForKind.SERIAL, store)
print(loop)

# %% [markdown]
# A `For` has a start and an *extent*, which is the number of iterations. This loop starts at 1 and has the extent 4, so
# i is 1, 2, 3 and 4. The printed text shows `range(1, 5)` because it follows Python, where the second number is the end
# of the range and not its length.
#
# ## The first half: the value of an expression
#
# Here is the whole first half of the interpreter. It has one case for each kind of node, and it evaluates the operands
# before it applies the operator.

# %%
print(inspect.getsource(values.value))

# %% [markdown]
# The arguments of `value` are the expression, the values of the variables that are in scope, and the arrays. Let us
# call `value` by hand for the first two iterations of the loop above:

# %%
memory = {A: np.array([1, 1, 1, 1, 1], "int32")}
for at in (1, 2):
    result = values.value(store.value, {i: at}, memory)
    print(f"i = {at}:  {store.value}  is  {result}")
    memory[A][at] = result
print("A is now", memory[A])

# %% [markdown]
# The first iteration gives 1 + 1 = 2, and the second gives 3, because its `A[i - 1]` is the 2 that the first iteration
# has just written. If you ran the second iteration first, it would give 2. So the order of the iterations matters here.
# An interpreter has to respect the order, and a compiler that changes it has to prove that the result stays the same.
#
# Now the reference interpreter runs the whole loop. The argument `inout=["A"]` declares that A already has values when
# the program starts.

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
# A started as five ones and is now 1, 2, 3, 4, 5. Each iteration adds its own 1 to the sum that the previous iteration
# left, so each element becomes the sum of all the ones up to it. That is why we call this program `running_sum`.
#
# ## A judge must refuse
#
# Suppose that you start the loop at 0 by mistake. Then its first iteration reads `A[-1]`. In Python that is the last
# element, and in C it is whatever happens to be in memory before A. Neither language reports an error, but our
# interpreter does:

# %%
wrong = with_root((A,), For(i, const(0), const(5), ForKind.SERIAL, store), {"global_symbol": "off_by_one"})
try:
    reference.tir.run(wrong, array, inout=["A"])
except ExecutionError as error:
    print(error)

# %% [markdown]
# The message names the element, the range of legal indices, and the iteration, so you know where to look.
#
# And what if A was never written? The array that we pass has *some* numbers in it, but a program must not depend on
# numbers that happen to be in memory. So the interpreter records for each element whether it was written. This time we
# leave out `inout`:

# %%
try:
    reference.tir.run(program, array)
except ExecutionError as error:
    print(error)

# %% [markdown]
# The interpreter stops at the first read, `A[i]` with i = 1, because nothing has written that element. The last line
# names the cure: pass `inout=['A']` if A is meant to have values at the start.
#
# Finally, an interpreter must refuse nodes that it does not know. That is why the function `value` above ends with
# `raise Unsupported`. Suppose that minitvm gets a new kind of node later. Without this line, `value` would silently
# return `None` for such a node.
#
# ## The second half is yours
#
# You write `run`, which executes the three kinds of statement. The check compares your interpreter with the reference
# on more than a hundred random programs. Here is one of them:

# %%
j = Var("j")
inner = For(j, const(0), i, ForKind.SERIAL, BufferStore(A, A[1] - j, (j,)))
sample = For(i, const(2), const(2), ForKind.SERIAL, Seq((BufferStore(A, A[i] * A[0], (const(1),)), inner)))
print(sample)

# %% [markdown]
# Then the check runs your interpreter on our usual example, which has changed since lesson 00. There the program loaded
# the sum from memory and stored it again in every iteration. Now the sum is kept in `total`, a buffer with the scope
# "local", which means that it is a register of the processor.

# %%
m, n, k = 2, 3, 4
program = example.in_a_register(m, n, k)
program.show()
kinds = {type(item).__name__ for item in walk(root_block(program).body) if isinstance(item, Stmt)}
print("\nkinds of statement:", ", ".join(sorted(kinds)))

# %% [markdown]
# The last line shows that our example needs only the three kinds of statement that you have to write.
#
# ## The ledger
#
# The ledger does not count loads and stores of a register, because register accesses cost next to nothing. Compare the
# two columns. The first column shows the counts of the program of lesson 00.

# %%
args = example.inputs(m, n, k)
ledger.show(
    {
        "sum in memory": ledger.measure(example.three_loops(m, n, k), *args),
        "sum in a register": ledger.measure(program, *args),
    }
)

# %% [markdown]
# The stores fall from 36 to 6, and *stored again* falls to 0: each of the 6 elements of Y is now stored exactly once,
# because the sum is kept in a register until it is complete. The arithmetic is the same in both columns, 24 multiplies
# and 30 adds.
#
# The last row shows that the interpreter is slow. For this reason the interpreter also has a fast mode. If the
# iterations of a loop do not depend on each other, this mode runs many of them at once with NumPy, and it computes
# exactly the same bits. Here are the times of both modes, and of NumPy alone, for the program of lesson 00 with m = n =
# k = 32:

# %%
args = example.inputs(32, 32, 32)
larger = example.three_loops(32, 32, 32)
slow = ledger.best_of(1, lambda: reference.tir.run(larger, *args, mode="slow"))
fast = ledger.best_of(2, lambda: reference.tir.run(larger, *args, mode="fast"))
numpy = ledger.best_of(3, lambda: example.expected(*args[:3]))
for name, seconds in (("slow", slow), ("fast", fast), ("NumPy", numpy)):
    print(f"{name:<6} {ledger.duration(seconds):>8}")

# %% [markdown]
# On most machines the fast mode is more than ten times as fast as the slow mode, and still much slower than NumPy
# alone. The slow mode *defines* the right result. The fast mode is more complicated, so the tests of minitvm compare it
# with the slow mode on random programs. Your `run` is tested in the same way.
#
#     minitvm lesson 02 --start     (writes exercise_02.py, for you to fill in)
#     minitvm lesson 02 --check
