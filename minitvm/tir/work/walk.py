"""Walk over a kernel and count its work. Each operation is counted once for every run of its statement; a domain
computes the number of runs.

This number, the `iterations` of the domain, is an integer (`domain.PointDomain`, which lists points) or a closed
formula (`iterations.Iterations`). The counts are of the same kind.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Generic, Protocol, Self, TypeVar

from ... import expr as ex
from .. import nodes as tir

# Each operation on floats counts as one, whatever it costs; a fused multiply-add counts as two; a product of four bytes
# as seven, and one of two bfloat16 as three. Adding it to a value other than zero counts as one more.
_FLOPS = {"fma": 2, "dot4_u8i8": 7, "dot2_bf16": 3}
_REDUCTIONS = {"vector_reduce_add": "add", "vector_reduce_min": "min", "vector_reduce_max": "max"}


class Runs(Protocol):
    """Protocol for the iterations of a statement."""

    @property
    def iterations(self) -> Any:
        """The number of iterations. It can be multiplied by numbers and added."""

    @property
    def exact(self) -> bool:
        """Whether all conditions and bounds so far were known before the run."""

    def where(self, condition: ex.Expr, holds: bool = True) -> Self:
        """Return the iterations in which a condition holds (or does not hold, if `holds` is False)."""

    def loop(self, var: ex.Var, start: ex.Expr, extent: ex.Expr) -> Self:
        """Return the iterations inside a loop."""

    def let(self, var: ex.Var, value: ex.Expr) -> Self:
        """Return the same iterations, in which a variable stands for an expression."""


D = TypeVar("D", bound=Runs)


class Walk(Generic[D]):
    """Counts arithmetic by operation name. A subclass decides how to count accesses."""

    def __init__(self) -> None:
        self.operations: Counter[str] = Counter()
        self.flops: Any = 0
        self.integers: Any = 0
        self.exact = True

    def access(self, kind: str, buffer: tir.Buffer, index: ex.Expr, predicate: ex.Expr | None, d: D) -> None:
        """Count an access; `kind` is "read" or "write"."""
        raise NotImplementedError

    # -- statements

    def stmt(self, s: tir.Stmt, d: D) -> None:
        if isinstance(s, tir.Seq):
            for part in s.stmts:
                self.stmt(part, d)
        elif isinstance(s, tir.For):
            self.stmt(s.body, d.loop(s.var, s.start, s.extent))
        elif isinstance(s, tir.If):
            self.value(s.condition, d)
            self.stmt(s.then_case, d.where(s.condition))
            if s.else_case is not None:
                self.stmt(s.else_case, d.where(s.condition, holds=False))
        elif isinstance(s, tir.LetStmt):
            self.value(s.value, d)
            self.stmt(s.body, d.let(s.var, s.value) if known_before_running(s.value) else d)
        elif isinstance(s, tir.Allocate | tir.Instruction | tir.Async):
            self.stmt(s.body, d)
        elif isinstance(s, tir.BufferStore):
            self.value(s.value, d)
            self.access("write", s.buffer, s.indices[0], s.predicate, d)
        elif isinstance(s, tir.Evaluate):
            self.value(s.value, d)
        elif isinstance(s, tir.Assert):
            self.value(s.condition, d)
        elif isinstance(s, tir.Prefetch):
            return
        elif isinstance(s, tir.While):
            self.exact = False
            self.stmt(s.body, d)
        else:
            self.exact = False

    # -- expressions

    def value(self, x: ex.Expr, d: D) -> None:
        """Count the arithmetic and the loads in an expression that is not an index."""
        if isinstance(x, tir.BufferLoad):
            self.access("read", x.buffer, x.indices[0], x.predicate, d)
            return
        if isinstance(x, ex.Call) and x.op == "if_then_else" and x.args[0].dtype.lanes == 1:
            self.value(x.args[0], d)
            self.value(x.args[1], d.where(x.args[0]))
            self.value(x.args[2], d.where(x.args[0], holds=False))
            return
        if known_before_running(x):
            return
        if isinstance(x, ex.And | ex.Or) and x.dtype.lanes == 1:  # the second runs where the first does not decide
            self.value(x.a, d)
            self.value(x.b, d.where(x.a, holds=isinstance(x, ex.And)))
            return
        for child in ex.children(x):
            if isinstance(child, ex.Expr):
                self.value(child, d)
        self.operation(x, d)

    def operation(self, x: ex.Expr, d: D) -> None:
        name, dtype, lanes = _arithmetic(x)
        if not name:
            return
        times = d.iterations * lanes
        self.exact &= d.exact
        self.operations[name] += times
        if dtype.is_float:
            self.flops += times * _FLOPS.get(name, 1)
        else:
            self.integers += times * _FLOPS.get(name, 1)


def known_before_running(x: ex.Expr) -> bool:
    """Return whether an expression is integer arithmetic on loop variables, sizes and constants only."""
    parts = [n for n in ex.walk(x) if isinstance(n, ex.Expr)]
    return not any(isinstance(n, tir.BufferLoad) or n.dtype.is_float or n.dtype == "handle" for n in parts)


def _arithmetic(x: ex.Expr) -> tuple[str, ex.DType, int]:
    """Return the (name, dtype, number) of the operations that a node itself performs; the name is "" if
    there are none.
    """
    if isinstance(x, ex.BinaryOp) and not isinstance(x, ex.LogicalOp):
        return type(x).__name__.lower(), x.a.dtype.scalar, x.a.dtype.lanes
    if isinstance(x, ex.Call) and x.op in _REDUCTIONS:
        dtype = x.args[0].dtype
        return _REDUCTIONS[x.op], dtype.scalar, dtype.lanes - 1
    if isinstance(x, ex.Call) and x.op not in ("if_then_else", "likely", "reinterpret") and not x.dtype.is_bool:
        return x.op, x.dtype.scalar, x.dtype.lanes
    return "", x.dtype, 0
