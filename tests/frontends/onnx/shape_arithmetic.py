"""Random arithmetic on the shape of an input, as exporters write it between Shape and Reshape: ONNX nodes.

Values are integers, conditions, and floats that a multiplication with a short binary fraction makes. Every number that
is divided by is a constant, so that each expression has a value at every size.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper

from .models import model

RANK = 3
LARGEST = 2**63 - 1  # what exporters write for "to the end"


@dataclass
class Arithmetic:
    """Nodes written so far, the names of integers and conditions in scope, and the constants."""

    draw: Any
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    integers: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)

    def add(self, op: str, *inputs: str, **attrs: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attrs))
        return name

    def constant(self, value: Any, dtype: str = "int64") -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.array(value, dtype)
        return name

    def pick(self, names: list[str]) -> str:
        return str(self.draw(st.sampled_from(names)))

    def number(self, least: int, most: int) -> int:
        return int(self.draw(st.integers(least, most)))

    def operand(self) -> str:
        """An integer in scope, or a small constant."""
        return self.pick(self.integers) if self.draw(st.booleans()) else self.constant(self.number(-3, 40))

    def size(self, axis: int) -> None:
        shape = self.add("Shape", "x")
        self.integers.append(self.add("Gather", shape, self.constant(axis), axis=0))

    def step(self) -> None:
        """One more node or two."""
        kinds = ["sum", "product", "quotient", "remainder", "extreme", "compare", "unary", "vector", "cast", "scale"]
        kinds += ["where", "logic"] if self.conditions else []
        getattr(self, f"_{self.pick(kinds)}")()

    def _sum(self) -> None:
        self.integers.append(self.add(self.pick(["Add", "Sub"]), self.pick(self.integers), self.operand()))

    def _product(self) -> None:
        self.integers.append(self.add("Mul", self.pick(self.integers), self.constant(self.number(-2, 4))))

    def _dividend(self) -> str:
        """An integer in scope, or a size less a few: rounded quotients are written (n - 1) / k + 1."""
        if self.draw(st.booleans()):
            return self.pick(self.integers)
        return self.add("Sub", self.pick(self.integers[:RANK]), self.constant(self.number(1, 5)))

    def _quotient(self) -> None:
        self.integers.append(self.add("Div", self._dividend(), self.constant(self.number(1, 7))))

    def _remainder(self) -> None:
        fmod = self.number(0, 1)
        self.integers.append(self.add("Mod", self._dividend(), self.constant(self.number(1, 7)), fmod=fmod))

    def _extreme(self) -> None:
        other = self.constant(LARGEST) if self.draw(st.booleans()) else self.operand()
        op = "Min" if self.constants.get(other, np.array(0)) == LARGEST else self.pick(["Min", "Max"])
        self.integers.append(self.add(op, self.pick(self.integers), other))

    def _compare(self) -> None:
        op = self.pick(["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"])
        self.conditions.append(self.add(op, self.pick(self.integers), self.operand()))

    def _unary(self) -> None:
        self.integers.append(self.add(self.pick(["Neg", "Abs", "Sign"]), self.pick(self.integers)))

    def _cast(self) -> None:
        if self.conditions and self.draw(st.booleans()):
            self.integers.append(self.add("Cast", self.pick(self.conditions), to=TensorProto.INT64))
        else:
            self.conditions.append(self.add("Cast", self.pick(self.integers), to=TensorProto.BOOL))

    def _where(self) -> None:
        self.integers.append(self.add("Where", self.pick(self.conditions), self.operand(), self.pick(self.integers)))

    def _logic(self) -> None:
        op = self.pick(["And", "Or", "Xor", "Not"])
        names = [self.pick(self.conditions) for _ in range(1 if op == "Not" else 2)]
        self.conditions.append(self.add(op, *names))

    def _scale(self) -> None:
        """A size times a float, rounded. Not of other integers: Cast cuts negative floats off, which no size needs."""
        whole = self.add("Cast", self.pick(self.integers[:RANK]), to=TensorProto.FLOAT)
        factor = self.constant(self.draw(st.sampled_from([0.25, 0.5, 1.5, 2.0, 3.0])), "float32")
        scaled = self.add(self.pick(["Mul", "Div"]), whole, factor)
        rounded = self.add(self.pick(["Floor", "Ceil"]), scaled)
        self.integers.append(self.add("Cast", rounded, to=TensorProto.INT64))

    def _vector(self) -> None:
        """Two integers as a vector, moved about, and one number of it again."""
        axes = self.constant([0])
        parts = [self.add("Unsqueeze", name, axes) for name in (self.pick(self.integers), self.operand())]
        vector = self.add("Concat", *parts, axis=0)
        kind = self.pick(["slice", "reduce", "tile", "gather", "where"])
        if kind == "slice":
            first = self.number(0, 1)
            part = self.add("Slice", vector, self.constant([first]), self.constant([LARGEST]))
            self.integers.append(self.add("Gather", part, self.constant(0), axis=0))
        elif kind == "reduce":
            op = self.pick(["ReduceSum", "ReduceMin", "ReduceMax"])
            self.integers.append(self.add(op, vector, *([axes] if op == "ReduceSum" else []), keepdims=0))
        elif kind == "tile":
            tiled = self.add("Tile", vector, self.constant([2]))
            self.integers.append(self.add("Gather", tiled, self.constant(self.number(-4, 3)), axis=0))
        elif kind == "gather":
            turned = self.add("Gather", vector, self.constant([1, 0]), axis=0)
            self.integers.append(self.add("Squeeze", self.add("Gather", turned, axes, axis=0), axes))
        else:
            # How exporters write Expand: -1 stands for what the input has.
            minus_one = self.add("ConstantOfShape", self.constant([2]), value=helper.make_tensor("m", 7, [1], [-1]))
            known = self.add("Equal", vector, minus_one)
            filled = self.add("Where", known, self.constant([5, 6]), vector)
            self.integers.append(self.add("Gather", filled, self.constant(self.number(0, 1)), axis=0))


@st.composite
def shape_arithmetics(draw: Any) -> onnx.ModelProto:
    """A model whose output `data` is all that it computes from its input's sizes; `zeros` has that length."""
    a = Arithmetic(draw)
    for axis in range(RANK):
        a.size(axis)
    for _ in range(a.number(1, 9)):
        a.step()
    result = a.integers[-1]
    flags = [a.add("Cast", name, to=TensorProto.INT64) for name in a.conditions]
    axes = a.constant([0])
    rows = [a.add("Unsqueeze", name, axes) for name in (*a.integers, *flags)]
    a.nodes.append(helper.make_node("Concat", rows, ["data"], axis=0))
    length = a.add("Min", a.add("Max", result, a.constant(0)), a.constant(60))
    a.nodes.append(helper.make_node("ConstantOfShape", [a.add("Unsqueeze", length, axes)], ["zeros"]))
    return model(a.nodes, [("x", TensorProto.FLOAT, ["b", "h", "w"])], ["data", "zeros"], a.constants, opset=17)
