"""One random ONNX node with random shapes and attributes, and what ONNX's own evaluator makes of it.

Each operator has a function that draws a node: the attributes that the standard gives it, negative axes, uneven pads,
extents of 1 and indices from the end among them. Data are small integers in their dtype, so that sums are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper

from minitvm.errors import InputError, UnsupportedOperator
from minitvm.frontends import from_onnx
from minitvm.graph.lower import to_te
from minitvm.graph.nodes import LOOP
from minitvm.reference import graph as interpreter
from minitvm.reference import te as expressions
from tests.drawing import Draw

from . import older_nodes, quantised_nodes, region_nodes, window_nodes
from .one_node import Drawing, Node, Seeded, int_array
from .recurrences import ACTIVATIONS, DEFAULTS, recurrence

# ---- places --------------------------------------------------------------------------------------------------------


def _pad(d: Drawing) -> Node:
    shape = d.shape(1, 3)
    mode = d.one("constant", "constant", "edge", "reflect", "wrap")
    axes = d.axes(len(shape)) if d.flag() else None
    chosen = list(range(len(shape))) if axes is None else [a % len(shape) for a in axes]
    most = [2 if mode in ("constant", "edge") else shape[a] - 1 for a in chosen]
    widths = [d.int(0, n) for n in (*most, *most)]
    inputs: dict[str, Any] = {"x": d.data(shape), "pads": int_array(*widths)}
    inputs["value"] = d.data([], "float32") if mode == "constant" and d.flag() else None
    if axes is not None:
        inputs["axes"] = int_array(*axes)
    elif inputs["value"] is None:
        del inputs["value"]
    return d.node("Pad", inputs, {"mode": mode}, known=("pads", "axes", "value"), opset=19)


def _center(d: Drawing) -> Node:
    shape = d.shape(1, 3)
    axes = d.axes(len(shape)) if d.flag() else None
    count = len(shape) if axes is None else len(axes)
    sizes = [d.int(1, 8) for _ in range(count)]
    return d.node(
        "CenterCropPad",
        {"x": d.data(shape), "shape": int_array(*sizes)},
        {} if axes is None else {"axes": axes},
        known=("shape",),
    )


def _slice(d: Drawing) -> Node:
    shape = d.shape(1, 3)
    axes = d.axes(len(shape))
    starts, ends, steps = [], [], []
    for a in axes:
        n = shape[a]
        bounds = (*range(-n - 2, n + 3), -(2**31), 2**31 - 1)
        starts.append(d.one(*bounds))
        ends.append(d.one(*bounds))
        steps.append(d.one(1, 1, 2, 3, -1, -2))
    kept = all(len(range(*slice(s, e, t).indices(shape[a]))) for a, s, e, t in zip(axes, starts, ends, steps))
    if not kept:
        starts, ends, steps = [0] * len(axes), [1] * len(axes), [1] * len(axes)
    inputs = {"x": d.data(shape), "starts": int_array(*starts), "ends": int_array(*ends), "axes": int_array(*axes)}
    return d.node("Slice", {**inputs, "steps": int_array(*steps)}, known=("starts", "ends", "axes", "steps"))


def _gather(d: Drawing) -> Node:
    shape = d.shape(1, 3)
    axis, n = d.axis(len(shape)), 0
    n = shape[axis]
    kind = d.one("Gather", "GatherElements", "ScatterElements")
    dtype = d.one("int32", "int64")
    if kind == "Gather":
        return d.node(kind, {"x": d.data(shape), "i": d.data(d.shape(0, 2), dtype, -n, n - 1)}, {"axis": axis})
    other = list(shape)
    other[axis] = d.int(1, 4)
    if kind == "GatherElements":
        return d.node(kind, {"x": d.data(shape), "i": d.data(other, dtype, -n, n - 1)}, {"axis": axis})
    places = np.stack([d.rng.permutation(n) for _ in range(int(np.prod(shape)) // n)])
    index = np.moveaxis(places.reshape([*shape[: axis % len(shape)], *shape[axis % len(shape) + 1 :], n]), -1, axis)
    other = [d.int(1, s) for s in shape]
    inside = tuple(slice(0, o) for o in other)
    reduction = d.one("none", "add", "mul", "max", "min")
    inputs = {"x": d.data(shape), "i": index[inside].astype(dtype), "u": d.data(other)}
    return d.node(kind, inputs, {"axis": axis, "reduction": reduction})


def _gather_nd(d: Drawing) -> Node:
    shape = [d.int(1, 4) for _ in range(d.int(2, 4))]
    batch = d.int(0, min(2, len(shape) - 1))
    size = d.int(1, len(shape) - batch)
    lead = shape[:batch] + [d.int(1, 3) for _ in range(d.int(1 if not batch else 0, 1))]
    limits = shape[batch : batch + size]
    points = np.stack([d.data(lead, "int64", -n, n - 1) for n in limits], -1)
    return d.node("GatherND", {"x": d.data(shape), "i": points}, {"batch_dims": batch})


def _one_hot(d: Drawing) -> Node:
    shape, depth = d.shape(1, 2), d.int(1, 5)
    inputs = {
        "i": d.data(shape, d.one("int32", "int64"), -depth, depth - 1), "depth": np.array(depth, np.int64),
        "values": d.data([2], d.one("float32", "int32"), 0, 3),
    }  # fmt: skip
    known = ("depth", "values") if d.flag() else ("depth",)
    return d.node("OneHot", inputs, d.attrs(axis=d.axis(len(shape) + 1)), known=known)


def _topk(d: Drawing) -> Node:
    shape = d.shape(1, 3)
    axis = d.axis(len(shape))
    inputs = {"x": d.data(shape, "float32", -2, 2), "k": int_array(d.int(1, shape[axis]))}
    return d.node("TopK", inputs, {"axis": axis, "largest": d.int(0, 1)}, known=("k",), outputs=2)


# ---- shapes --------------------------------------------------------------------------------------------------------


def _split(d: Drawing) -> Node:
    shape = d.shape(1, 3)
    axis = d.axis(len(shape))
    shape[axis] = d.int(2, 7)
    n = shape[axis]
    if d.flag():
        first = d.int(1, n - 1)
        return d.node("Split", {"x": d.data(shape), "split": int_array(first, n - first)}, {"axis": axis},
                      known=("split",), outputs=2)  # fmt: skip
    count = d.one(*(k for k in range(1, n + 1) if (k - 1) * -(-n // k) < n))
    return d.node("Split", {"x": d.data(shape)}, {"axis": axis, "num_outputs": count}, outputs=count)


def _reshaping(d: Drawing) -> Node:
    op = d.one("Expand", "Tile", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Concat", "Trilu", "EyeLike")
    shape = d.shape(2, 4)
    rank, x = len(shape), None
    x = d.data(shape)
    if op == "Expand":
        wanted = [d.int(2, 3) if n == 1 and d.flag() else d.one(n, 1) for n in shape]
        extra = [d.int(1, 2)] if d.flag() else []
        cut = d.int(0, rank - 1) if not extra else 0
        return d.node(op, {"x": x, "shape": int_array(*extra, *wanted[cut:])}, known=("shape",))
    if op == "Tile":
        return d.node(op, {"x": x, "repeats": int_array(*(d.int(1, 3) for _ in shape))}, known=("repeats",))
    if op == "Squeeze":
        gone = d.axes(rank)
        for a in gone:
            shape[a] = 1
        return d.node(op, {"x": d.data(shape), "axes": int_array(*gone)}, known=("axes",))
    if op == "Unsqueeze":
        count = d.int(1, 2)
        new = d.permuted(range(rank + count))[:count]
        axes = [a - rank - count if d.flag() else a for a in new]
        return d.node(op, {"x": x, "axes": int_array(*axes)}, known=("axes",))
    if op == "Flatten":
        return d.node(op, {"x": x}, {"axis": d.int(-rank, rank)})
    if op == "Transpose":
        return d.node(op, {"x": x}, d.attrs(perm=d.permuted(range(rank))))
    if op == "Concat":
        axis = d.axis(rank)
        other = list(shape)
        other[axis] = d.int(1, 3)
        return d.node(op, {"x": x, "z": d.data(other)}, {"axis": axis})
    if op == "Trilu":
        inputs = {"x": x, "k": np.array(d.int(-3, 3), np.int64)}
        return d.node(op, inputs, {"upper": d.int(0, 1)}, known=("k",))
    return d.node(op, {"x": d.data(shape[:2])}, d.attrs(k=d.int(-2, 2)))


# ---- reductions ----------------------------------------------------------------------------------------------------


def _reduce(d: Drawing) -> Node:
    op = d.one("ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceSumSquare",
               "ReduceL2", "ReduceLogSumExp")  # fmt: skip
    shape = d.shape(1, 4)
    ints = op in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceMean")
    x = d.data(shape, d.one("float32", "int32") if ints else "float32", -3, 3)
    attrs = d.attrs(keepdims=d.int(0, 1), noop_with_empty_axes=d.int(0, 1))
    inputs: dict[str, Any] = {"x": x}
    if d.int(0, 3) or op == "ReduceMean":
        inputs["axes"] = int_array(*d.axes(len(shape)))
    return d.node(op, inputs, attrs, known=("axes",))


def _arg(d: Drawing) -> Node:
    shape = d.shape(1, 3)
    attrs = d.attrs(axis=d.axis(len(shape)), keepdims=d.int(0, 1), select_last_index=d.int(0, 1))
    return d.node(d.one("ArgMax", "ArgMin"), {"x": d.data(shape, "float32", -1, 1)}, attrs)


def _cumulative(d: Drawing) -> Node:
    shape = d.shape(1, 3)
    inputs = {"x": d.data(shape), "axis": np.array(d.axis(len(shape)), np.int64)}
    return d.node("CumSum", inputs, d.attrs(exclusive=d.int(0, 1), reverse=d.int(0, 1)), known=("axis",))


# ---- norms ---------------------------------------------------------------------------------------------------------


def _softmax(d: Drawing) -> Node:
    shape = d.shape(1, 4)
    return d.node(d.one("Softmax", "LogSoftmax", "Hardmax"), {"x": d.data(shape)}, d.attrs(axis=d.axis(len(shape))))


def _norm(d: Drawing) -> Node:
    # Not LRN: the evaluator's sum ends one channel early.
    kind = d.one("LayerNormalization", "GroupNormalization", "InstanceNormalization", "BatchNormalization",
                 "LpNormalization")  # fmt: skip
    groups, each = d.int(1, 3), d.int(1, 3)
    shape = [d.int(1, 2), groups * each, d.int(1, 4), *([d.int(1, 3)] if d.flag() else [])]
    x, channels = d.data(shape), shape[1]
    if kind == "LayerNormalization":
        axis = d.int(-len(shape), -1)
        inputs = {"x": x, "s": d.data(shape[axis:]), **({"b": d.data(shape[axis:])} if d.flag() else {})}
        return d.node(kind, inputs, {"axis": axis, "epsilon": 1.0}, opset=17)
    if kind == "GroupNormalization":
        opset = d.one(18, 21)
        size = groups if opset == 18 else channels
        return d.node(kind, {"x": x, "s": d.data([size]), "b": d.data([size])}, {"num_groups": groups, "epsilon": 1.0},
                      opset=opset)  # fmt: skip
    if kind == "InstanceNormalization":
        return d.node(kind, {"x": x, "s": d.data([channels]), "b": d.data([channels])}, {"epsilon": 1.0})
    if kind == "BatchNormalization":
        inputs = {"x": x, "s": d.data([channels]), "b": d.data([channels]), "m": d.data([channels])}
        inputs["v"] = d.data([channels], "float32", 1, 4)
        if d.flag():
            return d.node(kind, inputs, {"epsilon": 1.0, "training_mode": 1, "momentum": 0.75}, outputs=3, opset=15)
        return d.node(kind, inputs, {"epsilon": 1.0}, opset=15)
    return d.node(kind, {"x": d.data(shape, "float32", 1, 4)}, {"axis": d.axis(len(shape)), "p": d.int(1, 2)})


# ---- arithmetic ------------------------------------------------------------------------------------------------------


def _elementwise(d: Drawing) -> Node:
    op = d.one("IsInf", "Clip", "Mod", "BitShift", "Pow", "Div", "PRelu", "Shrink", "ThresholdedRelu", "HardSigmoid")
    shape = d.shape(1, 3)
    other = [n if d.flag() else 1 for n in shape][d.int(0, 1) if len(shape) > 1 else 0 :]
    x = d.data(shape)
    if op == "IsInf":
        ends = np.array([np.inf, -np.inf, 0, 1], np.float32)
        attrs = d.attrs(detect_positive=d.int(0, 1), detect_negative=d.int(0, 1))
        return d.node(op, {"x": d.rng.choice(ends, shape)}, attrs)
    if op == "Clip":
        low, high = (d.data([], "float32") if d.flag() else None for _ in range(2))
        inputs = {"x": x, "low": low, **({"high": np.maximum(high, low) if low is not None else high}
                                         if high is not None else {})}  # fmt: skip
        return d.node(op, inputs, known=("low", "high") if d.flag() else ())
    if op == "Mod":
        dtype = d.one("int32", "int64", "float32")
        by = d.data(other, dtype, 1, 3) * d.rng.choice([-1, 1], other).astype(dtype)
        return d.node(
            op, {"a": d.data(shape, dtype, -9, 9), "b": by}, {"fmod": 1 if dtype == "float32" else d.int(0, 1)}
        )
    if op == "BitShift":
        inputs = {"a": d.data(shape, "uint8", 0, 255), "b": d.data(other, "uint8", 0, 7)}
        return d.node(op, inputs, {"direction": d.one("LEFT", "RIGHT")})
    if op == "Pow":
        base, exponent = d.one(("float32", "float32"), ("float32", "int32"), ("int32", "int32"), ("int32", "float32"))
        power = d.data(other, exponent, 0, 3)
        if exponent == "float32":
            power = (d.data(other, exponent, 0, 6) / 2).astype(exponent)
        return d.node(op, {"a": d.data(shape, base, 0 if exponent == "float32" else -3, 4), "b": power}, opset=15)
    if op == "Div":
        dtype = d.one("int32", "float32")
        return d.node(op, {"a": d.data(shape, dtype, 0, 9), "b": d.data(other, dtype, 1, 4)})
    if op == "PRelu":
        return d.node(op, {"x": x, "slope": d.data(other)})
    limit = float(d.int(0, 3))
    attrs = {"Shrink": {"lambd": limit, "bias": float(d.int(-2, 2))}, "ThresholdedRelu": {"alpha": limit},
             "HardSigmoid": {"alpha": 0.25, "beta": 0.5}}[op]  # fmt: skip
    return d.node(op, {"x": x}, attrs)


def _products(d: Drawing) -> Node:
    if d.flag():
        m, k, n = d.int(1, 4), d.int(1, 4), d.int(1, 4)
        a, b = d.int(0, 1), d.int(0, 1)
        inputs = {"a": d.data([k, m] if a else [m, k]), "b": d.data([n, k] if b else [k, n])}
        if d.flag():
            inputs["c"] = d.data(d.one([n], [m, n], [m, 1], []))
        return d.node("Gemm", inputs, {"transA": a, "transB": b, "alpha": 2.0, "beta": d.one(0.0, 1.0, 3.0)})
    extents = {c: d.int(1, 3) for c in "ijkb"}
    lead = [d.int(1, 2) for _ in range(d.int(0, 2))]
    equation, left, right = d.one(
        ("...ij,...jk->...ik", "ij", "jk"), ("...i,...i->...", "i", "i"), ("...ij,...j", "ij", "j"),
        ("i...,...k->ki...", "i", "k"),
    )  # fmt: skip
    shapes = []
    for labels in (left, right):
        own = [n if d.flag() else 1 for n in lead][d.int(0, len(lead)) :]
        own = own if equation[0] != "i" else [*lead]
        shapes.append([*own, *(extents[c] for c in labels)])
    if equation[0] == "i":
        shapes[0] = [extents["i"], *lead]
    return d.node("Einsum", {"a": d.data(shapes[0]), "b": d.data(shapes[1])}, {"equation": equation})


# ---- recurrent, resizing, transforms ---------------------------------------------------------------------------------


def _recurrent(d: Drawing) -> Node:
    op = d.one("RNN", "GRU", "LSTM")
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    steps, batch, size, hidden = d.int(1, 3), d.int(1, 2), d.int(1, 3), d.int(1, 3)
    direction = d.one("forward", "reverse", "bidirectional")
    n = 2 if direction == "bidirectional" else 1
    inputs: dict[str, Any] = {
        "x": d.data([steps, batch, size], "float32", -1, 1), "w": d.data([n, gates * hidden, size], "float32", -1, 1),
        "r": d.data([n, gates * hidden, hidden], "float32", -1, 1),
        "b": d.data([n, 2 * gates * hidden], "float32", -1, 1) if d.flag() else None,
        "lens": d.data([batch], "int32", 0, steps) if d.flag() else None,
        "h": d.data([n, batch, hidden], "float32", -1, 1) if d.flag() else None,
    }  # fmt: skip
    attrs: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    if op == "GRU":
        attrs["linear_before_reset"] = d.int(0, 1)
    if op == "LSTM":
        attrs["input_forget"] = d.int(0, 1)
        inputs["c"] = d.data([n, batch, hidden], "float32", -1, 1) if d.flag() else None
        inputs["p"] = d.data([n, 3 * hidden], "float32", -1, 1) if d.flag() else None
    while list(inputs.values())[-1] is None:
        inputs.popitem()
    count = 3 if op == "LSTM" else 2
    if d.int(0, 3) == 0:
        attrs["clip"] = d.one(0.5, 1.0)
    # ONNX's evaluator knows no attributes and inputs but these.
    plain = inputs.get("lens") is None and not attrs.get("input_forget") and "clip" not in attrs
    made = d.node(op, inputs, attrs, outputs=count, opset=14)
    if d.flag():
        # Of each direction its own, in the order of the gates.
        names = [d.one(*ACTIVATIONS) for _ in range(n * len(DEFAULTS[op]))]
        taking = [sum(ACTIVATIONS[name][1] > k for name in names) for k in (0, 1)]
        made.attrs = attrs = {**attrs, "activations": names}
        for which, number in zip(("alpha", "beta"), taking):
            if number:
                # The standard and ONNX Runtime differ where x is the threshold itself.
                attrs[f"activation_{which}"] = [d.one(0.3, 0.6, 0.8, 1.4) for _ in range(number)]
        plain = False
    if not plain:
        made.definition = lambda: recurrence(op, inputs, attrs)
    if d.flag():
        return made
    # With layout 1 the batch comes first, in states and in outputs too.
    turned = {k: a if a is None or k not in "xhc" else np.swapaxes(a, 0, 1).copy() for k, a in inputs.items()}

    def batch_first(results: list[np.ndarray]) -> list[np.ndarray]:
        return [results[0].transpose(2, 0, 1, 3), *(np.swapaxes(y, 0, 1) for y in results[1:])]

    return d.node(op, turned, {**attrs, "layout": 1}, outputs=count, opset=14, twin=(made, batch_first))


def _resize(d: Drawing) -> Node:
    shape = [1, d.int(1, 2), d.int(2, 5), d.int(2, 5)]
    mode = d.one("nearest", "nearest", "linear", "cubic")
    attrs: dict[str, Any] = {
        "mode": mode,
        "coordinate_transformation_mode": d.one("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"),
    }
    if mode == "nearest":
        attrs["nearest_mode"] = d.one("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    if mode == "cubic":
        attrs |= {"exclude_outside": d.int(0, 1), "cubic_coeff_a": d.one(-0.75, -0.5)}
    inputs: dict[str, Any] = {"x": d.data(shape), "roi": None}
    # Of one element the evaluator takes another place than the standard does.
    least = 2 if attrs["coordinate_transformation_mode"] == "pytorch_half_pixel" else 1
    if d.flag():
        small = () if least > 1 else (0.5, 0.75)
        factors = (*small, 1.0, 1.5, 2.0, 3.0)
        if mode == "nearest" and attrs["coordinate_transformation_mode"] == "align_corners":
            factors = (1.0, 2.0, 3.0)  # test_resize_aligns_corners_by_the_size_of_the_result
        inputs["scales"] = np.array([1, 1, *(d.one(*factors) for _ in "hw")], np.float32)
    else:
        inputs |= {"scales": None, "sizes": int_array(*shape[:2], d.int(least, 8), d.int(least, 8))}
    if inputs["scales"] is None and d.flag():  # of a part of the picture, or of more than there is
        attrs |= {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
        starts, ends = [d.one(0.0, 0.25, -0.25, 0.5) for _ in "hw"], [d.one(1.0, 0.75, 1.125, 1.25) for _ in "hw"]
        inputs["roi"] = np.array([0, 0, *starts, 1, 1, *ends], np.float32)
    return d.node("Resize", inputs, attrs, known=("roi", "scales", "sizes"))


def _inverse_dft(d: Drawing) -> Node:
    """From half of the frequencies back: of a real signal, whose transform the evaluator makes first."""
    signal = d.data([d.int(1, 2), d.int(2, 7), 1])
    n = signal.shape[1]
    half = np.fft.rfft(signal[..., 0], axis=1)
    spectrum = np.stack([half.real, half.imag], -1).astype(np.float32)
    inputs = {"x": spectrum, "length": np.array(n, np.int64), "axis": np.array(1, np.int64)}
    made = d.node("DFT", inputs, {"inverse": 1, "onesided": 1}, known=("length", "axis"), opset=20)
    made.twin = (d.node("Identity", {"x": signal}), list)
    return made


def _scan(d: Drawing) -> Node:
    """Running sums, forwards or backwards, along any axis, stacked along any other."""
    steps, width = d.int(1, 4), d.int(1, 3)
    x, axis, out_axis = d.data([steps, width]), d.int(-2, 1), d.int(0, 1)
    back, out_back = d.int(0, 1), d.int(0, 1)
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "t"], ["s2"]), helper.make_node("Sub", ["s2", "t"], ["r"])], "body",
        [info("s", onnx.TensorProto.FLOAT, [width]), info("t", onnx.TensorProto.FLOAT, [width])],
        [info("s2", onnx.TensorProto.FLOAT, [width]), info("r", onnx.TensorProto.FLOAT, [width])],
    )  # fmt: skip
    start = d.data([width])
    plain = d.node("Scan", {"s0": start, "x": x}, {"body": body, "num_scan_inputs": 1}, outputs=2)
    given = x[::-1] if back else x
    given = given.copy() if axis % 2 == 0 else given.T.copy()
    attrs = {"scan_input_axes": [axis], "scan_input_directions": [back], "scan_output_axes": [out_axis],
             "scan_output_directions": [out_back]}  # fmt: skip

    def changed(results: list[np.ndarray]) -> list[np.ndarray]:
        rows = results[1][::-1] if out_back else results[1]
        return [results[0], rows if out_axis == 0 else rows.T]

    twin = (plain, changed)
    return d.node("Scan", {"s0": start, "x": given}, {**plain.attrs, **attrs}, outputs=2, twin=twin)


def _dft(d: Drawing) -> Node:
    shape = [d.int(1, 2), d.int(1, 6), d.int(1, 4)]
    axis, onesided = d.int(1, 2), d.int(0, 1)
    x = d.data([*shape, 1 if onesided else d.int(1, 2)])
    return d.node("DFT", {"x": x}, {"axis": axis, "onesided": onesided}, opset=17)


def _blocks(d: Drawing) -> Node:
    b, c, h, w = d.int(1, 3), d.int(1, 2), d.int(1, 3), d.int(1, 3)
    if d.flag():
        return d.node(
            "DepthToSpace", {"x": d.data([1, c * b * b, h, w])}, {"blocksize": b, "mode": d.one("DCR", "CRD")}
        )
    return d.node("SpaceToDepth", {"x": d.data([1, c, h * b, w * b])}, {"blocksize": b})


OPERATORS: dict[str, Callable[[Drawing], Node]] = {
    "pool": window_nodes.pool, "conv": window_nodes.conv, "conv_transpose": window_nodes.conv_transpose,
    "matmul_integer": quantised_nodes.matmul_integer, "qlinear_matmul": quantised_nodes.qlinear_matmul,
    "conv_integer": quantised_nodes.conv_integer, "quantize": quantised_nodes.quantize,
    "dynamic": quantised_nodes.dynamic, "pad": _pad, "center": _center, "slice": _slice, "gather": _gather,
    "gather_nd": _gather_nd, "one_hot": _one_hot, "topk": _topk, "split": _split, "reshaping": _reshaping,
    "reduce": _reduce, "arg": _arg, "cumulative": _cumulative, "softmax": _softmax, "norm": _norm,
    "elementwise": _elementwise, "products": _products, "recurrent": _recurrent, "resize": _resize, "dft": _dft,
    "inverse_dft": _inverse_dft, "scan": _scan, "blocks": _blocks, "roi_align": region_nodes.roi_align,
    "deform_conv": region_nodes.deform_conv, "max_pool_with_places": region_nodes.max_pool_with_places,
    "max_unpool": region_nodes.max_unpool, "det": region_nodes.det, "stft": region_nodes.stft,
    "older": older_nodes.older, "places": older_nodes.places, "losses": older_nodes.losses,
}  # fmt: skip


# Inputs whose extents an operator knows: weights, scales and zero points.
WEIGHTS = ("w", "b", "r", "sa", "za", "sb", "zb", "sy", "zy")


def difference(node: Node) -> str:
    """Where the graph's interpreter differs from ONNX's evaluator, or from tensor expressions; "" for nowhere."""
    wanted = node.expected()
    graph = from_onnx(node.model())
    values = interpreter.evaluate(graph, node.arrays)
    found = _unlike(wanted, [values[v] for v in graph.outputs]) if wanted is not None else ""
    if found:
        return f"graph: {node}: {found}"
    for item in graph.nodes:
        if item.op == LOOP:  # it has no tensor expression
            continue
        tensors = to_te(item)
        given = dict(zip(tensors, (values[v] for v in item.inputs)))
        made = expressions.evaluate(tensors[len(given) :], given)
        found = _unlike([values[v] for v in item.outputs], made)
        if found:
            return f"te: {item} of {node}: {found}"
    return ""


def open_difference(node: Node, seed: int) -> str | None:
    """Where a node whose inputs have open axes differs from ONNX's evaluator; None if such axes are refused.

    The seed decides which axes are open; those of weights are not.
    """
    wanted = node.expected()
    draw = np.random.default_rng(seed)
    axes = {name: [k for k in range(a.ndim) if draw.random() < 0.6] for name, a in node.arrays.items()}
    for name in WEIGHTS:
        axes.pop(name, None)
    try:
        found = interpreter.run(from_onnx(node.model(axes)), node.arrays)
    except UnsupportedOperator:
        return None
    except InputError as error:  # an extent of 1 is taken for one that is not repeated
        if "taken for equal" not in str(error):
            raise
        return None
    different = "" if wanted is None else _unlike(wanted, found)
    return f"{node} with the open axes {axes}: {different}" if different else ""


def _unlike(wanted: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> str:
    for want, got in zip(wanted, found, strict=True):
        same = want.shape == got.shape and want.dtype == got.dtype
        if not same or not np.allclose(np.float64(want), np.float64(got), rtol=1e-4, atol=1e-4, equal_nan=True):
            return f"{got.dtype}{list(got.shape)} {got} instead of {want.dtype}{list(want.shape)} {want}"
    return ""


def random_node(family: str, seed: int) -> Node:
    """The node of that family that comes with the seed."""
    return OPERATORS[family](Seeded(seed, *family.encode()))


@st.composite
def nodes(draw: Draw, families: Sequence[str] = tuple(OPERATORS)) -> Node:
    """One node of these families of operators."""
    return OPERATORS[draw(st.sampled_from(list(families)))](Drawing(draw))
