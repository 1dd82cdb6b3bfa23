"""What a converter sees of one ONNX node: inputs, attributes, and how to write operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ...errors import ModelError, UnsupportedOperator
from ...expr import DType, Expr
from ...graph.nodes import Dim
from .dtypes import array_of, dtype_of
from .operand import Operand, ValueDependent

if TYPE_CHECKING:
    from .importer import Importer

_MISSING = object()


class NodeContext:
    """One node on its way into the graph; `n[i]` is its i-th input."""

    def __init__(self, importer: Importer, proto: Any, inputs: Sequence[Operand | None], version: int) -> None:
        self.importer, self.proto, self.inputs, self.version = importer, proto, inputs, version
        self.attributes = {a.name: a for a in proto.attribute}
        self.attributes_read: set[str] = set()
        self.scope: dict[str, Operand] = {}

    @property
    def where(self) -> str:
        """The node, for errors: operator and name."""
        return label(self.proto)

    # --- inputs ---

    def __getitem__(self, position: int) -> Operand:
        operand = self.optional(position)
        if operand is None:
            raise ModelError(f"{self.where}: input {position} is missing")
        return operand

    def optional(self, position: int) -> Operand | None:
        """The input, or None where the node leaves it out."""
        return self.inputs[position] if position < len(self.inputs) else None

    @property
    def present(self) -> list[Operand]:
        """All inputs of a variadic operator."""
        return [self[k] for k in range(len(self.inputs))]

    def present_from(self, first: int) -> list[Operand]:
        """The inputs of a variadic operator behind its fixed ones."""
        return [self[k] for k in range(first, len(self.inputs))]

    def wants(self, output: int) -> bool:
        """Whether the node has that output."""
        return output < len(self.proto.output) and bool(self.proto.output[output])

    # --- attributes ---

    def attr(self, name: str, default: Any = _MISSING) -> Any:
        """The attribute as a Python value (int, float, str, array, tuple of these); the default where it is absent."""
        self.attributes_read.add(name)
        if name not in self.attributes:
            if default is _MISSING:
                raise ModelError(f"{self.where}: attribute {name} is missing")
            return default
        return _attribute(self.attributes[name], self.where)

    def has(self, name: str) -> bool:
        """Whether the attribute is present."""
        return name in self.attributes

    def dtype_attr(self, name: str, default: Any = None) -> DType | None:
        """An attribute that holds an element type."""
        code = self.attr(name, None)
        return default if code is None else dtype_of(code, f"{self.where}, attribute {name}")

    def ignore(self, *names: str) -> None:
        """Say that attributes change nothing here."""
        self.attributes_read.update(names)

    # --- constants ---

    def array(self, operand: Operand, what: str) -> np.ndarray:
        """The contents of an operand, dtype object where they are partly symbolic; raises where they are not known."""
        if operand.data is not None:
            return operand.data
        if operand.depends:
            names = ", ".join(sorted(operand.depends))
            raise ValueDependent(f"{self.where}: {what} depends on the contents of the input {names}", operand.depends)
        raise UnsupportedOperator(f"{self.where}: {what} is not constant")

    def static(self, operand: Operand, what: str) -> np.ndarray:
        """The contents of an operand, which must not be symbolic."""
        array = self.array(operand, what)
        if array.dtype == object:
            raise UnsupportedOperator(f"{self.where}: {what} is symbolic: {array.tolist()}; fix it with shapes=")
        return array

    def dims(self, operand: Operand, what: str) -> tuple[Dim, ...]:
        """A vector of dimensions, some perhaps symbolic."""
        return tuple(d if isinstance(d, Expr) else int(d) for d in self.array(operand, what).reshape(-1).tolist())

    def ints(self, operand: Operand, what: str) -> tuple[int, ...]:
        """A vector of integers."""
        return tuple(int(v) for v in self.static(operand, what).reshape(-1).tolist())

    def scalar(self, operand: Operand, what: str) -> Any:
        """A number."""
        array = self.static(operand, what)
        if array.size != 1:
            raise ModelError(f"{self.where}: {what} is one number, found the shape {array.shape}")
        return array.reshape(()).item()

    # --- writing operators ---

    def op(self, op: str, *inputs: Operand | bool | int | float | np.ndarray, **attrs: Any) -> Any:
        """The output operand, or the tuple of them, of an operator; computed at once where everything is known.

        A number takes the dtype of the first operand.
        """
        first = next((i for i in inputs if isinstance(i, Operand)), None)
        operands = [i if isinstance(i, Operand) else _constant(i, first) for i in inputs]
        return self.importer.apply(op, operands, attrs, self.name_hint)

    @property
    def name_hint(self) -> str:
        return next((o for o in self.proto.output if o), self.proto.op_type)

    def cast(self, x: Operand, dtype: str) -> Operand:
        """x converted, or x itself where it has that dtype."""
        return x if x.dtype == dtype else self.op("cast", x, dtype=str(dtype))

    def refuse(self, reason: str) -> NoReturn:
        """Refuse the node."""
        raise UnsupportedOperator(f"{self.where}: {reason}")

    def refuse_attribute(self, name: str) -> NoReturn:
        """Refuse the node for the value that an attribute has."""
        raise UnsupportedOperator(f"{self.where}: attribute {name}={self.attr(name, None)!r} is not supported")

    def refuse_dtype(self, dtype: str) -> NoReturn:
        """Refuse the node for a dtype."""
        raise UnsupportedOperator(f"{self.where}: dtype {dtype} is not supported")

    def check_attributes(self) -> None:
        """Refuse an attribute that the converter did not ask for."""
        for name in self.attributes:
            if name not in self.attributes_read:
                raise UnsupportedOperator(f"{self.where}: attribute {name} is not supported")


def label(proto: Any) -> str:
    """A node, for errors."""
    operator = f"{proto.domain}.{proto.op_type}" if proto.domain not in ("", "ai.onnx") else proto.op_type
    name = proto.name or next((o for o in proto.output if o), "")
    return f"operator {operator} (node {name})" if name else f"operator {operator}"


def _constant(value: Any, first: Operand | None) -> Operand:
    if isinstance(value, bool | int | float):
        return Operand.known(np.array(value, first.dtype.numpy if first else None))
    return Operand.known(value)


def _attribute(proto: Any, where: str) -> Any:
    import onnx

    kinds = onnx.AttributeProto
    match proto.type:
        case kinds.FLOAT:
            return proto.f
        case kinds.INT:
            return proto.i
        case kinds.STRING:
            return proto.s.decode()
        case kinds.TENSOR:
            return array_of(proto.t, where)
        case kinds.FLOATS:
            return tuple(proto.floats)
        case kinds.INTS:
            return tuple(proto.ints)
        case kinds.STRINGS:
            return tuple(s.decode() for s in proto.strings)
        case kinds.GRAPH:
            return proto.g
    raise UnsupportedOperator(f"{where}: attribute {proto.name} holds {kinds.AttributeType.Name(proto.type).lower()}")
