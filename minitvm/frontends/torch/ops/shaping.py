"""Convert operators that change shapes, or move data without computing."""

from __future__ import annotations

import sys
from typing import Any

from ....expr import Expr
from ....topi.shapes import same, simple
from ...common.operand import Operand
from ..context import TorchNodeContext
from ..registry import converter


@converter("view.default", "_unsafe_view.default", "reshape.default", "flatten.using_ints", "view_copy.default")
def view(n: TorchNodeContext) -> Any:
    """Reshape to the result's shape, which the program declares; it already replaces -1."""
    n.ignore("size", "shape", "start_dim", "end_dim")
    return reshaped(n, n["self"], n.shape)


def reshaped(n: TorchNodeContext, x: Operand, shape: tuple[Any, ...]) -> Operand:
    """Return x in another shape."""
    if len(shape) == x.ndim and all(same(a, b) for a, b in zip(shape, x.shape, strict=True)):
        return x
    return n.reshape(x, shape)


@converter("expand.default")
def expand(n: TorchNodeContext) -> Any:
    n.ignore("size")
    x, shape = n["self"], n.shape
    if len(shape) == x.ndim and all(same(a, b) for a, b in zip(shape, x.shape, strict=True)):
        return x
    return n.op("broadcast_to", x, shape=shape)


@converter("squeeze.dim", "squeeze.dims", "squeeze.default")
def squeeze(n: TorchNodeContext) -> Any:
    """Remove the axes of `dim` (or of all axes) that have one element; other axes stay."""
    x = n["self"]
    listed = n.attr("dim") if "dim" in n.values else tuple(range(x.ndim))
    axes = {a % x.ndim for a in ((listed,) if isinstance(listed, int) else listed)} if x.ndim else set()
    ones = tuple(sorted(a for a in axes if isinstance(x.shape[a], int) and x.shape[a] == 1))
    return n.op("squeeze", x, axis=ones) if ones else x


@converter("unsqueeze.default")
def unsqueeze(n: TorchNodeContext) -> Any:
    x = n["self"]
    return n.op("expand_dims", x, axis=n.attr("dim") % (x.ndim + 1))


@converter("permute.default", "permute_copy.default")
def permute(n: TorchNodeContext) -> Any:
    return _transposed(n, tuple(a % n["self"].ndim for a in n.attr("dims")))


@converter("transpose.int")
def transpose(n: TorchNodeContext) -> Any:
    rank = n["self"].ndim
    order = list(range(rank))
    if rank:
        a, b = n.attr("dim0") % rank, n.attr("dim1") % rank
        order[a], order[b] = b, a
    n.ignore("dim0", "dim1")
    return _transposed(n, tuple(order))


@converter("t.default")
def turn(n: TorchNodeContext) -> Any:
    return _transposed(n, tuple(reversed(range(n["self"].ndim))))


def _transposed(n: TorchNodeContext, order: tuple[int, ...]) -> Any:
    x = n["self"]
    return x if order == tuple(range(x.ndim)) else n.op("transpose", x, axes=order)


@converter("cat.default")
def cat(n: TorchNodeContext) -> Any:
    """Concatenate tensors, ignoring vectors without elements."""
    parts = [n.cast(p, n.dtype) for p in n.operands("tensors") if p.shape != (0,)]
    axis = n.attr("dim")
    if not parts:
        return n.operands("tensors")[0]
    return parts[0] if len(parts) == 1 else n.op("concatenate", *parts, axis=axis % parts[0].ndim)


@converter("stack.default")
def stack(n: TorchNodeContext) -> Any:
    parts = [n.cast(p, n.dtype) for p in n.operands("tensors")]
    return n.op("stack", *parts, axis=n.attr("dim") % (parts[0].ndim + 1))


@converter("split_with_sizes.default")
def split(n: TorchNodeContext) -> Any:
    x, sizes = n["self"], n.attr("split_sizes")
    axis, begin = n.attr("dim") % x.ndim, 0
    parts = []
    for size in sizes:
        end = begin + size
        parts.append(x if len(sizes) == 1 else n.part(x, axis, begin, end))
        begin = end
    return parts


@converter("slice.Tensor")
def slice_(n: TorchNodeContext) -> Any:
    x = n["self"]
    axis, step = n.attr("dim") % x.ndim, n.attr("step")
    begin, end = n.attr("start"), n.attr("end")
    begin = 0 if begin is None else begin
    extent, count = x.shape[axis], n.shape[axis]
    if step == 1 and same(extent, count):
        n.ignore("end")
        return x
    if step == 1 and isinstance(extent, Expr) and isinstance(begin, int) and begin >= 0:
        # The sizes that the program declares turn the slice into a crop, without the limits of Python's slices.
        after = simple(extent - begin - count)
        if isinstance(after, int):
            widths = [(0, 0)] * x.ndim
            widths[axis] = (-begin, -after)
            return n.op("nn.pad", x, pad_width=tuple(widths))
    return n.part(x, axis, begin, sys.maxsize if end is None else end, step)


@converter("narrow_copy.default")
def narrow(n: TorchNodeContext) -> Any:
    """Return `length` entries of an axis, from `start` on."""
    axis, length = n.axis(), n.attr("length")
    begin = n.attr("start")
    begin = begin + n["self"].shape[axis] if isinstance(begin, int) and begin < 0 else begin
    return n.part(n["self"], axis, begin, begin + length)


@converter("select.int")
def select(n: TorchNodeContext) -> Any:
    """Return the entry `index` of axis `dim`, without that axis."""
    x, index = n["self"], n.attr("index")
    axis = n.attr("dim") % x.ndim
    extent = x.shape[axis]
    if isinstance(extent, int) and isinstance(index, int):
        index %= extent
        return n.entry(x, index, axis)
    return n.op("take", x, n.of_dtype(index, "int64"), axis=axis)


@converter("flip.default")
def flip(n: TorchNodeContext) -> Any:
    x = n["self"]
    return n.op("reverse", x, axis=tuple(sorted(a % x.ndim for a in n.attr("dims"))))
