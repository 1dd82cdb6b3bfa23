"""Random loops that run in stages: software pipelines and double buffers, inside of concurrent loops too.

A pass over a loop loads rows, computes with them and stores or sums up, each part a nest of its own; the loop starts
anywhere and runs so often as a constant or a size says. Buffers between the parts hold one row, or one for each
iteration of this loop or of the one around it. Stages and order are drawn; what is not legal is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitvm.errors import ExecutionError
from minitvm.expr import Expr, Max, Var, binary, const, replace
from minitvm.reference import tir as reference
from minitvm.tir.analysis.software_pipelines import DOUBLE, ORDER, STAGE
from minitvm.tir.nodes import Buffer, BufferStore, For, ForKind, PrimFunc, Seq, Stmt, with_root
from tests.tir.transform.block_values import Known, block
from tests.tir.transform.draws import Draws

ROWS, OUTER = 6, 3  # iterations of the two loops, at most
SERIAL = ForKind.SERIAL


class Staged(Draws):
    """One program under construction."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.n = Var("n")
        self.columns = self.one(1, 2, 3)
        shape = (OUTER + 1, ROWS + 2, self.columns)
        self.inputs = [Buffer("A", shape, "int32"), Buffer("D", shape, "int32")]
        self.outputs = [Buffer("B", shape, "int32"), Buffer("C", (OUTER + 1, self.columns), "int32")]
        start, count = self.one(0, 0, 1), self.one(1, 2, 2, OUTER)
        self.outer = Known(Var("o"), start, min(start + count, OUTER + 1) - 1)
        start, self.count = self.one(0, 0, 0, 1, 2), self.one(1, 2, 3, 4)
        self.inner = Known(Var("i"), start, start + self.count - 1)
        self.between = [self.storage("S"), self.storage("R")]

    def storage(self, name: str) -> Buffer:
        shape: tuple[int, ...] = (self.columns,)
        kind = self.kind("one row", "one row", "rows of this loop", "rows of the outer loop", "rows of both")
        if kind in ("rows of this loop", "rows of both"):
            shape = (ROWS, *shape)
        if kind in ("rows of the outer loop", "rows of both"):
            shape = (OUTER + 1, *shape)
        return Buffer(f"{name}{kind.count('outer') + 2 * kind.count('both')}", shape, "int32")

    def at(self, buffer: Buffer, o: Expr, i: Expr, j: Expr) -> tuple[Expr, ...]:
        """The row of an iteration."""
        by_outer = buffer.name[1] in "12"
        rest = buffer.ndim - 1 - by_outer
        return (*((o,) if by_outer else ()), *((i,) if rest else ()), j)

    def part(self, kind: str, target: Buffer, sources: list[Buffer], notes: dict[str, Any]) -> Stmt:
        """A nest over the columns of a row."""
        v = self.var("j")
        known = [Known(self.var("v"), k.low, k.high) for k in (self.outer, self.inner)]
        known.append(Known(self.var("v"), 0, self.columns - 1))
        o, i, j = (k.var for k in known)
        source = self.one(*sources)
        column = self.columns - 1 - j if self.chance(1, 3) else j
        reads = source in self.inputs
        value: Expr = source[(o, i + self.one(0, 0, 1), column)] if reads else source[self.at(source, o, i, column)]
        if self.chance(1, 3):
            value = value * 2 + self.one(const(1), i, j)
        if self.chance(1, 3) and len(sources) > 1:
            other = self.one(*sources)
            value = value + (other[o, i, j] if other in self.inputs else other[self.at(other, o, i, j)])
        init: Stmt | None = None
        if kind == "sum":
            at: tuple[Expr, ...] = (o, j)
            init = BufferStore(target, const(self.int(-1, 1)), at) if self.chance(2, 3) else None
            value = target[at] + value if self.chance(2, 3) else binary(Max, target[at], value)
        elif kind == "history":
            at = (o, i + 1, j)
            value = target[o, i, j] + value
        else:
            at = (o, i, j) if target in self.outputs else self.at(target, o, i, j)
        predicate = v < self.one(self.columns - 1, self.columns) if self.chance(1, 8) else None
        values = (self.outer.var, self.inner.var, v)
        axes = [(k, "R" if kind == "sum" and k is known[1] else "S", e) for k, e in zip(known, values)]
        made = block(f"{kind}{v.name}", axes, BufferStore(target, value, at), init, predicate, 2, annotations=notes)
        return For(
            v, const(0), const(self.columns), self.one(SERIAL, SERIAL, ForKind.UNROLLED, ForKind.VECTORIZED), made
        )

    def func(self) -> PrimFunc:
        double = self.chance(1, 4)
        parts = [self.part("load", self.between[0], self.inputs, {DOUBLE: 0} if double else {})]
        known = [self.between[0]]
        if self.chance(1, 2):
            parts.append(self.part("compute", self.between[1], [*known, *known, self.inputs[1]], {}))
            known.append(self.between[1])
        ends = [self.one("store", "sum", "history"), *([self.one("store", "sum")] if self.chance(1, 3) else [])]
        for kind in dict.fromkeys(ends):
            parts.append(self.part(kind, self.outputs[kind == "sum"], [known[-1], known[-1], *known], {}))
        notes: dict[str, Any] = {}
        if not double or self.chance(1, 2):
            stages, stage = [], 0
            for k in range(len(parts)):
                stage += self.one(0, 1, 1, 2) if k else 0
                stages.append(stage)
            notes = {STAGE: stages}
            if self.chance(1, 2):
                order = list(range(len(parts)))
                self.random.shuffle(order)
                notes[ORDER] = order
        by_size = self.chance(1, 3)
        extent: Expr = self.n if by_size else const(self.count)
        low = const(self.inner.low)
        loop: Stmt = For(self.inner.var, low, extent, SERIAL, Seq(tuple(parts)), annotations=notes)
        kind = self.one(SERIAL, SERIAL, ForKind.PARALLEL, ForKind.PARALLEL, ForKind.UNROLLED, ForKind.VECTORIZED)
        count = self.outer.high - self.outer.low + 1
        loop = For(self.outer.var, const(self.outer.low), const(count), kind, loop)
        params = (*self.inputs, *self.outputs, self.n)
        return with_root(params, loop, {"global_symbol": "main"}, tuple(self.between[: len(known)]))


UPDATED = ("B", "C")


def staged_program(seed: int) -> tuple[PrimFunc, list[Any], list[Any]] | None:
    """The program of a seed, arguments, and what they are afterwards; None where it has no meaning."""
    maker = Staged(seed)
    func = maker.func()
    rng = np.random.default_rng(seed)
    shapes = [tuple(int(d.value) for d in p.shape) for p in func.buffers]  # type: ignore[attr-defined]
    args: list[Any] = [rng.integers(-3, 5, shape).astype("int32") for shape in shapes]
    args.append(int(rng.integers(0, maker.count + 1)))
    for version in (func, outside_in_order(func)):
        after = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        try:
            reference.run(version, *after, inout=UPDATED)
            return version, args, after
        except ExecutionError:
            continue
    return None


def outside_in_order(func: PrimFunc) -> PrimFunc:
    """The function with a serial outer loop."""
    root = func.body.block  # type: ignore[attr-defined]
    return func.with_body(replace(func.body, block=replace(root, body=replace(root.body, kind=SERIAL))))
