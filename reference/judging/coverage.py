"""Which sides of comparisons and clips the inputs of a check took: `Coverage`, filled by watched runs.

A verdict is about the inputs that were tried. Where a comparison of data held everywhere, or a clip never clipped,
nothing was seen of the other side, and the verdict says so. Runs of `reference.check` on plain numbers are watched in
the fast mode; what nobody watched is not reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from minitvm import expr as x
from minitvm.te import nodes as te
from minitvm.tir import nodes as t

from ..fast.grid import MASK, GridCompiler
from ..meaning import operations
from ..meaning.scalar import Environment, Evaluate, ScalarCompiler, Value

Compiler = TypeVar("Compiler", bound=ScalarCompiler)
SHOWN = 3  # places that a verdict lists
_CLIPS = (x.Min, x.Max)
_COMPARISONS = (x.LT, x.LE, x.GT, x.GE, x.EQ, x.NE)
_BOTH = 3  # both sides were taken


class Coverage:
    """For each comparison and clip that was evaluated, the sides that it took: bits, 1 for no, 2 for yes.

    A comparison takes a side by its result, a maximum or minimum by whether its constant is the result.
    """

    def __init__(self) -> None:
        self.sides: dict[x.Expr, int] = {}

    def note(self, site: x.Expr, condition: Value, mask: Any) -> None:
        """Add the sides taken at the points of a mask."""
        if type(condition) is not np.ndarray:
            self.sides[site] |= 2 if condition else 1
            return
        if mask is not None:
            condition = np.broadcast_to(condition, np.broadcast_shapes(condition.shape, mask.shape))
            condition = condition[np.broadcast_to(mask, condition.shape)]
        if condition.size:
            yes = np.count_nonzero(condition)
            self.sides[site] |= (2 if yes else 0) | (1 if yes < condition.size else 0)

    def forget(self) -> None:
        """Begin anew: nothing was taken."""
        self.sides.update(dict.fromkeys(self.sides, 0))

    @property
    def complete(self) -> bool:
        """Whether every place took both sides."""
        return all(sides in (0, _BOTH) for sides in self.sides.values())

    def never(self) -> list[str]:
        """The sides that were never taken, as text."""
        texts: dict[str, None] = {}
        for site, sides in self.sides.items():
            if sides in (1, 2):
                texts[_side_text(site, sides == 2)] = None
        return list(texts)


def _side_text(site: x.Expr, yes: bool) -> str:
    if isinstance(site, _CLIPS):
        return f"{site} {'always' if yes else 'never'} clips"
    return f"{site} {'always' if yes else 'never'} holds"


def coverage_of(program: Any) -> Coverage:
    """A coverage that remembers nothing: the same one for a function each time, as compiled code reports to it."""
    if not isinstance(program, t.PrimFunc | t.IRModule):
        return Coverage()
    coverage = _KNOWN.setdefault(program, Coverage())
    coverage.forget()
    return coverage


_KNOWN: WeakKeyDictionary[t.PrimFunc | t.IRModule, Coverage] = WeakKeyDictionary()


def watched(kind: type[Compiler], coverage: Coverage | None) -> type[Compiler]:
    """The compiler class whose code reports to a coverage; the class itself without one."""
    if coverage is None:
        return kind
    return type(f"Watched{kind.__name__}", (Watching, kind), {"coverage": coverage})


class Watching(GridCompiler):
    """Mixed into a compiler of the fast mode; see `watched`."""

    coverage: Coverage

    def _binary(self, e: x.BinaryOp) -> Evaluate:
        if not is_site(e):
            return super()._binary(e)
        a, b = self.expr(e.a), self.expr(e.b)
        on_arrays = operations.on_arrays(type(e), e.a.dtype)
        on_values = operations.on_values(type(e), e.a.dtype.scalar)
        coverage, sides = self.coverage, self.coverage.sides
        clip = _clipping(e) if isinstance(e, _CLIPS) else None
        sides.setdefault(e, 0)

        def evaluate(env: Environment) -> Value:
            first, second = a(env), b(env)
            if type(first) is np.ndarray or type(second) is np.ndarray:
                result = on_arrays(first, second, env[MASK])
            else:
                result = on_values(first, second)
            if sides[e] != _BOTH:
                coverage.note(e, result if clip is None else clip(first, second), env[MASK])
            return result

        return evaluate


def _clipping(e: Any) -> Callable[[Value, Value], Value]:
    """Whether the constant of a maximum or minimum is the result, and the other operand is not."""
    least = isinstance(e, x.Min) != (not _reads(e.a))
    return (lambda a, b: a > b) if least else (lambda a, b: a < b)


def is_site(e: x.BinaryOp) -> bool:
    """Whether a node compares data, or clips it at a constant."""
    if not isinstance(e, (*_CLIPS, *_COMPARISONS)):
        return False
    both = _reads(e.a), _reads(e.b)
    return both[0] != both[1] if isinstance(e, _CLIPS) else any(both)


def _reads(e: x.Expr) -> bool:
    return any(isinstance(n, t.BufferLoad | te.TensorLoad) or (isinstance(n, x.Var) and n.dtype.is_float)
               for n in x.walk(e))  # fmt: skip
