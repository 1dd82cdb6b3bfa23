"""A nest of loops that the fast mode runs all at once, and the checks for the accesses inside it."""

from __future__ import annotations

import math
from collections.abc import Callable

from minitvm import expr as x
from minitvm.tir import nodes as t

from ..meaning.warps import is_collective
from .dependence import Dependence, accesses_in, allocated_in


class Level:
    """A nest of loops that run together: `loops` are perfectly nested, and `body` is the body of the innermost loop."""

    def __init__(
        self, loops: list[t.For], outer: Level | None, facts: Dependence, grid: Callable[[t.For], bool]
    ) -> None:
        self.loops, self.outer = loops, outer
        self.body = loops[-1].body
        nodes = list(x.walk(self.body))
        self.barrier = any((isinstance(n, x.Call) and n.op == "tvm_storage_sync") or is_collective(n) for n in nodes)
        self.own = {facts.root(b) for b in allocated_in(nodes)}
        sizes = [math.prod(d.value if isinstance(d, x.IntImm) else 64 for d in b.shape) for b in allocated_in(nodes)]
        self.private = max(1, sum(sizes))
        self.lanes = max((n.dtype.lanes for n in nodes if isinstance(n, x.Expr)), default=1)
        # `once`: at any point, all accesses to the buffer use the same element, whatever runs inside.
        self.plans: dict[t.Buffer, str] = {}
        touched: dict[t.Buffer, list[tuple[t.Buffer, tuple[x.Expr, ...]]]] = {}
        accesses = accesses_in(nodes)
        for buffer, indices, _ in accesses:
            touched.setdefault(facts.root(buffer), []).append((buffer, indices))
        in_phases = self.barrier and any((loop.thread or "").startswith("threadIdx") for loop in loops)
        inner = {n.var for n in nodes if isinstance(n, t.For) and not grid(n)}
        for root in {facts.root(b) for b, _, writes in accesses if writes} - self.own:
            # After a barrier, a thread may access elements of another thread: only tracking distinguishes the phases.
            own = not in_phases and _same_element(touched[root], inner, facts)
            self.plans[root] = "once" if own else "track"


def _same_element(accesses: list[tuple[t.Buffer, tuple[x.Expr, ...]]], inner: set[x.Var], facts: Dependence) -> bool:
    first: tuple[x.Expr | None, ...] | None = None
    for buffer, indices in accesses:
        if buffer in facts.sources or facts.of_access(buffer, indices) & inner:
            return False
        resolved = tuple(facts.resolved(i) for i in indices)
        if None in resolved:
            return False
        if first is None:
            first = resolved
        elif not all(
            x.structural_equal(a, b) for a, b in zip(first, resolved, strict=True) if a is not None and b is not None
        ):
            return False
    return True
