# %% [markdown]
# # See three loops run
#
# A neural network is mostly one computation, done many times: multiply two matrices, add a bias, and replace negative
# values by zero.
#
#     Y = relu(A @ B + bias)
#
# You will meet this program in every lesson. Today we write it as loops, watch them run one iteration at a time, and
# count their work. Nothing is compiled yet, and nothing is fast yet.
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
# A is 2 x 4, B is 4 x 3, so Y is 2 x 3. They are tiny, so that we can look at every element.
#
# The text below is TVMScript: it uses Python's syntax, but it is another language. `T.Buffer((2, 4), "float32")` is an
# array of that shape. `T.grid(2, 3)` is two loops, one inside the other. That is all you need to know.

# %%
m, n, k = 2, 3, 4
program = example.three_loops(m, n, k)
program.show()

# %% [markdown]
# There are three loops: `i` runs over the rows of Y, `j` over its columns, and `r` along a row of A and a column of B.
# For each element of Y we start at zero, add k products, add the bias, and replace a negative result by zero.
#
# ## Does it do what we mean?
#
# `reference.tir.run` is an interpreter. It runs each statement exactly as it is written, checks every index, and
# refuses to read elements that were never written. It is slow, but we trust it to judge all other programs: in this
# project, the *meaning* of a program is the result that its interpreter computes.

# %%
a, b, bias, y = example.inputs(m, n, k)
reference.tir.run(program, a, b, bias, y)
print("Y, by the interpreter:", y, "", "Y, by NumPy:", example.expected(a, b, bias), sep="\n")
print("\nequal:", bool((y == example.expected(a, b, bias)).all()))

# %% [markdown]
# ## Watch it
#
# An interpreter can report every event to a listener. Our listener prints a line for each iteration of the innermost
# loop, for the first two elements of Y.


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
# `r` runs fastest, then `j`, then `i`, like the digits of a counter. Loops run in the order in which they are written.
# If you want another order, you write another program, as in lesson 03.
#
# ## Count it
#
# Another listener counts how often each buffer is read and written.

# %%
counted = ledger.measure(program, a, b, bias, y)
predict("Y has 6 elements. How many stores to Y will the table show?", counted.stores["Y"])
print("buffer   elements   loads   stores")
for name, array in (("A", a), ("B", b), ("bias", bias), ("Y", y)):
    print(f"{name:<6} {array.size:>10} {counted.loads[name]:>7} {counted.stores[name]:>8}")

# %% [markdown]
# Here are the same counts as a picture, element by element:

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
# Look at Y. It has six elements, but it was stored to many more times than that. Each iteration of `r` loads an element
# of Y, adds one product and stores it back. A person with a pencil would keep the running sum in their head. A good
# compiler does the same, and so will our programs in later lessons.
#
# Look at A. Each of its elements is loaded three times: once for each column of Y. Each element of B is loaded twice:
# once for each row. Here that does not matter. With a thousand rows and columns, every element is loaded a thousand
# times, and those loads take most of the time.
#
# ## The ledger
#
# Each lesson ends with this table. *Loaded again* counts loads of an element that was loaded before; *stored again*
# counts stores to an element that was stored before. *Bytes moved by a cache* counts the bytes that a toy cache of 16
# lines of 64 bytes would fetch: a program that reads memory in order moves few. The time is that of the interpreter.

# %%
ledger.show({f"{m} x {n} x {k}": counted})

# %% [markdown]
# And for larger matrices:

# %%
larger = {f"{size} x {size} x {size}": (size, size, size) for size in (8, 16, 24)}
ledger.show({name: ledger.measure(example.three_loops(*s), *example.inputs(*s)) for name, s in larger.items()})

# %% [markdown]
# From 8 to 16 the side doubles, and the number of multiplies, m * n * k, grows eight times.
#
# ## Your turn
#
# The ledger runs the program in order to count. Can you know the numbers *without* running it? A compiler has to,
# because it cannot run a program before it has decided how to compile it.
#
#     minitvm lesson 00 --start     (writes exercise_00.py, for you to fill in)
#     minitvm lesson 00 --check
