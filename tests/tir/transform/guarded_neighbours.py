"""Loops over statements that each run under conditions of their own, some of which follow from one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from minitvm.script import from_source
from minitvm.tir.nodes import PrimFunc

Draw = Callable[..., Any]

OUTSIDE = ("i * 4 < n", "i < 3", "n > 6", "i * 4 + 2 < n")
INSIDE = ("i * 4 + j < n", "i + j < 5", *OUTSIDE)


def guarded_neighbours(draw: Draw) -> PrimFunc:
    """`for i: (if p: S0); (if q: S1); for j: if r: S2`: updates of places that all iterations have."""
    lines = [line for number in range(draw(st.integers(2, 4))) for line in _statement(draw, number)]
    body = "\n".join(f"        {line}" for line in lines)
    return program(body)


def program(body: str) -> PrimFunc:
    """A function with that text in its loop over i; B is read and written, the length of A is open."""
    text = f"""
@T.prim_func
def main(a: T.handle, B: T.Buffer((16,), "float32")):
    n = T.int32(is_size_var=True)
    A = T.match_buffer(a, (n,))
    for k in range(16):
        B[k] = T.float32(k) + T.if_then_else(k < n, A[k], T.float32(0))
    for i in range(4):
{body}
"""
    return from_source(text)  # type: ignore[return-value]


def _statement(draw: Draw, number: int) -> list[str]:
    """The lines of a statement; every update is another one, so that none may be left out or done twice."""
    looped = draw(st.booleans())
    conditions = draw(st.lists(st.sampled_from(INSIDE if looped else OUTSIDE), min_size=1, max_size=2, unique=True))
    place = "i * 4 + j" if looped else f"i * 4 + {number % 4}"
    update = f"B[{place}] = B[{place}] * T.float32(2) + T.float32({number + 1})"
    first = ["for j in range(4):"] if looped else []
    if draw(st.booleans()):
        guards = [" and ".join(conditions)]
    else:
        guards = list(conditions)
    heads = [*first, *(f"if {guard}:" for guard in guards)]
    inner = len(heads) * "    "
    lines = [depth * "    " + head for depth, head in enumerate(heads)] + [inner + update]
    if draw(st.integers(0, 3)) == 0:  # a second one of the same nest, not always under the same conditions
        depth = draw(st.integers(len(first), len(heads)))
        lines.append(depth * "    " + update)
    return lines
