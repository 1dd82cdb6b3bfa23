"""Find the landmarks of a program: constants in comparisons, clips and narrow casts, at which its behaviour may change.

Random inputs near zero never reach a clip at 20, and they never hit the 0.5 at which `>` and `>=` differ. So the modes
put these numbers, and their neighbours, into their inputs (`reference.judging.inputs.variations`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from minitvm import expr as x
from minitvm.te import nodes as te
from minitvm.tir import nodes as t

from ...domains.exact import is_identity
from ..programs import Program
from .signs import compares_data, looks_at_order, nodes

LARGEST = 2.0**40  # numbers beyond this are no places that an input should reach


def landmarks(program: Program) -> frozenset[Fraction]:
    """Return the constants in comparisons, maxima and minima of data, their initial values, and the ends of narrow
    casts.
    """
    every = list(nodes(program))
    values = {value for n in every if compares_data(n) for value in _constants(n)}
    for n in every:
        if isinstance(n, x.Cast) and _narrows(n):
            values |= {Fraction(int(n.dtype.min)), Fraction(int(n.dtype.max))}
    if looks_at_order(program):
        stored = (n.value for n in every if isinstance(n, t.BufferStore))
        values |= {value for e in stored for value in _constant(e)}
    return frozenset(values)


def points(program: Program) -> bool:
    """Return whether data may be part of an index."""
    every = list(nodes(program))
    if any(isinstance(n, t.LetStmt | x.Let) and _of_data(n.value) for n in every):
        return True
    indices = [i for n in every if isinstance(n, t.BufferStore | t.BufferLoad | te.TensorLoad) for i in n.indices]
    return any(isinstance(n, t.BufferLoad | te.TensorLoad) for i in indices for n in x.walk(i))


def sized_by_data(program: Program, dimensions: frozenset[str]) -> bool:
    """Return whether some number of iterations depends on data or on a scalar argument, not only on constants and
    dimensions.
    """
    every = list(nodes(program))
    if any(isinstance(n, t.While) for n in every):
        return True
    loops = {n.var for n in every if isinstance(n, t.For | x.IterVar)}
    extents = [e for n in every if isinstance(n, t.For) for e in (n.start, n.extent)]
    extents += [e for n in every if isinstance(n, x.Range) for e in (n.start, n.extent)]
    for n in every:
        buffers = n.alloc_buffers if isinstance(n, t.Block) else (n.buffer,) if isinstance(n, t.Allocate) else ()
        extents += [dim for b in buffers for dim in b.shape]
    for extent in extents:
        if any(isinstance(n, t.BufferLoad | te.TensorLoad) for n in x.walk(extent)):
            return True
        if any(v not in loops and v.name not in dimensions for v in x.free_vars(extent)):
            return True
    return False


def _narrows(e: x.Cast) -> bool:
    source, target = e.value.dtype, e.dtype
    if not target.is_int or target.bits > 32 or not _of_data(e.value):
        return False
    return source.is_float or (source.is_int and (source.bits > target.bits or source.kind != target.kind))


def _of_data(e: x.Expr) -> bool:
    return any(isinstance(n, t.BufferLoad | te.TensorLoad) or (isinstance(n, x.Expr) and n.dtype.is_float)
               for n in x.walk(e))  # fmt: skip


def _constants(e: x.Node) -> Iterator[Fraction]:
    """Yield the constants in an expression, except those in the indices of its loads."""
    stack = [e]
    while stack:
        n = stack.pop()
        if isinstance(n, x.IntImm | x.FloatImm):
            yield from _constant(n)
        elif not isinstance(n, t.BufferLoad | te.TensorLoad):
            stack.extend(x.children(n))


def _constant(e: x.Node) -> Iterator[Fraction]:
    if not isinstance(e, x.IntImm | x.FloatImm) or e.dtype.is_bool or is_identity(e):
        return
    value: Any = e.value
    if math.isfinite(value) and abs(value) <= LARGEST:
        yield Fraction(value)
