"""Print scalar expressions as Python text. `tir.script.printer` extends `ExprPrinter` to whole programs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from fractions import Fraction

from . import nodes as n

# --- Names in generated text: valid and unique ones.


def identifier(wish: str) -> str:
    """Return a name similar to `wish` that uses only ASCII letters, digits and `_`, and does not start with a digit.

    The name is valid in Python and C unless it is a keyword.
    """
    stem = re.sub(r"\W", "_", wish, flags=re.ASCII) or "v"
    return f"v{stem}" if stem[0].isdigit() else stem


def fresh(wish: str, used_names: set[str]) -> str:
    """Return `wish`, or `wish` with a number appended if the name is taken, and add the result to `used_names`."""
    name, count = wish, 0
    while name in used_names:
        count += 1
        name = f"{wish}_{count}"
    used_names.add(name)
    return name


# Python's own precedences: higher binds tighter.
_TERNARY, _OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _UNARY, _ATOM = 1, 2, 3, 4, 5, 9, 10, 11, 20

_INFIX: dict[type, tuple[str, int]] = {
    n.Add: ("+", _SUM), n.Sub: ("-", _SUM), n.Mul: ("*", _PRODUCT),
    n.FloorDiv: ("//", _PRODUCT), n.FloorMod: ("%", _PRODUCT),
    n.EQ: ("==", _COMPARE), n.NE: ("!=", _COMPARE), n.LT: ("<", _COMPARE),
    n.LE: ("<=", _COMPARE), n.GT: (">", _COMPARE), n.GE: (">=", _COMPARE),
    n.And: ("and", _AND), n.Or: ("or", _OR),
}  # fmt: skip


class ExprPrinter:
    """A printer for expressions. Subclasses can add node kinds to `extra` and choose the names of variables.

    `prefix` is printed before names that belong to the language: `T.` in TVMScript, nothing in messages.
    """

    prefix = ""

    def __init__(self) -> None:
        self.extra: dict[type, Callable[..., str]] = {}

    def name(self, var: n.Var) -> str:
        return var.name

    def expr(self, e: n.Expr) -> str:
        """Return the text of an expression. You can insert it anywhere without adding parentheses."""
        return self._print(e, 0)

    def _print(self, e: n.Expr, context: int) -> str:
        text, precedence = self._parts(e)
        return f"({text})" if precedence < context else text

    def _parts(self, e: n.Expr) -> tuple[str, int]:
        kind = type(e)
        if kind in _INFIX:
            symbol, precedence = _INFIX[kind]
            # The right operand of an operator of the same precedence needs parentheses, and comparisons do not chain.
            left = precedence + (1 if precedence == _COMPARE else 0)
            a, b = self._print(e.a, left), self._print(e.b, precedence + 1)  # type: ignore[attr-defined]
            return f"{a} {symbol} {b}", precedence
        if isinstance(e, n.Div) and e.dtype.is_float:
            return f"{self._print(e.a, _PRODUCT)} / {self._print(e.b, _PRODUCT + 1)}", _PRODUCT
        if isinstance(e, n.Not):
            return f"not {self._print(e.a, _NOT)}", _NOT
        if isinstance(e, n.IntImm) and e.dtype == "int32":
            return (str(e.value), _ATOM) if e.value >= 0 else (str(e.value), _UNARY)
        return self._atom(e), _ATOM

    def _atom(self, e: n.Expr) -> str:
        p = self.prefix
        if type(e) in self.extra:
            return self.extra[type(e)](e)
        if isinstance(e, n.Var):
            return self.name(e)
        if isinstance(e, n.IntImm):
            return f"{p}{e.dtype}({bool(e.value) if e.dtype.is_bool else e.value})"
        if isinstance(e, n.FloatImm):
            return self.float(e)
        if isinstance(e, n.StringImm):
            return json.dumps(e.value, ensure_ascii=False)
        load = getattr(e, "_format", None)  # BufferLoad, TensorLoad: `A[i, j]`
        if load is not None:
            return str(load(self))
        args = self._call_arguments(e)
        return f"{p}{args[0]}({', '.join(args[1:])})"

    def float(self, e: n.FloatImm) -> str:
        """Return the text of a float constant. The text is exact, even for NaN, infinities and rationals."""
        p = self.prefix
        if isinstance(e.value, Fraction):
            return f'{p}rational({e.value.numerator}, {e.value.denominator}, "{e.dtype}")'
        text = repr(e.value)
        return f"{p}{e.dtype}({text})" if text not in ("nan", "inf", "-inf") else f'{p}{e.dtype}("{text}")'

    def _call_arguments(self, e: n.Expr) -> list[str]:
        x = self.expr
        if isinstance(e, n.Cast):
            return ["Cast", f'"{e.dtype}"', x(e.value)]
        if isinstance(e, n.Div):
            return ["truncdiv", x(e.a), x(e.b)]
        if isinstance(e, n.Mod):
            return ["truncmod", x(e.a), x(e.b)]
        if isinstance(e, n.Min | n.Max):
            return [type(e).__name__.lower(), x(e.a), x(e.b)]
        if isinstance(e, n.Select):
            return ["Select", x(e.condition), x(e.true_value), x(e.false_value)]
        if isinstance(e, n.Let):
            return ["Let", x(e.body), f"where={{{self.name(e.var)}: {x(e.value)}}}"]
        if isinstance(e, n.Call) and e.op == "reinterpret":
            return ["reinterpret", f'"{e.dtype}"', x(e.args[0])]
        if isinstance(e, n.Call):
            return [e.op, *map(x, e.args)]
        if isinstance(e, n.Ramp):
            return ["Ramp", x(e.base), x(e.stride), str(e.lanes)]
        if isinstance(e, n.Broadcast):
            return ["Broadcast", x(e.value), str(e.lanes)]
        if isinstance(e, n.Shuffle):
            return ["Shuffle", f"[{', '.join(map(x, e.vectors))}]", str(list(e.indices))]
        if isinstance(e, n.Reduce):
            axes = ", ".join(self.name(axis.var) for axis in e.axes)
            return [e.combiner.name, *map(x, e.sources), f"axis=[{axes}]"]
        return [type(e).__name__, *(x(c) for c in _expressions(e))]


def _expressions(e: n.Expr) -> list[n.Expr]:
    from .visitor import children

    return [c for c in children(e) if isinstance(c, n.Expr)]


def format_expr(e: n.Expr) -> str:
    """Return the text of an expression for an error message. Variables keep their own names; loads may belong to any
    level.
    """
    return ExprPrinter().expr(e)
