"""One ONNX node: its arrays and attributes, its model, and what ONNX's own evaluator makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests import drawing


@dataclass
class Node:
    """A node: arrays of its inputs by name ("": left out), which of them are constants of the model, attributes."""

    op: str
    inputs: dict[str, np.ndarray | None]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    known: Sequence[str] = ()
    outputs: int = 1
    opset: int = 18
    judged: bool = True  # whether ONNX's evaluator does this right
    twin: tuple[Node, Callable[[list[np.ndarray]], list[np.ndarray]]] | None = None
    definition: Callable[[], list[np.ndarray]] | None = None  # what the standard says, where the evaluator knows less

    def expected(self) -> list[np.ndarray] | None:
        """What ONNX's own evaluator makes of it, or of its `twin`: a plainer node, and how its results become ours.

        None where the evaluator is no judge of it.
        """
        if not self.judged:
            return None
        if self.definition is not None:
            return self.definition()
        if self.twin is not None:
            plain, changed = self.twin
            wanted = plain.expected()
            return None if wanted is None else changed(wanted)
        try:
            return [np.asarray(y) for y in ReferenceEvaluator(self.model()).run(None, self.arrays)]
        except Exception:  # it fails in many ways on what it does not know
            return None

    def model(self, open_axes: Mapping[str, Sequence[int]] = {}) -> onnx.ModelProto:
        """The model of this node alone; these axes of its inputs have any extent."""

        def dims(name: str, a: np.ndarray) -> list[Any]:
            return [f"{name}_{k}" if k in open_axes.get(name, ()) else extent for k, extent in enumerate(a.shape)]

        given = {name: a for name, a in self.inputs.items() if a is not None}
        results = [f"y{k}" for k in range(self.outputs)]
        names = [name if a is not None else "" for name, a in self.inputs.items()]
        node = helper.make_node(self.op, names, results, name="the_node", **self.attrs)
        graph = helper.make_graph(
            [node], "random",
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), dims(name, a))
                for name, a in given.items() if name not in self.known
            ],
            [onnx.ValueInfoProto(name=name) for name in results],
            [numpy_helper.from_array(a, name) for name, a in given.items() if name in self.known],
        )  # fmt: skip
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The model's inputs."""
        return {name: a for name, a in self.inputs.items() if a is not None and name not in self.known}

    def __repr__(self) -> str:
        shapes = ", ".join(f"{n}: {a.dtype}{list(a.shape)}" for n, a in self.inputs.items() if a is not None)
        values = ", ".join(f"{n} = {self.inputs[n].tolist()}" for n in self.known if self.inputs.get(n) is not None)
        return f"{self.op}-{self.opset}({shapes}; {dict(self.attrs)}; {values})"


class Drawing(drawing.Drawing):
    """What the operators draw with."""

    def node(self, op: str, inputs: Mapping[str, Any], attrs: Mapping[str, Any] = {}, **more: Any) -> Node:
        return Node(op, dict(inputs), dict(attrs), **more)


class Seeded(drawing.Seeded, Drawing):
    """The same from a seed, evenly."""


def int_array(*values: int) -> np.ndarray:
    return np.array(values, np.int64)
