"""Concatenate, slice and interleave channels on blocked layouts by moving whole blocks.

An operator that would have to divide a block works on plain values instead.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from ....graph.nodes import OpNode, Value

if TYPE_CHECKING:
    from .blocked_layout import Blocking


def concatenate(blocking: Blocking, item: OpNode) -> bool:
    block = blocking.block(item.output)
    blocks = {blocking.block(v) for v in item.inputs}
    if item.attrs["axis"] % item.output.ndim != 1 or block is None or blocks != {block}:
        return False
    if any(int(v.shape[1]) % block for v in item.inputs[:-1]):  # type: ignore[arg-type]
        return False
    if not any(v in blocking.blocked for v in item.inputs):
        return False
    if turned_phases(blocking, item, item.output):
        return False
    parts = [blocking.as_blocked(v) for v in item.inputs]
    blocking.blocked[item.output] = blocking.op("concatenate", *parts, name=item.output.name, axis=1)
    return True


def strided_slice(blocking: Blocking, item: OpNode) -> bool:
    """Rewrite a slice whose channels begin at a block boundary. Other axes may be sliced anywhere. Return whether it
    was done.
    """
    data, output, attrs = item.inputs[0], item.output, item.attrs
    begin, end, where = list(attrs["begin"]), list(attrs["end"]), attrs["axes"]
    axes = list(range(len(begin))) if where is None else [a % output.ndim for a in where]
    strides = attrs["strides"] or (1,)
    steps = list(strides) * (len(axes) if len(strides) == 1 else 1)
    if 1 in axes:
        at = axes.index(1)
        blocks = whole_blocks(blocking, data, output, begin[at], end[at], steps[at])
        if blocks is None:
            return False
        begin[at], end[at] = blocks
    elif blocking.block(output) is None or data not in blocking.blocked:
        return False
    blocking.blocked[output] = blocking.op(
        item.op, blocking.blocked[data], name=output.name, begin=tuple(begin), end=tuple(end), strides=tuple(steps),
        axes=tuple(axes),
    )  # fmt: skip
    return True


def split(blocking: Blocking, item: OpNode) -> bool:
    """Rewrite a split of the channels if every part begins at a block boundary. Return whether it was done."""
    data = item.inputs[0]
    if item.attrs["axis"] % data.ndim != 1 or data not in blocking.blocked:
        return False
    ends = list(itertools.accumulate(int(part.shape[1]) for part in item.outputs))  # type: ignore[arg-type]
    parts = [
        whole_blocks(blocking, data, part, begin, end)
        for part, begin, end in zip(item.outputs, [0, *ends], ends, strict=False)
    ]
    if None in parts:
        return False
    for output, blocks in zip(item.outputs, parts, strict=True):
        assert blocks is not None
        blocking.blocked[output] = blocking.op(
            "strided_slice", blocking.blocked[data], name=output.name, begin=blocks[:1], end=blocks[1:], axes=(1,)
        )
    return True


def whole_blocks(
    blocking: Blocking, data: Value, output: Value, begin: Any, end: Any, step: int = 1
) -> tuple[int, int] | None:
    """Return the range (first, end) of blocks that hold the channels of a slice, or None if it does not begin at a
    block.

    The last block may have more channels than the slice, if the last block of the result is incomplete.
    """
    width = blocking.block(data)
    if data not in blocking.blocked or width is None or blocking.block(output) != width or step != 1:
        return None
    if not isinstance(begin, int) or not isinstance(end, int):
        return None
    first, last, _ = slice(begin, end).indices(int(data.shape[1]))  # type: ignore[arg-type]
    return None if first % width else (first // width, -(-last // width))


def turned_phases(blocking: Blocking, item: OpNode, data: Value) -> bool:
    """Return whether an operator computes phases from `data` that are interleaved as plain values."""
    readers = blocking.consumers.get(item.output, ())
    return any(reader.op == "nn.interleave" and not in_blocks(blocking, reader, data) for reader in readers)


def in_blocks(blocking: Blocking, item: OpNode, data: Value) -> bool:
    """Return whether to interleave phases that are computed from `data` in blocked form: the values around them are
    blocked.
    """
    phases, result = item.inputs[0], item.output
    block = blocking.block(result)
    if block is None or blocking.block(phases) != block or int(result.shape[1]) % block:  # type: ignore[arg-type]
        return False
    return data in blocking.blocked or blocking.goes_into_blocks(result, through=("concatenate",))


def interleave(blocking: Blocking, item: OpNode) -> bool:
    """Interleave phases on blocks, or store the phases of each channel next to each other first. Return whether it was
    done.
    """
    (phases,) = item.inputs
    strides, size = item.attrs["strides"], item.attrs["size"]
    if item.attrs["phases_last"]:
        return False
    if phases in blocking.blocked and in_blocks(blocking, item, phases):
        blocked = blocking.op(
            "nn.interleave", blocking.blocked[phases], name=item.output.name, strides=(*strides, 1),
            size=(*size, blocking.block(item.output)),
        )  # fmt: skip
        blocking.blocked[item.output] = blocked
        return True
    maker = blocking.producers.get(phases)
    if maker is None or maker.op not in ("nn.conv1d", "nn.conv2d", "nn.conv3d") or maker.attrs["groups"] != 1:
        return False
    if phases in blocking.blocked or blocking.only_reader(phases) is None:
        return False
    data, weight = maker.inputs[:2]
    layouts = (maker.attrs.get("data_layout", "NCHW"), maker.attrs.get("kernel_layout", "OIHW"))
    if weight not in blocking.arrays or len(maker.inputs) != 2 or layouts != ("NCHW", "OIHW"):
        return False
    filters = blocking.arrays[weight]
    turned = filters.reshape(math.prod(strides), -1, *filters.shape[1:]).swapaxes(0, 1).reshape(filters.shape)
    convolved = blocking.op(maker.op, blocking.as_plain(data), blocking.b.constant(turned, weight.name), **maker.attrs)
    blocking.plain[item.output] = blocking.op(
        "nn.interleave", convolved, name=item.output.name, strides=strides, size=size, phases_last=True
    )
    return True
