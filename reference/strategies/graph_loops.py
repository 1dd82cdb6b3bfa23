"""Moves of `graphs` that draw a loop: carried values, values from outside, rows, an early end, a loop in a loop."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from minitvm.expr import SizeVar
from minitvm.graph import Value

from .graph_drawing import Drawing, Fact

MOST = 5  # iterations
_DTYPES = ("float32", "float64", "int32", "int64")


def _loop(d: Drawing) -> None:
    """Add a loop that carries one to three values of the same type, with sums, extremes and swaps in its iterations."""
    x = d.pick(lambda v: str(v.dtype) in _DTYPES and v.ndim > 0 and d.facts[v].exact)
    if x.dtype not in _DTYPES or not d.facts[x].exact:
        x = d.fresh([d.extent(), d.extent()], d.one_of(_DTYPES))
    carried = [
        d.op("clip", v, peak=4, a_min=-4, a_max=4)
        for v in [x, *(d.one_of([v for v in d.alike(x) if d.facts[v].exact]) for _ in range(d.one_of([0, 1, 2])))]
    ]
    most = MOST
    limit = d.holding(d.rng.integers(0, most + 1, ()).astype("int64"))
    results = _drawn(d, carried, limit, most, d.one_of([0, 0, 1]))
    for value in results:
        d.facts[value] = Fact(4.0)


def _drawn(d: Drawing, carried: list[Value], limit: Any, most: int, inside: int) -> list[Value]:
    """Add the loop and return its carried values after it, and, if the number of iterations is fixed, its rows."""
    b = d.b
    ends = d.one_of(["never", "number", "data"])
    steps = d.draw(st.lists(st.sampled_from(["add", "larger", "other", "outside", "same"]), min_size=1, max_size=3))
    # Sums are clipped, so that they stay in the exact range for any number of iterations.
    outside = carried[0]
    has_rows = d.flag()

    def body(number: Value, *own: Value) -> Any:
        values = list(own)
        if inside:
            values = _drawn(d, values, number, most, 0)[: len(own)]
        for k, step in enumerate(steps):
            at, other = k % len(values), (k + 1) % len(values)
            if step == "add":
                values[at] = b.op("clip", b.op("add", values[at], values[other]), a_min=-4, a_max=4)
            elif step == "larger":
                values[at] = b.op("maximum", values[at], values[other])
            elif step == "other":
                values[at], values[other] = values[other], values[at]
            elif step == "outside":
                values[at] = b.op("clip", b.op("subtract", values[at], outside), a_min=-4, a_max=4)
        going: Any = True
        if ends == "number":
            going = b.op("less", number, 2)
        elif ends == "data":
            going = (
                b.op("less", b.op("max", b.op("reshape", values[0], newshape=(-1,))), 4)
                if _has_elements(d, own[0])
                else True
            )
        return going, values, [values[-1]] if has_rows else []

    count, *results = b.loop(body, carried, limit=limit, most=most if has_rows else None)
    if not has_rows:
        return results
    size = SizeVar("iterations")
    b.op("bind_size", count, size=size, most=most)
    total = b.op("sum", b.op("leading", results[-1], size=size), axis=0)
    return [*results[:-1], b.op("clip", total, a_min=-4, a_max=4)]


def _has_elements(d: Drawing, x: Value) -> bool:
    return not d.empty and 0 not in x.shape


LOOPS = {"loop": _loop}
