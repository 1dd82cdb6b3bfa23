"""A loop variable is shown to lie within its loop's extent, however the extent is written."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.arith import Analyzer
from minitvm.expr import Expr, SizeVar, Var
from minitvm.te import maximum, minimum

SIZES = (SizeVar("n"), SizeVar("m"))


@st.composite
def extents(draw: Any) -> Expr:
    """What strides, slices and padding make of a size: quotients, minima, maxima, sums and multiples."""
    e: Expr = draw(st.sampled_from(SIZES))
    for _ in range(draw(st.integers(0, 2))):
        number = draw(st.integers(1, 5))
        kind = draw(st.sampled_from(["divide", "add", "times", "least", "most"]))
        if kind == "divide":
            e = (e + draw(st.integers(0, 4))) // number
        elif kind == "add":
            e = e + number
        elif kind == "times":
            e = e * number
        else:
            other = draw(st.sampled_from(SIZES))
            e = minimum(e, other) if kind == "least" else maximum(e, other)
    return e


@given(extent=extents(), tile=st.integers(1, 8))
@settings(max_examples=100)
def test_a_loop_variable_is_below_its_extent(extent: Expr, tile: int) -> None:
    i, j = Var("i"), Var("j")
    analyzer = Analyzer({i: extent})
    assert analyzer.can_prove(i < extent) and analyzer.can_prove(i * tile + (tile - 1) < extent * tile)
    assert not analyzer.can_prove(i + 1 < extent)
    analyzer.bind(j, tile)
    assert analyzer.can_prove(i * tile + j < extent * tile)
