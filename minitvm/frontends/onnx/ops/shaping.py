"""Convert operators that return shapes, change shapes, or move data without computing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from .... import te
from ....errors import ModelError
from ....expr import EQ, Expr, FloorMod, Mod, Or, Select, as_expr, const, match, walk
from ....graph.nodes import Dim
from ....topi.shapes import at_least_one, axis_of, differ, is_one, larger, may_exceed, product, same, simple
from ...common.operand import Operand, known_dims
from ..context import NodeContext
from ..registry import converter
from .data_axes import listed, number_of, with_new, without


@converter("Shape")
def shape(n: NodeContext) -> Any:
    return known_dims(n[0].shape[_slice(n)])


def _slice(n: NodeContext) -> slice:
    return slice(n.attr("start", 0), n.attr("end", None))


@converter("Size")
def size(n: NodeContext) -> Any:
    count = product(n[0].shape)
    if isinstance(count, int):
        return Operand.known(np.array(count, np.int64))
    data = np.empty((), object)
    data[()] = count
    return Operand.known(data, "int64")


@converter("Reshape", since=5)
def reshape(n: NodeContext) -> Any:
    if n[1].data is None:
        return _reshaped_by_data(n)
    x, requested = n[0], n.dims(n[1], "the shape")
    if n.attr("allowzero", 0):
        return n.reshape(x, requested)
    copied = [k for k, d in enumerate(requested) if isinstance(d, int) and d == 0]
    if any(k >= x.ndim for k in copied):
        n.refuse(f"0 at axis {copied[-1]} copies a dimension that {x} does not have")
    return n.reshape(x, decided([x.shape[k] if k in copied else d for k, d in enumerate(requested)], x.shape))


def decided(requested: Sequence[Dim], own: Sequence[Dim]) -> list[Dim]:
    """Return a requested shape after replacing numbers that may be 0 (copy the extent) or -1 (infer it) at some sizes.

    Only numbers that contain a selection or a remainder are examined. The quotient of a size is also 0 below the
    divisor, but models are not run at such sizes.
    """
    shape = list(requested)
    for k, dim in enumerate(shape):
        if k < len(own) and _may_be(dim, 0) and not same(dim, own[k]):
            shape[k] = _instead(dim, 0, own[k])
    inferred = [k for k, dim in enumerate(shape) if _may_be(dim, -1)]
    if len(inferred) == 1 and not any(isinstance(dim, int) and dim == -1 for dim in shape):
        (k,) = inferred
        others = product([*shape[:k], *shape[k + 1 :]])
        shape[k] = _instead(shape[k], -1, simple(product(own) // larger(others, 1)))
    return shape


def _may_be(dim: Dim, number: int) -> bool:
    """Return whether a selected size, or a remainder, has this value at some sizes, all of which are above 0."""
    if not isinstance(dim, Expr) or not any(isinstance(part, Select | FloorMod | Mod) for part in walk(dim)):
        return False
    is_it = at_least_one(EQ(*match(dim, as_expr(number))))
    return isinstance(is_it, Expr) or bool(is_it)


def _instead(dim: Dim, number: int, other: Dim) -> Dim:
    return simple(te.select(EQ(*match(as_expr(dim), as_expr(number))), *match(as_expr(other), as_expr(dim))))


def _reshaped_by_data(n: NodeContext) -> Any:
    """Reshape to a shape that is computed at run time. It may contain 0, which copies an extent, and -1, which infers
    it.
    """
    x, shape, total = n[0], n[1], product(n[0].shape)
    if not isinstance(shape.shape[0], int) or n.attr("allowzero", 0):
        return n.reshape(x, n.dims(shape, "the shape"))
    own = [simple(d) for d in (*x.shape, *(0,) * shape.shape[0])[: shape.shape[0]]]
    copied = n.op("where", n.op("equal", shape, 0), known_dims(tuple(own)), shape)
    rest = n.op("equal", copied, -1)
    others = n.op("prod", n.op("where", rest, np.ones(1, np.int64), copied), axis=(0,), keepdims=True)
    inferred = n.op("floor_divide", known_dims((total,)), n.op("maximum", others, 1))
    whole = n.op("where", rest, inferred, copied)
    elements = n.builder.elements(shape)
    sizes: list[Dim] = []
    for k, element in enumerate(elements):
        if element is None:
            sizes += n.dims(n.part(whole, 0, k, k + 1), "the shape", most=total)
        else:
            sizes.append(own[k] if isinstance(element, int) and element == 0 else element)
    return n.reshape(x, sizes)


@converter("Flatten")
def flatten(n: NodeContext) -> Any:
    x = n[0]
    axis = n.attr("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return n.reshape(x, (product(x.shape[:axis]), product(x.shape[axis:])))


@converter("Squeeze")
def squeeze_by_attribute(n: NodeContext) -> Any:
    return _squeeze(n, n.attr("axes", None))


@converter("Squeeze", since=13)
def squeeze(n: NodeContext) -> Any:
    axes = n.optional(1)
    if axes is not None and not axes.is_known:
        count = number_of(n, axes, "axes that are left out")
        return without(n, n[0], listed(n, axes, n[0].ndim), count)
    return _squeeze(n, None if axes is None else n.ints(axes, "the axes"))


def _squeeze(n: NodeContext, axes: tuple[int, ...] | None) -> Any:
    x = n[0]
    if axes is None:
        axes = tuple(a for a, d in enumerate(x.shape) if isinstance(d, int) and d == 1)
        kept = [d for d in x.shape if isinstance(d, Expr) and not differ(d, 1)]
        x = n.assume(x, *((EQ(d, const(1, d.dtype)), 0) for d in kept)) if kept else x
    gone = {axis_of(a, x.ndim) for a in axes}
    if any(differ(x.shape[a], 1) for a in gone):
        n.refuse(f"dimension {next(a for a in gone if differ(x.shape[a], 1))} of {x} is not 1")
    open_ones = [(x.shape[a], 1) for a in sorted(gone) if isinstance(x.shape[a], Expr)]
    x = n.assume(x, *open_ones) if open_ones else x
    return n.op("squeeze", x, axis=tuple(sorted(gone)))


@converter("Unsqueeze")
def unsqueeze_by_attribute(n: NodeContext) -> Any:
    return _unsqueeze(n, n.attr("axes"))


@converter("Unsqueeze", since=13)
def unsqueeze(n: NodeContext) -> Any:
    if not n[1].is_known:
        return with_new(n, n[0], n[1], number_of(n, n[1], "new axes"))
    return _unsqueeze(n, n.ints(n[1], "the axes"))


def _unsqueeze(n: NodeContext, axes: tuple[int, ...]) -> Any:
    x = n[0]
    rank = x.ndim + len(axes)
    return n.op("expand_dims", x, axis=tuple(sorted(axis_of(a, rank) for a in axes)))


@converter("Transpose")
def transpose(n: NodeContext) -> Any:
    return n.op("transpose", n[0], axes=n.attr("perm", tuple(reversed(range(n[0].ndim)))))


@converter("Concat")
def concat(n: NodeContext) -> Any:
    axis = n.attr("axis", 1)
    if len(n.inputs) == 1:
        return n.op("copy", n[0])
    cache = n.importer.grown_past(n[0])
    if cache is not None and len(n.inputs) == 2 and (axis - cache.axis) % n[0].ndim == 0:
        return n.importer.extended(n, cache, n[1])
    return n.op("concatenate", *n.present, axis=axis)


@converter("Expand", since=8)
def expand(n: NodeContext) -> Any:
    """Broadcast in both directions. An extent of 1 becomes any size, even 0: a scalar expanded to [0] is empty.

    A requested size that is at most 1, such as that of x[:1], leaves another extent unchanged.
    """
    x = n[0]
    shape = list(n.dims(n[1], "the shape"))
    own: tuple[Dim, ...] = (*(1,) * (len(shape) - x.ndim), *x.shape)
    if n[1].data is None:
        x, shape = _met_by_data(n, x, own, [*(1,) * (x.ndim - len(shape)), *shape])
        own = (*(1,) * (len(shape) - x.ndim), *x.shape)
    shape = [*(1,) * (x.ndim - len(shape)), *shape]
    pairs = list(zip(own, shape, strict=True))
    small = [(o, w) for o, w in pairs if isinstance(w, Expr) and not may_exceed(w, 1) and not is_one(o)]
    conditions = [Or(EQ(*match(as_expr(w), as_expr(1))), EQ(*match(as_expr(o), as_expr(w)))) for o, w in small]
    undecided = [c for c in map(simple, conditions) if isinstance(c, Expr)]
    x = n.assume(x, *((c, 1) for c in undecided)) if undecided else x
    met = tuple(w if is_one(o) or (isinstance(w, int) and w != 1) or may_exceed(w, 1) else o for o, w in pairs)
    return n.op("broadcast_to", x, shape=met)


def _met_by_data(n: NodeContext, x: Operand, own: Sequence[Dim], shape: list[Dim]) -> tuple[Operand, list[Dim]]:
    """Return x and a shape that fit together. A run finds which of two extents is 1 and is repeated."""
    for axis, (old, new) in enumerate(zip(own, shape, strict=True)):
        if not n.builder.bound_by_data(new) or same(old, new) or is_one(old):
            continue
        either = [EQ(*match(as_expr(a), as_expr(b))) for a, b in ((new, 1), (old, 1), (old, new))]
        x = n.assume(x, (simple(Or(Or(either[0], either[1]), either[2])), 1))
        if isinstance(old, int):
            shape[axis] = old
            continue
        shape[axis] = extent = simple(te.select(either[1], *match(as_expr(new), old)))
        places = n.op("minimum", n.numbers(extent, 0, 1), n.number(simple(old - 1)))
        x = n.op("take", x, places, axis=axis - len(own) + x.ndim)
    return x, shape


@converter("Tile", since=6)
def tile(n: NodeContext) -> Any:
    return n.op("tile", n[0], reps=n.dims(n[1], "the repeats"))


@converter("Split")
def split_by_attribute(n: NodeContext) -> Any:
    return _split(n, n.attr("split", None), len(n.proto.output))


@converter("Split", since=13)
def split(n: NodeContext) -> Any:
    sizes = n.optional(1)
    count = n.attr("num_outputs", len(n.proto.output))
    axis = axis_of(n.attr("axis", 0), n[0].ndim)
    return _split(n, None if sizes is None else n.dims(sizes, "the sizes", most=n[0].shape[axis]), count)


def _split(n: NodeContext, sizes: tuple[Dim, ...] | None, count: int) -> Any:
    x = n[0]
    axis = axis_of(n.attr("axis", 0), x.ndim)
    extent = x.shape[axis]
    if sizes is None:
        chunk = simple((extent + (count - 1)) // count)  # the last part is smaller where this does not divide
        bounds = [product([k, chunk]) for k in range(count + 1)]
    else:
        bounds = list(accumulate(sizes, lambda a, b: simple(a + b), initial=0))
        if differ(bounds[-1], extent) or any(isinstance(s, int) and s < 0 for s in sizes):
            raise ModelError(f"{n.where}: parts of {', '.join(map(str, sizes))} are not the whole of {extent}")
        if not same(bounds[-1], extent):
            whole = bounds[-1]
            x = n.assume(x, (whole, extent) if isinstance(whole, Expr) else (extent, whole))
    return [n.part(x, axis, begin, end) for begin, end in pairwise(bounds)]


@converter("SpaceToDepth")
def space_to_depth(n: NodeContext) -> Any:
    """Rearrange [n, c, h b, w b] as [n, b b c, h, w]."""
    x, b = n[0], n.attr("blocksize")
    mode = n.attr("mode", "DCR")
    if mode == "DCR":
        return n.op("nn.space_to_depth", x, block_size=b)
    if mode != "CRD":
        n.refuse_attribute("mode")
    batch, c, h, w = x.shape
    rows, columns = simple(h // b), simple(w // b)
    parts = n.reshape(x, (batch, c, rows, b, columns, b))
    moved = n.op("transpose", parts, axes=(0, 1, 3, 5, 2, 4))
    return n.reshape(moved, (batch, simple(c * b * b), rows, columns))
