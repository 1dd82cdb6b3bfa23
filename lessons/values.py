"""The value of an expression: the half of an interpreter that lesson 02 provides."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm.errors import ExecutionError, Unsupported
from minitvm.tir.nodes import Buffer, BufferLoad

Variables = Mapping[x.Var, int]
Arrays = Mapping[Buffer, np.ndarray]

OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    x.Add: operator.add,
    x.Sub: operator.sub,
    x.Mul: operator.mul,
    x.FloorDiv: operator.floordiv,
    x.FloorMod: operator.mod,
    x.Min: min,
    x.Max: max,
}


def value(e: x.Expr, variables: Variables, arrays: Arrays) -> Any:
    """The value of an expression: one case for each kind of node, and its operands first."""
    if isinstance(e, x.Var):
        return variables[e]
    if isinstance(e, x.IntImm | x.FloatImm):
        return e.dtype.numpy.type(e.value)
    if isinstance(e, BufferLoad):
        return arrays[e.buffer][place(e.buffer, e.indices, variables, arrays)]
    if isinstance(e, x.BinaryOp) and type(e) in OPERATORS:
        with np.errstate(over="ignore"):  # whole numbers that grow too large wrap around, as they do in a machine
            return OPERATORS[type(e)](value(e.a, variables, arrays), value(e.b, variables, arrays))
    raise Unsupported(f"this interpreter does not know {type(e).__name__}: {e}")


def place(buffer: Buffer, indices: Sequence[x.Expr], variables: Variables, arrays: Arrays) -> tuple[int, ...]:
    """The values of indices. Refuses what is out of bounds: NumPy would take -1 for the last element."""
    found = tuple(int(value(i, variables, arrays)) for i in indices)
    shape = arrays[buffer].shape
    if not all(0 <= i < extent for i, extent in zip(found, shape, strict=True)):
        raise ExecutionError(f"{buffer.name}[{', '.join(map(str, found))}] is out of bounds: its shape is {shape}")
    return found
