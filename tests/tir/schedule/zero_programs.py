"""Sums over data that are zero between their elements: programs on which skip_zero_terms is legal often enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from minitvm import te
from minitvm.tir.nodes import PrimFunc

Draw = Callable[[st.SearchStrategy[Any]], Any]


@st.composite
def sums_with_zeros(draw: Draw) -> PrimFunc:
    """C[i.., o] = sum of A[.., o*p + k*d + more] * W[k..], where A holds zero but for every s-th element from one on.

    Some have no such k: p and d are drawn without regard to s, and A is now and then filled everywhere, or with ones.
    """
    dtype = draw(st.sampled_from(["float32", "int32", "int8", "int64"]))
    step = draw(st.sampled_from([2, 2, 3, 4, 5]))
    dilation, stride = draw(st.sampled_from([1, 1, 2, 3])), draw(st.sampled_from([1, 1, 2, -1]))
    taps, results = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    lead, shift = draw(st.integers(0, 3)), draw(st.integers(0, 2))
    channels = draw(st.integers(1, 2))
    reach = (results - 1) * abs(stride) + (taps - 1) * dilation + shift + 1
    dense = draw(st.integers(0, 5)) == 0
    fill = te.const(draw(st.sampled_from([0, 0, 0, 0, 1])), dtype)
    D = te.placeholder((channels, reach // step + 1), dtype, name="D")
    W = te.placeholder((channels, taps), dtype, name="W")

    def spread(c: Any, p: Any) -> Any:
        if dense:
            return D[c, p // step] + te.const(1, dtype)
        guards = [(p - lead) % step == 0, *([p >= lead] if lead else [])]
        return te.if_then_else(te.all(*guards), D[c, (p - lead) // step], fill)

    A = te.compute((channels, reach), spread, name="A")
    k, c = te.reduce_axis((0, taps), name="k"), te.reduce_axis((0, channels), name="c")
    kind = draw(st.sampled_from(["product", "product", "swapped", "alone"]))

    def element(o: Any) -> Any:
        from_left = o * stride if stride > 0 else (results - 1 - o) * -stride
        read = A[c, from_left + k * dilation + shift]
        if kind == "alone":
            return te.sum(read, axis=[c, k])
        weight = W[c, taps - 1 - k]
        return te.sum(weight * read if kind == "swapped" else read * weight, axis=[c, k])

    C = te.compute((results,), element, name="C")
    return te.create_prim_func([D, W, C])
