"""Export symbolic dimensions as int64 vectors that ONNX computes from the shapes of inputs.

A variable is read from an input's shape. In the body of a loop, it is read from the surrounding graph, whose values are
visible in the body. Floor division is written as `(a - a mod b) / b`, because ONNX does not specify how its Div rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .... import expr as ex
from ....arith import simplify
from ....errors import UnsupportedOperator
from ....graph import OpNode, Value

if TYPE_CHECKING:
    from .writer import Writer

_OPERATORS: dict[type[ex.Expr], tuple[str, dict[str, int]]] = {
    ex.Add: ("Add", {}), ex.Sub: ("Sub", {}), ex.Mul: ("Mul", {}), ex.Min: ("Min", {}), ex.Max: ("Max", {}),
    ex.FloorMod: ("Mod", {}), ex.Mod: ("Mod", {"fmod": 1}), ex.EQ: ("Equal", {}), ex.LT: ("Less", {}),
    ex.LE: ("LessOrEqual", {}),
    ex.GT: ("Greater", {}), ex.GE: ("GreaterOrEqual", {}), ex.And: ("And", {}), ex.Or: ("Or", {}), ex.Not: ("Not", {}),
    ex.Select: ("Where", {}),
}  # fmt: skip
_DIVISIONS: dict[type[ex.Expr], int] = {ex.FloorDiv: 0, ex.Div: 1}  # the attribute fmod of their remainder


def vector(writer: Writer, name: str, values: Sequence[Any]) -> str:
    """Write these dimensions as an int64 vector and return its name: a constant if all are numbers, else computed from
    shapes.

    Raises `UnsupportedOperator` for a dimension that ONNX cannot compute.
    """
    values = [int(v.value) if isinstance(v, ex.IntImm) else v for v in values]
    if all(isinstance(v, int) for v in values):
        return writer.weight(name, values)
    parts = [_element(writer, f"{name}_{k}", ex.as_expr(value)) for k, value in enumerate(values)]
    writer.node("Concat", parts, [name], axis=0)
    return name


def _element(writer: Writer, name: str, value: ex.Expr) -> str:
    """Write an integer or a condition as a vector with one element."""
    if isinstance(value, ex.IntImm):
        return writer.weight(name, [int(value.value)], _kind(value))
    if isinstance(value, ex.SizeVar):
        return _variable(writer, value)
    parts = [part for part in ex.children(value) if isinstance(part, ex.Expr)]
    operands = [_element(writer, f"{name}_{k}", part) for k, part in enumerate(parts)]
    if isinstance(value, ex.Cast):
        writer.node("Cast", operands, [name], to=writer.number_of(_kind(value)))
    elif isinstance(value, ex.NE):
        writer.node("Equal", operands, [f"{name}_equal"])
        writer.node("Not", [f"{name}_equal"], [name])
    elif type(value) in _DIVISIONS:
        truncated = _DIVISIONS[type(value)]
        writer.node("Mod", operands, [f"{name}_rest"], fmod=truncated)
        writer.node("Sub", [operands[0], f"{name}_rest"], [f"{name}_whole"])
        writer.node("Div", [f"{name}_whole", operands[1]], [name])
    elif type(value) in _OPERATORS:
        op, attrs = _OPERATORS[type(value)]
        writer.node(op, operands, [name], **attrs)
    else:
        raise UnsupportedOperator(f"{value}: there is no ONNX operator for this arithmetic on sizes")
    return name


def _kind(value: ex.Expr) -> str:
    return "bool" if value.dtype == "bool" else "int64"


def _variable(writer: Writer, size: ex.SizeVar) -> str:
    """Write the vector for a size: a data-dependent one, one that was written before, or one from an input's shape."""
    if size in writer.sizes:
        return writer.sizes[size][0]
    if writer.around is not None:
        return _variable(writer.around, size)
    for value, axis, factor in _places(writer.inputs, size):
        name = f"{value.name}:dimension_{axis}"  # no name of an operator's result
        writer.node("Shape", [value.name], [f"{name}_shape"])
        writer.node("Gather", [f"{name}_shape", writer.weight(f"{name}_axis", [axis])], [name], axis=0)
        if factor != 1:
            writer.node("Div", [name, writer.weight(f"{name}_factor", [factor])], [f"{name}_quotient"])
            name = f"{name}_quotient"
        writer.sizes[size] = (name, None)
        return name
    raise UnsupportedOperator(f"{size}: no input's shape determines this size")


def _places(inputs: Sequence[Value], size: ex.SizeVar) -> list[tuple[Value, int, int]]:
    """Return the dimensions that are the variable or a positive multiple of it, with the factor, smallest factor
    first.
    """
    places = []
    for value in inputs:
        for axis, dim in enumerate(value.shape):
            dim = simplify(dim) if isinstance(dim, ex.Expr) else dim
            if dim is size:
                places.append((value, axis, 1))
            elif isinstance(dim, ex.Mul) and dim.a is size and isinstance(dim.b, ex.IntImm) and dim.b.value > 0:
                places.append((value, axis, int(dim.b.value)))
    return sorted(places, key=lambda place: place[2])


def _shape_to_tensor(writer: Writer, node: OpNode) -> None:
    output = node.output
    flat = vector(writer, f"{output.name}_values", node.attrs["values"])
    shape = writer.weight(f"{output.name}_shape", list(node.attrs["shape"]))
    writer.node("Reshape", [flat, shape], [f"{output.name}_integers"])
    writer.node("Cast", [f"{output.name}_integers"], [output.name], to=writer.element_type(output))


def _shape_of(writer: Writer, node: OpNode) -> None:
    writer.node("Shape", [node.inputs[0].name], [f"{node.output.name}_integers"])
    writer.node("Cast", [f"{node.output.name}_integers"], [node.output.name], to=writer.element_type(node.output))


def _arange(writer: Writer, node: OpNode) -> None:
    name = node.output.name
    ends_known = [node.attrs[key] for key in ("start", "stop", "step")]
    if all(isinstance(end, int | float) for end in ends_known):
        numbers = np.arange(*ends_known)
        writer.node("Identity", [writer.weight(f"{name}_numbers", numbers, str(node.output.dtype))], [name])
        return
    ends = []
    for key in ("start", "stop", "step"):
        whole = vector(writer, f"{name}_{key}", [node.attrs[key]])
        writer.node("Reshape", [whole, writer.weight(f"{name}_{key}_scalar", [])], [f"{name}_{key}_number"])
        ends.append(f"{name}_{key}_number")
    writer.node("Range", ends, [f"{name}_integers"])
    writer.node("Cast", [f"{name}_integers"], [name], to=writer.element_type(node.output))


SIZES: dict[str, Callable[[Any, OpNode], None]] = {
    "shape_to_tensor": _shape_to_tensor,
    "shape_of": _shape_of,
    "arange": _arange,
}
