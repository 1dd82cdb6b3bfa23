"""Sizes and strides of buffers: one stride for each dimension, so that each element has its own location."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import prod

from ..arith import Analyzer
from ..expr import Expr, IntImm, Max, const

_ENUMERATED = 1 << 16  # elements up to which offsets are compared one by one


def product_of(dims: Iterable[Expr]) -> Expr:
    """Return the product of dimensions, with constants folded. It is an int64 if a constant product does not fit in an
    int32.
    """
    number, symbols = 1, []
    for dim in dims:
        if isinstance(dim, IntImm):
            number *= dim.value
        else:
            symbols.append(dim)
    if not symbols:
        return const(number, "int64" if number > 2**31 - 1 else "int32")
    total = symbols[0]
    for symbol in symbols[1:]:
        total = total * symbol
    return total if number == 1 else total * number


def row_major(shape: Sequence[Expr]) -> list[Expr]:
    """Return the strides of a compact buffer with this shape."""
    if any(isinstance(d, IntImm) and d.value > 2**31 - 1 for d in shape):
        shape = [d.astype("int64") for d in shape]
    strides: list[Expr] = [IntImm(1)] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return strides


def strides_of_parts(shape: Sequence[Expr], strides: Sequence[Expr]) -> tuple[Expr, ...]:
    """Return the strides for an array of buffers that are stored one after the other; () if the buffers are compact.

    This is legal because a buffer spans 1 + sum((dim - 1) * |stride|) elements, and the next buffer does not begin
    before the end of this span. If rows are in order, the next buffer begins after shape[0] rows including their
    padding.
    """
    if not strides:
        return ()
    dtype = "int64" if any(e.dtype == "int64" for e in (*shape, *strides)) else "int32"
    span: Expr = const(1, dtype)
    for dim, stride in zip(shape, strides, strict=True):
        step = const(abs(stride.value)) if isinstance(stride, IntImm) else stride
        span = span + (dim.astype(dtype) - 1) * step.astype(dtype)
    rows = shape[0].astype(dtype) * strides[0].astype(dtype)
    return Analyzer().simplify(Max(rows, span)), *strides


def why_not_strides(shape: Sequence[Expr], strides: Sequence[Expr], offset: Expr) -> str:
    """Return what is wrong with explicit strides (in elements), or "" if no error is found. Symbolic sizes may leave
    errors undetected.
    """
    if not strides:
        return ""
    if len(strides) != len(shape):
        return f"{len(strides)} strides for {len(shape)} dimensions"
    pairs = [
        (n.value, s.value)
        for n, s in zip(shape, strides, strict=True)
        if isinstance(n, IntImm) and isinstance(s, IntImm)
    ]
    steps = sorted(((n, s) for n, s in pairs if n > 1), key=lambda pair: abs(pair[1]))
    if any(n == 0 for n, _ in pairs):
        return ""
    clash = _alias(steps)
    if clash:
        return f"{clash} with strides ({', '.join(map(str, strides))})"
    lowest = sum((n - 1) * s for n, s in steps if s < 0)
    if len(pairs) == len(shape) and isinstance(offset, IntImm) and offset.value + lowest < 0:
        return f"the strides lead {-(offset.value + lowest)} elements before the data"
    return ""


def _alias(steps: Sequence[tuple[int, int]]) -> str:
    """Return a message that names two elements with the same location, or "" if there are none.

    Dimensions with a symbolic extent or stride are ignored.
    """
    covered = 0
    nested = True
    for extent, stride in steps:
        nested = nested and abs(stride) > covered
        covered += (extent - 1) * abs(stride)
    if nested:
        return ""
    if any(stride == 0 for _, stride in steps):
        return "all elements along a dimension share one place"
    if prod(n for n, _ in steps) > _ENUMERATED:
        return ""
    seen: set[int] = set()
    for point in product(*(range(n) for n, _ in steps)):
        place = sum(i * s for i, (_, s) in zip(point, steps, strict=True))
        if place in seen:
            return f"two elements share the place {place}"
        seen.add(place)
    return ""


def row_major_text(shape: Sequence[Expr]) -> str:
    """Return a suggestion that can replace wrong strides: `strides=[m * 4, 4, 1], or none` for the shape (2, m, 4)."""
    steps = [product_of(shape[axis + 1 :]) for axis in range(len(shape))]
    return f"strides=[{', '.join(map(str, steps))}], or none: rows one after the other"
