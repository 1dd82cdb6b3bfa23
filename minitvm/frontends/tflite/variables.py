"""The variables of a model, which one run leaves for the next: they become states of the graph.

The operators of `CALL_ONCE` give a variable its first value. Without one, it begins as zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...errors import UnsupportedOperator
from ..common.operand import Operand
from ..common.operand_builder import OperandBuilder
from . import dtypes
from .layouts import Laid
from .loading import OperatorNode, TensorInfo, TFLiteModel


@dataclass(frozen=True, slots=True)
class VariableHandle:
    """A tensor of type resource: it refers to a variable."""

    name: str


class Variables:
    """The variables of one model during its import. `current` holds their values at this point of the program."""

    def __init__(self, builder: OperandBuilder, model: TFLiteModel) -> None:
        self.builder = builder
        self.current: dict[str, Laid] = {}
        self.starting = False  # the operators of CALL_ONCE are being converted
        self._first: dict[str, np.ndarray] = {}
        self._states: dict[str, Operand] = {}
        self._assigned = assigned(model)

    def read(self, name: str, info: TensorInfo, where: str) -> Laid:
        """Return the value of a variable, of the type that `info` declares."""
        if name not in self.current:
            first = self._first.get(name)
            if first is None:
                if info.type not in dtypes.DTYPES:
                    raise UnsupportedOperator(f"{where}: a variable of the dtype {dtypes.name_of(info.type)}")
                first = np.zeros(info.shape, dtypes.DTYPES[info.type])
            self.current[name] = Laid(self._begin(name, first))
        return self.current[name]

    def assign(self, name: str, value: Laid, operand: Operand, where: str) -> None:
        """Give a variable a new value; `operand` is this value in TFLite's order of axes."""
        if not self.starting:
            self.current[name] = value
            return
        if operand.data is None or operand.is_symbolic:
            raise UnsupportedOperator(f"{where}: the first value of the variable {name} is not constant")
        self._first[name] = operand.data

    def pairs(self) -> Iterator[tuple[str, Operand, Laid]]:
        """Yield the name of each state, its input, and the variable's value at the end."""
        for name, state in self._states.items():
            yield name, state, self.current[name]

    def first(self) -> list[np.ndarray | None]:
        """Return the first value of each state, or None for zeros."""
        return [self._first.get(name) for name in self._states]

    def _begin(self, name: str, first: np.ndarray) -> Operand:
        if name not in self._assigned:
            return Operand.known(first)
        self._states[name] = self.builder.input(name, first.shape, first.dtype.name)
        return self._states[name]


def handle_of(node: OperatorNode) -> VariableHandle:
    """Return the variable that a VAR_HANDLE names."""
    container, name = (
        b"" if node.options is None else getattr(node.options, part)() or b"" for part in ("Container", "SharedName")
    )
    text = "/".join(part.decode("utf-8", "replace") for part in (container, name) if part)
    return VariableHandle(text or f"variable_{node.position}")


def assigned(model: TFLiteModel) -> frozenset[str]:
    """Return the names of the variables that a run may change. What `CALL_ONCE` runs does not count."""
    first = {
        node.options.InitSubgraphIndex()
        for graph in model.subgraphs
        for node in graph.operators
        if node.name == "CALL_ONCE" and node.options is not None
    }
    return frozenset(
        name for number in range(len(model.subgraphs)) if number not in first for name in assigned_in(model, number)
    )


def assigned_in(model: TFLiteModel, number: int) -> list[str]:
    """Return the names of the variables that the operators of one subgraph assign, in order."""
    graph = model.subgraphs[number]
    handles = {node.outputs[0]: handle_of(node).name for node in graph.operators if node.name == "VAR_HANDLE"}
    names = [
        handles[node.inputs[0]]
        for node in graph.operators
        if node.name == "ASSIGN_VARIABLE" and node.inputs and node.inputs[0] in handles
    ]
    states = [tensor_state(tensor) for tensor in graph.tensors if tensor.variable]
    return list(dict.fromkeys([*names, *states]))


def tensor_state(info: TensorInfo) -> str:
    """Return the name of the state for a variable tensor, such as the state of an LSTM."""
    return f"state_{info.name}"
