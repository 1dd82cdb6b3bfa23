"""What the emitter knows about the values of integer variables: enough to choose cheap divisions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..expr import Add, Cast, Div, Expr, FloorDiv, FloorMod, IntImm, Max, Min, Mod, Mul, SizeVar, Sub, Var
from ..tir.nodes import For
from ..tir.transform.affine import Interval, bounds, loop_interval


class Ranges:
    """Intervals of variables in scope, and which are known not to be negative."""

    def __init__(self) -> None:
        self.intervals: dict[Var, Interval] = {}
        self.natural: set[Var] = set()

    def parameter(self, var: Var) -> None:
        """Note a scalar parameter."""
        if isinstance(var, SizeVar):
            self.natural.add(var)

    def let(self, var: Var, value: Expr) -> None:
        """Note a variable's value."""
        found = bounds(value, self.intervals)
        if found is not None:
            self.intervals[var] = found
        elif self.not_negative(value):
            self.natural.add(var)

    @contextmanager
    def loop(self, loop: For) -> Iterator[None]:
        """Note the values of a loop's variable."""
        found = loop_interval(loop.start, loop.extent, self.intervals)
        if found is not None:
            self.intervals[loop.var] = found
        elif self.not_negative(loop.start):
            self.natural.add(loop.var)
        yield

    def not_negative(self, e: Expr) -> bool:
        """Whether a value is certainly at least zero."""
        if isinstance(e, IntImm):
            return e.value >= 0
        found = bounds(e, self.intervals)
        if found is not None:
            return found[0] >= 0
        if isinstance(e, Var):
            return e in self.natural
        if isinstance(e, FloorMod):
            return isinstance(e.b, IntImm) and e.b.value > 0
        if isinstance(e, Sub):
            return False
        if isinstance(e, Max):
            return self.not_negative(e.a) or self.not_negative(e.b)
        if isinstance(e, Add | Mul | FloorDiv | Div | Mod | Min):
            return self.not_negative(e.a) and self.not_negative(e.b)
        return isinstance(e, Cast) and e.value.dtype.is_int and self.not_negative(e.value)
