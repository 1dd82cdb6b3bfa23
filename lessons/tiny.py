"""A language of whole-number expressions, as small as can be: the one of lesson 01.

    expr ::= Num value | Name name | Add a b | Sub a b | Mul a b | FloorDiv a b

Python's own operators build it: `Name("i") * 4 + Name("r")` is `Add(Mul(Name("i"), Num(4)), Name("r"))`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from minitvm import expr as full


class Expr:
    """A whole-number value, not known yet."""

    __slots__ = ()

    def __add__(self, other: Expr | int) -> Expr:
        return Add(self, as_expr(other))

    def __sub__(self, other: Expr | int) -> Expr:
        return Sub(self, as_expr(other))

    def __mul__(self, other: Expr | int) -> Expr:
        return Mul(self, as_expr(other))

    def __floordiv__(self, other: Expr | int) -> Expr:
        return FloorDiv(self, as_expr(other))


@dataclass(frozen=True, slots=True)
class Num(Expr):
    """A number from zero up."""

    value: int


@dataclass(frozen=True, slots=True)
class Name(Expr):
    """A variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Binary(Expr):
    """What the four operators have in common: a left and a right operand."""

    a: Expr
    b: Expr


@dataclass(frozen=True, slots=True)
class Add(Binary):
    """`a + b`"""


@dataclass(frozen=True, slots=True)
class Sub(Binary):
    """`a - b`"""


@dataclass(frozen=True, slots=True)
class Mul(Binary):
    """`a * b`"""


@dataclass(frozen=True, slots=True)
class FloorDiv(Binary):
    """`a // b`, rounded down"""


def as_expr(value: Expr | int) -> Expr:
    """A plain number as a `Num`."""
    return Num(value) if isinstance(value, int) else value


def drawing(e: Expr, indent: str = "") -> str:
    """The tree, one node a line, operands beneath their operator."""
    if isinstance(e, Binary):
        return f"{indent}{type(e).__name__}\n{drawing(e.a, indent + '    ')}\n{drawing(e.b, indent + '    ')}"
    return f"{indent}{type(e).__name__} {e.name if isinstance(e, Name) else getattr(e, 'value', e)}"


_OPERATORS: dict[type, type[Binary]] = {ast.Add: Add, ast.Sub: Sub, ast.Mult: Mul, ast.FloorDiv: FloorDiv}


def read(text: str) -> Expr:
    """The expression that a text denotes, by Python's rules of precedence; `SyntaxError` if it is not an expression."""

    def go(item: ast.expr) -> Expr:
        if isinstance(item, ast.BinOp) and type(item.op) in _OPERATORS:
            return _OPERATORS[type(item.op)](go(item.left), go(item.right))
        if isinstance(item, ast.Name):
            return Name(item.id)
        if isinstance(item, ast.Constant) and type(item.value) is int:
            return Num(item.value)
        raise SyntaxError(f"{ast.unparse(item)} is not of the tiny language")

    return go(ast.parse(text, mode="eval").body)


_FULL: dict[type, type[full.BinaryOp]] = {Add: full.Add, Sub: full.Sub, Mul: full.Mul, FloorDiv: full.FloorDiv}


def as_minitvm(e: Expr, variables: Mapping[str, full.Var]) -> full.Expr:
    """The same expression in minitvm's own nodes."""
    if isinstance(e, Binary):
        return _FULL[type(e)](as_minitvm(e.a, variables), as_minitvm(e.b, variables))
    return full.const(e.value) if isinstance(e, Num) else variables[e.name]  # type: ignore[attr-defined]
