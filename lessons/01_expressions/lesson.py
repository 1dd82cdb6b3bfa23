# %% [markdown]
# # Expressions, and how to print them
#
# A compiler reads a program, changes it, and writes it out again. Inside the compiler, the program is not text but a
# tree. Today we look at the smallest trees, which are arithmetic on indices, and write them back as text.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

from lessons import drawings, example, ledger, tiny
from lessons.predict import predict
from minitvm import arith
from minitvm import expr as full
from minitvm.expr import Range, Var, structural_equal, substitute, walk

# %% [markdown]
# ## Where is A[i, r]?
#
# Memory has no rows and columns. It is one long line of elements. If A has 4 columns, the element `A[i, r]` is at
# position `i * 4 + r`: skip i whole rows, then r elements.
#
# We build that expression with Python's own operators. Here the operators do not compute anything: they build a tree,
# because `i` and `r` are not numbers yet.

# %%
i, r = tiny.Name("i"), tiny.Name("r")
address = i * 4 + r
print(address)

# %% [markdown]
# The printed tree is hard to read. Here is the same tree as a drawing, with each operator above its operands.

# %%
print(tiny.drawing(address))

# %% [markdown]
# The whole language is six kinds of node: `Num`, `Name`, `Add`, `Sub`, `Mul` and `FloorDiv`. Each is a frozen dataclass
# of a line or two; you can find them in `lessons/tiny.py`. They are frozen because a tree that cannot change can be
# shared. If you want a different tree, you build a new one.
#
# ## Text to tree is easy, tree to text is not
#
# Python can turn such a text into a tree for us, because its rules of precedence are the ones that we want. `*` and
# `//` bind more tightly than `+` and `-`. Operators that bind equally tightly group from the left, so `a - b - c` means
# `(a - b) - c`.

# %%
for text in ("i * 4 + r", "i * (4 + r)", "a - b - c", "a - (b - c)", "a * (b // c)"):
    print(f"{text}\n{tiny.drawing(tiny.read(text), '    ')}")

# %%
texts = ("a - b - c", "a - (b - c)", "a * (b // c)")
signs = {"Add": "+", "Sub": "-", "Mul": "*", "FloorDiv": "//"}
picture = drawings.trees(
    {text: tiny.read(text) for text in texts},
    lambda e: (e.a, e.b) if isinstance(e, tiny.Binary) else (),
    lambda e: (
        signs[type(e).__name__] if isinstance(e, tiny.Binary) else str(getattr(e, "name", getattr(e, "value", "")))
    ),
    "three texts and their trees",
)
print("the picture:", picture.save("trees"))

# %% [markdown]
# Compare `a - b - c` with `a - (b - c)`. The parentheses appear in neither tree, but the inner `Sub` is the left
# operand in the first tree and the right operand in the second.
#
# Now we go from the tree to the text. A tree needs no parentheses, because its shape shows which parts belong together.
# A text does need them. If you print too few, the text means something else:

# %%
a, b, c = 7, 5, 3
predict("With a = 7, b = 5 and c = 3, what is a * b // c?", a * b // c)
print("a - (b - c) =", a - (b - c), "   a - b - c =", a - b - c)
print("a * (b // c) =", a * (b // c), "  a * b // c =", a * b // c)

# %% [markdown]
# In each line the two results differ: 5 and -1, then 7 and 11. So in both cases the parentheses are needed. The second
# line is the more dangerous one, because in school `a * (b / c)` and `a * b / c` are the same. With whole numbers they
# are not: `5 // 3` drops the remainder and gives 1, and 7 * 1 is 7, while `35 // 3` is 11. Index arithmetic is full of
# `//`, so a printer that is careless here changes programs without any message.
#
# On the other hand, an expression with too many parentheses, such as `((i * 4) + r)`, is hard to read. A good printer
# writes exactly the parentheses that are needed. In the exercise you write such a printer.
#
# ## minitvm does the same
#
# minitvm's expressions are the same kind of tree, with more kinds of node. For example, there are nodes for comparisons
# and for loads from buffers, and each node has a *dtype*, the type of its value. All levels of minitvm share these
# nodes, and its printer follows the rule that you are about to write.

# %%
i, r = Var("i"), Var("r")
address = i * 4 + r
print("text:     ", address)
print("kinds:    ", [type(item).__name__ for item in walk(address)])
print("with i=2: ", substitute(address, {i: full.const(2)}))
print("as before:", address)

# %% [markdown]
# Look at the last line. It prints `address` again, and nothing in it has changed: `substitute` built a new tree and
# left the old one alone.
#
# Now look at the line above it. It says `2 * 4`, not 8, because building a tree never computes anything. Simplifying is
# a separate step for two reasons: it can go wrong, and sometimes you want to see the expression as it was written. The
# code that simplifies is in the folder `minitvm/arith`. It can use facts about the variables, for example that r is
# less than 4:

# %%
ranges = {i: Range.of(0, 2), r: Range.of(0, 4)}
for e in (substitute(address, {i: full.const(2)}), address // 4, address % 4, (address - r) // 2):
    print(f"{e!s:<20} ->  {arith.simplify(e, ranges)}")

# %% [markdown]
# The second line says that `(i * 4 + r) // 4` is just `i`: dividing the address by the length of a row gives the number
# of the row. This simplification is only correct because r is less than 4. Such divisions appear whenever loops are
# split and fused, as in lesson 03, and a compiler that cannot simplify them writes slow code.
#
# The operator `==` on expressions also builds a tree, because whether i equals r is not known until the program runs.
# To find out whether two trees are equal, you call `structural_equal`.

# %%
print("i == r builds:   ", i == r)
print("the same tree?   ", structural_equal(i * 4 + r, i * 4 + r), structural_equal(i * 4 + r, r + i * 4))

# %% [markdown]
# The second line of the output says True for two trees that were built separately but have the same shape. It says
# False for `i * 4 + r` and `r + i * 4`, although both have the same value: `structural_equal` compares trees, not
# values.
#
# ## The ledger
#
# How much arithmetic is needed just to find the elements? Our example loads and stores elements such as `A[i, r]`, and
# for each load and store it must compute an address. We write down the address expression of each buffer, count its
# operators by walking the tree, and multiply by the number of accesses that the interpreter counted.

# %%
m, n, k = 2, 3, 4
counted = ledger.measure(example.three_loops(m, n, k), *example.inputs(m, n, k))

j = Var("j")
addresses = {"A": i * k + r, "B": r * n + j, "bias": j, "Y": i * n + j}


def times_executed(kind: type) -> int:
    """How many operators of a kind are computed for all addresses together, if each access computes its own."""
    return sum(
        (counted.loads[name] + counted.stores[name]) * sum(type(item) is kind for item in walk(e))
        for name, e in addresses.items()
    )


for name, e in addresses.items():
    print(f"{name:<5} at {e!s:<10} {counted.loads[name] + counted.stores[name]:>4} accesses")
print()
ledger.show(
    {
        f"{m} x {n} x {k}": {
            **counted.lesson_rows(),
            "address multiplies": str(times_executed(full.Mul)),
            "address adds": str(times_executed(full.Add)),
        }
    }
)

# %% [markdown]
# The first row counts 24 multiplies of data, and the row `address multiplies` counts 114. So the program multiplies
# nearly five times as often to find its data as to compute with them. Most of those 114 multiplies repeat an earlier
# one: for example, `i * 4` does not change while `r` runs. A compiler that has the address as a tree can find such
# repetitions, and then computes `i * 4` only once.
#
# ## Your turn
#
# Write the printer.
#
#     minitvm lesson 01 --start     (writes exercise_01.py, for you to fill in)
#     minitvm lesson 01 --check
