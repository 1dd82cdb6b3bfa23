"""The interface between a converter and one ONNX node: its inputs and its attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from ...errors import ModelError, UnsupportedOperator
from ...expr import DType
from ..common.conversion import Conversion
from ..common.operand import Operand
from .dtypes import array_of, dtype_of
from .registry import find

if TYPE_CHECKING:
    from .importer import OnnxImporter

_MISSING = object()
# Attributes of any operator that are divisors or counts.
_FROM_ONE = frozenset(("strides", "dilations", "kernel_shape", "blocksize", "group", "num_groups", "num_outputs"))
# Attributes that are 0 or 1, of whichever operator: systems differ in how they read another number. It is true for all
# of them in the flags that are not listed, such as `upper`, and in these of an operator.
_FLAGS = frozenset((
    "allowzero", "antialias", "ceil_mode", "center_point_box", "exclude_outside", "exclusive", "fmod", "interleaved",
    "is_causal", "keepdims", "largest", "layout", "linear_before_reset", "noop_with_empty_axes", "periodic", "reverse",
    "sorted", "storage_order", "training_mode", "unidirectional",
))  # fmt: skip
_TRUE_UNLESS_0 = frozenset((("SplitToSequence", "keepdims"), ("Unique", "sorted")))


class NodeContext(Conversion):
    """One node that is being converted. `n[i]` is its input number i."""

    def __init__(self, importer: OnnxImporter, proto: Any, inputs: Sequence[Operand | None], version: int) -> None:
        super().__init__(importer.builder)
        self.importer, self.proto, self.inputs, self.version = importer, proto, inputs, version
        self.attributes = {a.name: a for a in proto.attribute}
        self.attributes_read: set[str] = set()
        self.scope: dict[str, Operand] = {}

    @property
    def where(self) -> str:
        """The node, as text for errors: operator and name. In a function body, the calling node comes first."""
        return self.importer.place(self.proto)

    @property
    def name_hint(self) -> str:
        return next((o for o in self.proto.output if o), self.proto.op_type)

    @property
    def most_of_any(self) -> int | None:
        return self.importer.max_length

    # --- inputs ---

    def __getitem__(self, position: int) -> Operand:
        operand = self.optional(position)
        if operand is None:
            raise ModelError(f"{self.where}: input {position} is missing")
        return operand

    def optional(self, position: int) -> Operand | None:
        """Return an input, or None if the node leaves it out."""
        return self.inputs[position] if position < len(self.inputs) else None

    @property
    def present(self) -> list[Operand]:
        """Return all inputs of a variadic operator."""
        return [self[k] for k in range(len(self.inputs))]

    def present_from(self, first: int) -> list[Operand]:
        """Return the inputs of a variadic operator after its fixed ones."""
        return [self[k] for k in range(first, len(self.inputs))]

    def wants(self, output: int) -> bool:
        """Return whether the node has this output."""
        return output < len(self.proto.output) and bool(self.proto.output[output])

    def by_definition(self, *inputs: Operand | None) -> Any:
        """Return the outputs of the function body that the specification gives for the node, on its own or on other
        inputs.
        """
        self.attributes_read.update(self.attributes)
        return self.importer.by_definition(self.proto, inputs or self.inputs, self.version)

    def converted_as(self, name: str, *inputs: Operand | None) -> Any:
        """Return the result of the converter of the standard operator `name` for other inputs and this node's
        attributes.
        """
        version = self.importer.versions.get("", self.importer.versions.get("ai.onnx", 1))
        function = find("", name, version)
        if function is None:
            self.refuse(f"{name} of opset {version} is not supported")
        other = NodeContext(self.importer, self.proto, inputs, version)
        other.attributes_read, other.scope = self.attributes_read, self.scope
        return function(other)

    # --- attributes ---

    def attr(self, name: str, default: Any = _MISSING) -> Any:
        """Return an attribute as a Python value (int, float, str, array, or a tuple of these), or the default if it is
        absent.
        """
        self.attributes_read.add(name)
        if name not in self.attributes:
            if default is _MISSING:
                raise ModelError(f"{self.where}: attribute {name} is missing")
            return default
        value = _attribute(self.attributes[name], self.where)
        if name in _FROM_ONE:
            for one in value if isinstance(value, tuple) else (value,):
                if not isinstance(one, int) or one < 1:
                    raise ModelError(f"{self.where}: attribute {name}={value!r}: wanted integers from 1")
        return value

    def has(self, name: str) -> bool:
        """Return whether the attribute is present."""
        return name in self.attributes

    def dtype_attr(self, name: str, default: Any = None) -> DType | None:
        """Return an attribute that holds an element type, as a dtype."""
        code = self.attr(name, None)
        return default if code is None else dtype_of(code, f"{self.where}, attribute {name}")

    def ignore(self, *names: str) -> None:
        """Mark attributes as read, because they have no effect here."""
        self.attributes_read.update(names)

    def refuse_attribute(self, name: str) -> NoReturn:
        """Raise `UnsupportedOperator` because of the value of an attribute."""
        raise UnsupportedOperator(f"{self.where}: attribute {name}={self.attr(name, None)!r} is not supported")

    def check_attributes(self) -> None:
        """Raise `UnsupportedOperator` for an attribute that the converter did not read."""
        for name in self.attributes:
            if name not in self.attributes_read:
                raise UnsupportedOperator(f"{self.where}: attribute {name} is not supported")


def require_flags(proto: Any, where: str) -> None:
    """Raise `ModelError` if an attribute of a node that must be 0 or 1 has another value."""
    for attribute in proto.attribute:
        strict = attribute.name in _FLAGS and (proto.op_type, attribute.name) not in _TRUE_UNLESS_0
        if strict and attribute.type == attribute.INT and attribute.i not in (0, 1):
            raise ModelError(f"{where}: attribute {attribute.name}={attribute.i}: wanted 0 or 1")


def label(proto: Any) -> str:
    """Return the operator and the name of a node, as text for errors."""
    operator = f"{proto.domain}.{proto.op_type}" if proto.domain not in ("", "ai.onnx") else proto.op_type
    name = proto.name or next((o for o in proto.output if o), "")
    return f"operator {operator} (node {name})" if name else f"operator {operator}"


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
