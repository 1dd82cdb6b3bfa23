"""Wrong: writes numbers as floats are written, so that ten million is 1e+07."""

from __future__ import annotations

from lessons.tiny import Add, Binary, Expr, FloorDiv, Mul, Name, Sub

SYMBOLS = {Add: "+", Sub: "-", Mul: "*", FloorDiv: "//"}
STRENGTH = {Add: 1, Sub: 1, Mul: 2, FloorDiv: 2}


def to_text(e: Expr) -> str:
    """The expression as Python text, with the fewest parentheses."""
    return _inside(e, 0)


def _inside(e: Expr, needed: int) -> str:
    """The text of `e` where only operators at least as strong as `needed` can stand bare."""
    if isinstance(e, Binary):
        own = STRENGTH[type(e)]
        # Operators group from the left, so an equally strong one on the right needs its parentheses.
        text = f"{_inside(e.a, own)} {SYMBOLS[type(e)]} {_inside(e.b, own + 1)}"
        return f"({text})" if own < needed else text
    return e.name if isinstance(e, Name) else f"{e.value:g}"
