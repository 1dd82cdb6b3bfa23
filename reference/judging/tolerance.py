"""Compare floats up to rounding: a last resort, for programs that every better mode refuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm.expr.dtypes import is_floating, limits
from minitvm.te import nodes as te
from minitvm.tir import nodes as t

from .programs import Program


def close(actual: Any, expected: Any, func: Program | None = None, steps: int | None = None) -> bool:
    """Return whether floats agree up to rounding: a last resort, for programs that the mode `exact` refuses.

    The allowed difference is `steps` units of rounding of the largest magnitude in `expected`. By default, `steps`
    bounds the number of operations for one element: 64, plus the number of iterations of the loops in `func` that sum
    into it. NaN and infinities must be the same. An error in a small element of a large tensor may go unnoticed, so
    prefer `check`.
    """
    a, b = np.asarray(actual), np.asarray(expected)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not is_floating(a.dtype):
        return bool((a == b).all())
    finite = np.isfinite(b)
    if not ((a == b) | (np.isnan(a) & np.isnan(b)) | finite).all() or not np.isfinite(a[finite]).all():
        return False
    if not finite.any():
        return True
    allowed = (steps or 64 + _summed(func)) * float(limits(a.dtype).eps)
    wide = b[finite].astype(np.float64)
    return bool((np.abs(a[finite] - wide) <= allowed * max(np.abs(wide).max(), float(limits(a.dtype).tiny))).all())


def _summed(program: Program | None) -> int:
    """Return the number of terms of the largest reduction, as far as it is constant."""
    if isinstance(program, t.IRModule):
        return sum(_summed(f) for _, f in program.items())
    if program is None:
        return 0
    largest = 0
    roots = [program.body] if isinstance(program, t.PrimFunc) else list(_bodies(program))
    for node in (n for root in roots for n in x.walk(root)):
        axes: Sequence[x.IterVar] = ()
        if isinstance(node, t.Block):
            axes = [v for v in node.iter_vars if v.kind == x.REDUCE]
        elif isinstance(node, x.Reduce):
            axes = node.axes
        terms = 1
        for axis in axes:
            terms *= axis.dom.extent.value if isinstance(axis.dom.extent, x.IntImm) else 64
        largest += terms if axes else 0
    return largest


def _bodies(program: Sequence[Any]) -> list[x.Expr]:
    operations: dict[te.Operation, None] = {}
    stack = [one for one in program if isinstance(one, te.Tensor)]
    while stack:
        op = stack.pop().op
        if isinstance(op, te.ComputeOp | te.ExternOp) and op not in operations:
            operations[op] = None
            stack.extend(op.input_tensors)
    return [b for op in operations if isinstance(op, te.ComputeOp) for b in op.body]
