"""What a kernel's body does with the buffers that it is called with: read, written first, or read and then written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ...arith import Analyzer
from ...expr import Expr, IntImm, Node, Ramp, Range, Select, Var, children, walk
from ..nodes import Allocate, Buffer, BufferLoad, BufferStore, For, If, LetStmt, Seq, Stmt, While


@dataclass(slots=True)
class _Elements:
    """A bound of the elements that some accesses touch: how many, and between which offsets; None: not known."""

    count: int | None = 0
    low: int | None = None
    high: int | None = None
    known: bool = True  # whether `low` and `high` hold for all of them

    def add(self, other: _Elements) -> None:
        self.count = None if self.count is None or other.count is None else self.count + other.count
        self.known = self.known and other.known
        if other.low is not None and other.high is not None:
            self.low = other.low if self.low is None else min(self.low, other.low)
            self.high = other.high if self.high is None else max(self.high, other.high)

    def surely_miss(self, read: _Elements) -> bool:
        """Whether an access reads an element that is none of these."""
        if self.count is not None and self.count == 0:
            return True
        if not (self.known and read.known) or read.low is None or read.high is None:
            return False
        return self.low is None or self.high is None or read.low < self.low or read.high > self.high


def buffer_access(body: Node) -> dict[Buffer, str]:
    """What each buffer that a statement accesses is for: "r" read only, "w" written first, "rw" read, then written.

    A buffer whose first access in program order is a store holds nothing that matters before, unless a later statement
    reads elements that no store before it reaches: a part that is written first is not the whole. Offsets are compared
    statement by statement; inside a loop any iteration may have written what another one reads.
    """
    modes: dict[Buffer, str] = {}
    for item in walk(body):
        if isinstance(item, BufferStore):
            if item.buffer not in modes:
                loads = any(isinstance(n, BufferLoad) and n.buffer is item.buffer for n in walk(item))
                modes[item.buffer] = "r" if loads else "w"
            if modes[item.buffer] == "r":
                modes[item.buffer] = "rw"
        elif isinstance(item, BufferLoad):
            modes.setdefault(item.buffer, "r")
    stored: dict[Buffer, _Elements] = {}
    analyzer = Analyzer()
    for statement in _in_order(body):
        touched = list(_touched(statement, {}, analyzer))
        for access, elements in touched:
            if isinstance(access, BufferStore):
                stored.setdefault(access.buffer, _Elements()).add(elements)
        for access, elements in touched:
            if isinstance(access, BufferLoad) and modes[access.buffer] == "w":
                if stored.get(access.buffer, _Elements()).surely_miss(elements):
                    modes[access.buffer] = "rw"
    return modes


def elements_written(body: Node) -> dict[Buffer, int | None]:
    """An upper bound of the elements of each buffer that a statement stores to; None where there is none."""
    stored: dict[Buffer, _Elements] = {}
    for access, elements in _touched(body, {}, Analyzer()):
        if isinstance(access, BufferStore):
            stored.setdefault(access.buffer, _Elements()).add(elements)
    return {buffer: elements.count for buffer, elements in stored.items()}


def _in_order(body: Node) -> Iterator[Node]:
    """The statements of a body that run one after the other."""
    if isinstance(body, Seq):
        for part in body.stmts:
            yield from _in_order(part)
    elif isinstance(body, Allocate):
        yield from _in_order(body.body)
    else:
        yield body


def _touched(
    node: Node, loops: dict[Var, int | None], analyzer: Analyzer, guarded: bool = False
) -> Iterator[tuple[BufferLoad | BufferStore, _Elements]]:
    guards = isinstance(node, If | While | Select) or getattr(node, "op", "") == "if_then_else"
    for child in children(node):
        inner = loops
        if isinstance(node, For) and child is node.body:
            inner = {**loops, node.var: node.extent.value if isinstance(node.extent, IntImm) else None}
            analyzer.bind(node.var, Range(node.start, node.extent))
        elif isinstance(node, LetStmt) and isinstance(child, Stmt):
            inner = {**loops, node.var: None}
        yield from _touched(child, inner, analyzer, guarded or guards)
    if isinstance(node, BufferLoad | BufferStore):
        elements = _elements(node, loops, analyzer)
        if isinstance(node, BufferLoad) and (guarded or node.predicate is not None):
            elements.known = False  # which of them are read, a condition decides
        yield node, elements


def _elements(access: BufferLoad | BufferStore, loops: dict[Var, int | None], analyzer: Analyzer) -> _Elements:
    used = {v for index in access.indices for v in walk(index) if isinstance(v, Var)}
    counts = [loops[v] for v in used if v in loops]
    lanes = max([index.dtype.lanes for index in access.indices], default=1)
    count = None if None in counts else prod(c for c in counts if c is not None) * lanes
    ends = _ends(access.indices[0], analyzer) if len(access.indices) == 1 else (None, None)
    return _Elements(count, *ends, known=None not in ends)


def _ends(index: Expr, analyzer: Analyzer) -> tuple[int | None, int | None]:
    if isinstance(index, Ramp) and isinstance(index.stride, IntImm):
        low, high = analyzer.bounds(index.base)
        reach = index.stride.value * (index.lanes - 1)
        return (None if low is None else low + min(0, reach), None if high is None else high + max(0, reach))
    return analyzer.bounds(index) if index.dtype.lanes == 1 else (None, None)
