"""Random ONNX models in which data decide sizes, and what is done with such sizes afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
NAMES = {F32: "float32", I64: "int64", BOOL: "bool"}


class _Model:
    """Nodes as they are drawn; a value is (name, dtype, rank)."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.constants: list[Any] = []

    def node(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        names = [f"{op.lower()}{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, value: Any, dtype: str = "int64") -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(onnx.numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def one(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))


def _found(m: _Model, x: str) -> tuple[str, int, int]:
    """A value whose first axis is as long as data decide; its dtype and rank. `x` is float32 of rank 2."""
    kind = m.one("nonzero", "compress", "flat", "unique", "rows", "topk", "suppress", "range", "shape")
    if kind in ("range", "shape"):
        return _by_number(m, x, kind)
    if kind == "nonzero":
        places = m.node("Transpose", m.node("NonZero", x), perm=[1, 0])
        return (m.node("GatherND", x, places), F32, 1) if m.one(True, False) else (places, I64, 2)
    if kind == "compress":
        column = m.node("ReduceSum", x, m.constant([1]), keepdims=0)
        return m.node("Compress", x, m.node("Greater", column, m.constant(1.0, "float32")), axis=0), F32, 2
    if kind == "flat":
        kept = m.node("Reshape", m.node("Greater", x, m.constant(0.0, "float32")), m.constant([-1]))
        return m.node("Compress", x, kept), F32, 1
    if kind in ("unique", "rows"):
        axis = {"axis": 0} if kind == "rows" else {}
        results = m.node("Unique", x, outputs=4, **axis, sorted=m.one(0, 1))
        number = m.one(0, 1, 3)
        return results[number], F32 if number == 0 else I64, 2 if number == 0 and axis else 1
    if kind == "topk":
        flat = m.node("Reshape", x, m.constant([-1]))
        number = m.node(
            "Cast",
            m.node("ReduceSum", m.node("Cast", m.node("Greater", x, m.constant(0.0, "float32")), to=I64), keepdims=0),
            to=I64,
        )
        values, places = m.node(
            "TopK", flat, m.node("Reshape", number, m.constant([1])), outputs=2, largest=m.one(0, 1)
        )
        return m.one((values, F32, 1), (places, I64, 1))
    boxes = m.node(
        "Reshape",
        m.node("Tile", m.node("Reshape", x, m.constant([1, -1, 1])), m.constant([1, 1, 4])),
        m.constant([1, -1, 4]),
    )
    away = m.node("Add", boxes, m.constant([0, 0, 2, 1], "float32"))
    scores = m.node("Reshape", m.node("Mul", x, m.constant(0.25, "float32")), m.constant([1, 1, -1]))
    limits = [
        m.constant(m.one([2], [20])),
        m.constant(m.one(0.2, 0.5), "float32"),
        m.constant(m.one(-0.1, 0.3), "float32"),
    ]
    return m.node("NonMaxSuppression", away, scores, *limits, center_point_box=m.one(0, 1)), I64, 2


def _by_number(m: _Model, x: str, kind: str) -> tuple[str, int, int]:
    """As many as a number says that data decide, and that the operators before it bound."""
    truths = m.node("Cast", m.node("Greater", x, m.constant(0.0, "float32")), to=I64)
    number = m.node("ReduceSum", truths, keepdims=0)
    if m.one(True, False):
        whole = m.node("Ceil", m.node("ReduceMax", m.node("Abs", x), keepdims=0))
        limits = (m.constant(0.0, "float32"), m.constant(m.one(1.0, 2.5), "float32"))
        number = m.node("Cast", m.node("Clip", whole, *limits), to=I64)
    if kind == "range":
        return m.node("Range", m.constant(m.one(-1, 0, 1)), number, m.constant(m.one(1, 2))), I64, 1
    one = m.node("Reshape", number, m.constant([1]))
    kind = m.one("zeros", "tile", "pad", "expand", "resize", "reshape")
    column = m.node("ReduceSum", x, m.constant([1]), keepdims=1)
    if kind == "zeros":
        return m.node("ConstantOfShape", m.node("Concat", one, m.constant([2]), axis=0)), F32, 2
    if kind == "tile":
        return m.node("Tile", column, m.node("Concat", one, m.constant([2]), axis=0)), F32, 2
    if kind == "pad":
        zero = m.constant([0])
        return m.node("Pad", column, m.node("Concat", zero, one, one, zero, axis=0)), F32, 2
    if kind == "expand":
        row = m.node("ReduceSum", x, m.constant([0]), keepdims=1)
        return m.node("Expand", row, m.node("Concat", one, m.constant([1]), axis=0)), F32, 2
    if kind == "resize":
        more = m.node("Add", one, m.constant([1]))
        sizes = m.node("Concat", more, m.node("Slice", m.node("Shape", x), m.constant([1]), m.constant([2])), axis=0)
        return m.node("Resize", x, "", "", sizes, mode=m.one("linear", "nearest")), F32, 2
    zeros = m.node("ConstantOfShape", m.node("Concat", one, m.constant([6]), axis=0))
    double, rest = m.node("Mul", one, m.constant([2])), m.one(3, -1)
    if rest == -1:  # of no rows nobody can say how long they are
        double = m.node("Max", double, m.constant([1]))
    return m.node("Reshape", zeros, m.node("Concat", double, m.constant([rest]), axis=0)), F32, 2


def _used(m: _Model, value: str, dtype: int, rank: int) -> tuple[str, int, int]:
    """What a network does with such a value."""
    as_float = value if dtype == F32 else m.node("Cast", value, to=F32)
    kind = m.one(
        "as it is", "map", "sum", "sum of rows", "count", "filled", "twice", "first", "padded", "flat", "again"
    )
    if rank == 0:
        return m.node("Neg", as_float), F32, 0
    if kind == "map":
        return m.node("Mul", m.node("Sigmoid", as_float), m.constant(2.0, "float32")), F32, rank
    if kind == "sum":
        return m.node("ReduceSum", as_float, m.constant([0]), keepdims=0), F32, rank - 1
    if kind == "sum of rows":
        return (
            m.node("ReduceSum", m.node("Add", as_float, m.constant(1.0, "float32")), m.constant([-1]), keepdims=1),
            F32,
            rank,
        )
    if kind == "count":
        return m.node("Shape", value), I64, 1
    if kind == "filled":
        size = m.node("Gather", m.node("Shape", value), m.constant([0]), axis=0)
        return m.node("ConstantOfShape", m.node("Concat", size, m.constant([2]), axis=0)), F32, 2
    if kind == "twice":
        return m.node("Concat", value, value, axis=0), dtype, rank
    if kind == "first":
        size = m.node("Gather", m.node("Shape", value), m.constant([0]), axis=0)
        return (
            m.node("Slice", value, m.constant([0]), m.node("Min", size, m.constant([2])), m.constant([0])),
            dtype,
            rank,
        )
    if kind == "padded":
        pads = m.constant([1] + [0] * (rank - 1) + [2] + [0] * (rank - 1))
        return m.node("Pad", as_float, pads), F32, rank
    if kind == "flat":
        return m.node("Reshape", value, m.constant([-1])), dtype, 1
    if kind == "again" and rank == 1:
        return m.node("Transpose", m.node("NonZero", as_float), perm=[1, 0]), I64, 2
    return m.node("Identity", value), dtype, rank


@st.composite
def data_sizes(draw: Any) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model, and an input with few different values, or zeros alone."""
    m = _Model(draw)
    shape = draw(st.tuples(st.integers(1, 5), st.integers(1, 4)))
    seed = draw(st.integers(0, 2**16))
    top = draw(st.sampled_from([0, 1, 2, 2, 2]))
    x = np.random.default_rng(seed).integers(-top, top + 1, shape).astype(np.float32)
    outputs = []
    for _ in range(draw(st.integers(1, 2))):
        value, dtype, rank = _found(m, "x")
        for _ in range(draw(st.integers(0, 2))):
            value, dtype, rank = _used(m, value, dtype, rank)
        outputs.append((m.node("Identity", value), dtype, rank))
    rows = any(node.op_type == "Unique" and node.attribute[0].name == "axis" for node in m.nodes)
    declared = m.one(list(shape), ["n", shape[1]], ["n", shape[1] if rows else "m"])
    graph = helper.make_graph(
        m.nodes,
        "sizes",
        [helper.make_tensor_value_info("x", F32, declared)],
        [helper.make_tensor_value_info(name, dtype, [None] * rank) for name, dtype, rank in outputs],
        m.constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model)
    return model, {"x": x}
