"""Random ONNX models with loops: their length is data, an open dimension or known, and their bodies hold others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
MOST = 20  # iterations
WIDTH = 3  # elements of each value that is no number


@dataclass(frozen=True)
class Case:
    """A model, several sets of inputs for it, and the sizes of inputs that it is imported with."""

    model: onnx.ModelProto
    runs: tuple[dict[str, np.ndarray], ...]
    has_rows: bool

    def __repr__(self) -> str:
        return f"{onnx.printer.to_text(self.model)}\n{self.runs}"


def info(name: str, dtype: int, shape: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


class _Body:
    """The nodes of one graph; vectors are names of float32[WIDTH], `number` is an int64 scalar that a body may have."""

    count = 0

    def __init__(self, draw: Any, vectors: list[str], table: str, number: str = "") -> None:
        self.draw, self.vectors, self.table, self.number = draw, list(vectors), table, number
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def one(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def fresh(self, base: str = "v") -> str:
        _Body.count += 1
        return f"{base}{_Body.count}"

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = self.fresh(op.lower())
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def constant(self, value: Any, dtype: str = "float32") -> str:
        name = self.fresh("c")
        self.constants.append(onnx.numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def vector(self) -> str:
        return self.one(*self.vectors)

    def kept_small(self, x: str) -> str:
        return self.node("Clip", x, self.constant(-64.0), self.constant(64.0))

    def step(self, depth: int) -> None:
        """One operator, or one loop, on vectors."""
        kinds = ["add", "half", "minimum", "row", "places", "loop", "scan", "weights"]
        kind = self.one(*(kinds if depth < 2 else kinds[:5]))
        if kind == "add":
            made = self.kept_small(self.node("Add", self.vector(), self.vector()))
        elif kind == "half":
            made = self.node("Add", self.node("Mul", self.vector(), self.constant(0.5)), self.constant(1.0))
        elif kind == "minimum":
            made = self.node(self.one("Min", "Max"), self.vector(), self.vector())
        elif kind == "row":  # of the table, by the number of the iteration
            rows = self.node("Gather", self.node("Shape", self.table), self.constant(0, "int64"))
            at = self.node("Mod", self.number or self.constant(1, "int64"), rows)
            made = self.node("Gather", self.table, at, axis=0)
        elif kind == "places":  # as many rows of the table as data decide
            sums = self.node("ReduceSum", self.table, self.constant([1], "int64"), keepdims=0)
            level = self.node("ReduceMax", self.vector(), keepdims=0)
            found = self.node("Compress", self.table, self.node("Less", sums, level), axis=0)
            made = self.node("ReduceSum", found, self.constant([0], "int64"), keepdims=0)
        elif kind == "weights":
            line = self.node("Unsqueeze", self.vector(), self.constant([0], "int64"))
            weights = np.round(np.eye(WIDTH)[::-1] / 2 + 0.25, 2)
            made = self.node("Squeeze", self.node("MatMul", line, self.constant(weights)), self.constant([0], "int64"))
        else:
            results = (self.loop if kind == "loop" else self.scan)(depth + 1)
            made, rows = results
            if rows is not None:  # what all iterations leave, as one vector
                made = self.node("Add", made, self.node("ReduceSum", rows, self.constant([0], "int64"), keepdims=0))
            made = self.kept_small(made)
        self.vectors.append(made)

    def body(self, depth: int, states: int, number: str) -> tuple[_Body, list[str]]:
        own = [self.fresh("s") for _ in range(states)]
        inner = _Body(self.draw, [*own, *self.vectors[-2:]], self.table, number)
        for _ in range(self.draw(st.integers(1, 3))):
            inner.step(depth)
        return inner, own

    def loop(self, depth: int, limit: str = "", condition: str = "") -> tuple[str, str | None]:
        """The last state and the rows (or None) of a Loop."""
        if not limit:
            limit = self.one(self.number or "", *(self.constant(k, "int64") for k in (0, 2, 17)))
            limit = limit or self.constant(3, "int64")
        number, going = self.fresh("i"), self.fresh("going")
        states = self.draw(st.integers(1, 3))
        inner, own = self.body(depth, states, number)
        kind = self.one("always", "number", "data")
        if kind == "always":
            again = inner.node("Identity", going)
        elif kind == "number":
            again = inner.node("Less", number, inner.constant(self.one(0, 3, 18), "int64"))
        else:
            again = inner.node("Less", inner.node("ReduceSum", inner.vectors[-1], keepdims=0), inner.constant(12.0))
        # States may change places, stay, or be what was computed last.
        results = [inner.node("Identity", inner.one(*own, *inner.vectors[-2:])) for _ in own]
        # Rows whose number data decide need a bound; only the outermost loop has one in all cases.
        has_rows = self.draw(st.booleans()) and (depth == 1)
        rows = [inner.node("Identity", inner.vectors[-1])] if has_rows else []
        graph = helper.make_graph(
            inner.nodes, "body", [info(number, I64, []), info(going, BOOL, []), *(info(s, F32, [WIDTH]) for s in own)],
            [info(again, BOOL, None), *(info(r, F32, None) for r in (*results, *rows))], inner.constants,
        )  # fmt: skip
        outputs = [self.fresh("end") for _ in own]
        stacked = [self.fresh("rows") for _ in rows]
        begin = [self.vector() for _ in own]
        self.nodes.append(helper.make_node("Loop", [limit, condition, *begin], [*outputs, *stacked], body=graph))
        return self.one(*outputs), stacked[0] if stacked else None

    def scan(self, depth: int) -> tuple[str, str | None]:
        """The last state and the rows of a Scan over the table."""
        back, out_back = self.one(0, 1), self.one(0, 1)
        inner, own = self.body(depth, 1, "")
        row = self.fresh("row")
        inner.vectors.append(inner.node("Add", row, own[0]))
        result = inner.kept_small(inner.vectors[-1])
        stacked = inner.node("Sub", result, row)
        graph = helper.make_graph(
            inner.nodes, "body", [info(own[0], F32, [WIDTH]), info(row, F32, [WIDTH])],
            [info(result, F32, [WIDTH]), info(stacked, F32, [WIDTH])], inner.constants,
        )  # fmt: skip
        end, rows = self.fresh("end"), self.fresh("rows")
        attrs = {"scan_input_directions": [back], "scan_output_directions": [out_back]}
        inputs = [self.vector(), self.table]
        self.nodes.append(helper.make_node("Scan", inputs, [end, rows], body=graph, num_scan_inputs=1, **attrs))
        return end, rows


@st.composite
def loop_models(draw: st.DrawFn) -> Case:
    """A loop, or a scan, around others; the limit and the condition are inputs, or the number of rows of a table."""
    _Body.count = 0
    main = _Body(draw, ["x", "y"], "table", "")
    kind = draw(st.sampled_from(["loop", "loop", "scan"]))
    if kind == "scan":
        end, rows = main.scan(1)
    else:
        limit = draw(st.sampled_from(["n", "n", "rows"]))
        if limit == "rows":
            limit = main.node("Gather", main.node("Shape", "table"), main.constant(0, "int64"))
        end, rows = main.loop(1, limit, draw(st.sampled_from(["", "c"])))
    outputs = [end] if rows is None else [end, rows]
    is_open = draw(st.booleans())
    length = draw(st.integers(1, 5))
    inputs = [info("x", F32, [WIDTH]), info("y", F32, [WIDTH]), info("n", I64, []), info("c", BOOL, []),
              info("table", F32, ["t" if is_open else length, WIDTH])]  # fmt: skip
    graph = helper.make_graph(main.nodes, "g", inputs, [info(o, F32, None) for o in outputs], main.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    runs = []
    for _ in range(2):
        size = draw(st.integers(1, 19)) if is_open else length
        x, y, table = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((WIDTH,), (WIDTH,), (size, WIDTH)))
        runs.append({"x": x, "y": y, "n": np.array(draw(st.sampled_from([0, 1, 2, 5, MOST]))),
                     "c": np.array(draw(st.sampled_from([True, True, False]))), "table": table})  # fmt: skip
    return Case(model, tuple(runs), rows is not None and kind == "loop")
