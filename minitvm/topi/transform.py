"""Rearrangements: each element of the output is one element of an input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .. import te
from ..errors import InputError, TypeMismatch
from ..expr import EQ, DType, Expr, as_expr, const, match, structural_equal
from ..te import Tensor
from . import shapes
from .indices import check_counts, from_front
from .registry import Pattern, TensorType, register
from .shapes import dims
from .spelling import Aten, Onnx


def _fold_reshape(x: Any, newshape: Sequence[int], allowzero: bool) -> Any:
    shape = [x.shape[k] if d == 0 and not allowzero else d for k, d in enumerate(newshape)]
    return x.reshape(shape)


@register("reshape", pattern=Pattern.INJECTIVE, fold=_fold_reshape, view=True)
def reshape(x: Tensor, *, newshape: Sequence[shapes.Dim], allowzero: bool = False) -> Tensor:
    """Return the elements of `x`, in row-major order, in the shape `newshape`.

    An extent of -1 is inferred from the others, and 0 copies the input's extent.
    """
    shape = _new_shape(x, tuple(newshape), allowzero)
    extents = dims(x)
    groups = _matching_groups(extents, shape)

    def element(*i: Any) -> Expr:
        point: list[Any] = []
        for old, new in groups:
            point += _refold([i[a] for a in new], [shape[a] for a in new], [extents[a] for a in old])
        return x[tuple(point)]

    return te.compute(shape, element, name="T_reshape")


def _new_shape(x: Tensor, requested: tuple[shapes.Dim, ...], allowzero: bool) -> tuple[shapes.Dim, ...]:
    extents = dims(x)
    shape: list[shapes.Dim] = []
    for axis, dim in enumerate(requested):
        if isinstance(dim, int) and dim == 0 and not allowzero:
            if axis >= len(extents):
                raise InputError(f"reshape: 0 at axis {axis} copies a dimension that {x} does not have")
            dim = extents[axis]
        shape.append(dim)
    unknown = [a for a, d in enumerate(shape) if isinstance(d, int) and d == -1]
    if len(unknown) > 1:
        raise InputError(f"reshape: -1 comes twice in {requested}")
    total = shapes.product(extents)
    if unknown:
        shape[unknown[0]] = _quotient(extents, [d for a, d in enumerate(shape) if a != unknown[0]])
        if isinstance(total, Expr):
            if not shapes.same(shapes.product(shape), total):
                shapes.require(
                    EQ(*match(as_expr(shapes.product(shape)), total)), f"reshape: {x} does not divide into {requested}"
                )
            return tuple(shape)
    if not shapes.agree(shapes.product(shape), total):
        raise TypeMismatch(
            f"reshape: wanted {total} elements, found {shapes.product(shape)}: "
            f"({', '.join(map(str, extents))}) to {requested}"
        )
    return tuple(shape)


def _quotient(numerator: Sequence[shapes.Dim], denominator: Sequence[shapes.Dim]) -> shapes.Dim:
    """Return the product of some dimensions divided by the product of others.

    Equal factors cancel first: n*3*4 / (n*4) is 3 for every n.
    """
    above, below = list(numerator), []
    for dim in denominator:
        place = next((k for k, d in enumerate(above) if shapes.same(d, dim)), None)
        if place is None:
            below.append(dim)
        else:
            above.pop(place)
    divisor = shapes.product(below)
    if shapes.is_one(divisor):
        return shapes.product(above)
    if isinstance(divisor, int) and divisor == 0:
        return 0
    shapes.require_at_least(divisor, 1, "elements for each entry of the axis -1 of a reshape")
    return shapes.simple(shapes.product(above) // divisor)


def _matching_groups(old: Sequence[shapes.Dim], new: Sequence[shapes.Dim]) -> list[tuple[list[int], list[int]]]:
    """Split the axes of both shapes into groups of equal products, so that a reshape keeps each element within its
    group.
    """
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        run = _shortest_match(old[i:], new[j:])
        if run is None:
            groups.append((list(range(i, len(old))), list(range(j, len(new)))))
            break
        groups.append((list(range(i, i + run[0])), list(range(j, j + run[1]))))
        i, j = i + run[0], j + run[1]
    return groups


def _shortest_match(old: Sequence[shapes.Dim], new: Sequence[shapes.Dim]) -> tuple[int, int] | None:
    """Return the smallest numbers of leading axes of both shapes with equal products, or None if there are none.

    For example, the result for (h, w, 64) and (h * w, 64) is (2, 1).
    """
    if all(isinstance(d, int) for d in (*old, *new)):
        return _shortest_match_of_numbers(old, new)
    left, right = ([shapes.product(shape[: k + 1]) for k in range(len(shape))] for shape in (old, new))
    for axes in range(2, len(old) + len(new) + 1):
        for a in range(max(1, axes - len(new)), min(len(old), axes - 1) + 1):
            if shapes.same(left[a - 1], right[axes - a - 1]):
                return a, axes - a
    return None


def _shortest_match_of_numbers(old: Sequence[shapes.Dim], new: Sequence[shapes.Dim]) -> tuple[int, int] | None:
    if not old or not new:
        return None
    a, b = 1, 1
    while True:
        left, right = shapes.product(old[:a]), shapes.product(new[:b])
        if left == right:
            return a, b
        if (left < right or b == len(new)) and a < len(old):
            a += 1
        elif b < len(new):
            b += 1
        else:
            return None


def _refold(indices: list[Any], shape: list[shapes.Dim], extents: list[shapes.Dim]) -> list[Any]:
    """Return the point in `extents` with the same row-major offset as `indices` in `shape`."""
    if len(indices) == 1 and len(extents) == 1:
        return indices
    offset: Any = None
    for i, d in zip(indices, shape, strict=True):
        if shapes.is_one(d):
            continue
        offset = i if offset is None else shapes.times(offset, d) + i
    if offset is None:
        return [as_expr(0) for _ in extents]
    real = [a for a, d in enumerate(extents) if not shapes.is_one(d)]
    point: list[Any] = [as_expr(0)] * len(extents)
    for a in real:
        stride = shapes.product(extents[a + 1 :])
        digit = offset if shapes.is_one(stride) else offset // stride
        point[a] = digit if a == real[0] else digit % extents[a]
    return point


@register("nn.batch_flatten", pattern=Pattern.INJECTIVE, fold=lambda x: x.reshape(x.shape[0], -1), view=True)
def batch_flatten(x: Tensor) -> Tensor:
    """Return x with all axes after the first joined into one."""
    return reshape(x, newshape=(dims(x)[0], shapes.product(dims(x)[1:])), allowzero=True)


@register("transpose", pattern=Pattern.INJECTIVE, fold=np.transpose, onnx=Onnx("Transpose", {"axes": "perm"}))
def transpose(x: Tensor, *, axes: Sequence[int] | None = None) -> Tensor:
    """Return x with its axes permuted: axis k of the output is axis axes[k] of the input. None reverses the order."""
    order = [shapes.axis_of(a, x.ndim) for a in axes] if axes is not None else list(reversed(range(x.ndim)))
    if sorted(order) != list(range(x.ndim)):
        raise InputError(f"transpose: {tuple(axes or ())} is no order of {x.ndim} axes")
    place = [order.index(a) for a in range(x.ndim)]
    return te.compute([x.shape[a] for a in order], lambda *i: x[tuple(i[p] for p in place)], name="T_transpose")


def _fold_expand_dims(x: Any, axis: int | Sequence[int], num_newaxis: int) -> Any:
    if not isinstance(axis, int):
        return np.expand_dims(x, tuple(axis))
    first = axis if axis >= 0 else axis + x.ndim + 1
    return np.expand_dims(x, tuple(range(first, first + num_newaxis)))


@register("expand_dims", pattern=Pattern.INJECTIVE, fold=_fold_expand_dims, view=True)
def expand_dims(x: Tensor, *, axis: int | Sequence[int], num_newaxis: int = 1) -> Tensor:
    """Insert axes of extent 1: `num_newaxis` axes at `axis`, or one at each of several positions in the output."""
    if isinstance(axis, int):
        first = axis if axis >= 0 else axis + x.ndim + 1
        added = list(range(first, first + num_newaxis))
    else:
        added = [shapes.axis_of(a, x.ndim + len(axis)) for a in axis]
    rank = x.ndim + len(added)
    if len(set(added)) != len(added) or not all(0 <= a < rank for a in added):
        raise InputError(f"expand_dims: axis {axis} does not fit {x}")
    extents = iter(x.shape)
    shape = [1 if a in added else next(extents) for a in range(rank)]
    return te.compute(shape, lambda *i: x[tuple(p for a, p in enumerate(i) if a not in added)], name="T_expand_dims")


def _fold_squeeze(x: Any, axis: int | Sequence[int] | None) -> Any:
    return np.squeeze(x, tuple(axis) if isinstance(axis, list | tuple) else axis)


@register("squeeze", pattern=Pattern.INJECTIVE, fold=_fold_squeeze, view=True)
def squeeze(x: Tensor, *, axis: int | Sequence[int] | None = None) -> Tensor:
    """Return x without the axes in `axis`, whose extents must be 1. None removes all axes of extent 1."""
    if axis is None:
        gone: tuple[int, ...] = tuple(a for a, d in enumerate(dims(x)) if shapes.is_one(d))
    else:
        gone = shapes.axes_of(axis, x.ndim)
    for a in gone:
        if not shapes.is_one(dims(x)[a]):
            raise InputError(f"squeeze: axis {a} of {x} is not 1")

    def element(*i: Any) -> Expr:
        rest = iter(i)
        return x[tuple(as_expr(0) if a in gone else next(rest) for a in range(x.ndim))]

    return te.compute([d for a, d in enumerate(x.shape) if a not in gone], element, name="T_squeeze")


@register(
    "concatenate", pattern=Pattern.INJECTIVE, fold=lambda *data, axis: np.concatenate(data, axis),
    onnx=Onnx("Concat", {"axis": "axis"}),
)  # fmt: skip
def concatenate(*data: Tensor, axis: int = 0) -> Tensor:
    """Return the tensors joined along `axis`."""
    if not data:
        raise InputError("concatenate: nothing to put together")
    first = data[0]
    at = shapes.axis_of(axis, first.ndim)
    for other in data[1:]:
        fits = other.ndim == first.ndim and other.dtype == first.dtype
        if not fits or not all(
            shapes.agree(a, b) for k, (a, b) in enumerate(zip(dims(first), dims(other), strict=True)) if k != at
        ):
            raise TypeMismatch(f"concatenate along axis {at}: {first} and {other} do not fit")
    ends: list[shapes.Dim] = []
    for tensor in data:
        ends.append(shapes.simple(shapes.plus(dims(tensor)[at], ends[-1] if ends else 0)))

    def element(*i: Any) -> Expr:
        def part(k: int) -> Expr:
            start = ends[k - 1] if k else 0
            here = i[at] - start if not (isinstance(start, int) and start == 0) else i[at]
            value = data[k][(*i[:at], here, *i[at + 1 :])]
            return value if k == len(data) - 1 else te.if_then_else(i[at] < ends[k], value, part(k + 1))

        return part(0)

    shape = [*dims(first)[:at], ends[-1], *dims(first)[at + 1 :]]
    return te.compute(shape, element, name="T_concat", attrs={"op": "concatenate", "axis": at})


@register("stack", pattern=Pattern.INJECTIVE, fold=lambda *data, axis: np.stack(data, axis))
def stack(*data: Tensor, axis: int = 0) -> Tensor:
    """Return tensors of one shape, stacked along the new axis `axis`."""
    if not data:
        raise InputError("stack: nothing to put together")
    at = shapes.axis_of(axis, data[0].ndim + 1)
    return concatenate(*(expand_dims(t, axis=at) for t in data), axis=at)


def _fold_split(x: Any, indices_or_sections: int | Sequence[int], axis: int) -> Any:
    cuts = indices_or_sections if isinstance(indices_or_sections, int) else list(indices_or_sections)
    return tuple(np.split(x, cuts, axis))


@register("split", pattern=Pattern.INJECTIVE, fold=_fold_split)
def split(x: Tensor, *, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Split a tensor along `axis` into a number of equal parts, or at the indices in `indices_or_sections`. Returns the
    parts.
    """
    at = shapes.axis_of(axis, x.ndim)
    extent = dims(x)[at]
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        shapes.require_divides(count, extent, f"entries along axis {at} to split")
        size = shapes.simple(extent // count)
        cuts: list[shapes.Dim] = [shapes.simple(shapes.times(size, k)) if k else 0 for k in range(count)] + [extent]
    else:
        cuts = [0, *indices_or_sections, extent]
        if isinstance(extent, int) and any(a > b for a, b in pairwise(cuts)):
            raise InputError(f"split: {tuple(indices_or_sections)} does not cut axis {at} of {x}")

    def part(start: shapes.Dim, stop: shapes.Dim) -> Tensor:
        shape = [*dims(x)[:at], shapes.simple(stop - start), *dims(x)[at + 1 :]]
        return te.compute(shape, lambda *i: x[(*i[:at], shapes.plus(i[at], start), *i[at + 1 :])], name="T_split")

    return [part(a, b) for a, b in pairwise(cuts)]


@register("tile", pattern=Pattern.INJECTIVE, fold=np.tile, aten=Aten("repeat", {"reps": "repeats"}))
def tile(x: Tensor, *, reps: Sequence[shapes.Dim]) -> Tensor:
    """Return x repeated as a whole along each axis. Missing leading axes of x or of `reps` count as 1."""
    rank = max(x.ndim, len(reps))
    extents = [1] * (rank - x.ndim) + list(dims(x))
    counts = [1] * (rank - len(reps)) + list(reps)

    def element(*i: Any) -> Expr:
        folded = [
            p if shapes.is_one(c) else as_expr(0) if shapes.is_one(d) else p % d
            for p, d, c in zip(i, extents, counts, strict=True)
        ]
        return x[tuple(folded[rank - x.ndim :])]

    return te.compute(
        [shapes.simple(shapes.times(d, c)) for d, c in zip(extents, counts, strict=True)], element, name="T_tile"
    )


@register("repeat", pattern=Pattern.INJECTIVE, fold=np.repeat)
def repeat(x: Tensor, *, repeats: int, axis: int = 0) -> Tensor:
    """Return x with each element along `axis` repeated `repeats` times."""
    at = shapes.axis_of(axis, x.ndim)
    shape = [shapes.simple(shapes.times(d, repeats)) if a == at else d for a, d in enumerate(dims(x))]
    return te.compute(shape, lambda *i: x[(*i[:at], i[at] // repeats, *i[at + 1 :])], name="T_repeat")


@register(
    "nn.depth_to_space", pattern=Pattern.INJECTIVE,
    onnx=Onnx("DepthToSpace", {"block_size": "blocksize", "mode": "mode"}),
)  # fmt: skip
def depth_to_space(x: Tensor, *, block_size: int, mode: str = "DCR") -> Tensor:
    """Move blocks of channels to blocks of pixels, in NCHW.

    The block is the outer part of the channel in DCR mode, and the inner part in CRD mode.
    """
    if x.ndim != 4 or mode not in ("DCR", "CRD"):
        raise InputError(f"nn.depth_to_space: wanted four dimensions and the mode DCR or CRD, found {x}, {mode!r}")
    n, c, h, w = dims(x, "N, C, H, W")
    b = block_size
    shapes.require_positive(b, "nn.depth_to_space block_size")
    shapes.require_divides(b * b, c, f"channels for blocks of {b} x {b} pixels")
    depth = shapes.simple(c // (b * b))

    def element(nn: Any, cc: Any, yy: Any, xx: Any) -> Expr:
        inner = (yy % b) * b + xx % b
        channel = inner * depth + cc if mode == "DCR" else cc * (b * b) + inner
        return x[nn, channel, yy // b, xx // b]

    return te.compute(
        (n, depth, shapes.simple(shapes.times(h, b)), shapes.simple(shapes.times(w, b))),
        element,
        name="T_depth_to_space",
    )


@register("nn.space_to_depth", pattern=Pattern.INJECTIVE, onnx=Onnx("SpaceToDepth", {"block_size": "blocksize"}))
def space_to_depth(x: Tensor, *, block_size: int) -> Tensor:
    """Move blocks of pixels to channels, in NCHW. The position in the block is the outer part of the new channel."""
    if x.ndim != 4:
        raise InputError(f"nn.space_to_depth: wanted four dimensions, found {x}")
    n, c, h, w = dims(x, "N, C, H, W")
    b = block_size
    shapes.require_positive(b, "nn.space_to_depth block_size")
    for side, what in ((h, "rows"), (w, "columns")):
        shapes.require_divides(b, side, f"{what} for blocks of {b} x {b} pixels")

    def element(nn: Any, cc: Any, yy: Any, xx: Any) -> Expr:
        place = cc // c
        return x[nn, cc % c, yy * b + place // b, xx * b + place % b]

    return te.compute(
        (n, shapes.simple(shapes.times(c, b * b)), shapes.simple(h // b), shapes.simple(w // b)),
        element,
        name="T_space_to_depth",
    )


@register("nn.interleave", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def interleave(x: Tensor, *, strides: Sequence[int], size: Sequence[shapes.Dim], phases_last: bool = False) -> Tensor:
    """Interleave the phases of an image, which are stored one after the other.

    `x` is [n, p * c, ...], where p is the product of the strides, one stride per spatial axis. The channels of a phase
    are stored together, phase after phase; with `phases_last`, the phases of a channel are stored together, channel
    after channel. The result is [n, c, *size]: its point o is the point o // strides of the phase o % strides, with
    phases in row-major order. `size` may be smaller than the whole result. For two equal strides this is
    `depth_to_space`, in mode CRD for `phases_last`, and in mode DCR otherwise.
    """
    phases = math.prod(strides)
    if (
        x.ndim != len(strides) + 2
        or len(size) != len(strides)
        or not shapes.same(shapes.simple(dims(x)[1] % phases), 0)
    ):
        raise InputError(f"nn.interleave: {x} does not fit strides {tuple(strides)} and size {tuple(size)}")
    channels = shapes.simple(dims(x)[1] // phases)

    def element(n: Any, c: Any, *point: Any) -> Expr:
        phase: Any = 0
        for place, stride in zip(point, strides, strict=True):
            phase = phase * stride + place % stride
        channel = c * phases + phase if phases_last else phase * channels + c
        return x[(n, channel, *(p // s for p, s in zip(point, strides, strict=True)))]

    return te.compute((dims(x)[0], channels, *size), element, name="T_interleave")


@register("trilu", pattern=Pattern.INJECTIVE)
def trilu(x: Tensor, *, k: shapes.Dim = 0, upper: bool = True) -> Tensor:
    """Return the upper (or lower) triangle of the last two axes, starting at the k-th diagonal, with zeros
    elsewhere.
    """
    if x.ndim < 2:
        raise InputError(f"trilu: wanted two dimensions or more, found {x}")
    zero = const(0, x.dtype)

    def element(*i: Any) -> Expr:
        row, column = i[-2], i[-1]
        kept = column - row >= k if upper else column - row <= k
        return te.select(kept, x[i], zero)

    return te.compute(x.shape, element, name="T_trilu")


def _fold_shape_of(kind: TensorType, dtype: str) -> Any:
    static = all(isinstance(d, int) for d in kind[0])
    if static:
        return np.array(kind[0], DType(dtype).numpy)
    dims = np.empty(len(kind[0]), object)
    dims[:] = kind[0]
    return dims


@register("shape_of", pattern=Pattern.INJECTIVE, fold_types=_fold_shape_of)
def shape_of(x: Tensor, *, dtype: str = "int64") -> Tensor:
    """Return the shape of x as a tensor."""
    for extent in dims(x):
        check_counts("shape_of", dtype, extent + 1)

    def element(i: Any) -> Expr:
        value: Expr = const(0, dtype)
        for a, d in reversed(list(enumerate(x.shape))):
            value = te.select(binary_equal(i, a), d.astype(dtype), value)
        return value

    return te.compute((x.ndim,), element, name="T_shape_of")


def _fold_shape_to_tensor(values: Sequence[int], shape: Sequence[int], dtype: str) -> Any:
    return np.array(values).astype(DType(dtype).numpy).reshape(shape)


@register("shape_to_tensor", pattern=Pattern.INJECTIVE, fold=_fold_shape_to_tensor)
def shape_to_tensor(*, values: Sequence[shapes.Dim], shape: Sequence[int], dtype: str = "int64") -> Tensor:
    """Return dimensions, and numbers computed from them, as a tensor: `values` in the row-major order of `shape`.

    This follows Relax's `shape_to_tensor`.
    """
    numbers = [as_expr(v).astype(dtype) for v in values]
    if math.prod(shape) != len(numbers) or not numbers:
        raise InputError(f"shape_to_tensor: {len(numbers)} values do not fill the shape {tuple(shape)}")

    def element(*i: Any) -> Expr:
        place: Any = 0
        for index, extent in zip(i, shape, strict=True):
            place = place * extent + index
        value = numbers[-1]
        for k in reversed(range(len(numbers) - 1)):
            value = te.select(binary_equal(place, k), numbers[k], value)
        return value

    return te.compute(tuple(shape), element, name="T_shape_to_tensor")


@register("match_cast", pattern=Pattern.ELEMENTWISE, view=True)
def match_cast(x: Tensor, *, dims: Sequence[tuple[shapes.Dim, shapes.Dim]], where: str = "") -> Tensor:  # noqa: ARG001
    """Return x with equal dimensions renamed: for each pair in `dims`, the first dimension is written as the second
    one.

    `where` names the operator that needs this, for the error of a run in which the two dimensions are not equal. This
    follows Relax's `match_cast`.
    """

    def written(extent: Expr) -> shapes.Dim:
        return next((new for old, new in dims if structural_equal(as_expr(old), extent)), extent)

    return te.compute([written(d) for d in x.shape], lambda *i: x[i], name="T_match_cast")


def binary_equal(a: Any, b: Any) -> Expr:
    """Return the comparison a == b as an expression."""
    equal: Expr = a == b
    return equal


@register("one_hot", pattern=Pattern.INJECTIVE)
def one_hot(
    indices: Tensor, *, depth: int, on_value: float = 1.0, off_value: float = 0.0, axis: int = -1,
    dtype: str = "float32",
) -> Tensor:  # fmt: skip
    """Return `on_value` where the new axis, of extent `depth`, equals the index, and `off_value` elsewhere.

    A negative index counts from the end.
    """
    at = shapes.axis_of(axis, indices.ndim + 1)
    on, off = const(on_value, dtype), const(off_value, dtype)

    def element(*i: Any) -> Expr:
        index = from_front(indices[(*i[:at], *i[at + 1 :])], depth)
        return te.select(binary_equal(index, i[at].astype(index.dtype)), on, off)

    return te.compute([*dims(indices)[:at], depth, *dims(indices)[at:]], element, name="T_one_hot")
