"""Walk a graph of `torch.fx`: nodes become operators, and known values are computed on the way."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from ...errors import InputError, InternalError, ModelError, TypeMismatch, UnsupportedOperator
from ...graph.nodes import Dim, Graph
from ..common.operand import Operand
from ..common.operand_builder import OperandBuilder
from .context import TorchNodeContext, label
from .control_flow import convert, is_region
from .dtypes import array_of, dtype_of
from .registry import find
from .symbols import ProgramSymbols
from .unsupported import ASSERTIONS, is_inlined, refuse_unsupported

# The Python errors that a converter raises for argument values that it does not expect.
_UNMEANT = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError)


class TorchImporter:
    """The import of one graph.

    Nodes whose result is a size (a `torch.SymInt`) are not converted, because the program has the size as an
    expression.
    """

    def __init__(self, name: str, symbols: ProgramSymbols) -> None:
        self.builder = OperandBuilder(name)
        self.symbols = symbols
        self._values: dict[Any, Any] = {}

    def input(self, node: Any, name: str) -> None:
        """Make a placeholder an input of the graph."""
        example, where = node.meta["val"], f"input {name}"
        shape = self.symbols.shape(example.shape, where)
        operand = self.builder.input(name, shape, dtype_of(example.dtype, where))
        conditions = self.symbols.conditions(shape)
        self._values[node] = self.builder.required(operand, conditions, where) if conditions else operand

    def bind(self, node: Any, value: Any) -> None:
        """Give a placeholder a value: a constant, an operand or a number."""
        self._values[node] = value

    def run(self, module: Any) -> list[tuple[str, Any]]:
        """Return the results of a module whose placeholders are bound, each with its node's name.

        A result is an operand, a dimension or a Python value. Raises `UnsupportedOperator`, which lists every operator
        of the module without a converter.
        """
        refuse_unsupported(module)
        nodes, values = self._run(module)
        return [(getattr(node, "name", "output"), value) for node, value in zip(nodes, values, strict=True)]

    def build(self, outputs: Sequence[tuple[str, Any]]) -> Graph:
        """Return the graph with these outputs. Raises `UnsupportedOperator` for an output that is not a tensor."""
        for name, value in outputs:
            if not isinstance(value, Operand):
                raise UnsupportedOperator(f"the output {name} is {value!r}, wanted a tensor")
        if not outputs:
            raise ModelError("the program has no outputs")
        return self.builder.build(outputs)

    def argument(self, node: Any, name: str) -> Any:
        """Return an argument of a node as it is in the graph of `torch.fx`: a node or a Python value."""
        for position, declared in enumerate(node.target._schema.arguments):
            if declared.name == name:
                if position < len(node.args):
                    return node.args[position]
                return node.kwargs.get(name, declared.default_value)
        raise InternalError(f"{label(node)} has no argument {name}")

    # --- nodes ---

    def _run(self, module: Any) -> tuple[Sequence[Any], list[Any]]:
        """Return the nodes that a module returns, and their values."""
        for node in module.graph.nodes:
            if node.op == "get_attr":
                self._values[node] = self._attribute(module, node)
            elif node.op == "call_function":
                self._values[node] = self._call(node)
            elif node.op == "output":
                returned = node.args[0] if isinstance(node.args[0], list | tuple) else (node.args[0],)
                return returned, [self._value(value) for value in returned]
        raise ModelError("the program returns nothing")

    def _attribute(self, module: Any, node: Any) -> Any:
        found = module
        for part in node.target.split("."):
            found = getattr(found, part)
        return Operand.known(array_of(found, f"constant {node.target}")) if hasattr(found, "dtype") else found

    def _call(self, node: Any) -> Any:
        if node.target is operator.getitem:
            return self._item(node)
        if str(node.target) in ASSERTIONS:
            return None
        if _is_size(node):
            return self._size(node)
        if is_inlined(node):
            return self._inlined(node)
        if is_region(node):
            return self._declared(node, convert(self, node, self._value(node.args)))
        return self._converted(node)

    def _size(self, node: Any) -> Any:
        """Return the value of a node that computes with sizes, or None if only checks read it."""
        example, where = node.meta["val"], label(node)
        if _is_integer(example):
            return self.symbols.dim(example, where)
        if all(_is_size(user) or str(user.target) in ASSERTIONS for user in node.users):
            return None
        return self.symbols.number(example, where)

    def _item(self, node: Any) -> Any:
        values, position = self._value(node.args[0]), node.args[1]
        value = values[position] if position < len(values) else None
        if value is None and node.users:
            raise UnsupportedOperator(f"{label(node.args[0])}: result {position} is not supported")
        return value

    def _inlined(self, node: Any) -> Any:
        """Return the results of a module that is called within a mode, such as `torch.no_grad()`."""
        place = next(k for k, arg in enumerate(node.args) if getattr(arg, "op", None) == "get_attr")
        return self.region(self._value(node.args[place]), [self._value(arg) for arg in node.args[place + 1 :]])

    def region(self, inner: Any, arguments: Sequence[Any]) -> list[Any]:
        """Return the results of a module of the program for these arguments."""
        placeholders = [n for n in inner.graph.nodes if n.op == "placeholder"]
        for placeholder, value in zip(placeholders, arguments, strict=True):
            self.bind(placeholder, value)
        return self._run(inner)[1]

    def _converted(self, node: Any) -> Any:
        function = find(str(node.target))
        if function is None:
            raise InternalError(f"{label(node)} has no converter")
        context = TorchNodeContext(self, node, self._arguments(node))
        try:
            with self.builder.at(context.where):
                results = function(context)
        except (InputError, TypeMismatch) as error:
            raise UnsupportedOperator(f"{context.where}: {error}") from error
        except _UNMEANT as error:
            kind = type(error).__name__
            raise UnsupportedOperator(f"{context.where}: its arguments are not supported ({kind}: {error})") from error
        context.check_arguments()
        several = isinstance(node.meta["val"], list | tuple)
        operands = self._declared(node, list(results) if isinstance(results, list | tuple) else [results])
        return operands if several else operands[0]

    def _arguments(self, node: Any) -> dict[str, Any]:
        """Return the arguments that a node passes, by name."""
        names = [a.name for a in node.target._schema.arguments]
        given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
        return {name: self._value(value) for name, value in given.items()}

    def _value(self, value: Any) -> Any:
        """Return the value of an argument: an operand or a dimension for a node, or else the Python value."""
        if isinstance(value, list | tuple):
            return tuple(self._value(item) for item in value)
        return self._values[value] if hasattr(value, "all_input_nodes") else value

    def _declared(self, node: Any, operands: Sequence[Operand | None]) -> list[Operand | None]:
        """Return the results with the shapes that the program declares. Raises `InternalError` if their shapes
        differ.
        """
        declared = node.meta["val"]
        examples = declared if isinstance(declared, list | tuple) else [declared]
        results = list(operands)
        for position, (example, operand) in enumerate(zip(examples, operands, strict=False)):
            if operand is None or example is None:
                continue
            shape = self.symbols.shape(example.shape, label(node))
            dtype = dtype_of(example.dtype, label(node))
            if operand.dtype != dtype or not _may_be_equal(shape, operand.shape):
                raise InternalError(f"{label(node)}: wanted {dtype}{list(shape)}, found {operand}")
            results[position] = self.builder.declared(operand, shape, label(node))
        return results


def _may_be_equal(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Return whether two shapes are not known to differ."""
    pairs = zip(a, b, strict=True) if len(a) == len(b) else ()
    return len(a) == len(b) and all(m == n for m, n in pairs if isinstance(m, int) and isinstance(n, int))


def _is_size(node: Any) -> bool:
    """Return whether the result of a node is a size, or another number or condition computed from sizes."""
    return type(node.meta.get("val")).__name__ in ("SymInt", "SymFloat", "SymBool", "int", "float", "bool")


def _is_integer(value: Any) -> bool:
    return type(value).__name__ in ("SymInt", "int")
