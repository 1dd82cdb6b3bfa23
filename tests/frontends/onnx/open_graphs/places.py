"""Moves that change shapes and places: reshapes, slices, pads, gathers, masks, sorts, counts."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from .growing import ONE, Dim, OpenGraph, each, known, move, product, replaced, same

END = 2**60  # what exporters write for "to the end"


@move
def transposed(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) >= 2)
    perm = g.d.permuted(range(len(g.values[x])))
    g.node("Transpose", [x], tuple(g.values[x][a] for a in perm), perm=perm)


@move
def merged(g: OpenGraph) -> None:
    """Two neighbouring axes as one, by -1 or by the product; and back, perhaps."""
    x = g.value(lambda s: len(s) >= 2)
    shape = g.values[x]
    a = g.d.int(0, len(shape) - 2)
    both = g.integers(-1) if g.d.flag() else g.hidden("Mul", [g.extent(x, a), g.extent(x, a + 1)])
    others = [g.extent(x, k) for k in range(len(shape)) if k not in (a, a + 1)]
    result = (*shape[:a], product(shape[a : a + 2]), *shape[a + 2 :])
    y = g.node("Reshape", [x, g.joined(*others[:a], both, *others[a:])], result)
    if g.d.flag():
        y = g.node("Relu", [y], result)
        g.node("Reshape", [y, g.joined(*(g.extent(x, k) for k in range(len(shape))))], shape)


@move
def divided(g: OpenGraph) -> None:
    x = g.value(lambda s: any(known(d) and d[0] % 2 == 0 for d in s))
    axis, shape = g.axis(x, lambda d: known(d) and d[0] % 2 == 0), g.values[x]
    half = shape[axis][0] // 2
    parts = [g.integers(2, half) if k == axis else g.extent(x, k) for k in range(len(shape))]
    g.node("Reshape", [x, g.joined(*parts)], replaced(shape, axis, same(2), same(half)))


@move
def flattened(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) >= 2)
    shape = g.values[x]
    a = g.d.int(0, len(shape))
    g.node("Flatten", [x], (product(shape[:a]), product(shape[a:])), axis=a)


@move
def tail_flattened(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) >= 2)
    shape = g.values[x]
    a = g.d.int(1, len(shape) - 1)
    front = g.hidden("Shape", [x], start=0, end=a)
    g.node("Reshape", [x, g.joined(front, g.integers(-1))], (*shape[:a], product(shape[a:])))


@move
def unsqueezed(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) <= 4)
    a = g.d.int(0, len(g.values[x]))
    g.node("Unsqueeze", [x, g.integers(a)], (*g.values[x][:a], ONE, *g.values[x][a:]))


@move
def concatenated(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) >= 1)
    shape, axis = g.values[x], g.axis(x)

    def fits(other: tuple) -> bool:
        return len(other) == len(shape) and all(p == q or k == axis for k, (p, q) in enumerate(zip(shape, other)))

    parts = [x] + [g.value(fits) for _ in range(g.d.int(1, 2))]
    total = each(lambda *sizes: sum(sizes), *(g.values[p][axis] for p in parts))
    g.node("Concat", parts, replaced(shape, axis, total), axis=axis)


@move
def sliced(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) >= 1)
    shape, axis = g.values[x], g.axis(x)
    first, last, step = g.d.one((0, 1, 1), (1, END, 1), (0, -1, 1), (-1, -END, -1), (0, END, 2), (-2, END, 1),
                                (1, END, 3), (-1, -END, -2), (0, 3, 1), (-3, -1, 1))  # fmt: skip
    result = each(lambda v: len(range(v)[slice(first, None if abs(last) == END else last, step)]), shape[axis])
    g.node("Slice", [x, *(g.integers(v) for v in (first, last, axis, step))], replaced(shape, axis, result))


@move
def half(g: OpenGraph) -> None:
    """The part in front of the middle, or behind it: a bound that is a quotient of the size."""
    x = g.value(lambda s: any(min(d) >= 2 for d in s))
    axis, shape = g.axis(x, lambda d: min(d) >= 2), g.values[x]
    middle = g.hidden("Div", [g.extent(x, axis), g.integers(2)])
    front = g.d.flag()
    ends = [g.integers(0), middle] if front else [middle, g.integers(END)]
    result = each(lambda v: v // 2 if front else v - v // 2, shape[axis])
    g.node("Slice", [x, *ends, g.integers(axis)], replaced(shape, axis, result))


@move
def split(g: OpenGraph) -> None:
    x = g.value(lambda s: any(min(d) >= 2 for d in s))
    axis, shape = g.axis(x, lambda d: min(d) >= 2), g.values[x]
    rest = g.hidden("Sub", [g.extent(x, axis), g.integers(1)])
    sizes = g.integers(1, shape[axis][0] - 1) if known(shape[axis]) else g.joined(g.integers(1), rest)
    a, b = g.fresh(), g.fresh()
    g.nodes.append(helper.make_node("Split", [x, sizes], [a, b], axis=axis))
    g.values[a] = replaced(shape, axis, ONE)
    g.values[b] = replaced(shape, axis, each(lambda v: v - 1, shape[axis]))


@move
def rolled(g: OpenGraph) -> None:
    x = g.value(lambda s: any(min(d) >= 2 for d in s))
    axis = g.axis(x, lambda d: min(d) >= 2)
    at = g.integers(axis)
    rest = g.hidden("Slice", [x, g.integers(1), g.integers(END), at])
    first = g.hidden("Slice", [x, g.integers(0), g.integers(1), at])
    g.node("Concat", [rest, first], g.values[x], axis=axis)


@move
def rotated(g: OpenGraph) -> None:
    """Half of the last axis negated and put in front, times positions: rotary embedding."""
    x = g.value(lambda s: len(s) >= 2 and known(s[-1]) and s[-1][0] % 2 == 0)
    shape = g.values[x]
    middle, last = g.integers(shape[-1][0] // 2), g.integers(-1)
    back = g.hidden("Neg", [g.hidden("Slice", [x, middle, g.integers(END), last])])
    front = g.hidden("Slice", [x, g.integers(0), middle, last])
    turned = g.hidden("Concat", [back, front], axis=-1)
    angles = g.hidden("Unsqueeze", [_positions(g, x, len(shape) - 2, down=False), g.integers(1)])
    parts = [g.hidden("Mul", [x, g.hidden("Cos", [angles])]), g.hidden("Mul", [turned, g.hidden("Sin", [angles])])]
    g.node("Add", parts, shape)


def _positions(g: OpenGraph, x: str, axis: int, *, down: bool) -> str:
    """Floats 0, 0.1, ... as many as the axis is long, or in the other order."""
    length, one = g.scalar(g.extent(x, axis)), g.constant(1, "int64")
    ends = [g.constant(0, "int64"), length, one]
    if down:
        ends = [g.hidden("Sub", [length, one]), g.constant(-1, "int64"), g.constant(-1, "int64")]
    places = g.hidden("Cast", [g.hidden("Range", ends)], to=TensorProto.FLOAT)
    return g.hidden("Mul", [places, g.constant(0.1, "float32")])


@move
def positions(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) >= 1)
    axis, rank = g.axis(x), len(g.values[x])
    waves = g.hidden("Sin", [_positions(g, x, axis, down=g.d.flag())])
    column = g.hidden("Reshape", [waves, g.integers(-1, *(1,) * (rank - 1 - axis))])
    g.node("Add", [x, column], g.values[x])


@move
def masked(g: OpenGraph) -> None:
    """By comparing the places of two axes: causal, or the diagonal."""
    x = g.value(lambda s: len(s) >= 2)
    rank = len(g.values[x])
    columns = _positions(g, x, rank - 1, down=False)
    rows = g.hidden("Unsqueeze", [_positions(g, x, rank - 2, down=False), g.integers(1)])
    mask = g.hidden(g.d.one("LessOrEqual", "Equal"), [columns, rows])
    g.node("Where", [mask, x, g.constant(-1, "float32")], g.values[x])


@move
def triangle(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) >= 2)
    g.node("Trilu", [x, g.constant(g.d.int(-1, 2), "int64")], g.values[x], upper=g.d.int(0, 1))


@move
def padded(g: OpenGraph) -> None:
    x = g.value(lambda s: 1 <= len(s) <= 4)
    shape, mode = g.values[x], g.d.one("constant", "constant", "edge", "reflect")
    most = [min(2, min(d) - 1) if mode == "reflect" else 2 for d in shape]
    low, high = ([g.d.int(0, k) for k in most] for _ in range(2))
    value = [g.constant(0.5, "float32")] if mode == "constant" else []
    result = tuple(each(lambda v, a=a, b=b: v + a + b, d) for d, a, b in zip(shape, low, high))
    g.node("Pad", [x, g.integers(*low, *high), *value], result, mode=mode)


@move
def expanded(g: OpenGraph) -> None:
    x = g.value(lambda s: ONE in s)
    axis, shape, other = g.axis(x, lambda d: d == ONE), g.values[x], g.value(lambda s: len(s) >= 1)
    place = g.axis(other)
    sizes = [g.extent(other, place) if k == axis else g.extent(x, k) for k in range(len(shape))]
    g.node("Expand", [x, g.joined(*sizes)], replaced(shape, axis, g.values[other][place]))


@move
def tiled(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) >= 1)
    times = [g.d.int(1, 2) for _ in g.values[x]]
    g.node("Tile", [x, g.integers(*times)], tuple(each(lambda v, k=k: v * k, d) for d, k in zip(g.values[x], times)))


@move
def filled(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) >= 1)
    value = helper.make_tensor("value", TensorProto.FLOAT, [1], [0.5])
    g.node("Add", [g.hidden("ConstantOfShape", [g.hidden("Shape", [x])], value=value), x], g.values[x])


# ---- indices ---------------------------------------------------------------------------------------------------------


@move
def gathered(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) >= 1)
    axis, shape = g.axis(x), g.values[x]
    least = min(shape[axis])
    places = np.array([g.d.int(-least, least - 1) for _ in range(g.d.int(1, 3))])
    places = g.d.one(places, places, places.reshape(1, -1), places[0])
    g.node("Gather", [x, g.constant(places, "int64")], replaced(shape, axis, *map(same, np.shape(places))), axis=axis)


@move
def points(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) >= 2)
    shape = g.values[x]
    places = [[g.d.int(0, min(d) - 1) for d in shape[:2]] for _ in range(3)]
    g.node("GatherND", [x, g.constant(places, "int64")], (same(3), *shape[2:]))


def _largest(g: OpenGraph, x: str, axis: int, keepdims: int) -> str:
    return g.hidden(g.d.one("ArgMax", "ArgMin"), [x], axis=axis, keepdims=keepdims)


@move
def place_of_largest(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) >= 1)
    axis = g.axis(x)
    g.node("Cast", [_largest(g, x, axis, 0)], replaced(g.values[x], axis), to=TensorProto.FLOAT)


@move
def one_hot(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) >= 2)  # ONNX Runtime has no index of rank 0
    axis = g.axis(x)
    inputs = [_largest(g, x, axis, 0), g.integers(5), g.constant([0, 1], "float32")]
    g.node("OneHot", inputs, (*replaced(g.values[x], axis), same(5)))


@move
def taken_and_put(g: OpenGraph) -> None:
    """The element at a place that data decide, taken from it, or replaced there."""
    x = g.value(lambda s: len(s) >= 1)
    axis = g.axis(x)
    row, place = replaced(g.values[x], axis, ONE), _largest(g, x, axis, 1)
    if g.d.flag():
        g.node("GatherElements", [x, place], row, axis=axis)
        return
    least = g.hidden("ReduceMin", [x, g.integers(axis)], keepdims=1)
    g.node("ScatterElements", [x, place, least], g.values[x], axis=axis, reduction=g.d.one("none", "add"))


@move
def first_few(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) >= 1)
    axis, shape = g.axis(x), g.values[x]
    count = g.d.int(1, min(3, min(shape[axis])))
    a, b = g.fresh(), g.fresh()
    g.nodes.append(helper.make_node("TopK", [x, g.integers(count)], [a, b], axis=axis, largest=g.d.int(0, 1)))
    g.values[a] = replaced(shape, axis, same(count))


@move
def compressed(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) >= 1)
    axis, shape = g.axis(x), g.values[x]
    kept = [g.d.flag() for _ in range(min(shape[axis]))]
    g.node("Compress", [x, g.constant(kept, "bool")], replaced(shape, axis, same(sum(kept))), axis=axis)


@move
def counted(g: OpenGraph) -> None:
    """The sum over the places that data decide."""
    x = g.value(lambda s: len(s) == 1)
    positive = g.hidden("Greater", [x, g.constant(0, "float32")])
    places = g.hidden("Squeeze", [g.hidden("NonZero", [positive]), g.integers(0)])
    g.node("ReduceSum", [g.hidden("Gather", [x, places]), g.integers(0)], (ONE,))


@move
def reversed_rows(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) >= 2 and known(s[1]))
    shape = g.values[x]
    lengths = g.hidden("Expand", [g.integers(min(shape[0])), g.integers(shape[1][0])])
    g.node("ReverseSequence", [x, lengths], shape, time_axis=0, batch_axis=1)


@move
def at_least_two(g: OpenGraph) -> None:
    """Broadcast to a shape that is an extreme of the sizes."""
    x = g.value(lambda s: len(s) >= 1 and all(d == ONE or min(d) >= 2 for d in s))
    sizes = g.hidden("Max", [g.hidden("Shape", [x]), g.integers(2)])
    shape: tuple[Dim, ...] = tuple(each(lambda v: max(v, 2), d) for d in g.values[x])
    g.node("Expand", [x, sizes], shape)


@move
def masked_mean(g: OpenGraph) -> None:
    """The mean over the places below a length that is a quotient of the size."""
    x = g.value(lambda s: len(s) >= 2)
    shape = g.values[x]
    length = g.hidden("Add", [g.hidden("Div", [g.extent(x, 0), g.integers(2)]), g.integers(1)])
    places = g.hidden("Range", [g.constant(0, "int64"), g.scalar(g.extent(x, 0)), g.constant(1, "int64")])
    mask = g.hidden("Cast", [g.hidden("Less", [places, length])], to=TensorProto.FLOAT)
    column = g.hidden("Reshape", [mask, g.integers(-1, *(1,) * (len(shape) - 1))])
    total = g.hidden("ReduceSum", [g.hidden("Mul", [x, column]), g.integers(0)], keepdims=0)
    g.node("Div", [total, g.hidden("Cast", [length], to=TensorProto.FLOAT)], shape[1:])
