"""Random nodes of older versions of operators, beside their successors, and nodes that few models have."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .one_node import Drawing, Node, int_array


def older(d: Drawing) -> Node:
    """A node of an opset in which it had attributes for inputs, or another meaning."""
    shape = d.shape(1, 3)
    x = d.data(shape)
    kind = d.one(_of_matrix, _of_matrix, _axes_as_attribute, _axes_as_attribute, _slice, _pad, _split, _clip)
    node: Node = kind(d, x)
    return node


def _of_matrix(d: Drawing, x: np.ndarray) -> Node:
    """Softmax and its relatives of all axes from `axis` on, as if they were one."""
    attrs = d.attrs(axis=d.axis(x.ndim)) if x.ndim > 1 else {"axis": d.axis(1)}
    axis = attrs.get("axis", 1) % x.ndim
    flat = x.reshape(math.prod(x.shape[:axis]), -1)
    plain = Node(d.one("Softmax", "LogSoftmax", "Hardmax"), {"x": flat}, {"axis": 1})
    return d.node(plain.op, {"x": x}, attrs, opset=11, twin=(plain, lambda y: [y[0].reshape(x.shape)]))


def _now(node: Node, **inputs: np.ndarray | None) -> Any:
    """The node of today with these inputs, whose results are the same."""
    return Node(node.op, {**node.inputs, **inputs}, node.attrs, tuple(inputs), node.outputs), lambda y: y


def _axes_as_attribute(d: Drawing, x: np.ndarray) -> Node:
    axes, op = d.axes(x.ndim), d.one("ReduceSum", "ReduceMax", "ReduceL2", "Unsqueeze", "Squeeze")
    attrs = {"keepdims": d.int(0, 1)} if op.startswith("Reduce") else {}
    if op == "Squeeze":
        x = np.ascontiguousarray(
            x[tuple(slice(0, 1) if a in [b % x.ndim for b in axes] else slice(None) for a in range(x.ndim))]
        )
    if op == "Unsqueeze":
        axes = [a % x.ndim for a in axes]
    node = d.node(op, {"x": x}, {**attrs, "axes": axes}, opset=11)
    node.twin = _now(Node(op, node.inputs, attrs), axes=int_array(*axes))
    return node


def _slice(d: Drawing, x: np.ndarray) -> Node:
    axes = d.axes(x.ndim)
    starts = [d.int(-x.shape[a] - 1, x.shape[a] - 1) for a in axes]
    ends = [d.one(x.shape[a], 99, max(s % x.shape[a], 0) + 1) for s, a in zip(starts, axes)]
    node = d.node("Slice", {"x": x}, {"starts": starts, "ends": ends, "axes": axes}, opset=9)
    node.twin = _now(
        Node("Slice", node.inputs), starts=int_array(*starts), ends=int_array(*ends), axes=int_array(*axes)
    )
    return node


def _pad(d: Drawing, x: np.ndarray) -> Node:
    mode, value = d.one("constant", "edge", "reflect"), float(d.int(-2, 2))
    most = [n - 1 if mode == "reflect" else 2 for n in x.shape]
    pads = [d.int(0, n) for n in (*most, *most)]
    node = d.node("Pad", {"x": x}, {"pads": pads, "mode": mode, "value": value}, opset=10)
    node.twin = _now(
        Node("Pad", node.inputs, {"mode": mode}), pads=int_array(*pads), value=np.float32(value).reshape(())
    )
    return node


def _split(d: Drawing, x: np.ndarray) -> Node:
    axis = d.axis(x.ndim)
    first = d.int(0, x.shape[axis])
    sizes = [first, x.shape[axis] - first]
    node = d.node("Split", {"x": x}, {"axis": axis, "split": sizes}, opset=11, outputs=2)
    node.twin = _now(Node("Split", node.inputs, {"axis": axis}, outputs=2), split=int_array(*sizes))
    return node


def _clip(d: Drawing, x: np.ndarray) -> Node:
    limits = d.attrs(min=float(d.int(-4, 0)), max=float(d.int(0, 4)))
    low, high = (np.float32(limits.get(name, far)).reshape(()) for name, far in (("min", -9), ("max", 9)))
    node = d.node("Clip", {"x": x}, limits, opset=6)
    node.twin = _now(Node("Clip", node.inputs), min=low, max=high)
    return node


def places(d: Drawing) -> Node:
    """Reversed beginnings of rows, updates at points, elements under a mask, columns of an image."""
    kind = d.one("ReverseSequence", "ReverseSequence", "ScatterND", "ScatterND", "Compress", "Col2Im")
    shape = d.shape(2, 4)
    if kind == "ReverseSequence":
        batch = d.one(0, 1)
        shape[1 - batch] = d.int(2, 6)
        lengths = [d.int(1, shape[1 - batch]) for _ in range(shape[batch])]
        attrs = {"batch_axis": batch, "time_axis": 1 - batch}
        return d.node(kind, {"x": d.data(shape), "i": int_array(*lengths)}, attrs, known=d.one((), ("i",)))
    if kind == "ScatterND":
        size = d.int(1, len(shape))
        points = d.permuted(list(np.ndindex(*shape[:size])))[: d.int(1, 4)]
        places = [[p - n if d.flag() else p for p, n in zip(point, shape)] for point in points]
        inputs = {"x": d.data(shape), "i": np.array(places, np.int64), "u": d.data([len(points), *shape[size:]])}
        return d.node(kind, inputs, {"reduction": d.one("none", "add", "mul", "max", "min")})
    if kind == "Compress":
        axis = d.one(None, *range(-len(shape), len(shape)))
        count = math.prod(shape) if axis is None else shape[axis]
        mask = np.array([True, *(d.flag() for _ in range(count - 1))])[: d.int(1, count)]
        return d.node(kind, {"x": d.data(shape), "i": mask}, {} if axis is None else {"axis": axis}, known=("i",))
    image, block = [d.int(3, 5), d.int(3, 5)], [d.int(1, 3), d.int(1, 2)]
    attrs = {"pads": [d.int(0, 1) for _ in range(4)], "strides": [d.int(1, 2), d.int(1, 2)],
             "dilations": [1, d.int(1, 2)]}  # fmt: skip
    windows = [
        (n + attrs["pads"][a] + attrs["pads"][2 + a] - attrs["dilations"][a] * (k - 1) - 1) // attrs["strides"][a] + 1
        for a, (n, k) in enumerate(zip(image, block))
    ]
    columns = d.data([d.int(1, 2), d.int(1, 2) * math.prod(block), math.prod(windows)])
    return d.node(kind, {"x": columns, "image": int_array(*image), "block": int_array(*block)}, attrs,
                  known=("image", "block"))  # fmt: skip


def losses(d: Drawing) -> Node:
    """A loss of random classes, some of which do not count, weighted or not."""
    count, classes, others = d.int(1, 4), d.int(2, 4), d.shape(0, 2)
    kind = d.one("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
    inputs = {"x": d.data([count, classes, *others]), "i": d.data([count, *others], "int64", 0, classes - 1)}
    if d.flag():
        inputs["w"] = d.data([classes], "float32", 1, 4)
    ignored = {"ignore_index": int(d.one(*np.unique(inputs["i"]), -1))} if d.flag() else {}
    reduction = d.one("none", "sum", "mean")
    if reduction == "mean" and ignored and (inputs["i"] == ignored["ignore_index"]).all():
        ignored = {}  # the mean of nothing
    return d.node(kind, inputs, {"reduction": reduction, **ignored})
