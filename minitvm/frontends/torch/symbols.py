"""Convert PyTorch's symbolic sizes to dimensions: expressions over variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from ... import te
from ...errors import InputError, UnsupportedOperator
from ...expr import Expr, SizeVar, free_vars
from ...expr.printer import fresh, identifier
from ...graph.nodes import Dim, as_dim
from ...topi.shapes import simple

_ALWAYS_TAKEN = 2  # the lower end that PyTorch's ranges have where nobody asked for one


class ProgramSymbols:
    """The variables of a program, by the names of its symbols.

    PyTorch writes sizes as SymPy expressions. They are read by their class names, so SymPy itself is not needed.
    """

    def __init__(self, names: Mapping[str, str] | None = None, ranges: Mapping[Any, Any] | None = None) -> None:
        """Prepare the symbols. `names` gives them better names, such as those of `torch.export.Dim`.

        `ranges` is `ExportedProgram.range_constraints`: the least and the largest value of each symbol.
        """
        self._names = dict(names or {})
        self._ranges = {symbol.name: bounds for symbol, bounds in (ranges or {}).items() if symbol.is_Symbol}
        self._fixed: dict[str, int] = {}
        self._used: set[str] = set()
        self._variables: dict[str, SizeVar] = {}
        self._bound: set[str] = set()

    def fix(self, name: str, sizes: Sequence[Any], shape: Sequence[Any]) -> None:
        """Set the symbols in the `sizes` of the input `name` to their values in a shape. None and names leave a size
        open.

        Raises `InputError` if they do not fit.
        """
        declared = ", ".join(str(size) for size in sizes)
        if len(shape) != len(sizes):
            raise InputError(f"input {name} has {len(sizes)} dimensions ({declared}), found {tuple(shape)}")
        for axis, (size, value) in enumerate(zip(sizes, shape, strict=True)):
            if not isinstance(value, int):
                continue
            expr = size if isinstance(size, int) else size.node.expr
            if not isinstance(expr, int) and expr.is_Symbol:
                bounds = self._ranges.get(expr.name)
                if bounds is None or (bounds.lower <= max(value, _ALWAYS_TAKEN) and value <= bounds.upper):
                    expr = self._fixed.setdefault(expr.name, value)
            if isinstance(expr, int) and expr == value:
                continue
            wanted = str(expr) if isinstance(expr, int) else self._allowed(expr)
            raise InputError(f"input {name}, dimension {axis}: wanted {wanted} ({declared}), found {tuple(shape)}")

    def give(self, size: Any, value: int) -> None:
        """Set the value of the symbol that a size consists of."""
        self._fixed[size.node.expr.name] = value

    def _allowed(self, expr: Any) -> str:
        bounds = self._ranges.get(str(expr))
        return f"a size such that {expr} fits" if bounds is None else f"{bounds.lower} to {bounds.upper}"

    def unbound(self, sizes: Sequence[Any]) -> SizeVar | None:
        """Return the variable of the first of these sizes that is data-dependent and not bound yet, or None.

        The caller must bind it.
        """
        for size in sizes:
            symbol = None if isinstance(size, int) else size.node.expr
            name = symbol.name if symbol is not None and symbol.is_Symbol else ""
            if re.fullmatch(r"u\d+", name) and name not in self._bound:  # PyTorch calls only those that data decide so
                self._bound.add(name)
                return self.variable(name)
        return None

    def variable(self, symbol: str) -> SizeVar:
        """Return the variable of a symbol."""
        if symbol not in self._variables:
            name = fresh(identifier(self._names.get(symbol, symbol)), self._used)
            self._variables[symbol] = SizeVar(name)
        return self._variables[symbol]

    def dim(self, size: Any, where: str) -> Dim:
        """Return a size (an int or a `torch.SymInt`) as a dimension. Raises `UnsupportedOperator` at the place
        `where`.
        """
        if isinstance(size, int):
            return size
        return as_dim(simple(self._of(size.node.expr, where)))

    def number(self, size: Any, where: str) -> int | float | bool:
        """Return a number computed from sizes: a `torch.SymInt`, `SymFloat` or `SymBool` whose sizes are all known.

        Raises `UnsupportedOperator` at the place `where` if one of them is symbolic.
        """
        if isinstance(size, bool | int | float):
            return size
        value = self._value(size.node.expr)
        if value is None:
            raise UnsupportedOperator(
                f"{where}: the number {size.node.expr} depends on open sizes, which is not supported\n"
                "  try:    fixed sizes: torch.compile(dynamic=False), or torch.export without dynamic_shapes"
            )
        kind = {"SymInt": int, "SymFloat": float, "SymBool": bool}[type(size).__name__]
        number: int | float | bool = kind(value)
        return number

    def _value(self, expr: Any) -> Any:
        """Return the value that SymPy computes for an expression, or None if one of its symbols has no value."""
        if any(symbol.name not in self._fixed for symbol in expr.free_symbols):
            return None
        return expr.xreplace({symbol: self._fixed[symbol.name] for symbol in expr.free_symbols})

    def shape(self, sizes: Any, where: str) -> tuple[Dim, ...]:
        """Return a shape as dimensions."""
        return tuple(self.dim(size, where) for size in sizes)

    def conditions(self, shape: Sequence[Dim]) -> list[Expr]:
        """Return the conditions that the program's ranges impose on the variables that first occur in this shape.

        PyTorch assumes that every open size is at least 2, but also accepts 0 and 1; minitvm does the same.
        """
        asked = []
        for symbol, variable in self._variables.items():
            bounds = self._ranges.get(symbol)
            if bounds is None or not any(variable in free_vars(dim) for dim in shape if isinstance(dim, Expr)):
                continue
            del self._ranges[symbol]
            if bounds.lower.is_Integer and int(bounds.lower) > _ALWAYS_TAKEN:
                asked.append(variable >= int(bounds.lower))
            if bounds.upper.is_Integer:
                asked.append(variable <= int(bounds.upper))
        return asked

    def _of(self, expr: Any, where: str) -> Any:
        if expr.is_Integer:
            return int(expr)
        if expr.is_Symbol:
            return self._fixed[expr.name] if expr.name in self._fixed else self.variable(expr.name)
        kind = type(expr).__name__
        if kind == "Mul" and expr.args[0].is_Rational:  # a share of a size that is known to divide it
            share = expr.args[0]
            rest = reduce(lambda a, b: a * b, (self._of(arg, where) for arg in expr.args[1:]))
            return rest * int(share.p) // int(share.q)
        if kind == "Pow" and expr.args[1].is_Integer and int(expr.args[1]) > 0:
            return reduce(lambda a, b: a * b, [self._of(expr.args[0], where)] * int(expr.args[1]))
        if kind not in _KINDS:
            value = self._value(expr)
            if value is not None and value.is_Integer:
                return int(value)
            raise UnsupportedOperator(f"{where}: the size {expr} is not supported")
        return _KINDS[kind](*(self._of(arg, where) for arg in expr.args))


_KINDS: dict[str, Callable[..., Any]] = {
    "Add": lambda *terms: reduce(lambda a, b: a + b, terms),
    "Mul": lambda *factors: reduce(lambda a, b: a * b, factors),
    "FloorDiv": lambda a, b: a // b,
    "CleanDiv": lambda a, b: a // b,
    "CeilDiv": lambda a, b: (a + b - 1) // b,
    "Mod": lambda a, b: a % b,
    "PythonMod": lambda a, b: a % b,
    "ModularIndexing": lambda a, divisor, modulus: a // divisor % modulus,
    "Max": lambda *values: reduce(te.maximum, values),
    "Min": lambda *values: reduce(te.minimum, values),
}
