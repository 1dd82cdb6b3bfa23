"""Moves on values of all dtypes: arithmetic, comparisons, casts, sums, places, products, windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from .growing import FLOATS, MixedGraph, Unfit, numbers

MOVES: dict[str, Callable[[MixedGraph], None]] = {}


def move(function: Callable[[MixedGraph], None]) -> Callable[[MixedGraph], None]:
    """Register a way in which a graph grows; it may raise `Unfit` at any point."""
    MOVES[function.__name__] = function
    return function


def integer(a: np.ndarray) -> bool:
    return a.dtype.kind in "iu"


def ranked(least: int, most: int = 6) -> Callable[[np.ndarray], bool]:
    return lambda a: least <= a.ndim <= most


def axis_of(g: MixedGraph, a: np.ndarray) -> int:
    if not a.ndim:
        raise Unfit
    return g.d.axis(a.ndim)


def beside(g: MixedGraph, x: str) -> str:
    """A value, or a new one, that broadcasts with x."""
    a = g.arrays[x]

    def fits(b: np.ndarray) -> bool:
        return b.dtype == a.dtype and all(p == q or 1 in (p, q) for p, q in zip(a.shape[::-1], b.shape[::-1]))

    if g.d.flag():
        return g.pick(fits)
    shape = [g.d.one(n, n, 1) if n != 1 else g.d.one(1, 1, 2, 0, 3) for n in a.shape]
    return g.operand(shape[g.d.one(0, 0, 1, len(shape)) :], a.dtype)


# ---- numbers -------------------------------------------------------------------------------------------------------


@move
def unary(g: MixedGraph) -> None:
    x = g.floats()
    op = g.d.one("Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Erf", "Softplus", "HardSwish", "LeakyRelu", "Elu", "Sin",
                 "Cos", "Softsign", "Celu", "Selu", "ThresholdedRelu", "HardSigmoid", "Identity", "Mish", "Floor",
                 "Round", "Sign", "Ceil", "Gelu", "Atan", "Sinh", "IsNaN", "Not")  # fmt: skip
    g.node(op, [x])


@move
def unary_of_integers(g: MixedGraph) -> None:
    g.node(g.d.one("Abs", "Neg", "Sign", "BitwiseNot", "Identity", "Relu"), [g.pick(integer)])


@move
def root_or_logarithm(g: MixedGraph) -> None:
    x = g.floats()
    positive = g.node("Add", [g.hidden("Abs", [x]), g.constant(0.5, g.arrays[x].dtype)])[0]
    g.node(g.d.one("Sqrt", "Log", "Reciprocal"), [positive])


@move
def binary(g: MixedGraph) -> None:
    x = g.pick(lambda a: a.dtype != bool)
    y = beside(g, x)
    pair = [x, y] if g.d.flag() else [y, x]
    g.node(g.d.one("Add", "Sub", "Mul", "Max", "Min", "Mean", "Sum"), pair)


@move
def same_twice(g: MixedGraph) -> None:
    x = g.pick(lambda a: a.dtype != bool)
    g.node(g.d.one("Add", "Sub", "Mul", "Max", "Min"), [x, x])


@move
def quotient(g: MixedGraph) -> None:
    x = g.floats()
    below = g.hidden("Add", [g.hidden("Abs", [beside(g, x)]), g.constant(1, g.arrays[x].dtype)])
    g.node("Div", [x, below])


@move
def quotient_of_integers(g: MixedGraph) -> None:
    x = g.pick(lambda a: a.dtype in (np.int32, np.int64, np.uint8))
    below = g.constant(g.d.one(1, 2, 3, 7), g.arrays[x].dtype)
    g.node(g.d.one("Div", "Mod"), [x, below])


@move
def compared(g: MixedGraph) -> None:
    x = g.pick(lambda a: a.dtype != bool)
    g.node(g.d.one("Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal"), [x, beside(g, x)])


@move
def logical(g: MixedGraph) -> None:
    x = g.pick(lambda a: a.dtype == bool)
    if g.d.int(0, 2):
        g.node(g.d.one("And", "Or", "Xor", "Equal"), [x, beside(g, x)])
    else:
        g.node("Not", [x])


@move
def bitwise(g: MixedGraph) -> None:
    x = g.pick(integer)
    g.node(g.d.one("BitwiseAnd", "BitwiseOr", "BitwiseXor"), [x, beside(g, x)])


@move
def where(g: MixedGraph) -> None:
    x = g.pick()
    y = beside(g, x)
    shape = np.broadcast_shapes(g.arrays[x].shape, g.arrays[y].shape)

    def fits(b: np.ndarray) -> bool:
        return b.dtype == bool and all(p == q or 1 in (p, q) for p, q in zip(shape[::-1], b.shape[::-1]))

    if g.d.flag():
        c = g.pick(fits)
    else:
        c = g.operand([g.d.one(n, 1) for n in shape][g.d.one(0, 0, len(shape)) :], bool)
    g.node("Where", [c, x, y])


@move
def clipped(g: MixedGraph) -> None:
    x = g.pick(lambda a: a.dtype != bool)
    dtype = g.arrays[x].dtype
    least = g.constant(0 if dtype.kind == "u" else g.d.one(-3, -1, 0), dtype) if g.d.int(0, 3) else ""
    g.node("Clip", [x, least, *([g.constant(g.d.one(1, 2, 6), dtype)] if g.d.int(0, 3) else [])])


@move
def cast(g: MixedGraph) -> None:
    x = g.pick()
    to = g.d.one("float32", "float32", "float32", "float16", "float64", "int32", "int64", "int8", "uint8", "bool")
    a = g.arrays[x]
    if to in ("int8", "uint8") and a.dtype.kind == "f":
        x = g.hidden("Clip", [x, g.constant(0, a.dtype), g.constant(100, a.dtype)])
    g.node("Cast", [x], to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))


@move
def through_brain_float(g: MixedGraph) -> None:
    x = g.singles()
    half = g.hidden("Cast", [x], to=TensorProto.BFLOAT16)
    g.node("Cast", [half], to=TensorProto.FLOAT)


# ---- along axes ----------------------------------------------------------------------------------------------------


@move
def reduced(g: MixedGraph) -> None:
    x = g.pick(lambda a: a.dtype != bool)
    a = g.arrays[x]
    op = g.d.one("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare",
                 "ReduceLogSumExp", "ReduceProd", "ReduceLogSum")  # fmt: skip
    if op == "ReduceLogSumExp" and integer(a):
        raise Unfit  # ONNX Runtime rounds each exponential
    if op == "ReduceLogSum":
        x = g.hidden("Add", [g.hidden("Abs", [x]), g.constant(1, a.dtype)])
    axes = [g.ints(*g.d.axes(a.ndim, 0 if g.d.flag() else 1))] if a.ndim and g.d.int(0, 4) else []
    g.node(op, [x, *axes], **g.d.attrs(keepdims=g.d.int(0, 1), noop_with_empty_axes=g.d.int(0, 1)))


@move
def place_of_greatest(g: MixedGraph) -> None:
    x = g.pick(lambda a: a.ndim > 0 and a.dtype != bool)
    g.node(g.d.one("ArgMax", "ArgMin"), [x], axis=axis_of(g, g.arrays[x]),
           **g.d.attrs(keepdims=g.d.int(0, 1), select_last_index=g.d.int(0, 1)))  # fmt: skip


@move
def softmax(g: MixedGraph) -> None:
    x = g.floats(ranked(1))
    g.node(g.d.one("Softmax", "LogSoftmax", "Hardmax"), [x], axis=axis_of(g, g.arrays[x]))


@move
def running_sum(g: MixedGraph) -> None:
    x = g.pick(lambda a: a.ndim > 0 and a.dtype != bool)
    g.node("CumSum", [x, g.constant(axis_of(g, g.arrays[x]), np.int64)], exclusive=g.d.int(0, 1), reverse=g.d.int(0, 1))


@move
def norm(g: MixedGraph) -> None:
    x = g.singles(lambda a: a.ndim in (2, 3, 4, 5) and a.shape[1] > 0)
    a = g.arrays[x]
    channels, dtype = a.shape[1], a.dtype
    kind = g.d.one("LayerNormalization", "LayerNormalization", "BatchNormalization", "InstanceNormalization", "LRN",
                   "GroupNormalization", "LpNormalization", "MeanVarianceNormalization")  # fmt: skip
    weights = [g.operand([channels], dtype) for _ in range(2)]
    if kind == "LayerNormalization":
        axis = g.d.int(1, a.ndim - 1)
        own = a.shape[axis:]
        parts = [g.operand(own, dtype) for _ in range(g.d.int(1, 2))]
        g.node(kind, [x, *parts], axis=axis - a.ndim if g.d.flag() else axis, epsilon=0.01)
    elif kind == "BatchNormalization":
        variance = g.constant(np.abs(numbers(g.d, [channels], str(dtype))) + np.float32(0.5))
        g.node(kind, [x, *weights, g.operand([channels], dtype), variance])
    elif kind == "InstanceNormalization":
        g.node(kind, [x, *weights], epsilon=0.1)
    elif kind == "GroupNormalization":
        g.node(kind, [x, *weights], num_groups=g.d.one(*(k for k in range(1, channels + 1) if channels % k == 0)),
               epsilon=0.1)  # fmt: skip
    elif kind == "LpNormalization":
        g.node(kind, [x], axis=axis_of(g, a), p=g.d.int(1, 2))
    elif kind == "LRN":
        g.node(kind, [x], size=g.d.one(1, 3, 5))
    else:
        g.node(kind, [x], axes=g.d.axes(a.ndim))


@move
def largest(g: MixedGraph) -> None:
    x = g.pick(lambda a: a.ndim > 0 and a.dtype in (np.float32, np.float64, np.int64, np.int32))
    a = g.arrays[x]
    axis = axis_of(g, a)
    k = g.d.int(0, a.shape[axis])
    g.node("TopK", [x, g.ints(k)], 2, axis=axis, largest=g.d.int(0, 1))


# ---- shapes --------------------------------------------------------------------------------------------------------


@move
def transposed(g: MixedGraph) -> None:
    x = g.pick(ranked(2))
    g.node("Transpose", [x], **g.d.attrs(perm=g.d.permuted(range(g.arrays[x].ndim))))


@move
def reshaped(g: MixedGraph) -> None:
    """To factors of the number of elements, in any order, perhaps with -1 and 0."""
    x = g.pick()
    a = g.arrays[x]
    rest, shape = a.size, []
    while rest > 1 and len(shape) < 5:
        factor = g.d.one(*(k for k in range(2, rest + 1) if rest % k == 0)) if g.d.int(0, 3) else rest
        shape.append(factor)
        rest //= factor
    shape += [1] * g.d.int(0, 2) + ([rest] if rest > 1 else [])
    if not a.size:
        shape = [g.d.one(0, 0, 1, 3) for _ in range(g.d.int(1, 3))] + [0]
    shape = g.d.permuted(shape)
    target = list(shape)
    if a.size:
        for k, extent in enumerate(shape):
            if k < a.ndim and a.shape[k] == extent and g.d.flag():
                target[k] = 0
        if shape and g.d.flag():
            target[g.d.int(0, len(shape) - 1)] = -1
        g.node("Reshape", [x, g.ints(*target)])
    else:
        g.node("Reshape", [x, g.ints(*target)], allowzero=1)


@move
def reshaped_by_shape(g: MixedGraph) -> None:
    """By sizes that are taken from the value: those of two neighbouring axes as one, and back."""
    x = g.pick(lambda a: a.ndim >= 2 and a.size > 0)
    a = g.arrays[x]
    axis = g.d.int(0, a.ndim - 2)
    front = g.hidden("Shape", [x], end=axis)
    back = g.hidden("Shape", [x], start=axis + 2)
    y = g.node("Reshape", [x, g.hidden("Concat", [front, g.ints(-1), back], axis=0)])[0]
    if g.d.flag():
        g.node("Reshape", [y, g.hidden("Shape", [x])])


@move
def flattened(g: MixedGraph) -> None:
    x = g.pick()
    rank = g.arrays[x].ndim
    g.node("Flatten", [x], axis=g.d.int(-rank, rank))


@move
def squeezed(g: MixedGraph) -> None:
    x = g.pick(lambda a: 1 in a.shape)
    axes = [k for k, n in enumerate(g.arrays[x].shape) if n == 1]
    some = g.d.permuted(axes)[: g.d.int(1, len(axes))]
    g.node("Squeeze", [x, *([g.ints(*some)] if g.d.int(0, 3) else [])])


@move
def unsqueezed(g: MixedGraph) -> None:
    x = g.pick(ranked(0, 4))
    rank = g.arrays[x].ndim + g.d.int(1, 2)
    axes = g.d.permuted(range(rank))[: rank - g.arrays[x].ndim]
    g.node("Unsqueeze", [x, g.ints(*(k - rank if g.d.flag() else k for k in axes))])


@move
def expanded(g: MixedGraph) -> None:
    x = g.pick(ranked(0, 4))
    shape = [g.d.one(1, 2, 3, 0) if n == 1 else g.d.one(n, 1) for n in g.arrays[x].shape]
    lead = [g.d.int(1, 3)] if g.d.flag() else []
    g.node("Expand", [x, g.ints(*lead, *shape)])


@move
def tiled(g: MixedGraph) -> None:
    x = g.pick(ranked(1, 4))
    g.node("Tile", [x, g.ints(*(g.d.one(1, 1, 2, 3, 0) for _ in g.arrays[x].shape))])


@move
def concatenated(g: MixedGraph) -> None:
    x = g.pick(ranked(1))
    a = g.arrays[x]
    axis = axis_of(g, a)

    def fits(b: np.ndarray) -> bool:
        same = all(p == q for k, (p, q) in enumerate(zip(a.shape, b.shape)) if k != axis % a.ndim)
        return b.dtype == a.dtype and b.ndim == a.ndim and same

    parts = [x]
    for _ in range(g.d.int(1, 3)):
        shape = list(a.shape)
        shape[axis] = g.d.int(0, 4)
        parts.insert(g.d.int(0, len(parts)), g.pick(fits) if g.d.flag() else g.operand(shape, a.dtype))
    g.node("Concat", parts, axis=axis)


@move
def split(g: MixedGraph) -> None:
    x = g.pick(lambda a: a.ndim > 0)
    a = g.arrays[x]
    axis = axis_of(g, a)
    n = a.shape[axis]
    if g.d.flag():
        first = g.d.int(0, n)
        g.node("Split", [x, g.ints(first, n - first)], 2, axis=axis)
    else:
        count = g.d.int(1, 3)
        g.node("Split", [x], count, axis=axis, num_outputs=count)


@move
def sliced(g: MixedGraph) -> None:
    x = g.pick(ranked(1))
    a = g.arrays[x]
    axes = g.d.axes(a.ndim)
    n = [a.shape[k] for k in axes]
    starts = [g.d.one(0, 0, 1, -1, -2, g.d.int(-m - 2, m + 2)) for m in n]
    steps = [g.d.one(1, 1, 2, 3, -1, -2) for _ in n]
    # Backwards, ONNX Runtime takes 2^31 - 1 for the end of the axis at 0, which ONNX does not say.
    far = [(2**31 - 1, 2**62) if step > 0 else (-(2**31), -(2**62)) for step in steps]
    ends = [g.d.one(*both, m, m - 1, -1, g.d.int(-m - 2, m + 2)) for m, both in zip(n, far)]
    g.node("Slice", [x, *(g.ints(*v) for v in (starts, ends, axes, steps))])


@move
def padded(g: MixedGraph) -> None:
    x = g.pick(lambda a: a.ndim > 0 and a.dtype != bool)
    a = g.arrays[x]
    mode = g.d.one("constant", "constant", "edge", "reflect", "wrap")
    low = -1 if g.d.flag() and mode == "constant" else 0
    pads = [g.d.int(low, 2) for _ in range(2 * a.ndim)]
    value = [g.constant(g.d.one(0, 1, 3), a.dtype)] if mode == "constant" and g.d.flag() else []
    g.node("Pad", [x, g.ints(*pads), *value], mode=mode)


@move
def gathered(g: MixedGraph) -> None:
    x = g.pick(ranked(1, 4))
    a = g.arrays[x]
    axis = axis_of(g, a)
    n = a.shape[axis]
    if not n:
        raise Unfit
    index = g.d.data(g.d.one([], [1], [0], [3], [2, 2], [2, 3]), g.d.one("int32", "int64"), -n, n - 1)
    kind = g.d.one("Gather", "Gather", "GatherElements", "ScatterElements", "GatherND")
    if kind == "Gather":
        i = g.constant(index) if g.d.flag() else g.input(index)
        g.node(kind, [x, i], axis=axis)
    elif kind == "GatherND":
        if 0 in a.shape:
            raise Unfit
        points = np.stack([g.d.data([3], "int64", -m, m - 1) for m in a.shape[: g.d.int(1, a.ndim)]], -1)
        g.node(kind, [x, g.constant(points)])
    else:
        shape = list(a.shape)
        shape[axis] = g.d.int(0, 4) if kind == "GatherElements" else min(n, 1)
        index = g.d.data(shape, "int64", -n, n - 1)
        i = g.constant(index) if g.d.flag() else g.input(index)
        if kind == "GatherElements":
            g.node(kind, [x, i], axis=axis)
        else:
            g.node(
                kind, [x, i, g.operand(shape, a.dtype)], axis=axis, **g.d.attrs(reduction=g.d.one("none", "add", "max"))
            )


@move
def triangle(g: MixedGraph) -> None:
    x = g.pick(ranked(2))
    g.node("Trilu", [x, g.constant(g.d.int(-3, 3), np.int64)], upper=g.d.int(0, 1))


@move
def one_hot(g: MixedGraph) -> None:
    x = g.pick(lambda a: a.dtype in (np.int64, np.int32) and a.ndim <= 3)
    values = g.constant(np.array([0, g.d.one(1, 5)], g.d.one("float32", "int64")))
    g.node("OneHot", [x, g.constant(g.d.int(1, 6), np.int64), values], axis=g.d.int(-1, g.arrays[x].ndim))


@move
def places_of_data(g: MixedGraph) -> None:
    """Results whose size the numbers decide."""
    kind = g.d.one("NonZero", "Compress", "Unique")
    if kind == "NonZero":
        y = g.node(kind, [g.pick(ranked(1, 4))])[0]
        if g.d.flag():
            g.node("Cast", [g.hidden("Transpose", [y])], to=TensorProto.FLOAT)
        return
    # Of no elements, ONNX Runtime's Unique ends the process.
    x = g.pick(lambda a: a.ndim > 0 and a.size > 0 and a.dtype in (np.float32, np.int64))
    a = g.arrays[x]
    if kind == "Unique":
        g.node(kind, [x], g.d.int(1, 4), **g.d.attrs(axis=g.d.one(None, axis_of(g, a)), sorted=g.d.int(0, 1)))
    else:
        axis = axis_of(g, a)
        g.node(kind, [x, g.operand([a.shape[axis]], bool)], axis=axis)


@move
def sizes(g: MixedGraph) -> None:
    """The shape of a value as data: as numbers, as a range, or as the shape of something new."""
    x = g.pick()
    shape = g.hidden("Shape", [x])
    kind = g.d.one("numbers", "range", "filled", "expanded")
    if kind == "numbers":
        g.node("Cast", [shape], to=TensorProto.FLOAT)
    elif kind == "filled":
        g.node("ConstantOfShape", [shape], value=helper.make_tensor("v", TensorProto.FLOAT, [1], [0.5]))
    elif kind == "range":
        size = g.hidden("Size", [x])
        g.node("Range", [g.constant(0, np.int64), size, g.constant(1, np.int64)])
    else:
        g.node("Expand", [g.operand([1], "float32"), shape])


# ---- products and windows --------------------------------------------------------------------------------------------


@move
def product(g: MixedGraph) -> None:
    x = g.floats(ranked(1, 4))
    a = g.arrays[x]
    depth = a.shape[-1]
    if g.d.flag():
        y = g.operand([*([1] if g.d.int(0, 3) == 0 else []), depth, g.d.one(1, 3, 8, 17, 0)], a.dtype)
    elif a.ndim > 1:
        y = g.hidden("Transpose", [x], perm=[*range(a.ndim - 2), a.ndim - 1, a.ndim - 2])
    else:
        y = g.operand([depth], a.dtype)
    z = g.node("MatMul", [x, y])[0]
    if g.d.flag() and g.arrays[z].ndim:
        g.node("Add", [z, g.operand([g.arrays[z].shape[-1]], a.dtype)])


@move
def general_product(g: MixedGraph) -> None:
    x = g.singles(ranked(2, 2))
    a = g.arrays[x]
    left, right, units = g.d.int(0, 1), g.d.int(0, 1), g.d.one(1, 4, 9, 16)
    depth, rows = (a.shape[0], a.shape[1]) if left else (a.shape[1], a.shape[0])
    y = g.operand([units, depth] if right else [depth, units], a.dtype)
    c = [g.operand(g.d.one([], [units], [1, units], [rows, 1], [rows, units]), a.dtype)] if g.d.flag() else []
    g.node("Gemm", [x, y, *c], transA=left, transB=right, **g.d.attrs(alpha=0.5, beta=2.0))


@move
def einsum(g: MixedGraph) -> None:
    x = g.singles(ranked(2, 3))
    a = g.arrays[x]
    letters = "abc"[: a.ndim]
    kind = g.d.one("diagonal", "turned", "sum", "product")
    if kind == "turned":
        g.node("Einsum", [x], equation=f"{letters}->{letters[::-1]}")
    elif kind == "sum":
        g.node("Einsum", [x], equation=f"{letters}->{letters[0]}")
    elif kind == "diagonal":
        g.node("Einsum", [x, x], equation=f"{letters},{letters}->{letters[:-1]}")
    else:
        g.node(
            "Einsum", [x, g.operand([a.shape[-1], 3], a.dtype)], equation=f"{letters},{letters[-1]}z->z{letters[:-1]}"
        )


@move
def convolved(g: MixedGraph) -> None:
    x = g.singles(lambda a: a.ndim in (3, 4, 5) and a.shape[1] > 0)
    a = g.arrays[x]
    rank, channels = a.ndim - 2, a.shape[1]
    group = g.d.one(*(k for k in range(1, channels + 1) if channels % k == 0))
    filters = group * g.d.int(1, 3)
    kernel = [g.d.int(1, 3) for _ in range(rank)]
    attrs: dict[str, Any] = {"group": group, **g.d.attrs(strides=[g.d.int(1, 3) for _ in kernel])}
    attrs |= g.d.attrs(dilations=[g.d.int(1, 2) for _ in kernel])
    if g.d.flag():
        attrs |= g.d.attrs(pads=[g.d.int(0, 2) for _ in range(2 * rank)])
    else:
        attrs |= g.d.attrs(auto_pad=g.d.one("SAME_UPPER", "SAME_LOWER", "VALID"))
    if g.d.int(0, 2):
        y = g.node("Conv", [x, g.operand([filters, channels // group, *kernel], a.dtype),
                            *([g.operand([filters], a.dtype)] if g.d.flag() else [])], **attrs)[0]  # fmt: skip
        if g.d.flag():
            g.node(g.d.one("Relu", "Sigmoid", "HardSwish"), [y])
    else:
        if str(attrs.pop("auto_pad", "")).startswith("SAME"):
            raise Unfit  # with strides over the kernel ONNX Runtime and ONNX's evaluator differ
        g.node("ConvTranspose", [x, g.operand([channels, filters // group, *kernel], a.dtype)], **attrs)


@move
def pooled(g: MixedGraph) -> None:
    x = g.singles(lambda a: a.ndim in (3, 4, 5))
    a = g.arrays[x]
    rank = a.ndim - 2
    op = g.d.one("MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool")
    if op.startswith("Global"):
        g.node(op, [x])
        return
    attrs: dict[str, Any] = {"kernel_shape": [g.d.int(1, 3) for _ in range(rank)]}
    attrs |= g.d.attrs(strides=[g.d.int(1, 3) for _ in range(rank)], ceil_mode=g.d.int(0, 1))
    attrs |= g.d.attrs(pads=[g.d.int(0, 1) for _ in range(2 * rank)]) if g.d.flag() else {}
    if op == "AveragePool":
        attrs |= g.d.attrs(count_include_pad=g.d.int(0, 1))
    g.node(op, [x], **attrs)


@move
def rearranged(g: MixedGraph) -> None:
    x = g.singles(lambda a: a.ndim == 4 and a.size > 0)
    if g.d.flag():
        g.node("DepthToSpace", [x], blocksize=2, mode=g.d.one("DCR", "CRD"))
    else:
        g.node("SpaceToDepth", [x], blocksize=2)


@move
def recurrent(g: MixedGraph) -> None:
    x = g.singles(lambda a: a.ndim == 3 and a.size > 0)
    a = g.arrays[x]
    op, gates = g.d.one(("LSTM", 4), ("GRU", 3), ("RNN", 1))
    directions, hidden = g.d.int(1, 2), g.d.int(1, 4)
    inputs = [x, *(g.operand([directions, gates * hidden, n], a.dtype) for n in (a.shape[2], hidden))]
    inputs += [g.operand([directions, 2 * gates * hidden], a.dtype)] if g.d.flag() else []
    attrs = {"linear_before_reset": g.d.int(0, 1)} if op == "GRU" else {}
    g.node(op, inputs, g.d.int(1, 3 if op == "LSTM" else 2), hidden_size=hidden,
           direction=("forward", "bidirectional")[directions - 1], **attrs)  # fmt: skip


# ---- control -------------------------------------------------------------------------------------------------------


def _info(name: str, array: np.ndarray | None = None) -> Any:
    code = TensorProto.FLOAT if array is None else helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, code, None)


@move
def looped(g: MixedGraph) -> None:
    """A state that is halved and grows, and rows of it."""
    x = g.singles(ranked(1, 3))
    number, going, state, again, half, new, row = (g.fresh("b") for _ in range(7))
    two = g.constant(0.5, "float32")
    nodes = [helper.make_node("Mul", [state, two], [half]), helper.make_node("Add", [half, x], [new]),
             helper.make_node("Identity", [going], [again]), helper.make_node("Tanh", [new], [row])]  # fmt: skip
    body = helper.make_graph(
        nodes, "body",
        [helper.make_tensor_value_info(number, TensorProto.INT64, []),
         helper.make_tensor_value_info(going, TensorProto.BOOL, []), _info(state)],
        [helper.make_tensor_value_info(again, TensorProto.BOOL, []), _info(new), _info(row)],
    )  # fmt: skip
    steps = g.d.int(1, 4)
    limit = g.constant(steps, np.int64) if g.d.flag() else g.hidden("Squeeze", [g.hidden("Shape", [x], start=0, end=1)])
    _, rows = g.node("Loop", [limit, "", x], 2, body=body)
    if not len(g.arrays[rows]):
        raise Unfit  # ONNX Runtime forgets the other axes


@move
def branch(g: MixedGraph) -> None:
    x = g.floats()
    c = g.operand([], bool)

    def part(op: str) -> Any:
        name = g.fresh("b")
        return helper.make_graph([helper.make_node(op, [x], [name])], "part", [], [_info(name, g.arrays[x])])

    g.node("If", [c], then_branch=part("Relu"), else_branch=part("Neg"))


@move
def scanned(g: MixedGraph) -> None:
    x = g.singles(lambda a: a.ndim >= 2 and a.shape[0] > 0)
    a = g.arrays[x]
    state, row, new, out = (g.fresh("b") for _ in range(4))
    nodes = [helper.make_node("Add", [state, row], [new]), helper.make_node("Mul", [new, row], [out])]
    body = helper.make_graph(nodes, "body", [_info(state), _info(row)], [_info(new), _info(out)])
    g.node("Scan", [g.operand(a.shape[1:], a.dtype), x], 2, body=body, num_scan_inputs=1,
           scan_input_directions=[g.d.int(0, 1)], scan_output_directions=[g.d.int(0, 1)])  # fmt: skip


FLOATS_OF_ALL_KINDS = FLOATS
