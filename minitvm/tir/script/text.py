"""Print expressions of programs as TVMScript, with names and marks. `printer` adds functions, statements and blocks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ... import expr as ex
from ...expr.foreign import FOREIGN
from ...expr.intrin import COLLECTIVES
from ...target import Target
from ..conditions import is_const
from ..nodes import Buffer, BufferData, BufferLoad, BufferRegion
from .dialects import Dialect, would_fold
from .foreign import as_text
from .marks import fence
from .unique_names import NameSupply

_ATOM = 20  # the precedence of a name or a call
_INTEGRAL = ("int", "uint", "bool")


class ProgramText(ex.ExprPrinter):
    """Collects the lines of a program and puts fences around the nodes in `marked` (see `marks`)."""

    prefix = "T."

    def __init__(self, dialect: Dialect, marked: Sequence[ex.Node] = ()) -> None:
        super().__init__()
        self.dialect = dialect
        self.lines: list[str] = []
        self.names = NameSupply()
        self.depth = 0
        self._notes = {item: number for number, item in enumerate(marked)}
        self._defined: set[ex.Node] = set()  # marked variables and buffers whose definition has been printed
        self._spelled_out: set[ex.Expr] = set()
        self._loops: dict[ex.Var, tuple[ex.Expr, ex.Expr]] = {}  # start and extent of the loops around

    # ---- names and text ----------------------------------------------------------------------------------------

    def name(self, var: ex.Var) -> str:
        return self._first(var, self.names.of(var, var.name))

    def buffer(self, buffer: Buffer) -> str:
        """Return the name of a buffer at a place where it is used."""
        return self._first(buffer, self.names.of(buffer, buffer.name))

    def define(self, item: ex.Var | Buffer) -> str:
        """Return the name of a variable or buffer at the place where it is defined."""
        return self._first(item, self.names.define(item, item.name))

    def _first(self, item: ex.Node, text: str) -> str:
        if item not in self._notes or item in self._defined:
            return text
        self._defined.add(item)
        return fence(text, self._notes[item])

    def fenced(self, item: ex.Node, text: str) -> str:
        """Return the text of a node, fenced if the node is marked."""
        return fence(text, self._notes[item]) if item in self._notes else text

    def line(self, text: str, *owners: ex.Node) -> None:
        """Add a line of text, fenced if any node in `owners` is marked."""
        for owner in owners:
            text = self.fenced(owner, text)
        self.lines.append("    " * self.depth + text if text else "")

    # ---- expressions -------------------------------------------------------------------------------------------

    def _print(self, e: ex.Expr, context: int) -> str:
        text = super()._print(e, context)
        return text if isinstance(e, ex.Var) else self.fenced(e, text)

    def _parts(self, e: ex.Expr) -> tuple[str, int]:
        if self.dialect.folds and would_fold(e):
            return (
                f"T.{type(e).__name__}({', '.join(self.expr(c) for c in ex.children(e) if isinstance(c, ex.Expr))})",
                _ATOM,
            )
        if isinstance(e, ex.BinaryOp) and _is_bare(e.a) and _is_bare(e.b):
            # Python would fold two bare integers when the text is read: `T.int32(2) + 3` stays an addition.
            self._spelled_out.add(e.a)
        if isinstance(e, ex.IntImm) and e in self._spelled_out:
            return f"T.{e.dtype}({e.value})", _ATOM
        return super()._parts(e)

    def _atom(self, e: ex.Expr) -> str:
        if isinstance(e, BufferLoad):
            return self._load(e)
        if isinstance(e, BufferData):
            return f"{self.buffer(e.buffer)}.data"
        if isinstance(e, ex.Let):
            return self._let(e)
        if isinstance(e, ex.Call):
            return self._call(e)
        return super()._atom(e)

    def _load(self, e: BufferLoad) -> str:
        name = self.buffer(e.buffer)
        if e.predicate is None:
            return f"{name}[{self._indices(e.indices)}]"
        return f"{name}.vload([{self._indices(e.indices, empty='')}], predicate={self.expr(e.predicate)})"

    def _indices(self, indices: Sequence[ex.Expr], empty: str = "()") -> str:
        return ", ".join(map(self.expr, indices)) or empty

    def _let(self, e: ex.Let) -> str:
        value = self.expr(e.value)
        self.names.push()
        name = self.define(e.var)
        body = self.expr(e.body)
        self.names.pop()
        return f"T.Let({body}, where={{{name}: {value}}})"

    def _call(self, e: ex.Call) -> str:
        args = [self.expr(a) for a in e.args]
        if e.op == "reinterpret" and len(args) == 1:
            return f'T.reinterpret("{e.dtype}", {args[0]})'
        if calls_by_name(e):
            return f"T.{e.op}({', '.join(args)})"
        text = as_text(e, args) if e.op in FOREIGN else None
        if text is not None:
            return text
        return f"T.call_intrin({', '.join([quote(str(e.dtype)), quote(self.dialect.prefix + e.op), *args])})"

    def span(self, r: ex.Range) -> tuple[str, str]:
        """Return the start and stop of a range as text.

        If both are constants, the stop is their sum; otherwise it is written as `start + extent`.
        """
        start, extent = r.start, r.extent
        if isinstance(start, ex.IntImm) and isinstance(extent, ex.IntImm):
            return self.expr(start), self.fenced(extent, self.expr(ex.IntImm(start.value + extent.value, extent.dtype)))
        if is_const(start, 0) and start.dtype == extent.dtype:
            return self.expr(start), self.expr(extent)
        stop = ex.Add(start, extent) if start.dtype == extent.dtype else start + extent
        return self.expr(start), self.expr(stop)

    def region(self, r: BufferRegion) -> str:
        """Return a region as text, for example `A[vi, 0:128]`. A range with a single element is printed as an index,
        any other as a slice.
        """
        parts = []
        for dimension in r.region:
            if is_const(dimension.extent, 1):
                parts.append(self.fenced(dimension, self.expr(dimension.start)))
            else:
                parts.append(self.fenced(dimension, ":".join(self.span(dimension))))
        return self.fenced(r, f"{self.buffer(r.buffer)}[{', '.join(parts) or '()'}]")

    def value(self, item: Any) -> str:
        """Return an attribute's value as text. It may be a Python constant, an expression, or a list or dictionary of
        these.
        """
        if isinstance(item, ex.Expr):
            return self.expr(item)
        if isinstance(item, Mapping):
            return "{" + ", ".join(f"{self.value(k)}: {self.value(v)}" for k, v in item.items()) + "}"
        if isinstance(item, list | tuple):
            return "[" + ", ".join(map(self.value, item)) + "]"
        if isinstance(item, Target):
            return f"T.target({quote(str(item))})"
        if isinstance(item, str):
            return quote(item)
        if isinstance(item, float) and repr(item) in ("inf", "-inf", "nan"):
            return f'float("{item!r}")'
        return repr(item)


def calls_by_name(e: ex.Call) -> bool:
    """Return whether `T.op(args)` would be parsed to exactly this call, because the intrinsic's dtype follows from its
    arguments.
    """
    row = ex.INTRINSICS.get(e.op)
    if row is None:
        return e.op.startswith("vector_reduce_") and len(e.args) == 1 and e.dtype == e.args[0].dtype.scalar
    if len(e.args) != row.arity or row.result == "given":
        return False
    dtypes = [a.dtype for a in e.args]
    if e.op in COLLECTIVES:
        return e.dtype == (dtypes[1] if dtypes else "uint32")
    if row.result == "value":
        return e.dtype == dtypes[1] == dtypes[2] and dtypes[0].is_bool
    if row.operands and ([d.scalar for d in dtypes] != list(row.operands) or len({d.lanes for d in dtypes}) > 1):
        return False
    if row.domain != "any" and any(d != dtypes[0] for d in dtypes):
        return False
    if (row.domain == "float" and not dtypes[0].is_float) or (row.domain == "int" and dtypes[0].kind not in _INTEGRAL):
        return False
    if row.result == "void":
        return e.dtype == "int32"
    inferred = {"bool": ex.DType("bool").with_lanes(dtypes[0].lanes)}.get(row.result, dtypes[0])
    return e.dtype == inferred


def quote(text: str) -> str:
    """Return a string as a Python literal in double quotes."""
    return json.dumps(text, ensure_ascii=False)


def _is_bare(e: ex.Expr) -> bool:
    return isinstance(e, ex.IntImm) and e.dtype == "int32"
