"""Evaluate the expressions in a program's text: turn nodes of Python's `ast` into values.

Every error shows the location that caused it.
"""

from __future__ import annotations

import ast
import builtins as python
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ... import expr as ex
from ...arith import holds_data
from ...errors import InputError, MinitvmError, ParseError, nearest, report
from ...expr.foreign import FOREIGN
from ..conditions import is_const
from ..nodes import Buffer, BufferLoad, BufferRegion
from . import builtins as language
from .builtins import span
from .descriptions import Meta
from .refused import REFUSED, explained


@dataclass(frozen=True, slots=True)
class Source:
    """A program's text and its origin. `first_line` is the line number of its first line in that file."""

    text: str
    file: str = "<text>"
    first_line: int = 1
    indent: int = 0

    def error(self, node: ast.AST, headline: str, *, wanted: str | None = None, found: str | None = None,
              tries: tuple[str, ...] = ()) -> ParseError:  # fmt: skip
        """Return a `ParseError` at a node, with the file, line and column, and the line of text with the node
        underlined.
        """
        number, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        lines = self.text.splitlines()
        line = lines[number - 1] if number <= len(lines) else ""
        stop = node.end_col_offset if getattr(node, "end_lineno", None) == number else len(line.encode())  # type: ignore[attr-defined]
        start = len(line.encode()[:column].decode())  # ast counts bytes
        width = max(1, len(line.encode()[column:stop].decode()))
        program = _underlined(line, start, width)
        where = f"{self.file}:{number + self.first_line - 1}:{start + self.indent + 1}"
        return ParseError(report(f"{where}: {headline}", program=program, wanted=wanted, found=found, tries=tries))

    def word(self, node: ast.AST) -> str:
        """Return the first word of a statement, after its decorators."""
        line = self.text.splitlines()[node.lineno - 1].encode()[node.col_offset :].decode()  # type: ignore[attr-defined]
        return line.split(maxsplit=1)[0].rstrip(":")


_SHOWN = 100  # columns of a line that an error shows


def _underlined(line: str, start: int, width: int) -> str:
    """Return a line without its indentation, followed by a line with carets under columns [start, start + width).

    A long line is shortened.
    """
    margin = len(line) - len(line.lstrip())
    line, start = line.rstrip()[margin:], start - margin
    if len(line) > _SHOWN:
        first = max(0, min(start - _SHOWN // 2, len(line) - _SHOWN))
        head, tail = "... " if first else "", " ..." if first + _SHOWN < len(line) else ""
        line, start = f"{head}{line[first : first + _SHOWN]}{tail}", start - first + len(head)
        width = max(1, min(width, len(line) - len(tail) - start))
    return f"{line}\n{' ' * start}{'^' * width}"


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
}  # fmt: skip
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
# Python changes `0 < i` to `i > 0`; a program keeps the written form.
_COMPARE_NODES: dict[type, Any] = {
    ast.Eq: ex.EQ,
    ast.NotEq: ex.NE,
    ast.Lt: ex.LT,
    ast.LtE: ex.LE,
    ast.Gt: ex.GT,
    ast.GtE: ex.GE,
}
# Replacements for Python's own functions that would need the value of an expression.
_INSTEAD: dict[Any, Callable[..., Any]] = {
    python.range: language.serial,
    python.min: language.min,
    python.max: language.max,
    python.abs: language.abs,
}
# Functions that convert their operands to one dtype, as operators do.
_MATCHING = (language.max, language.min, language.if_then_else, language.Select)


class Evaluator:
    """Evaluates expressions. Names are looked up first in the program, then in the scope in which the program was
    written.
    """

    def __init__(self, source: Source, captured: Mapping[str, Any]) -> None:
        self.source = source
        self.captured = captured
        self.variables: dict[str, Any] = {}
        self.widened = False  # whether a Python float has changed an operation on float16 to float32

    def error(self, node: ast.AST, headline: str, **parts: Any) -> ParseError:
        """Return a `ParseError` that points at a node."""
        return self.source.error(node, headline, **parts)

    def evaluate(self, node: ast.expr) -> Any:
        """Evaluate a node to a Python constant, an `Expr`, a `Buffer`, a region, or a language description; raise
        `ParseError` if that fails.
        """
        method: Callable[[Any], Any] = getattr(self, f"_{type(node).__name__}", self._python)
        try:
            return method(node)
        except (ParseError, AssertionError):
            raise
        except Exception as problem:  # a program may call any Python function
            headline, _, rest = str(problem).partition("\n")
            misfit = _misfit(node, headline) if isinstance(problem, TypeError) else ""
            if misfit:
                headline = misfit
            elif not isinstance(problem, MinitvmError | ValueError | AttributeError):
                headline = f"Python's {type(problem).__name__}: {headline}"  # "list index out of range" says too little
            error = self.error(node, headline)
            raise ParseError(f"{error}\n{rest}" if rest else str(error)) from problem

    def expr(self, node: ast.expr) -> ex.Expr:
        """Evaluate a node to a scalar expression; raise `ParseError` if its value is anything else."""
        value = self.evaluate(node)
        if isinstance(value, BufferRegion):
            value = load_of(value)
        if isinstance(value, Buffer) or not is_scalar(value):
            raise self.error(node, "this is not a scalar", wanted="a number or an expression", found=describe(value),
                             tries=(f"{value.name}[...]",) if isinstance(value, Buffer) else ())  # fmt: skip
        return ex.as_expr(value)

    # ---- leaves ------------------------------------------------------------------------------------------------

    def _Constant(self, node: ast.Constant) -> Any:
        return node.value

    def _Name(self, node: ast.Name) -> Any:
        name = node.id
        if name in self.variables:
            return self.variables[name]
        if name in self.captured:
            return self.captured[name]
        if hasattr(python, name):
            return getattr(python, name)
        raise self._undefined(node, f"{name} = T.int32() for a symbolic dimension")

    def _undefined(self, node: ast.Name, way: str) -> ParseError:
        """Return the error for an undefined name; `way` shows how such a name can be defined."""
        names = [*self.variables, *(n for n in self.captured if not n.startswith("_"))]
        if hasattr(language, node.id):
            return self.error(node, f"the name {node.id} is not defined", tries=(f"T.{node.id}",))
        return self.error(node, f"the name {node.id} is not defined", tries=(nearest(node.id, names), way))

    def _Attribute(self, node: ast.Attribute) -> Any:
        owner = self.evaluate(node.value)
        if isinstance(owner, Buffer) and node.attr in ("vload", "vstore"):
            return getattr(_Vector(owner), node.attr)
        if owner is language and node.attr in REFUSED:
            raise self.error(node, explained(node.attr), tries=REFUSED[node.attr].instead)
        if owner is language and not hasattr(language, node.attr):
            raise self.error(node, f"T.{node.attr} is not in the language", tries=(_suggest(node.attr),))
        try:
            return getattr(owner, node.attr)
        except AttributeError as problem:
            hint = (str(problem),) if owner is language.axis else ()
            raise self.error(node, f"{ast.unparse(node)} does not exist", tries=hint) from None

    # ---- operators ---------------------------------------------------------------------------------------------

    def _BinOp(self, node: ast.BinOp) -> Any:
        left, right = self._operand(node.left), self._operand(node.right)
        if isinstance(node.op, ast.Div) and _is_integer(left) and _is_integer(right) and _any_expr(left, right):
            raise self.error(node, "`/` between integers is ambiguous", tries=("`//` (floor)", "T.truncdiv (as in C)"))
        return _BINARY[type(node.op)](*self._with_literals(left, right))

    def _with_literals(self, *operands: Any) -> tuple[Any, ...]:
        """Convert the operands of an operation so that Python floats have the dtypes that TVM gives them.

        A Python float is a float32, as in TVM, so combining it with a float16 gives a float32. With operands of float64
        or integer dtypes, it is converted by the rules of `expr.match`.
        """
        if not any(isinstance(value, ex.Expr) and value.dtype.is_float and value.dtype.bits < 32 for value in operands):
            return operands
        self.widened = self.widened or any(type(value) is float for value in operands)
        return tuple(ex.const(value, "float32") if type(value) is float else value for value in operands)

    def _operand(self, node: ast.expr) -> Any:
        value = self.evaluate(node)
        if isinstance(value, Buffer):
            indices = ", ".join("ijklmn"[: value.ndim]) or "()"
            raise self.error(
                node, f"the buffer {value.name} stands for no single value", tries=(f"{value.name}[{indices}]",)
            )
        return load_of(value) if isinstance(value, BufferRegion) else value

    def _UnaryOp(self, node: ast.UnaryOp) -> Any:
        value = self._operand(node.operand)
        if isinstance(node.op, ast.Not):
            return ex.Not(value) if isinstance(value, ex.Expr) else not value
        if isinstance(node.op, ast.USub):
            return -value
        return ~value if isinstance(node.op, ast.Invert) else value

    def _BoolOp(self, node: ast.BoolOp) -> Any:
        kind, combine = (ex.And, all) if isinstance(node.op, ast.And) else (ex.Or, any)
        values = [self._operand(v) for v in node.values]
        if not _any_expr(*values):
            return combine(values)
        result = ex.as_expr(values[0])
        for value in values[1:]:
            result = ex.binary(kind, result, value)
        return result

    def _Compare(self, node: ast.Compare) -> Any:
        operands = [self._operand(n) for n in (node.left, *node.comparators)]
        pairs = [self._with_literals(a, b) for a, b in pairwise(operands)]
        results = [_compare(type(op), a, b) for op, (a, b) in zip(node.ops, pairs, strict=True)]
        if not _any_expr(*results):
            return all(results)
        result = ex.as_expr(results[0])
        for more in results[1:]:
            result = ex.binary(ex.And, result, more)
        return result

    def _IfExp(self, node: ast.IfExp) -> Any:
        condition = self.evaluate(node.test)
        if not isinstance(condition, ex.Expr):
            return self.evaluate(node.body if condition else node.orelse)
        return language.if_then_else(condition, self._operand(node.body), self._operand(node.orelse))

    # ---- containers --------------------------------------------------------------------------------------------

    def _Tuple(self, node: ast.Tuple) -> Any:
        return tuple(self._elements(node.elts))

    def _List(self, node: ast.List) -> Any:
        return self._elements(node.elts)

    def _elements(self, nodes: list[ast.expr]) -> list[Any]:
        values: list[Any] = []
        for item in nodes:
            if isinstance(item, ast.Starred):
                values.extend(self._Starred(item))
            else:
                values.append(self.evaluate(item))
        return values

    def _Starred(self, node: ast.Starred) -> list[Any]:
        value = self.evaluate(node.value)
        if isinstance(value, Buffer | ex.Expr | BufferRegion):
            kind = "a buffer" if isinstance(value, Buffer) else "an expression"
            raise self.error(node, f"{kind} cannot be iterated", found=describe(value))
        return list(value)

    def _Dict(self, node: ast.Dict) -> Any:
        entries: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=False):
            entries.update(self.evaluate(value) if key is None else {self.evaluate(key): self.evaluate(value)})
        return entries

    def _Slice(self, node: ast.Slice) -> slice:
        return slice(*(None if n is None else self.evaluate(n) for n in (node.lower, node.upper, node.step)))

    def _Subscript(self, node: ast.Subscript) -> Any:
        owner = self.buffer_or_other(node)
        key = self.evaluate(node.slice)
        if not isinstance(owner, Buffer):
            return owner[_plain(key)]
        indices = key if isinstance(key, tuple) else (key,)
        if not any(isinstance(i, slice) for i in indices):
            return self._load(node, owner, indices)
        if len(indices) != owner.ndim:
            raise self._rank(node, owner, len(indices))
        return BufferRegion(owner, tuple(self._range(node, i, d) for i, d in zip(indices, owner.shape, strict=False)))

    def buffer_or_other(self, node: ast.Subscript) -> Any:
        """Evaluate the object that is indexed: a buffer, or a Python value with elements. Raises `ParseError` for a
        scalar expression.
        """
        name = node.value
        if isinstance(name, ast.Name) and not (
            name.id in self.variables or name.id in self.captured or hasattr(python, name.id)
        ):
            raise self._undefined(name, f'{name.id} = T.alloc_buffer((m, n), "float32")')
        owner = self.evaluate(name)
        if isinstance(owner, ex.Expr):
            raise self.error(
                node,
                f"{ast.unparse(name)} is a scalar and has no elements",
                wanted="a buffer",
                found=f"a value of dtype {owner.dtype}",
            )
        return owner

    def _load(self, node: ast.AST, buffer: Buffer, indices: tuple[Any, ...]) -> BufferLoad:
        if len(indices) != buffer.ndim:
            raise self._rank(node, buffer, len(indices))
        return BufferLoad(buffer, self.indices(node, buffer, indices))

    def indices(self, node: ast.AST, buffer: Buffer, indices: tuple[Any, ...]) -> tuple[ex.Expr, ...]:
        """Convert index values to integer expressions; raise `ParseError` for other values. Constants take the dtype of
        their dimension.
        """
        converted = []
        for index, dimension in zip(indices, buffer.shape, strict=False):
            if isinstance(index, bool) or not is_scalar(index) or not _is_integer(index):
                raise self.error(node, f"an index of {buffer.name} is not an integer", found=describe(index))
            converted.append(index if isinstance(index, ex.Expr) else ex.const(index, _wider(index, dimension)))
        return tuple(converted)

    def _rank(self, node: ast.AST, buffer: Buffer, count: int) -> ParseError:
        return self.error(
            node,
            f"wrong number of indices of {buffer.name}",
            wanted=f"{buffer.ndim}, as {buffer.name} has shape ({', '.join(map(str, buffer.shape))})",
            found=str(count),
        )

    def _range(self, node: ast.AST, index: Any, dimension: ex.Expr) -> ex.Range:
        if not isinstance(index, slice):
            point = index if isinstance(index, ex.Expr) else ex.const(index, dimension.dtype)
            return ex.Range(point, ex.const(1, point.dtype))
        if index.step is not None:
            if all(isinstance(p, int | ex.IntImm) for p in (index.start, index.stop, index.step)):
                lanes = (int(index.stop) - int(index.start)) // int(index.step)
                return ex.Range(ex.Ramp(ex.const(int(index.start)), ex.const(int(index.step)), lanes), ex.const(1))
            raise self.error(node, "a slice with a step", tries=("T.Ramp(start, step, lanes)",))
        return span(
            index.start if index.start is not None else ex.const(0, dimension.dtype),
            index.stop if index.stop is not None else dimension,
        )

    # ---- calls -------------------------------------------------------------------------------------------------

    def _Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "Let":
            return self._let(node)
        function = self.evaluate(node.func)
        if not callable(function):
            raise self.error(node.func, f"{ast.unparse(node.func)} is not a function", found=describe(function))
        args = self._elements(node.args)
        options = {k.arg: self.evaluate(k.value) for k in node.keywords if k.arg is not None}
        for keyword in node.keywords:
            if keyword.arg is None:
                options.update(self.evaluate(keyword.value))
        if function is python.range or (_any_expr(*args) and function in _INSTEAD):
            function = _INSTEAD[function]
        return function(*(self._with_literals(*args) if function in _MATCHING else args), **options)

    def _let(self, node: ast.Call) -> Any:
        where = next((k.value for k in node.keywords if k.arg == "where"), None)
        if where is None:  # T.let(x, value, body)
            return language.let(*self._elements(node.args))
        if not isinstance(where, ast.Dict) or len(where.keys) != 1 or not isinstance(where.keys[0], ast.Name):
            raise self.error(where, "T.Let binds one name", wanted="T.Let(body, where={x: value})")
        name, value = where.keys[0].id, self.expr(where.values[0])
        variable = (ex.DataVar if holds_data(value) else ex.Var)(name, value.dtype)
        outer = dict(self.variables)
        self.variables[name] = variable
        body = self.expr(node.args[0])
        self.variables = outer
        return ex.Let(variable, value, body)

    def _Lambda(self, node: ast.Lambda) -> Any:
        """Return a function that evaluates the lambda's body in the language, so that its `and` and `<` build nodes."""
        names = [argument.arg for argument in node.args.args]
        plain = not (node.args.vararg or node.args.kwonlyargs or node.args.defaults)
        if not plain:
            return self._python(node)

        def function(*values: Any) -> Any:
            outer = self.variables
            self.variables = {**outer, **dict(zip(names, values, strict=True))}
            result = self.evaluate(node.body)
            self.variables = outer
            return result

        return function

    def _python(self, node: ast.expr) -> Any:
        """Evaluate comprehensions, formatted strings and the like as plain Python, using the names in scope."""
        code = compile(ast.Expression(node), self.source.file, "eval")
        return python.eval(code, {**self.captured, **self.variables})


class _Vector:
    """Provides `A.vload([index], predicate=...)` and `A.vstore([index], value, predicate=...)`."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer

    def vload(self, indices: Any, dtype: Any = None, predicate: Any = None) -> BufferLoad:  # noqa: ARG002 (TVM's argument)
        """Return a vector load; lanes for which the predicate is false are masked."""
        return BufferLoad(self.buffer, self.indices(indices), predicate)

    def vstore(self, indices: Any, value: Any, predicate: Any = None) -> VectorStore:
        """Return a vector store; lanes for which the predicate is false are masked."""
        return VectorStore(self.buffer, self.indices(indices), value, predicate)

    def indices(self, indices: Any) -> tuple[ex.Expr, ...]:
        return tuple(map(ex.as_expr, indices if isinstance(indices, list | tuple) else (indices,)))


@dataclass(frozen=True, slots=True)
class VectorStore:
    """The result of `A.vstore(...)`, which the parser turns into a statement."""

    buffer: Buffer
    indices: tuple[ex.Expr, ...]
    value: Any
    predicate: ex.Expr | None


def load_of(region: BufferRegion) -> BufferLoad:
    """Convert a region such as `A[i, 0:8]` to a vector load along the last dimension; raise `InputError` for other
    slices.
    """
    indices = []
    for number, dimension in enumerate(region.region):
        extent = dimension.extent
        if is_const(extent, 1):
            indices.append(dimension.start)
        elif isinstance(extent, ex.IntImm) and number == len(region.region) - 1:
            indices.append(ex.Ramp(dimension.start, ex.const(1, dimension.start.dtype), extent.value))
        else:
            raise InputError(
                f"a slice of {region.buffer.name} as a value\n  wanted: a constant length, in the last dimension"
            )
    return BufferLoad(region.buffer, tuple(indices))


def is_scalar(value: Any) -> bool:
    """Return whether a value can be used as an expression."""
    import numpy as np

    return isinstance(value, ex.Expr | bool | int | float | np.generic) or hasattr(value, "asobject_expr")


def describe(value: Any) -> str:
    """Describe a value in words for an error message."""
    if isinstance(value, Buffer):
        return f"the buffer {value.name}"
    if isinstance(value, ex.Expr):
        return f"{value} of dtype {value.dtype}"
    if callable(value) and hasattr(value, "__name__"):
        return f"the function {value.__name__}"
    return f"{value!r} ({type(value).__name__})" if not isinstance(value, ex.Node | Meta) else type(value).__name__


def _plain(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(map(_plain, key))
    return key.value if isinstance(key, ex.IntImm) else key


def _wider(index: int, dimension: ex.Expr) -> str:
    return "int64" if dimension.dtype == "int64" or not -(2**31) <= index < 2**31 else "int32"


def _is_integer(value: Any) -> bool:
    import numpy as np

    return value.dtype.is_int if isinstance(value, ex.Expr) else isinstance(value, int | np.integer)


def _any_expr(*values: Any) -> bool:
    return any(isinstance(v, ex.Expr) for v in values)


def _compare(operator: type, a: Any, b: Any) -> Any:
    if _any_expr(a, b) and is_scalar(a) and is_scalar(b) and operator in _COMPARE_NODES:
        return ex.binary(_COMPARE_NODES[operator], a, b)
    return _COMPARE[operator](a, b)


def _suggest(name: str) -> str:
    text = nearest(name, [word for word in language.names() if word not in FOREIGN])
    return text.replace("did you mean ", "did you mean T.").replace(" or ", " or T.") if text[0] == "d" else text


def _misfit(node: ast.expr, problem: str) -> str:
    """Rephrase a TypeError about a call in terms of the program's text; return "" if it is about something else."""
    if not isinstance(node, ast.Call):
        return ""
    called = ast.unparse(node.func)
    if "unexpected keyword argument" in problem:
        return f"{called} has no argument {problem.rsplit(' ', 1)[-1]}"
    if "missing" in problem and "required" in problem:
        return f"{called} needs more arguments: {problem.rsplit(': ', 1)[-1]}"
    if "positional argument" in problem:
        count = len(node.args)
        return f"{called} takes fewer than {count} argument{'s' if count > 1 else ''} without a name"
    return ""
