"""Exercise 01: write a tree as text.

Write `to_text(e)` for the expressions of `lessons/tiny.py`: Num, Name, Add, Sub, Mul and FloorDiv.

    to_text(Num(4))                                              ->  "4"
    to_text(Name("i"))                                           ->  "i"
    to_text(Add(Mul(Name("i"), Num(4)), Name("r")))              ->  "i * 4 + r"
    to_text(Mul(Name("i"), Add(Num(4), Name("r"))))              ->  "i * (4 + r)"
    to_text(Sub(Name("a"), Sub(Name("b"), Name("c"))))           ->  "a - (b - c)"

An operator has one space on each side, and nothing else has. The text must

  1. read back as the same tree: `tiny.read(to_text(e)) == e`, and
  2. have no parentheses that it could do without.

Python's rules: `*` and `//` are equally strong, and stronger than `+` and `-`, which are equally strong. Operators of
the same strength group from the left: `a - b - c` is `(a - b) - c`.

A hint: write a helper with the strength of the operator around it as a parameter; it puts parentheses around weaker
operators.
The left and the right operand are not alike.

Check it with: minitvm lesson 01 --check
"""

from __future__ import annotations

from lessons.tiny import Add, Binary, Expr, FloorDiv, Mul, Name, Num, Sub  # noqa: F401  (what you will need)


def to_text(e: Expr) -> str:
    """The expression as Python text, with the fewest parentheses."""
    raise NotImplementedError("to_text(e): the text at the top says what is wanted")
