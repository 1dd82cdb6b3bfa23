# %% [markdown]
# # See three loops run
#
# A neural network is mostly one computation, done many times: multiply two matrices, add a bias, and replace
# what is negative by zero.
#
#     Y = relu(A @ B + bias)
#
# This program will be with us in every lesson. Today we write it as loops, watch them run one iteration at a time,
# and count what they do. Nothing is compiled yet, and nothing is fast yet.
#
# You can read this file as it is, run it with `minitvm lesson 00`, or open it as a notebook.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()  # a lesson finds what all lessons share, from whatever folder it runs

from lessons import drawings, example, ledger
from lessons.predict import predict
from minitvm import reference
from minitvm.events import Listener, Loop

# %% [markdown]
# ## The program
#
# A is 2 x 4, B is 4 x 3, so Y is 2 x 3. Tiny, so that we can look at all of it.
#
# The text below is TVMScript: Python's letters, but a program of its own. `T.Buffer((2, 4), "float32")` is an array
# of that shape. `T.grid(2, 3)` is two loops, one inside the other. There is nothing else to know.

# %%
m, n, k = 2, 3, 4
program = example.three_loops(m, n, k)
program.show()

# %% [markdown]
# Three loops: `i` walks over the rows of Y, `j` over its columns, and `r` along a row of A and a column of B.
# For each element of Y we start at zero, add k products, and then add the bias and cut off what is negative.
#
# ## Does it do what we mean?
#
# `reference.tir.run` is an interpreter. It runs each statement exactly as it is written, checks every index, and
# refuses to read what was never written. It is slow, and it is our judge: in this project, what a program *means*
# is what its interpreter does.

# %%
a, b, bias, y = example.inputs(m, n, k)
reference.tir.run(program, a, b, bias, y)
print("Y, by the interpreter:", y, "", "Y, by NumPy:", example.expected(a, b, bias), sep="\n")
print("\nequal:", bool((y == example.expected(a, b, bias)).all()))

# %% [markdown]
# ## Watch it
#
# An interpreter can tell a listener what happens. Ours prints a line for each iteration of the innermost loop, for
# the first two elements of Y.


# %%
class Watch(Listener):
    """Prints the iterations of r, with the values that i and j have at that moment."""

    def __init__(self, limit: int) -> None:
        self.values: dict[str, int] = {}
        self.left = limit

    def loop_iteration(self, loop: Loop, value: int) -> None:
        self.values[loop.var] = value
        if loop.var != "r" or self.left == 0:
            return
        self.left -= 1
        i, j, r = (self.values[name] for name in ("i", "j", "r"))
        print(f"i={i} j={j} r={r}    Y[{i}, {j}] gets A[{i}, {r}] * B[{r}, {j}] = {a[i, r] * b[r, j] + 0:g} added")


reference.tir.run(program, a, b, bias, y, listeners=[Watch(limit=2 * k)])

# %% [markdown]
# `r` runs fastest, then `j`, then `i`, like the digits of a counter. Loops run as they are written; to run them in
# another order is to write another program. Lesson 03 does that.
#
# ## Count it
#
# Another listener counts. How often is each buffer read and written?

# %%
counted = ledger.measure(program, a, b, bias, y)
predict("Y has 6 elements. How many stores to Y will the table show?", counted.stores["Y"])
print("buffer   elements   loads   stores")
for name, array in (("A", a), ("B", b), ("bias", bias), ("Y", y)):
    print(f"{name:<6} {array.size:>10} {counted.loads[name]:>7} {counted.stores[name]:>8}")

# %% [markdown]
# The same as a picture, element by element:

# %%
arrays = {"A": a, "B": b, "Y": y}
touches = drawings.matrices(
    {"A": a.shape, "B": b.shape, "Y": y.shape},
    lambda name, row, column: drawings.shade(counted.touched(name, row * len(arrays[name][0]) + column) / 12),
    lambda name, row, column: str(counted.touched(name, row * len(arrays[name][0]) + column)),
    "how often each element is loaded or stored",
    40,
)
print("the picture:", touches.save("touches"))

# %% [markdown]
# Look at Y. It has six elements, and we stored to it many more times than that. Each round of `r` loads an element
# of Y, adds one product and stores it back. A person with a pencil would keep the running sum in their head. So does
# a good compiler, and we will get there.
#
# Look at A. Each of its elements is loaded three times: once for each column of Y. And each element of B twice, once
# for each row. Here that does not matter. With a thousand rows and columns, every element is fetched a thousand times,
# and that is where the time goes.
#
# ## The ledger
#
# Each lesson ends with this table. *Loaded again* counts loads of an element that was loaded before; *stored again*
# counts stores to an element that was stored before. *Bytes moved by a cache* is what a toy cache of 16 lines of 64
# bytes would fetch: a program that walks through memory in order pays little. The time is the interpreter's.

# %%
ledger.show({f"{m} x {n} x {k}": counted})

# %% [markdown]
# And for larger matrices:

# %%
larger = {f"{size} x {size} x {size}": (size, size, size) for size in (8, 16, 24)}
ledger.show({name: ledger.measure(example.three_loops(*s), *example.inputs(*s)) for name, s in larger.items()})

# %% [markdown]
# The side doubles from 8 to 16, and the multiplies grow eight times, from m * n * k.
#
# ## Your turn
#
# The ledger counts by running. Can you know the numbers *without* running the program? A compiler must: it cannot
# run a program in order to decide how to compile it.
#
#     minitvm lesson 00 --start     (writes exercise_00.py, for you to fill in)
#     minitvm lesson 00 --check
