"""Every access of a buffer below a node, with what stands around it: the one walk behind regions and their checks.

And what a single store does with the element that it writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ...expr import (
    Add,
    Call,
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
from ...expr.conditions import certain_parts
from ..nodes import (
    BlockRealize,
    Buffer,
    BufferData,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    If,
    LetStmt,
    Stmt,
    While,
)


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
    elif isinstance(node, Call) and node.op == "address_of" and isinstance(node.args[0], BufferLoad):
        for index in node.args[0].indices:  # the element itself is not read
            yield from _accesses(index, around)
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


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a buffer, handed to a foreign call, and what that call may do: read the buffer, write it, both."""

    node: Node
    buffer: Buffer
    read: bool = True
    write: bool = True


def addresses(node: Node) -> Iterator[Address]:
    """The addresses that are handed out below a node, blocks inside not counted: they declare what is done."""
    if isinstance(node, BlockRealize | BufferRegion):
        return
    if isinstance(node, Call) and node.op == "tvm_access_ptr" and isinstance(node.args[1], BufferData):
        mask = node.args[4]
        bits = mask.value if isinstance(mask, IntImm) else 3
        yield Address(node, node.args[1].buffer, bool(bits & 1), bool(bits & 2))
        return
    buffer = handed_out(node)
    if buffer is not None:
        yield Address(node, buffer)
    for child in children(node):
        yield from addresses(child)


def handed_out(node: Node) -> Buffer | None:
    """The buffer of which a node is the address; None for any other node."""
    if isinstance(node, BufferData):
        return node.buffer
    if isinstance(node, Call) and node.op == "address_of" and isinstance(node.args[0], BufferLoad):
        return node.args[0].buffer
    return None


def reads_buffer(node: Expr | Stmt, buffer: Buffer) -> bool:
    """Whether a buffer is loaded anywhere inside, or its address is handed out."""
    return any(isinstance(part, BufferLoad | BufferData) and part.buffer is buffer for part in walk(node))


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
