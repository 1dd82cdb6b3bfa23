"""Exercise 01: write a tree as text.

Write `to_text(e)` for the expressions of `lessons/tiny.py`: Num, Name, Add, Sub, Mul and FloorDiv.

    to_text(Num(4))                                              ->  "4"
    to_text(Name("i"))                                           ->  "i"
    to_text(Add(Mul(Name("i"), Num(4)), Name("r")))              ->  "i * 4 + r"
    to_text(Mul(Name("i"), Add(Num(4), Name("r"))))              ->  "i * (4 + r)"
    to_text(Sub(Name("a"), Sub(Name("b"), Name("c"))))           ->  "a - (b - c)"

Write one space on each side of an operator, and no other spaces. The text must

  1. give the same tree when it is read again: `tiny.read(to_text(e)) == e`, and
  2. have no pair of parentheses that could be left out.

These are Python's rules. `*` and `//` are equally strong; `+` and `-` are equally strong, too, and weaker than `*` and
`//`. Operators of the same strength group from the left: `a - b - c` is `(a - b) - c`.

Here is a hint: write a helper with a second parameter, the strength of the surrounding operator. The helper puts
parentheses around an expression whose operator is weaker. Note that the left and the right operand do not follow the
same rule.

Check it with: minitvm lesson 01 --check
"""

from __future__ import annotations

from lessons.tiny import Add, Binary, Expr, FloorDiv, Mul, Name, Num, Sub  # noqa: F401  (what you will need)


def to_text(e: Expr) -> str:
    """The expression as Python text, with the fewest parentheses."""
    raise NotImplementedError("to_text(e): the text at the top describes the task")
