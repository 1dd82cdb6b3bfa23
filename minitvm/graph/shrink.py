"""Shrink a fused operator, for interpreters that would take minutes at the full sizes.

The smaller operator must exercise the same code. So vector blocks and convolution kernels keep their sizes. A long
dimension keeps its remainder modulo 8, so that tiles, padding and tails occur as before. Two or three blocks of
channels remain. Equal sizes stay equal; if an operator needs sizes in a fixed proportion (112, 56, 28), they are
divided instead. Attributes that contain sizes are changed too. Types are inferred again, and a group that does not
allow the smaller sizes is not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..errors import MinitvmError
from .builder import GraphBuilder
from .nodes import FUSED, Graph, OpNode, Value

KEPT = 7  # sizes up to this stay as they are: kernels of convolutions
BLOCKS = (8, 16)  # these also stay: the lanes of a vector
ENOUGH = 60_000  # elements: the largest version below this is used, not the smallest one
_GROUPS_OF_BLOCKS = ("nn.contrib_conv2d_NCHWc", "nn.contrib_conv3d_NCHWc")
_OF_PANELS = "nn.contrib_dense_packed"
_SIZE_ATTRIBUTES = frozenset({"newshape", "shape", "size", "extent"})


def elements(node: OpNode) -> int:
    """Return the number of elements that a node reads and writes, as an estimate of the work of an interpreter.

    Symbolic sizes count as 0.
    """
    total = 0
    for value in (*node.inputs, *node.outputs):
        count = 1
        for dim in value.shape:
            count *= dim if isinstance(dim, int) else 0
        total += count
    return total


def shrink(node: OpNode) -> OpNode:
    """Return the fused operator with sizes small enough to interpret quickly, or unchanged if it accepts no smaller
    sizes.
    """
    best = node
    for smaller in _candidates():
        shrunk = _at(node, smaller)
        if shrunk is None or elements(shrunk) >= elements(best):
            continue
        best = shrunk
        if elements(best) <= ENOUGH:
            break
    return best


Shape = tuple[Any, ...]


def _candidates() -> Iterator[Callable[[Shape], Shape]]:
    """Yield functions that shrink shapes, starting with the one that changes them least."""
    for long, middle in ((16, 7), (8, 7)):
        yield lambda shape, long=long, middle=middle: _blocked(shape, long, middle)  # type: ignore[misc]
    for long, middle in ((16, 7), (8, 7), (8, 3), (8, 2)):
        yield lambda shape, long=long, middle=middle: tuple(_with_remainder(d, long, middle) for d in shape)  # type: ignore[misc]
    for divisor in (2, 4, 7, 8, 16, 32):
        yield lambda shape, divisor=divisor: tuple(_divided(d, divisor) for d in shape)  # type: ignore[misc]


def _blocked(shape: Shape, long: int, middle: int) -> Shape:
    """Shrink a shape with blocked channels: keep few blocks of channels, and as many pixels as possible.

    Data is [n, c / x, h, w, x]. Weights are [o / y, i / x, kh, kw, x, y], or [c / x, kh, kw, x] for a depthwise
    convolution.
    """
    depthwise = len(shape) == 4 and shape[-1] in BLOCKS and shape[1] == shape[2] and shape[1] in range(KEPT + 1)
    blocks = 1 if depthwise else 2 if len(shape) in (5, 6) else 0
    few = tuple(min(d, 2 + d % 2) if _is_size(d) else d for d in shape[:blocks])
    block = len(shape) - (1 if blocks else 0)
    return (*few, *(_with_remainder(d, long, middle) for d in shape[blocks:block]), *shape[block:])


def _input_shape(graph: Graph, value: Value, smaller: Callable[[Shape], Shape]) -> Shape:
    """Return the smaller shape of the input `value`. Transformed weights of Winograd's algorithm keep their tile
    size.
    """
    product = next((n for n in graph.nodes if n.op == _OF_PANELS and n.inputs[1] is value), None)
    if product is not None:
        return _panels(product, smaller)
    transformed = any(n.op == "nn.contrib_winograd_conv2d_NCHWc" and n.inputs[1] is value for n in graph.nodes)
    if not transformed:
        return smaller(value.shape)
    panels, places, _, in_blocks, in_lanes, panel, out_lanes = value.shape
    out_blocks, in_blocks, *_ = smaller((panels * panel, in_blocks, 3, 3, in_lanes, out_lanes))
    panel = panel if out_blocks % panel == 0 else out_blocks
    return (out_blocks // panel, places, places, in_blocks, in_lanes, panel, out_lanes)


def _panels(product: OpNode, smaller: Callable[[Shape], Shape]) -> Shape:
    """Return the smaller shape of panels [.., n / x, k, x], given the product's new number of columns."""
    *batch, _, depth, width = product.inputs[1].shape
    (columns,) = smaller(product.output.shape[-1:])
    width = next((block for block in BLOCKS[::-1] if width % block == 0), width)
    return (*smaller(tuple(batch)), -(-columns // width), *smaller((depth,)), width)


def _unblocked(item: OpNode, blocks: Value, axis: int, extent: int) -> Any:
    """Return the smaller extent of an axis whose blocks are `blocks`, with the last block filled as far as before."""
    before: tuple[Any, ...] = item.inputs[0].shape
    now: tuple[Any, ...] = blocks.shape
    return now[axis] * now[-1] - min(before[axis] * before[-1] - extent, now[-1] - 1)


def _with_remainder(size: Any, long: int, middle: int) -> Any:
    if not _is_size(size) or _stays(size):
        return size
    return middle + size % 2 if size < max(BLOCKS) else long + size % 8


def _divided(size: Any, divisor: int) -> Any:
    return size if not _is_size(size) or _stays(size) else max(2, -(-size // divisor))


def _stays(size: int) -> bool:
    return size <= KEPT or size in BLOCKS


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _at(node: OpNode, smaller: Callable[[Shape], Shape]) -> OpNode | None:
    graph = node.graph if node.op == FUSED else Graph(node.inputs, (), (node,), node.outputs)
    if graph.constants and any(c.value.ndim for c in graph.constants):
        return None
    builder = GraphBuilder(graph.name)
    new: dict[Value, Value] = {}

    for value in graph.inputs:
        new[value] = builder.input(value.name, _input_shape(graph, value, smaller), value.dtype)
    for constant in graph.constants:
        new[constant.value] = builder.constant(constant.data, constant.value.name)
    try:
        for item in graph.nodes:
            attrs = {
                key: (smaller(value) if isinstance(value, tuple) else smaller((value,))[0])
                if key in _SIZE_ATTRIBUTES
                else value
                for key, value in item.attrs.items()
            }
            if item.op == "layout.unblock_axis":
                attrs["extent"] = _unblocked(item, new[item.inputs[0]], item.attrs["axis"], item.attrs["extent"])
            if item.op == _OF_PANELS:
                (attrs["units"],) = smaller(item.output.shape[-1:])
            if attrs.get("channels"):
                attrs["channels"] = _unblocked(item, new[item.inputs[0]], 1, item.attrs["channels"])
            if item.op in _GROUPS_OF_BLOCKS and item.attrs["groups"] != 1:
                data, weight = (new[v].shape for v in item.inputs)
                attrs["groups"] = data[1] // weight[1]
            results = builder.op(item.op, *(new[v] for v in item.inputs), name=item.outputs[0].name, **attrs)
            for old, fresh in zip(item.outputs, results if isinstance(results, tuple) else (results,), strict=True):
                new[old] = fresh
        small = builder.build([new[v] for v in graph.outputs])
    except (MinitvmError, ValueError, IndexError, ZeroDivisionError):
        return None
    if any(not isinstance(d, int) or d <= 0 for v in small.outputs for d in v.shape):
        return None
    if node.op != FUSED:
        return small.nodes[-1]
    return OpNode(FUSED, small.inputs, {**node.attrs, "graph": small}, small.outputs)
