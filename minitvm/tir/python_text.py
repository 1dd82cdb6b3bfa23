"""Convert expressions over named variables to Python text and back. Traces store expressions as such text.

Running the text after `from minitvm import tir` gives the same expression. It is read by a special parser, never by
`eval`.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from typing import Any

from .. import expr as ex
from ..errors import InputError
from . import op

_BITS = {"bitwise_xor": "^", "bitwise_and": "&", "bitwise_or": "|", "shift_left": "<<", "shift_right": ">>"}
_TIGHT = 20  # no operator binds more tightly than a call
_CHAINS: dict[type, str] = {ex.And: "all", ex.Or: "any"}


class _PythonText(ex.ExprPrinter):
    """Prints expressions as Python code that builds them. int32 and float32 constants are printed without a dtype, and
    bit operations as operators.
    """

    prefix = "tir."

    def __init__(self, named: Collection[ex.Var] | None = None) -> None:
        super().__init__()
        self.named = named

    def _parts(self, e: ex.Expr) -> tuple[str, int]:
        # Python's own and, or, not need the truth value of an expression.
        if isinstance(e, ex.And | ex.Or | ex.Not):
            return self._atom(e), _TIGHT
        return super()._parts(e)

    def _atom(self, e: ex.Expr) -> str:
        if isinstance(e, ex.Var) and self.named is not None and e not in self.named:
            return f'tir.Var("{e.name}", "{e.dtype}")'
        if isinstance(e, ex.IntImm):
            if e.dtype.is_bool or e.dtype == "int32":
                return repr(bool(e.value) if e.dtype.is_bool else e.value)
            return f'tir.const({e.value}, "{e.dtype}")'
        if isinstance(e, ex.Call) and e.op in _BITS:
            a, b = map(self.expr, e.args)
            return f"(({a}) {_BITS[e.op]} ({b}))"
        if isinstance(e, ex.Call) and e.op not in ex.INTRINSICS:
            raise InputError(f"{e}: a call of {e.op} cannot be kept in a trace")
        if isinstance(e, ex.Select):
            return f"tir.select({', '.join(map(self.expr, (e.condition, e.true_value, e.false_value)))})"
        if isinstance(e, ex.Cast):
            return f'tir.cast({self.expr(e.value)}, "{e.dtype}")'
        if isinstance(e, ex.And | ex.Or):
            return f"tir.{_CHAINS[type(e)]}({self.expr(e.a)}, {self.expr(e.b)})"
        if isinstance(e, ex.Not):
            return f"tir.Not({self.expr(e.a)})"
        if not isinstance(e, ex.BinaryOp | ex.Call | ex.Var | ex.FloatImm | ex.StringImm):
            raise InputError(f"{e} cannot be kept in a trace")
        return super()._atom(e)

    def float(self, e: ex.FloatImm) -> str:
        if isinstance(e.value, Fraction):
            raise InputError(f"{e} cannot be kept in a trace: it is a rational number")
        if e.dtype == "float32" and math.isfinite(e.value):
            return repr(e.value)
        text = repr(e.value) if math.isfinite(e.value) else f'float("{e.value!r}")'
        return f'tir.const({text}, "{e.dtype}")'


def python(e: ex.Expr, named: Collection[ex.Var] | None = None) -> str:
    """Return an expression as Python text. Variables are printed by name; those that are not in `named` are printed as
    newly created variables.

    Raises `InputError` for expressions that have no such text: loads, vectors, and calls other than scalar intrinsics.
    """
    return _PythonText(named).expr(e)


# ---- reading back --------------------------------------------------------------------------------------------------

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv, ast.Mod: operator.mod, ast.BitXor: operator.xor, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": op.min, "max": op.max, "all": op.all, "any": op.any, "select": op.select, "truncdiv": op.truncdiv,
    "truncmod": op.truncmod, "if_then_else": op.if_then_else, "reinterpret": op.reinterpret, "cast": op.cast,
    "const": lambda value, dtype: ex.const(_number(value), dtype), "Not": lambda value: ex.Not(ex.as_expr(value)),
    "Var": ex.Var,
}  # fmt: skip


def parse_expression(text: str, names: Mapping[str, ex.Expr]) -> ex.Expr:
    """Parse an expression over known names; raise `ValueError` for any other text."""
    value = evaluated(parsed(text), names)
    if isinstance(value, list | tuple):
        raise ValueError(f"{text!r} is no single expression")
    return ex.as_expr(value)


def parsed(text: str) -> ast.expr:
    """Parse text into Python's syntax tree; raise `ValueError` if it is not Python."""
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, RecursionError, MemoryError, UnicodeError) as error:
        raise ValueError(f"{text!r} is no Python expression") from error


def evaluated(tree: ast.expr, names: Mapping[str, ex.Expr]) -> Any:
    """Evaluate a syntax tree to an expression, or to lists and tuples of expressions; raise `ValueError` if it has no
    value.
    """
    if isinstance(tree, ast.List | ast.Tuple):
        items = [evaluated(item, names) for item in tree.elts]
        return items if isinstance(tree, ast.List) else tuple(items)
    if isinstance(tree, ast.Name) and tree.id in names:
        return names[tree.id]
    if isinstance(tree, ast.Constant) and isinstance(tree.value, bool | int | float | str):
        return tree.value if isinstance(tree.value, str) else ex.as_expr(tree.value)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        if isinstance(tree.operand, ast.Constant) and isinstance(tree.operand.value, int | float):
            return ex.as_expr(-tree.operand.value)
        return -evaluated(tree.operand, names)
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
        return _OPERATORS[type(tree.op)](evaluated(tree.left, names), evaluated(tree.right, names))
    if isinstance(tree, ast.Compare) and len(tree.ops) == 1 and type(tree.ops[0]) in _OPERATORS:
        return _OPERATORS[type(tree.ops[0])](evaluated(tree.left, names), evaluated(tree.comparators[0], names))
    if isinstance(tree, ast.Call) and not tree.keywords:
        return _called(tree, [evaluated(argument, names) for argument in tree.args])
    raise ValueError(f"{ast.unparse(tree)!r} means nothing in an index expression")


def _called(tree: ast.Call, arguments: list[Any]) -> Any:
    name = ast.unparse(tree.func)
    if name == "float" and len(arguments) == 1 and isinstance(arguments[0], str):
        return ex.FloatImm(float(arguments[0]), ex.DType("float64"))
    short = name.removeprefix("tir.").removeprefix("T.")
    try:
        if short in _FUNCTIONS:
            return _FUNCTIONS[short](*arguments)
        if short in ex.INTRINSICS:
            return ex.call(short, *arguments)
    except TypeError as error:  # a wrong number of arguments, or of the wrong kind
        raise ValueError(f"{ast.unparse(tree)!r}: {error}") from None
    raise ValueError(f"{ast.unparse(tree)!r} means nothing in an index expression")


def _number(value: Any) -> int | float:
    if isinstance(value, ex.IntImm | ex.FloatImm) and not isinstance(value.value, Fraction):
        return value.value
    raise ValueError(f"{value} is no number")
