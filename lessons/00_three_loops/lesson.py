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
# A is 2 x 4, B is 4 x 3, so Y is 2 x 3. These matrices are tiny, so we can look at every element.
#
# The text below is TVMScript: it uses Python's syntax, but it is another language. `T.Buffer((2, 4), "float32")`
# declares an array with 2 rows and 4 columns. `T.grid(2, 3)` stands for two loops, one inside the other. You do not
# need to know more about TVMScript today.

# %%
m, n, k = 2, 3, 4
program = example.three_loops(m, n, k)
program.show()

# %% [markdown]
# There are three loops: `i` runs over the rows of Y, `j` runs over its columns, and `r` runs along a row of A and down
# a column of B. For each element of Y we start at zero, add k products, add the bias, and replace a negative result by
# zero.
#
# ## Does it do what we mean?
#
# `reference.tir.run` is an interpreter. It runs each statement exactly as it is written, checks every index, and
# refuses to read elements that were never written. It is slow, but it is simple enough to trust, so we use it to judge
# all other programs. In this project, the *meaning* of a program is the result that its interpreter computes.

# %%
a, b, bias, y = example.inputs(m, n, k)
reference.tir.run(program, a, b, bias, y)
print("Y, by the interpreter:", y, "", "Y, by NumPy:", example.expected(a, b, bias), sep="\n")
print("\nequal:", bool((y == example.expected(a, b, bias)).all()))

# %% [markdown]
# Both arrays are the same, so the last line is `equal: True`: our program computes the formula above.
#
# ## Watch it
#
# An interpreter can report every *event*, such as the start of an iteration or the load of an element, to a *listener*.
# A listener is an object with one method for each kind of event. Our listener prints one line for each iteration of the
# innermost loop, but only for the first two elements of Y.


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
# In the first four lines `r` counts from 0 to 3 while `i` and `j` stay at 0. Only then does `j` become 1. So `r`
# changes fastest, then `j`, then `i`, like the digits of an odometer, because each loop runs completely before the loop
# around it takes its next step. If you want another order, you write another program, as you will in lesson 03.
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
# Y has 6 elements, but the last row shows 36 stores to it. Each element is set to zero once, stored back after each of
# the 4 iterations of `r`, and stored a last time with its bias. That makes 6 stores for each of 6 elements.
#
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
# Look at Y in the picture: each of its elements was touched 11 times (5 loads and 6 stores). The reason is that each
# iteration of `r` loads the element from memory, adds one product, and stores it back. If you did this sum with a
# pencil, you would keep the running total in your head and write down only the result. A good compiler does the same,
# and so will our programs in later lessons.
#
# Now look at A and B. Each element of A is loaded three times, once for each column of Y, and each element of B is
# loaded twice, once for each row of Y. In such a small program these repeated loads do not matter. But with a thousand
# rows and columns, every element is loaded a thousand times, and the loads take most of the time.
#
# ## The ledger
#
# Nearly every lesson ends with this table, which we call the *ledger*. Some of its rows need an explanation:
#
# - *loaded again* counts the loads of elements that were loaded before, and *stored again* counts the stores to
#   elements that were stored before;
# - *bytes moved by a cache* counts the bytes that a toy cache would fetch from memory. This cache has 16 lines of 64
#   bytes. If a program reads memory in order, the cache fetches few bytes, because the program uses every element of a
#   line that was fetched;
# - *time interpreted* is the time that the interpreter took. Compiled code is far faster.

# %%
ledger.show({f"{m} x {n} x {k}": counted})

# %% [markdown]
# Look at two rows. There are 84 loads, but A, B, bias and Y together have only 29 elements, so 55 of the loads read an
# element that was loaded before. And 30 of the 36 stores write an element that was stored before.
#
# Here is the same table for larger matrices:

# %%
larger = {f"{size} x {size} x {size}": (size, size, size) for size in (8, 16, 24)}
ledger.show({name: ledger.measure(example.three_loops(*s), *example.inputs(*s)) for name, s in larger.items()})

# %% [markdown]
# Compare the first two columns. The side of the matrices doubles from 8 to 16, and the number of multiplies grows from
# 512 to 4,096, which is eight times as many. The reason is that there are m * n * k multiplies, and m, n and k have all
# doubled. The bytes that the cache moves grow even faster, from 832 to 280,576: the small matrices still fit into the
# cache, and the larger ones do not.
#
# ## Your turn
#
# The ledger has to run the program to count its operations. Can you find the numbers *without* running the program? A
# compiler has to find them in that way, because it must decide how to compile a program before the program can run.
#
#     minitvm lesson 00 --start     (writes exercise_00.py, for you to fill in)
#     minitvm lesson 00 --check
