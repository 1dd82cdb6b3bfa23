"""Wrong: takes `//` to be stronger than `*`, so `a * (b // c)` loses its parentheses."""

from __future__ import annotations

from lessons.tiny import Add, Binary, Expr, FloorDiv, Mul, Name, Sub

SYMBOLS = {Add: "+", Sub: "-", Mul: "*", FloorDiv: "//"}
STRENGTH = {Add: 1, Sub: 1, Mul: 2, FloorDiv: 3}


def to_text(e: Expr) -> str:
    """The expression as Python text, with the fewest parentheses."""
    return _inside(e, 0)


def _inside(e: Expr, needed: int) -> str:
    """The text of `e` where only operators at least as strong as `needed` can stand bare."""
    if isinstance(e, Binary):
        own = STRENGTH[type(e)]
        text = f"{_inside(e.a, own)} {SYMBOLS[type(e)]} {_inside(e.b, own + 1)}"
        return f"({text})" if own < needed else text
    return e.name if isinstance(e, Name) else str(e.value)
