"""Every access of a buffer below a node, with what stands around it: the one walk behind regions and their checks.

And what a single store does with the element that it writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ..expr import (
    Add,
    Expr,
    IntImm,
    Let,
    Max,
    Min,
    Mul,
    Node,
    Not,
    Range,
    Select,
    Var,
    children,
    const,
    structural_equal,
    substitute,
    walk,
)
from ..expr.conditions import certain_parts
from .nodes import BlockRealize, Buffer, BufferLoad, BufferStore, For, If, LetStmt, Stmt, While


@dataclass(frozen=True, slots=True)
class Access:
    """One access of a buffer: where it stands, the loops around it (inside of the node that was asked), the lets, and
    the conditions of statements under which it happens."""

    node: Node
    write: bool
    buffer: Buffer
    ranges: tuple[Range, ...]
    loops: Mapping[Var, Range]
    lets: Mapping[Var, Expr]
    guarded: bool
    conditions: tuple[Expr, ...] = ()


def accesses(node: Node) -> Iterator[Access]:
    """Every access below a node, in program order.

    A nested block counts by its signature: its declared regions, at the values of its iterators. `guarded` accesses
    stand under a condition.
    """
    yield from _accesses(node, _Around({}, {}))


def _accesses(node: Node, around: _Around) -> Iterator[Access]:
    if isinstance(node, BlockRealize):
        block = node.block
        values = {axis.var: value for axis, value in zip(block.iter_vars, node.iter_values)}
        local = {*block.alloc_buffers, *(m.buffer for m in block.match_buffers)}
        certain = isinstance(node.predicate, IntImm) and bool(node.predicate.value)
        inside = around if certain else around.under(node.predicate)
        for write, regions in ((False, block.reads), (True, block.writes)):
            for region in regions:
                if region.buffer not in local:
                    ranges = tuple(substitute(r, values) for r in region.region)
                    yield inside.access(region, write, region.buffer, ranges)
        for value in (*node.iter_values, node.predicate):
            yield from _accesses(value, around)
    elif isinstance(node, For):
        yield from _accesses(node.start, around)
        yield from _accesses(node.extent, around)
        inside = replace(around, loops={**around.loops, node.var: Range(node.start, node.extent)})
        yield from _accesses(node.body, inside)
    elif isinstance(node, LetStmt | Let):
        yield from _accesses(node.value, around)
        lets = {**around.lets, node.var: substitute(node.value, around.lets)}
        yield from _accesses(node.body, replace(around, lets=lets))
    elif isinstance(node, If):
        yield from _accesses(node.condition, replace(around, guarded=True))
        yield from _accesses(node.then_case, around.under(node.condition))
        if node.else_case is not None:
            yield from _accesses(node.else_case, around.under(Not(node.condition)))
    else:
        inside = replace(around, guarded=True)
        always, sometimes = ([], list(children(node))) if isinstance(node, While | Select) else certain_parts(node)
        for child in always:
            yield from _accesses(child, around)
        for child in sometimes:
            yield from _accesses(child, inside)
        if isinstance(node, BufferLoad | BufferStore):
            points = tuple(Range(i, const(1, i.dtype.scalar)) for i in node.indices)
            yield around.access(node, isinstance(node, BufferStore), node.buffer, points)


@dataclass(frozen=True, slots=True)
class _Around:
    """What stands around a node."""

    loops: Mapping[Var, Range]
    lets: Mapping[Var, Expr]
    guarded: bool = False
    conditions: tuple[Expr, ...] = ()

    def under(self, condition: Expr) -> _Around:
        return replace(self, guarded=True, conditions=(*self.conditions, condition))

    def access(self, node: Node, write: bool, buffer: Buffer, ranges: tuple[Range, ...]) -> Access:
        return Access(node, write, buffer, ranges, self.loops, self.lets, self.guarded, self.conditions)


def reads_buffer(node: Expr | Stmt, buffer: Buffer) -> bool:
    """Whether a buffer is loaded anywhere inside."""
    return any(isinstance(part, BufferLoad) and part.buffer is buffer for part in walk(node))


# A store `X[i] = X[i] op e` where e does not read X may run in any order of its iterations, for these operators.
_COMMUTATIVE = (Add, Mul, Min, Max)


def update_operand(store: BufferStore) -> Expr | None:
    """`e` of `X[i] = X[i] op e` with an associative, commutative `op` and no X in `e`; None for any other store."""
    value = store.value
    if not isinstance(value, _COMMUTATIVE):
        return None
    element = BufferLoad(store.buffer, store.indices)
    for own, other in ((value.a, value.b), (value.b, value.a)):
        if structural_equal(own, element) and not reads_buffer(other, store.buffer):
            return other
    return None
