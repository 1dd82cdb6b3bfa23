"""The variables of a model, which one run leaves for the next: they become states of the graph.

A state is zero before the first run, but `CALL_ONCE` may give a variable another first value. Then the state holds the
bits of the variable that differ from those of its first value (exclusive or). So a module that is reset, and every
exported program, begins with the first value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...errors import ModelError, UnsupportedOperator
from ..common.operand import Operand
from ..common.operand_builder import OperandBuilder
from . import dtypes
from .layouts import Laid
from .loading import OperatorNode, TensorInfo, TFLiteModel

_BITS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}


@dataclass(frozen=True, slots=True)
class Handle:
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
            self.current[name] = Laid(self._begin(name, first, where))
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
        """Yield the name of each state, the input that holds it, and the variable's value at the end."""
        for name, state in self._states.items():
            yield name, state, self.current[name]

    def left(self, name: str, value: Operand, where: str) -> Operand:
        """Return what the state of a variable holds when a run ends with this value."""
        state = self._states[name]
        if value.dtype != state.dtype or value.shape != state.shape:
            raise ModelError(f"the variable {name} begins as {state}, and a run leaves {value}")
        return self._changed(value, self._first.get(name), where)

    def _begin(self, name: str, first: np.ndarray, where: str) -> Operand:
        if name not in self._assigned:
            return Operand.known(first)
        state = self.builder.input(name, first.shape, first.dtype.name)
        self._states[name] = state
        return self._changed(state, self._first.get(name), where)

    def _changed(self, value: Operand, first: np.ndarray | None, where: str) -> Operand:
        """Return the exclusive or of a value and the first value of its variable."""
        if first is None or not np.any(np.frombuffer(first.tobytes(), np.uint8)):
            return value
        if np.all(first == first.flat[0]):  # one element is enough: it broadcasts
            first = first.flat[:1].reshape(())

        def op(op: str, *operands: Operand, **attrs: str) -> Operand:
            result: Operand = self.builder.op(op, operands, attrs, "variable", where)
            return result

        if value.dtype.is_bool:
            return op("logical_xor", value, Operand.known(first))
        whole = str(value.dtype) if not value.dtype.is_float else _BITS[value.dtype.bytes]
        bits = op("bitwise_xor", self._cast(value, whole, where), Operand.known(first.view(whole)))
        return self._cast(bits, str(value.dtype), where)

    def _cast(self, value: Operand, dtype: str, where: str) -> Operand:
        """Return the same bits as another dtype."""
        if value.dtype == dtype:
            return value
        result: Operand = self.builder.op("reinterpret", [value], {"dtype": dtype}, "variable", where)
        return result


def handle_of(node: OperatorNode) -> Handle:
    """Return the variable that a VAR_HANDLE names."""
    container, name = (
        b"" if node.options is None else getattr(node.options, part)() or b"" for part in ("Container", "SharedName")
    )
    text = "/".join(part.decode("utf-8", "replace") for part in (container, name) if part)
    return Handle(text or f"variable_{node.position}")


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
