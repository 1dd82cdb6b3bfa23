"""Moves that compute: element-wise, products, sums, norms, recurrences, loops, bytes."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from .growing import ONE, OpenGraph, Unfit, each, known, move, product, replaced, same

_UNARY = ("Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Erf", "Softplus", "HardSwish", "LeakyRelu", "Elu", "Sin",
          "Softsign", "Celu", "Selu", "ThresholdedRelu", "HardSigmoid", "Shrink", "Identity", "Mish", "Floor", "Round",
          "Sign", "Ceil")  # fmt: skip


@move
def unary(g: OpenGraph) -> None:
    x = g.value()
    g.node(g.d.one(*_UNARY), [x], g.values[x])


@move
def bounded(g: OpenGraph) -> None:
    x = g.value()
    y = g.node("Clip", [x, g.constant(-3, "float32"), g.constant(3, "float32")], g.values[x])
    g.node(g.d.one("Exp", "Cosh", "Atan"), [y], g.values[x])


@move
def binary(g: OpenGraph) -> None:
    """With any value that broadcasts."""
    a = g.value()
    left = g.values[a]

    def fits(right: tuple) -> bool:
        return all(x == y or ONE in (x, y) for x, y in zip(left[::-1], right[::-1]))

    b = g.value(fits)
    right = g.values[b]
    rank = max(len(left), len(right))
    left, right = ((ONE,) * (rank - len(s)) + s for s in (left, right))
    g.node(g.d.one("Add", "Sub", "Mul", "Max", "Min"), [a, b], tuple(y if x == ONE else x for x, y in zip(left, right)))


@move
def quotient(g: OpenGraph) -> None:
    x = g.value()
    below = g.hidden("Add", [g.hidden("Abs", [x]), g.constant(1, "float32")])
    g.node("Div", [x, below], g.values[x])


@move
def chosen(g: OpenGraph) -> None:
    x = g.value()
    positive = g.hidden("Greater", [x, g.constant(0, "float32")])
    g.node("Where", [positive, x, g.constant(-0.25, "float32")], g.values[x])


@move
def powers(g: OpenGraph) -> None:
    x = g.value()
    if g.d.flag():
        g.node("Pow", [g.hidden("Abs", [x]), g.constant(g.d.one(0.5, 2, 3), "float32")], g.values[x])
    else:
        g.node("Mod", [x, g.constant(0.7, "float32")], g.values[x], fmod=1)


@move
def prelu(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) >= 2 and known(s[1]))
    shape = g.values[x]
    g.node("PRelu", [x, g.weight(shape[1][0], *(1,) * (len(shape) - 2))], shape)


# ---- products ------------------------------------------------------------------------------------------------------


@move
def dense(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) >= 2 and known(s[-1]))
    shape, units = g.values[x], g.d.one(1, 3, 8, 17)
    y = g.node("MatMul", [x, g.weight(shape[-1][0], units)], (*shape[:-1], same(units)))
    if g.d.flag():
        g.node("Add", [y, g.weight(units)], g.values[y])


@move
def gram(g: OpenGraph) -> None:
    """A value times its own transpose, from either side."""
    x = g.value(lambda s: len(s) >= 2)
    shape = g.values[x]
    turned = g.hidden("Transpose", [x], perm=[*range(len(shape) - 2), len(shape) - 1, len(shape) - 2])
    side, operands = g.d.one((-2, (x, turned)), (-1, (turned, x)))
    result = (*shape[:-2], shape[side], shape[side])
    y = g.node("MatMul", operands, result)
    g.node("Mul", [y, g.constant(0.1, "float32")], result)


@move
def attention(g: OpenGraph) -> None:
    """Two heads, with queries of one value and keys of another, which may be the same."""
    x = g.value(lambda s: len(s) == 3 and known(s[2]))
    batch, steps, _ = g.values[x]
    other = g.value(lambda s: len(s) == 3 and known(s[2]) and s[0] == batch)

    def heads(value: str, perm: list[int]) -> str:
        projected = g.hidden("MatMul", [value, g.weight(g.values[value][2][0], 8)])
        return g.hidden("Transpose", [g.hidden("Reshape", [projected, g.integers(0, -1, 2, 4)])], perm=perm)

    scores = (batch, same(2), steps, g.values[other][1])
    a = g.node("MatMul", [heads(x, [0, 2, 1, 3]), heads(other, [0, 2, 3, 1])], scores)
    a = g.node("Softmax", [a], scores, axis=-1)
    y = g.hidden("Transpose", [g.hidden("MatMul", [a, heads(other, [0, 2, 1, 3])])], perm=[0, 2, 1, 3])
    g.node("Reshape", [y, g.joined(g.extent(x, 0), g.extent(x, 1), g.integers(8))], (batch, steps, same(8)))


@move
def einsum(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) == 3)
    a, b, c = g.values[x]
    equation, shape = g.d.one(
        ("abc,abc->ab", (a, b)), ("abc,adc->abd", (a, b, b)), ("abc,abd->acd", (a, c, c)), ("abc,abc->c", (c,)),
        ("abc,dbc->ad", (a, a)),
    )  # fmt: skip
    g.node("Einsum", [x, x], shape, equation=equation)


# ---- sums, norms ---------------------------------------------------------------------------------------------------


@move
def softmax(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) >= 1)
    g.node(g.d.one("Softmax", "LogSoftmax", "Hardmax", "LpNormalization"), [x], g.values[x], axis=g.axis(x))


@move
def norm(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) in (3, 4) and known(s[1]))
    shape, channels = g.values[x], g.values[x][1][0]
    kinds = ["LayerNormalization", "BatchNormalization", "InstanceNormalization"]
    kind = g.d.one(*kinds, *(["LRN"] if len(shape) == 4 else []))
    parameters = [x, g.weight(channels), g.weight(channels)]
    if kind == "LayerNormalization":
        if not known(shape[-1]) or shape[-1][0] == 1:
            raise Unfit
        g.node(kind, [x, g.weight(shape[-1][0]), g.weight(shape[-1][0])], shape)
    elif kind == "BatchNormalization":
        variance = g.constant(np.abs(g.d.rng.standard_normal(channels)) + 0.5, "float32")
        g.node(kind, [*parameters, g.weight(channels), variance], shape)
    elif kind == "InstanceNormalization":
        if min(product(shape[2:])) == 1:
            raise Unfit
        g.node(kind, parameters, shape, epsilon=1e-2)
    else:
        g.node(kind, [x], shape, size=3)


@move
def reduced(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) >= 1)
    shape = g.values[x]
    axes = sorted(g.d.permuted(range(len(shape)))[: g.d.int(1, len(shape))])
    kept = g.d.int(0, 1)
    result = tuple(ONE if a in axes else dim for a, dim in enumerate(shape) if kept or a not in axes)
    op = g.d.one("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare",
                 "ReduceLogSumExp")  # fmt: skip
    signed = [a - len(shape) if g.d.flag() else a for a in axes]
    g.node(op, [x, g.integers(*signed)], result, keepdims=kept)


@move
def running_sum(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) >= 1)
    axis = g.constant(g.axis(x), "int64")
    g.node("CumSum", [x, axis], g.values[x], exclusive=g.d.int(0, 1), reverse=g.d.int(0, 1))


@move
def mean_by_hand(g: OpenGraph) -> None:
    """The size as a float: the sum over an axis divided by the extent."""
    x = g.value(lambda s: len(s) >= 1)
    axis = g.axis(x)
    shape = replaced(g.values[x], axis, ONE)
    length = g.hidden("Cast", [g.extent(x, axis)], to=TensorProto.FLOAT)
    if g.d.flag():
        length = g.hidden("Cast", [g.hidden("Size", [x])], to=TensorProto.FLOAT)
    total = g.hidden("ReduceSum", [x, g.integers(axis)], keepdims=1)
    g.node("Div", [total, length], shape)


# ---- over time, loops ------------------------------------------------------------------------------------------------


@move
def recurrent(g: OpenGraph) -> None:
    x = g.value(lambda s: len(s) == 3 and known(s[2]) and s[2][0] > 1)
    steps, batch, width = g.values[x]
    op, gates = g.d.one(("LSTM", 4), ("GRU", 3), ("RNN", 1))
    directions, hidden = g.d.int(1, 2), 6
    weights = [g.weight(directions, gates * hidden, width[0]), g.weight(directions, gates * hidden, hidden)]
    attrs = {"linear_before_reset": g.d.int(0, 1)} if op == "GRU" else {}
    attrs |= {"hidden_size": hidden, "direction": ("forward", "bidirectional")[directions - 1]}
    inputs = [x, *weights, g.weight(directions, 2 * gates * hidden)]
    g.node(op, inputs, (steps, same(directions), batch, same(hidden)), **attrs)


@move
def scan(g: OpenGraph) -> None:
    """A running state over the first axis, forwards or backwards."""
    x = g.value(lambda s: len(s) >= 2 and all(known(d) for d in s[1:]))
    shape = g.values[x]
    step = [d[0] for d in shape[1:]]
    names = [g.fresh("b") for _ in range(4)]

    def info(name: str) -> object:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, step)

    state, row, both, out = names
    nodes = [helper.make_node("Add", [state, row], [both]), helper.make_node("Tanh", [both], [f"{both}_next"]),
             helper.make_node("Mul", [both, row], [out])]  # fmt: skip
    body = helper.make_graph(nodes, "body", [info(state), info(row)], [info(f"{both}_next"), info(out)])
    last, rows = g.fresh(), g.fresh()
    g.nodes.append(helper.make_node(
        "Scan", [g.constant(np.zeros(step), "float32"), x], [last, rows], body=body, num_scan_inputs=1,
        scan_input_directions=[g.d.int(0, 1)], scan_output_directions=[g.d.int(0, 1)],
    ))  # fmt: skip
    g.values[last], g.values[rows] = shape[1:], shape


@move
def loop(g: OpenGraph) -> None:
    """As many iterations as an axis is long, each of which adds the value at its place."""
    x = g.value(lambda s: len(s) >= 2)
    shape = g.values[x]
    number, going, state, again, new = (g.fresh("b") for _ in range(5))
    info = helper.make_tensor_value_info
    row = f"{new}_row"
    halved = f"{new}_halved"
    nodes = [
        helper.make_node("Gather", [x, number], [row], axis=0),
        helper.make_node("Mul", [state, g.constant(0.5, "float32")], [halved]),
        helper.make_node("Add", [halved, row], [new]),
        helper.make_node("Identity", [going], [again]),
        helper.make_node("Tanh", [new], [f"{new}_out"]),
    ]
    body = helper.make_graph(
        nodes, "body",
        [info(number, TensorProto.INT64, []), info(going, TensorProto.BOOL, []), info(state, TensorProto.FLOAT, None)],
        [info(again, TensorProto.BOOL, []), info(new, TensorProto.FLOAT, None),
         info(f"{new}_out", TensorProto.FLOAT, None)],
    )  # fmt: skip
    start = g.hidden("ReduceMax", [x, g.integers(0)], keepdims=0)
    last, rows = g.fresh(), g.fresh()
    g.nodes.append(helper.make_node("Loop", [g.scalar(g.extent(x, 0)), "", start], [last, rows], body=body))
    g.values[last], g.values[rows] = shape[1:], shape


@move
def branch(g: OpenGraph) -> None:
    """What a size decides."""
    x = g.value(lambda s: len(s) >= 1)
    wide = g.scalar(g.hidden("Greater", [g.extent(x, g.axis(x)), g.integers(g.d.one(1, 4, 8))]))

    def part(op: str) -> object:
        name = g.fresh("b")
        info = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node(op, [x], [name])], "part", [], [info])

    g.node("If", [wide], g.values[x], then_branch=part("Relu"), else_branch=part("Neg"))


# ---- bytes -----------------------------------------------------------------------------------------------------------


@move
def rounded(g: OpenGraph) -> None:
    x = g.value()
    scale, zero = g.constant(0.05, "float32"), g.constant(g.d.one(0, 128, 7), "uint8")
    g.node("DequantizeLinear", [g.hidden("QuantizeLinear", [x, scale, zero]), scale, zero], g.values[x])


@move
def dense_of_bytes(g: OpenGraph) -> None:
    """A product with a weight that is stored in bytes, of data that are rounded first or not."""
    x = g.value(lambda s: len(s) >= 2 and known(s[-1]))
    shape, units = g.values[x], g.d.one(3, 8, 17)
    stored = g.constant(g.d.rng.integers(-127, 128, (shape[-1][0], units)), "int8")
    scales = g.constant(g.d.rng.uniform(0.001, 0.01, units) if g.d.flag() else 0.005, "float32")
    weight = g.hidden("DequantizeLinear", [stored, scales], axis=1)
    if g.d.flag():
        scale, zero = g.constant(0.05, "float32"), g.constant(3, "int8")
        x = g.hidden("DequantizeLinear", [g.hidden("QuantizeLinear", [x, scale, zero]), scale, zero])
    g.node("MatMul", [x, weight], (*shape[:-1], same(units)))


@move
def halves(g: OpenGraph) -> None:
    """Through float16 and back."""
    x = g.value()
    small = g.hidden("Clip", [x, g.constant(-100, "float32"), g.constant(100, "float32")])
    half = g.hidden("Cast", [small], to=TensorProto.FLOAT16)
    g.node("Cast", [half], g.values[x], to=TensorProto.FLOAT)


@move
def by_parity(g: OpenGraph) -> None:
    """The first half of an axis times the second: gated units."""
    x = g.value(lambda s: any(known(d) and d[0] % 2 == 0 for d in s))
    axis = g.axis(x, lambda d: known(d) and d[0] % 2 == 0)
    shape = replaced(g.values[x], axis, each(lambda v: v // 2, g.values[x][axis]))
    a, b = g.fresh(), g.fresh()
    g.nodes.append(helper.make_node("Split", [x], [a, b], axis=axis, num_outputs=2))
    g.node("Mul", [a, g.hidden("Sigmoid", [b])], shape)
