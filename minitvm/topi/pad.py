"""Padding with a constant, with the edge, by reflection, or by wrapping around."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import te
from ..errors import InputError
from ..expr import Expr, const
from ..te import Tensor
from .registry import Pattern, register
from .shapes import Dim, dims, plus, require_some, simple


def constant_pad(
    data: Tensor, before: Sequence[Dim], after: Sequence[Dim], value: Expr | float = 0, name: str = "pad_temp"
) -> Tensor:
    """Pad `data` with `before` and `after` elements of `value` along each axis; return it unchanged if all amounts are
    0.

    Negative amounts crop. The guard is an `if_then_else`, so no element outside of `data` is read.
    """
    if all(isinstance(p, int) and p == 0 for p in (*before, *after)):
        return data
    fill = value if isinstance(value, Expr) else const(value, data.dtype)
    extents = dims(data)
    shape = tuple(simple(plus(plus(d, b), a)) for d, b, a in zip(extents, before, after, strict=True))

    def element(*indices: Any) -> Expr:
        guards, point = [], []
        for i, d, b, a in zip(indices, extents, before, after, strict=True):
            point.append(i if isinstance(b, int) and b == 0 else i - b if not isinstance(b, int) or b > 0 else i + -b)
            if not (isinstance(b, int) and b <= 0):
                guards.append(i >= b)
            if not (isinstance(a, int) and a <= 0):
                guards.append(i < plus(d, b))
        return te.if_then_else(te.all(*guards), data[tuple(point)], fill) if guards else data[tuple(point)]

    return te.compute(shape, element, name=name)


@register("nn.pad", pattern=Pattern.INJECTIVE)
def pad(
    data: Tensor,
    value: Tensor | None = None,
    *,
    pad_width: Sequence[Sequence[Dim]],
    pad_value: float = 0.0,
    pad_mode: str = "constant",
) -> Tensor:
    """Pad each axis by its pair (before, after) in `pad_width`.

    `pad_mode` is "constant" (`pad_value`, or the scalar tensor `value`), "edge", "reflect" (without the edge itself) or
    "wrap". Negative amounts crop.
    """
    if len(pad_width) != data.ndim:
        raise InputError(f"pad: wanted {data.ndim} pairs, found {pad_width}")
    before, after = [p[0] for p in pad_width], [p[1] for p in pad_width]
    if pad_mode == "constant":
        fill = pad_value if value is None else value[(0,) * value.ndim]
        padded = constant_pad(data, before, after, fill, name="T_pad")
        # An operator's result is a tensor of its own, even where nothing is added.
        return te.compute(data.shape, lambda *i: data[i], name="T_pad") if padded is data else padded
    if pad_mode not in ("edge", "reflect", "wrap"):
        raise InputError(f"pad: pad_mode is constant, edge, reflect or wrap, found {pad_mode!r}")
    extents = dims(data)
    shape = tuple(simple(d + b + a) for d, b, a in zip(extents, before, after, strict=True))
    for axis, extent in enumerate(extents):
        require_some(extent, f"entries along axis {axis} to pad with (mode {pad_mode})", shape)

    def source(i: Expr, extent: Dim, b: Dim, a: Dim) -> Any:
        at = plus(i, -b)
        if isinstance(b, int) and isinstance(a, int) and b <= 0 and a <= 0:
            return at
        if pad_mode == "edge":
            return te.minimum(te.maximum(at, 0), extent - 1)
        if pad_mode == "wrap":
            return at % extent
        if isinstance(extent, int) and extent == 1:
            return const(0, i.dtype)
        # The axis continues forwards and backwards with the period 2 (extent - 1); a single element has the period 1.
        last = 2 * (extent - 1)
        folded = at % (last if isinstance(last, int) else te.maximum(last, 1))
        return te.minimum(folded, last - folded)

    return te.compute(
        shape,
        lambda *i: data[tuple(source(*x) for x in zip(i, extents, before, after, strict=True))],
        name=f"T_{pad_mode}_pad",
    )
