"""Helpers that the code generators of all kernel languages share.

They name variables, add parentheses, round constants once, and recognise which integers are indices. `PYTHON` and `C`
list the forms of statements and operators that the languages of one family share.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from .. import expr as ex
from ..arith import Analyzer
from ..expr.printer import fresh, identifier
from ..tir import nodes as tir

# For these, the low 32 bits of the 64-bit result are the 32-bit result.
BITS = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
COMPARISONS: dict[type, str] = {ex.EQ: "==", ex.NE: "!=", ex.LT: "<", ex.LE: "<=", ex.GT: ">", ex.GE: ">="}
_OF_INDICES = (ex.Add, ex.Sub, ex.Mul, ex.FloorDiv, ex.FloorMod, ex.Div, ex.Mod, ex.Min, ex.Max)
_ATOM = re.compile(r"-?[\w.]+|[\w.]+\([^()]*\)|[\w.]+\[[^][]*\]")


@dataclass(frozen=True)
class Syntax:
    """The spelling of statements and operators in a family of languages.

    A pair holds the form for scalars and the form for vectors.
    """

    branch: str
    otherwise: str
    repeat: str
    nothing: str
    end: str  # the end of a statement
    close: str  # the line that ends a block; empty if indentation does
    comment: str
    logical: Mapping[type, tuple[str, str]]
    negation: tuple[str, str]
    choice: str


PYTHON = Syntax(
    branch="if {}:", otherwise="else:", repeat="while {}:", nothing="pass", end="", close="", comment="# ",
    logical={ex.And: ("and", "&"), ex.Or: ("or", "|")}, negation=("not ", "~"),
    choice="({yes} if {condition} else {no})",
)  # fmt: skip
C = Syntax(
    branch="if ({}) {{", otherwise="else {", repeat="while ({}) {{", nothing=";", end=";", close="}", comment="// ",
    logical={ex.And: ("&&", "&"), ex.Or: ("||", "|")}, negation=("!", "~"), choice="({condition} ? {yes} : {no})",
)  # fmt: skip


class Names:
    """Unique and legal names for variables and buffers that stay close to the names in the program."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self.used_names = set(reserved) | set(keyword.kwlist)
        self.of: dict[ex.Node | str, str] = {}

    def fresh(self, wish: str) -> str:
        """Return a name similar to `wish` that is not in use yet."""
        return fresh(identifier(wish), self.used_names)

    def __getitem__(self, item: ex.Var | tir.Buffer) -> str:
        if item not in self.of:
            self.of[item] = self.fresh(item.name)
        return self.of[item]


def rounded(x: ex.FloatImm) -> float:
    """Return a constant, rounded once to its dtype, as a Python float. float64 represents the values of every dtype
    exactly.
    """
    value = x.value
    if isinstance(value, Fraction) and x.dtype != "float64":
        value = _rounded_fraction(value, 20 if x.dtype == "bfloat16" else 40)  # it is rounded to float32 first
    with np.errstate(over="ignore"):
        return float(x.dtype.numpy.type(float(value)))


def _rounded_fraction(value: Fraction, digits_kept: int) -> Fraction:
    """Round `value` to odd, with more digits than the dtype has, so that a second rounding gives the correct result."""
    if value == 0:
        return value
    exponent = math.frexp(float(value))[1]
    unit = Fraction(2) ** (exponent - digits_kept)
    digits = math.floor(value / unit)
    exact = digits * unit == value
    return digits * unit if exact else (digits | 1) * unit


def atom(text: str) -> str:
    """Return the text, with parentheses if a neighbouring operator could bind to a part of it."""
    return text if _ATOM.fullmatch(text) or _enclosed(text) else f"({text})"


def _enclosed(text: str) -> bool:
    """Return whether one pair of brackets encloses the whole text. A name may precede it, as in a call."""
    start = text.find("(")
    if start < 0 or not text.endswith(")") or (start and not text[:start].isidentifier()):
        return False
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and at >= start and at < len(text) - 1:
            return False
    return True


def is_index(x: ex.Expr) -> bool:
    """Return whether an expression is integer arithmetic on indices and constants only. It is then computed in
    int64.
    """
    if x.dtype not in ("int32", "int64"):
        return False
    if isinstance(x, ex.Var | ex.IntImm):
        return not isinstance(x, ex.DataVar)
    if isinstance(x, ex.Cast):
        return is_index(x.value)
    if isinstance(x, ex.Call):
        return x.op in BITS and all(map(is_index, x.args))
    return isinstance(x, _OF_INDICES) and is_index(x.a) and is_index(x.b)


def keeps_value(x: ex.Cast, analyzer: Analyzer) -> bool:
    """Return whether converting an index preserves every value that the index can have."""
    low, high = (0, 0) if x.dtype.bits >= x.value.dtype.bits else analyzer.bounds(x.value)
    return low is not None and high is not None and x.dtype.min <= low and high <= x.dtype.max
