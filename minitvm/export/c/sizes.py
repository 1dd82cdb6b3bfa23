"""Expressions over sizes as C: exact integers, in which what has no value is never computed with.

An executable's expressions are over Python's integers (`executable.evaluation`). In C they are int64, and `UNDEFINED`
(the least int64) stands for a result that does not fit, a division by zero, and everything computed from these. So no
operation overflows, and a branch that is not taken does no harm: the program checks only the values that it uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ... import expr as ex
from ...errors import Unsupported
from ...executable import Dim

_LARGEST = 2**63 - 1

# The helpers by name: when the result is defined, the result, and the helpers that it calls.
_HELPERS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "add": ("(b > 0 ? a <= INT64_MAX - b : a >= -INT64_MAX - b)", "a + b", ()),
    "sub": ("(b < 0 ? a <= INT64_MAX + b : a >= -INT64_MAX + b)", "a - b", ()),
    "mul": ("(a == 0 || (b <= INT64_MAX / (a < 0 ? -a : a) && b >= -(INT64_MAX / (a < 0 ? -a : a))))", "a * b", ()),
    "div": ("b != 0", "a / b", ()),
    "mod": ("b != 0", "a % b", ()),
    "floor_div": ("b != 0", "a / b - (a % b != 0 && (a < 0) != (b < 0))", ()),
    "floor_mod": ("b != 0", "a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0)", ()),
    "min": ("", "a < b ? a : b", ()),
    "max": ("", "a > b ? a : b", ()),
    "equal": ("", "a == b", ()),
    "differs": ("", "a != b", ()),
    "less": ("", "a < b", ()),
    "less_equal": ("", "a <= b", ()),
    "bit_and": ("", "a & b", ()),
    "bit_or": ("", "a | b", ()),
    "bit_xor": ("", "a ^ b", ()),
    "shift_left": ("b >= 0 && (a == 0 || b < 63)", "a == 0 ? 0 : size_mul(a, (int64_t)1 << b)", ("mul",)),
    "shift_right": ("b >= 0", "b > 62 ? -(a < 0) : size_floor_div(a, (int64_t)1 << b)", ("floor_div",)),
}
_BINARY: dict[type, str] = {
    ex.Add: "add", ex.Sub: "sub", ex.Mul: "mul", ex.Div: "div", ex.Mod: "mod", ex.FloorDiv: "floor_div",
    ex.FloorMod: "floor_mod", ex.Min: "min", ex.Max: "max", ex.EQ: "equal", ex.NE: "differs", ex.LT: "less",
    ex.LE: "less_equal",
}  # fmt: skip
_SWAPPED: dict[type, str] = {ex.GT: "less", ex.GE: "less_equal"}
_BITS = {
    "shift_left": "shift_left", "shift_right": "shift_right", "bitwise_and": "bit_and", "bitwise_or": "bit_or",
    "bitwise_xor": "bit_xor",
}  # fmt: skip
_OF_FLOATS: dict[type, str] = {ex.Add: "+", ex.Sub: "-", ex.Mul: "*", ex.Div: "/"}


class SizeWriter:
    """Writes expressions as statements of a function: each node once, in the block where it is first used.

    `names` are the C names of the variables. `lines` receives the statements, indented by `indent`. `failure` is the
    statement to run for a size without a value, for example "return 5;".
    """

    def __init__(self, names: Mapping[ex.Var, str], lines: list[str], failure: str) -> None:
        self.names = dict(names)
        self.lines, self.failure = lines, failure
        self.indent = "    "
        self.helpers: set[str] = set()
        self._blocks: list[dict[ex.Expr | str, str]] = [{}]
        self._required: list[set[str]] = [set()]  # lines that hold in a block: checks are written once
        self._count = 0

    @contextmanager
    def block(self) -> Iterator[None]:
        """Write an inner block of C: its names have no meaning after it."""
        self.indent += "    "
        self._blocks.append({})
        self._required.append(set())
        yield
        self._blocks.pop()
        self._required.pop()
        self.indent = self.indent[:-4]

    def line(self, text: str) -> None:
        """Write one line of the function."""
        self.lines.append(self.indent + text if text else "")

    def number(self, x: Dim | float) -> str:
        """Return the C text of a number that is used: an int64 that is defined, or a double."""
        text = self.value(x)
        if isinstance(x, ex.Expr) and not x.dtype.is_float and not isinstance(x, ex.Var | ex.IntImm):
            self._require(text)
        return text

    def value(self, x: Dim | float) -> str:
        """Return the C text of a value, which may be `UNDEFINED`."""
        if isinstance(x, ex.IntImm):
            x = x.value
        if isinstance(x, ex.FloatImm):
            x = float(x.value)
        if isinstance(x, float):
            return x.hex() if x == x and abs(x) != float("inf") else f"({'-' if x < 0 else ''}1.0 / 0.0)"
        if isinstance(x, bool | int):
            return literal(int(x))
        if isinstance(x, ex.Var):
            return self.names[x]
        for block in self._blocks:
            if x in block:
                return block[x]
        text = self._floats(x) if x.dtype.is_float else self._node(x)
        for block in self._blocks:
            if text in block:  # another node, with the same value
                self._blocks[-1][x] = block[text]
                return block[text]
        name = f"s{self._count}"
        self._count += 1
        self.line(f"const {'double' if x.dtype.is_float else 'int64_t'} {name} = {text};")
        self._blocks[-1][x] = self._blocks[-1][text] = name
        return name

    def once(self, line: str) -> None:
        """Write a check, unless it has been written in this block or in one around it."""
        if not any(line in lines for lines in self._required):
            self._required[-1].add(line)
            self.line(line)

    def _require(self, name: str) -> None:
        self.once(f"if ({name} == UNDEFINED) {self.failure}")

    def _helper(self, name: str, *arguments: str) -> str:
        self.helpers |= {name, *_HELPERS[name][2]}
        return f"size_{name}({', '.join(arguments)})"

    def _node(self, x: ex.Expr) -> str:
        if isinstance(x, ex.BinaryOp) and (type(x) in _BINARY or type(x) in _SWAPPED):
            a, b = self.value(x.a), self.value(x.b)
            if x.a.dtype.is_float or x.b.dtype.is_float:
                raise Unsupported(f"C of a comparison of floats in an executable's expression: {x}")
            if type(x) in _SWAPPED:
                return self._helper(_SWAPPED[type(x)], b, a)
            return self._helper(_BINARY[type(x)], a, b)
        if isinstance(x, ex.And | ex.Or):
            a, b = self.value(x.a), self.value(x.b)
            early = "0" if isinstance(x, ex.And) else a
            test = f"{a} == 0" if isinstance(x, ex.And) else f"{a} != 0"
            return f"{a} == UNDEFINED ? UNDEFINED : {test} ? {early} : {b}"
        if isinstance(x, ex.Not):
            a = self.value(x.a)
            return f"{a} == UNDEFINED ? UNDEFINED : {a} == 0"
        if isinstance(x, ex.Select):
            return self._choice(x.condition, x.true_value, x.false_value)
        if isinstance(x, ex.Let):
            self.names[x.var] = self.value(x.value)
            return self.value(x.body)
        if isinstance(x, ex.Cast) and not x.value.dtype.is_float:
            return _cast(self.value(x.value), x.dtype)
        if isinstance(x, ex.Call) and x.op == "if_then_else":
            return self._choice(*x.args)
        if isinstance(x, ex.Call) and x.op == "likely":
            return self.value(x.args[0])
        if isinstance(x, ex.Call) and x.op == "abs":
            a = self.value(x.args[0])
            return f"{a} < 0 && {a} != UNDEFINED ? -{a} : {a}"
        if isinstance(x, ex.Call) and x.op in _BITS:
            return self._helper(_BITS[x.op], self.value(x.args[0]), self.value(x.args[1]))
        raise Unsupported(f"C of {type(x).__name__} in an executable's expression: {x}")

    def _choice(self, condition: ex.Expr, first: ex.Expr, second: ex.Expr) -> str:
        test, a, b = self.value(condition), self.value(first), self.value(second)
        return f"{test} == UNDEFINED ? UNDEFINED : {test} ? {a} : {b}"

    def _floats(self, x: ex.Expr) -> str:
        if isinstance(x, ex.BinaryOp) and type(x) in _OF_FLOATS:
            return f"{self._double(x.a)} {_OF_FLOATS[type(x)]} {self._double(x.b)}"
        if isinstance(x, ex.Cast):
            return self._double(x.value)
        if isinstance(x, ex.Select):
            return f"{self.number(x.condition)} ? {self._double(x.true_value)} : {self._double(x.false_value)}"
        raise Unsupported(f"C of {type(x).__name__} in an executable's expression: {x}")

    def _double(self, x: ex.Expr) -> str:
        return self.number(x) if x.dtype.is_float else f"(double){self.number(x)}"


def literal(number: int) -> str:
    """Return an integer as C. One that an int64 cannot hold is undefined."""
    if abs(number) > _LARGEST:
        return "UNDEFINED"
    if abs(number) < 2**31:
        return str(number) if number >= 0 else f"({number})"
    return f"INT64_C({number})" if number >= 0 else f"(-INT64_C({-number}))"


def _cast(value: str, dtype: ex.DType) -> str:
    if dtype.is_bool:
        return f"{value} == UNDEFINED ? UNDEFINED : {value} != 0"
    if dtype.bits == 64:
        return f"{value} < 0 ? UNDEFINED : {value}" if dtype.kind == "uint" else value
    ctype = f"{'u' if dtype.kind == 'uint' else ''}int{dtype.bits}_t"
    return f"{value} == UNDEFINED ? UNDEFINED : (int64_t)({ctype})(uint64_t){value}"


def helper_text(helpers: set[str]) -> str:
    """Return the C functions with these names, in an order in which each is defined before its use."""
    lines = ["#define UNDEFINED INT64_MIN  /* a size that does not fit, and what is computed from it */"]
    for name, (legal, result, _) in _HELPERS.items():
        if name in helpers:
            defined = " && ".join(["a != UNDEFINED", "b != UNDEFINED", *([legal] if legal else [])])
            lines += [
                "",
                f"static int64_t size_{name}(int64_t a, int64_t b)",
                "{",
                f"    return {defined} ? ({result}) : UNDEFINED;",
                "}",
            ]
    return "\n".join(lines) + "\n"
