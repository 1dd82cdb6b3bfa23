"""Make inputs with one sign, for programs that depend on the order of data: maxima, minima, selections, branches.

Among numbers of both signs, a wrong zero (from padding or a lost element) is hardly ever the maximum; among negative
numbers it always is, and among positive numbers it is always the minimum. So modes that draw inputs also use inputs
whose tensors are all positive, all negative, and alternately negative and positive, so that products are negative.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from minitvm import expr as x
from minitvm.te import nodes as te
from minitvm.tir import nodes as t

from ..programs import Parameter, Program

PATTERNS: tuple[tuple[int, ...], ...] = ((-1, -1), (1, 1), (-1, 1))  # signs of the tensors, repeated in order
ORDERED = (x.Min, x.Max, x.LT, x.LE, x.GT, x.GE, x.EQ, x.NE)
_DECIDING = (x.LT, x.LE, x.GT, x.GE, x.EQ, x.NE)
_CALLS = ("vector_reduce_min", "vector_reduce_max")


def looks_at_order(program: Program) -> bool:
    """Return whether a program compares values that depend on its data, or takes the maximum or minimum of them."""
    return any(compares_data(n) for n in nodes(program))


def signs(parameters: Sequence[Parameter]) -> Iterator[list[int]]:
    """Yield, for each distinct pattern, a sign for each parameter; 0 for a parameter without a sign."""
    seen: list[list[int]] = []
    for pattern in PATTERNS:
        signs_of, count = [], 0
        for p in parameters:
            signed = p.is_input and p.shape is not None and p.dtype.kind not in ("uint", "bool", "handle")
            signs_of.append(pattern[count % len(pattern)] if signed else 0)
            count += signed
        if any(signs_of) and signs_of not in seen:
            seen.append(signs_of)
            yield signs_of


def with_signs(inputs: Sequence[Any], of_parameters: Sequence[int]) -> list[Any]:
    """Return arguments whose elements keep their magnitude (1 if it is 0) and have the sign of their parameter."""
    return [_signed(a, sign) if sign else a for a, sign in zip(inputs, of_parameters, strict=True)]


def _signed(array: Any, sign: int) -> np.ndarray:
    magnitude = np.abs(array)
    return np.asarray(sign * np.where(magnitude == 0, 1, magnitude)).astype(np.asarray(array).dtype)


def decides(n: x.Node) -> bool:
    """Return whether a node compares data. Maxima do not count, because they do not distinguish equal elements."""
    if isinstance(n, x.CommReducer):
        return any(isinstance(inner, _DECIDING) for inner in x.walk(n))
    return isinstance(n, _DECIDING) and compares_data(n)


def compares_data(n: x.Node) -> bool:
    """Return whether a node compares data, or takes the maximum or minimum of data."""
    if isinstance(n, x.CommReducer):
        return any(isinstance(inner, ORDERED) for inner in x.walk(n))
    if isinstance(n, x.Call) and n.op in _CALLS:
        return True
    if not isinstance(n, ORDERED):
        return False
    return n.a.dtype.is_float or any(isinstance(inner, t.BufferLoad | te.TensorLoad) for inner in x.walk(n))


def compared(program: Program) -> Iterator[x.Expr]:
    """Yield the expressions whose order matters: operands of comparisons, of maxima and minima, and of reducers."""
    for n in nodes(program):
        if isinstance(n, x.Reduce) and compares_data(n.combiner):
            yield from n.sources
        elif isinstance(n, x.Call) and compares_data(n):
            yield from n.args
        elif isinstance(n, ORDERED) and compares_data(n):
            yield from (n.a, n.b)


def classifies(n: x.Node) -> bool:
    """Return whether a node tests the class of a float: `isnan(x)`, `x != x`."""
    if isinstance(n, x.Call):
        return n.op in ("isnan", "isinf", "isfinite")
    return isinstance(n, x.EQ | x.NE) and n.a.dtype.is_float and x.structural_equal(n.a, n.b)


def may_multiply(n: x.Node) -> bool:
    """Return whether a product may overflow at this node; it may not if one of two factors is a constant of at most
    1.
    """
    if isinstance(n, x.Call):
        return n.dtype.is_float and n.op in ("fma", "pow", "dot2_bf16", "hypot")
    if not isinstance(n, x.Mul | x.Div | x.FloorDiv | x.Mod | x.FloorMod) or not n.dtype.is_float:
        return False
    if isinstance(n, x.Mul):
        return min(_magnitude(n.a), _magnitude(n.b)) > 1
    return not (isinstance(n, x.Div) and isinstance(n.b, x.FloatImm) and _magnitude(n.b) >= 1)


def _magnitude(e: x.Expr) -> float:
    """Return the magnitude of a constant; infinity for other expressions."""
    value: Any = e.value if isinstance(e, x.FloatImm) else math.inf
    return abs(float(value))


def nodes(program: Program) -> Sequence[x.Node]:
    """Return every node of a program: of each function, or of each tensor that the outputs need."""
    if not isinstance(program, t.PrimFunc | t.IRModule):
        return _of_tensors(program)
    if program not in _NODES:
        functions = [program] if isinstance(program, t.PrimFunc) else [func for _, func in program.items()]
        # The functions themselves are left out: a cached node must not keep its own key alive.
        _NODES[program] = [n for func in functions for n in x.walk(func) if n is not func]
    return _NODES[program]


_NODES: WeakKeyDictionary[t.PrimFunc | t.IRModule, list[x.Node]] = WeakKeyDictionary()


def _of_tensors(program: Sequence[Any]) -> list[x.Node]:
    nodes_seen: list[x.Node] = []
    seen: set[te.Tensor] = set()
    rest = [one for one in program if isinstance(one, te.Tensor)]
    while rest:
        tensor = rest.pop()
        if tensor in seen:
            continue
        seen.add(tensor)
        every = list(x.walk(tensor.op))
        nodes_seen += every
        rest += [n.tensor for n in every if isinstance(n, te.TensorLoad)]
    return nodes_seen
