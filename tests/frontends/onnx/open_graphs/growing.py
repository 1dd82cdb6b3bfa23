"""A graph that grows: values with their shapes at all sizes, nodes, constants, and moves that add to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.drawing import Draw, Drawing, Seeded

SIZES = ((3, 5), (1, 7), (8, 2), (17, 1), (4, 64))  # of the two open dimensions n and m
COUNT = len(SIZES)
LARGEST = 40_000  # elements of a value, at any size

Dim = tuple[int, ...]  # its extents at all SIZES
Shape = tuple[Dim, ...]
Fits = Callable[[Shape], bool]

N, M = (tuple(pair[k] for pair in SIZES) for k in (0, 1))
ONE: Dim = (1,) * COUNT


class Unfit(Exception):
    """A move finds no value that it could take."""


def same(extent: int) -> Dim:
    """A dimension of known extent."""
    return (extent,) * COUNT


def known(dim: Dim) -> bool:
    """Whether the extent is the same at all sizes."""
    return len(set(dim)) == 1


def each(function: Callable[..., int], *dims: Dim) -> Dim:
    """The dimension whose extent at each size is a function of the other dimensions' there."""
    return tuple(function(*extents) for extents in zip(*dims, strict=True))


def product(dims: Sequence[Dim]) -> Dim:
    """The number of elements at each size."""
    return tuple(int(np.prod([d[k] for d in dims])) for k in range(COUNT))


def replaced(shape: Shape, axis: int, *dims: Dim) -> Shape:
    """The shape with other dimensions, or none, at an axis."""
    return (*shape[:axis], *dims, *shape[axis + 1 :])


@dataclass
class OpenGraph:
    """What is grown so far. `values` are the floats that moves may take, with their shapes."""

    d: Drawing
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, onnx.TensorProto] = field(default_factory=dict)
    inputs: dict[str, Shape] = field(default_factory=dict)
    values: dict[str, Shape] = field(default_factory=dict)
    moves: list[str] = field(default_factory=list)
    count: int = 0

    def fresh(self, prefix: str = "t") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def value(self, fits: Fits = lambda shape: True) -> str:
        """A value that fits, the latest more often; raises `Unfit` where there is none."""
        names = [name for name, shape in self.values.items() if fits(shape)]
        if not names:
            raise Unfit
        return str(self.d.one(*(names[-4:] if self.d.int(0, 9) < 7 else names)))

    def axis(self, x: str, fits: Callable[[Dim], bool] = lambda dim: True) -> int:
        """An axis of a value whose dimension fits."""
        axes = [a for a, dim in enumerate(self.values[x]) if fits(dim)]
        if not axes:
            raise Unfit
        return int(self.d.one(*axes))

    def node(self, op: str, inputs: Sequence[str], shape: Shape, **attrs: Any) -> str:
        """A node whose result later moves may take; raises `Unfit` where it would be empty, or large."""
        elements = product(shape)
        if min(elements) == 0 or max(elements) > LARGEST:
            raise Unfit
        name = self.hidden(op, inputs, **attrs)
        self.values[name] = tuple(shape)
        return name

    def hidden(self, op: str, inputs: Sequence[str], **attrs: Any) -> str:
        """A node whose result no other move takes: an integer, a condition, a step between."""
        name = self.fresh()
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attrs))
        return name

    def constant(self, value: Any, dtype: str | None = None) -> str:
        name = self.fresh("c")
        self.constants[name] = numpy_helper.from_array(np.asarray(value, dtype), name)
        return name

    def integers(self, *values: int) -> str:
        return self.constant(values, "int64")

    def weight(self, *shape: int) -> str:
        scale = max(1, int(np.prod(shape[1:]))) ** -0.5
        return self.constant(self.d.rng.standard_normal(shape) * scale, "float32")

    def extent(self, x: str, axis: int) -> str:
        """The extent of a value's axis, as a vector of one integer."""
        shape = self.hidden("Shape", [x])
        return self.hidden("Gather", [shape, self.integers(axis)], axis=0)

    def scalar(self, vector: str) -> str:
        return self.hidden("Squeeze", [vector, self.integers(0)])

    def joined(self, *vectors: str) -> str:
        return self.hidden("Concat", vectors, axis=0)

    def model(self) -> onnx.ModelProto:
        """The model whose outputs are the values that no node reads, or the last one."""
        read = {name for node in self.nodes for name in node.input}
        outputs = [name for name in self.values if name not in read and name not in self.inputs]
        names = {N: "n", M: "m"}
        graph = helper.make_graph(
            self.nodes, "open",
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, [d[0] if known(d) else names[d] for d in shape])
                for name, shape in self.inputs.items()
            ],
            [onnx.ValueInfoProto(name=name) for name in outputs or list(self.values)[-1:]],
            list(self.constants.values()),
        )  # fmt: skip
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)

    def data(self, position: int) -> dict[str, np.ndarray]:
        """Inputs at one of the sizes."""
        rng = np.random.default_rng(position)
        return {
            name: rng.standard_normal([d[position] for d in shape]).astype(np.float32)
            for name, shape in self.inputs.items()
        }

    def __repr__(self) -> str:
        shapes = {name: [d[0] if known(d) else "n" if d == N else "m" for d in s] for name, s in self.inputs.items()}
        return f"OpenGraph({shapes}, {self.moves})"


MOVES: dict[str, Callable[[OpenGraph], None]] = {}


def move(function: Callable[[OpenGraph], None]) -> Callable[[OpenGraph], None]:
    """Register a way in which a graph grows; it may raise `Unfit` at any point."""
    MOVES[function.__name__] = function
    return function


_INPUTS: tuple[Shape, ...] = (
    (N, M, same(8)), (N, same(8), M), (N, same(4), M, same(6)), (N, same(3), same(9), M), (same(2), same(8), N, M),
    (M, same(12)), (N, M), (N, M, same(4)),
)  # fmt: skip


def grown(d: Drawing, moves: Sequence[str] = tuple(MOVES), most: int = 8) -> OpenGraph:
    """A graph of one or two inputs and at most so many moves, each of those named as likely as any other."""
    graph = OpenGraph(d)
    for k in range(d.int(1, 2)):
        graph.inputs[f"x{k}"] = graph.values[f"x{k}"] = d.one(*_INPUTS)
    wanted = d.int(2, most)
    for _ in range(4 * most):
        if len(graph.moves) == wanted:
            break
        name = d.one(*(moves or MOVES))
        nodes, values = len(graph.nodes), dict(graph.values)
        try:
            MOVES[name](graph)
        except Unfit:
            del graph.nodes[nodes:]
            graph.values = values
            continue
        graph.moves.append(name)
    if not graph.moves:
        graph.node("Relu", ["x0"], graph.values["x0"])
    return graph


@st.composite
def open_graphs(draw: Draw) -> OpenGraph:
    """A graph drawn with Hypothesis."""
    return grown(Drawing(draw))


def seeded(seed: int) -> OpenGraph:
    """The graph that comes with the seed."""
    return grown(Seeded(seed))
