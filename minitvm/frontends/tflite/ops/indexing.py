"""Convert operators that read or write elements at computed places."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....errors import ModelError
from ...common.lengths import reversed_sequences
from ...common.operand import Operand
from ..context import NodeContext
from ..layouts import Laid
from ..registry import converter


@converter("GATHER", bytes="stored")
def gather(n: NodeContext) -> Any:
    """Return the entries of an axis at the indices, whose axes replace it. The first `batch_dims` axes are shared."""
    x, index = n[0], n[1]
    axis, batch = n.axis(int(n.option("Axis", 0)), x.ndim), n.axis(int(n.option("BatchDims", 0)), index.ndim + 1)
    if not batch:
        return n.op("take", n.reachable(x, index, axis), index, axis=axis)
    if axis < batch:
        raise ModelError(f"{n.where}: the axis {axis} is one of {batch} shared axes")
    order = [*range(batch), axis, *(a for a in range(batch, x.ndim) if a != axis)]
    points = n.op("expand_dims", index, axis=(index.ndim,))
    result = n.op("gather_nd", n.moved(x, order), points, batch_dims=batch)
    # Its axes are the shared ones, those of the indices, and the others of x: the ones before `axis` move to the front.
    own, before = index.ndim - batch, axis - batch
    places = [*range(batch), *(batch + own + k for k in range(before)), *(batch + k for k in range(own))]
    return n.moved(result, [*places, *range(batch + own + before, result.ndim)])


@converter("GATHER_ND", bytes="stored")
def gather_nd(n: NodeContext) -> Any:
    return n.op("gather_nd", n[0], n[1])


@converter("SCATTER_ND", bytes="stored")
def scatter_nd(n: NodeContext) -> Any:
    """Return zeros plus the updates at their places; updates of one place are added."""
    points, updates = n[0], n[1]
    zeros = n.op("full", shape=n.dims(n[2], "the shape"), fill_value=0, dtype=str(updates.dtype))
    return n.op("scatter_nd", zeros, points, updates, reduction="add")


@converter("EMBEDDING_LOOKUP", bytes="own")
def embedding_lookup(n: NodeContext) -> Any:
    """Return rows of a table. Those of a quantised table are dequantised."""
    from ..quantized import dequantized, quantization

    table = n.laid(1)
    if quantization(n.info(1)) is not None and n.result_dtype().is_float:
        table = dequantized(n, table, n.info(1))
    rows = n.last(table)
    return n.op("take", n.reachable(rows, n[0], 0), n[0], axis=0)


@converter("TOPK_V2", bytes="stored")
def top_k(n: NodeContext) -> Any:
    values, index = n.op("topk", n[0], k=n.dim(n[1], "k"), axis=-1, is_ascend=False, dtype="int64")
    return [values, n.cast(index, str(n.result_dtype(1)))]


@converter("REVERSE_V2", bytes="stored")
def reverse(n: NodeContext) -> Any:
    x = n.laid(0)
    result = x.operand
    for axis in n.ints(n[1], "the axes"):
        result = n.op("reverse", result, axis=x.order.index(n.axis(axis, x.ndim)))
    return Laid.of(result, x.order)


@converter("REVERSE_SEQUENCE", bytes="stored")
def reverse_sequence(n: NodeContext) -> Any:
    x = n[0]
    batch, time = n.axis(int(n.option("BatchDim", 0)), x.ndim), n.axis(int(n.option("SeqDim", 0)), x.ndim)
    if batch == time:
        n.refuse(f"the batch axis and the time axis are both {time}")
    return reversed_sequences(n, x, n[1], batch, time)


@converter("CUMSUM")
def cumsum(n: NodeContext) -> Any:
    x = n.laid(0)
    place = x.order.index(n.axis(int(n.scalar(n[1], "the axis")), x.ndim))
    flags = {name.lower(): bool(n.option(name, False)) for name in ("Exclusive", "Reverse")}
    return Laid.of(n.op("cumsum", x.operand, axis=place, **flags), x.order)


@converter("TILE", bytes="stored")
def tile(n: NodeContext) -> Any:
    x, counts = n.laid(0), n.dims(n[1], "the repeats")
    if len(counts) != x.ndim:
        raise ModelError(f"{n.where}: wanted {x.ndim} repeats, found {len(counts)}")
    return Laid.of(n.op("tile", x.operand, reps=tuple(counts[axis] for axis in x.order)), x.order)


@converter("MIRROR_PAD", bytes="stored")
def mirror_pad(n: NodeContext) -> Any:
    """Pad by reflection: without the edge itself (REFLECT), or with it (SYMMETRIC)."""
    x, pairs, skipped = n.laid(0), n.static(n[1], "the paddings"), 1 - int(n.option("Mode", 0))
    result = x.operand
    for place, axis in enumerate(x.order):
        before, after = (int(count) for count in pairs[axis])
        if not before and not after:
            continue
        extent = n.size(result, place)
        if max(before, after) > extent - skipped:
            raise ModelError(f"{n.where}: paddings {before} and {after} of {extent} entries")
        line = np.arange(-before, extent + after)
        line = np.where(line < 0, skipped - 1 - line, line)
        line = np.where(line >= extent, 2 * extent - 1 - skipped - line, line)
        result = n.op("take", result, line.astype(np.int64), axis=place)
    return Laid.of(result, x.order)


@converter("BUCKETIZE")
def bucketize(n: NodeContext) -> Any:
    """Return how many boundaries are at most x, which is the number of its bucket."""
    x, limits = n.laid(0), n.node.options.BoundariesAsNumpy()
    limits = np.asarray(limits, np.float32).reshape(-1) if not isinstance(limits, int) else np.zeros(0, np.float32)
    wide = n.op("expand_dims", n.cast(x.operand, "float32"), axis=(x.ndim,))
    above = n.op("cast", n.op("greater_equal", wide, limits), dtype="int32")
    return Laid.of(n.op("sum", above, axis=(x.ndim,)), x.order)


@converter("DYNAMIC_UPDATE_SLICE", bytes="stored")
def dynamic_update_slice(n: NodeContext) -> Any:
    """Replace a part of x. Its start is moved so far that the part lies in x."""
    x, part, start = n[0], n[1], n.cast(n[2], "int64")
    inside: Operand | None = None
    for axis in range(x.ndim):
        last = n.size(x, axis) - n.size(part, axis)
        begin = n.op("clip", n.entry(start, axis), a_min=0, a_max=max(last, 0))
        place = n.op("subtract", n.numbers(x.shape[axis], 0, 1), begin)
        own = n.op("logical_and", n.op("greater_equal", place, 0), n.op("less", place, n.size(part, axis)))
        own = n.reshape(own, [-1 if a == axis else 1 for a in range(x.ndim)])
        inside = own if inside is None else n.op("logical_and", inside, own)
        part = n.op("take", part, n.op("clip", place, a_min=0, a_max=max(n.size(part, axis) - 1, 0)), axis=axis)
    return n.reshape(part, x.shape) if inside is None else n.op("where", inside, part, x)


_SEGMENTS = {"SUM": "add", "PROD": "mul", "MAX": "max", "MIN": "min"}


@converter(*(f"UNSORTED_SEGMENT_{name}" for name in _SEGMENTS))
def unsorted_segment(n: NodeContext) -> Any:
    """Combine the entries of x that have the same number, which is from 0; entries with a negative number are left
    out.
    """
    return _segments(n, n.node.name.rpartition("_")[2], n.dim(n[2], "the number of segments"))


@converter("SEGMENT_SUM")
def segment_sum(n: NodeContext) -> Any:
    return _segments(n, "SUM", int(n.static(n[1], "the segments").max(initial=-1)) + 1)


def _segments(n: NodeContext, kind: str, count: Any) -> Operand:
    x, numbers = n[0], n.cast(n[1], "int64")
    lead = numbers.ndim
    rows = n.reshape(x, (-1, *x.shape[lead:])) if lead != 1 else x
    numbers = n.reshape(numbers, (-1,))
    limits = (np.finfo if x.dtype.is_float else np.iinfo)(x.dtype.numpy)
    start = {"SUM": 0, "PROD": 1, "MAX": limits.min, "MIN": limits.max}[kind]
    # Entries with a negative number go into one more row, which is cut off.
    numbers = n.op("where", n.op("less", numbers, 0), np.array(count, np.int64), numbers)
    begin = n.op("broadcast_to", np.array(start, x.dtype.numpy), shape=(count + 1, *rows.shape[1:]))
    whole = n.op("scatter_nd", begin, n.op("expand_dims", numbers, axis=(1,)), rows, reduction=_SEGMENTS[kind])
    return n.part(whole, 0, 0, count)


@converter("WHERE")
def where(n: NodeContext) -> Any:
    """Return the places [count, rank] of the elements that are not 0, in order. Their number is a size of the graph."""
    x = n[0]
    if x.is_known and not x.is_symbolic:
        return Operand.known(np.argwhere(n.static(x, "the condition")).astype(np.int64))
    if x.ndim == 0:
        n.refuse("a condition without dimensions is not supported")
    return n.counted(n.op("argwhere", x), "nonzeros")[0]


@converter("UNIQUE")
def unique(n: NodeContext) -> Any:
    """Return the different elements of a vector, in order, and the index of each element among them."""
    x = n.reshape(n[0], (-1,))
    first, inverse, _, number = n.op("unique", x, sorted=False)
    places, _ = n.counted((first, number), "different")
    return [n.op("take", x, places, axis=0), n.cast(inverse, str(n.result_dtype(1)))]


@converter("SPACE_TO_BATCH_ND", bytes="stored")
def space_to_batch(n: NodeContext) -> Any:
    """Pad an image, and make each place of a block an image of the batch."""
    x, blocks, pairs = n[0], n.ints(n[1], "the block"), n.static(n[2], "the paddings")
    zero = _stored_zero(n)
    widths = [(0, 0), *((int(a), int(b)) for a, b in pairs), *[(0, 0)] * (x.ndim - 1 - len(blocks))]
    x = n.op("nn.pad", x, pad_width=widths, pad_value=zero) if pairs.any() else x
    count = len(blocks)
    batch, spatial, rest = x.shape[0], n.sizes(x, 1)[:count], x.shape[1 + count :]
    if any(extent % block for extent, block in zip(spatial, blocks, strict=True)):
        raise ModelError(f"{n.where}: an image of {spatial} in blocks of {blocks}")
    cells = [d for extent, block in zip(spatial, blocks, strict=True) for d in (extent // block, block)]
    split = n.reshape(x, (batch, *cells, *rest))
    order = [*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count, 2), *range(2 * count + 1, 2 * count + 1 + len(rest))]
    return n.reshape(n.moved(split, order), (-1, *cells[::2], *rest))


@converter("BATCH_TO_SPACE_ND", bytes="stored")
def batch_to_space(n: NodeContext) -> Any:
    """Interleave the images of a batch in blocks, and crop the result."""
    x, blocks, crops = n[0], n.ints(n[1], "the block"), n.static(n[2], "the crops")
    count, number = len(blocks), int(np.prod(blocks))
    spatial, rest = n.sizes(x, 1)[:count], x.shape[1 + count :]
    if n.size(x, 0) % number:
        raise ModelError(f"{n.where}: a batch of {x.shape[0]} in blocks of {blocks}")
    split = n.reshape(x, (*blocks, n.size(x, 0) // number, *spatial, *rest))
    inner = [a for k in range(count) for a in (count + 1 + k, k)]
    moved = n.moved(split, [count, *inner, *range(2 * count + 1, 2 * count + 1 + len(rest))])
    whole = n.reshape(moved, (n.size(x, 0) // number, *(s * b for s, b in zip(spatial, blocks, strict=True)), *rest))
    for k, (before, after) in enumerate(crops.tolist()):
        if before or after:
            whole = n.part(whole, 1 + k, before, n.size(whole, 1 + k) - after)
    return whole


def _stored_zero(n: NodeContext) -> int:
    from ..quantized import quantization

    parameters = quantization(n.info(0))
    return 0 if parameters is None else int(parameters.zero_point[0])
