"""Visit every node of a function together with the variables, buffers, loops and blocks that are visible there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

from ...expr import Call, Expr, Let, Node, Range, Select, Var, children, find, walk
from ...expr.node import kept_with_node, through_slots
from .. import nodes as tir

S = TypeVar("S", bound=tir.Stmt)


@through_slots
@dataclass(frozen=True, slots=True)
class Surroundings:
    """The variables, buffers, loops and block that are visible at a place in a program.

    `block_loops` are the loops outside of the innermost block. `guarded` says whether an `if` or a guarding expression
    is between that block and the place.
    """

    variables: frozenset[Var] = frozenset()
    buffers: frozenset[tir.Buffer] = frozenset()
    loops: tuple[tir.For, ...] = ()
    block: tir.Block | None = None
    block_loops: frozenset[Var] = frozenset()
    guarded: bool = False

    def inside(self, loop: tir.For) -> Surroundings:
        """Return the surroundings inside an additional loop."""
        variables, loops = self.variables | {loop.var}, (*self.loops, loop)
        return Surroundings(variables, self.buffers, loops, self.block, self.block_loops, self.guarded)

    def with_variables(self, *variables: Var) -> Surroundings:
        """Return the surroundings with additional variables."""
        return replace(self, variables=self.variables | set(variables)) if variables else self

    def with_buffers(self, *buffers: tir.Buffer) -> Surroundings:
        """Return the surroundings with additional buffers."""
        return replace(self, buffers=self.buffers | set(buffers)) if buffers else self


def scope_of_function(func: tir.PrimFunc) -> Surroundings:
    """Return the surroundings that a signature defines: its parameters and symbolic dimensions."""
    scalars = [p for p in func.params if isinstance(p, Var)]
    return Surroundings(frozenset([*scalars, *dimensions(func)]), frozenset(func.buffers))


def dimensions(func: tir.PrimFunc) -> list[Var]:
    """Return the variables in the shapes, strides and offsets of a signature's buffers."""
    parts = [part for b in func.buffers for part in (*b.shape, *b.strides, b.elem_offset)]
    return list(dict.fromkeys(item for part in parts for item in find(part, Var)))


Row = tuple[Node, Surroundings, bool]


@lru_cache(maxsize=1)
def scoped(func: tir.PrimFunc) -> Sequence[Row]:
    """Return the nodes of a function with their surroundings, in program order.

    A row is a single node, or a whole tree whose nodes all have the same surroundings (its last element is then True).
    In the regions of a block, its iterators are visible, but not the buffers that it allocates or views. The result for
    the last function is cached, because all rules of the verifier need it.
    """
    rows: list[Row] = []
    _visit(func.body, scope_of_function(func), rows)
    return rows


def nodes_in(row: Row) -> Iterable[Node]:
    """Iterate over the nodes of a row, in program order."""
    return walk(row[0]) if row[2] else row[:1]


def statements_of(func: tir.PrimFunc, kind: type[S]) -> Iterator[tuple[S, Surroundings]]:
    """Iterate over the statements of a given class and their surroundings, in program order.

    `kind` must be a class of statements that contain other statements.
    """
    return ((node, scope) for node, scope, whole in scoped(func) if not whole and isinstance(node, kind))


def _visit(node: Node, scope: Surroundings, rows: list[Row]) -> None:
    if isinstance(node, _SMALL) and _in_one_scope(node):
        rows.append((node, scope, True))
        return
    rows.append((node, scope, False))
    if isinstance(node, tir.For):
        _visit(node.start, scope, rows)
        _visit(node.extent, scope, rows)
        _visit(node.body, scope.inside(node), rows)
    elif isinstance(node, tir.LetStmt | Let):
        _visit(node.value, scope, rows)
        _visit(node.body, scope.with_variables(node.var), rows)
    elif isinstance(node, tir.Allocate):
        _visit(node.body, scope.with_buffers(node.buffer), rows)
    elif isinstance(node, tir.Block):
        _visit_block(node, scope, rows)
    else:
        inner = replace(scope, guarded=True) if _guards(node) else scope
        defined = [v for name in node._defs for v in _as_tuple(getattr(node, name)) if isinstance(v, Var)]
        inner = inner.with_variables(*defined)
        for child in children(node):
            _visit(child, inner, rows)


_SMALL = (Expr, tir.BufferStore, tir.BufferRegion, Range)


@kept_with_node
def _in_one_scope(node: Node) -> bool:
    """Return whether all parts of a tree have the same surroundings."""
    return not any(part._defs or _guards(part) for part in walk(node))


def _as_tuple(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)


def _visit_block(block: tir.Block, scope: Surroundings, rows: list[Row]) -> None:
    for axis in block.iter_vars:
        _visit(axis.dom, scope, rows)
    iterators = scope.variables | {axis.var for axis in block.iter_vars}
    outside = frozenset(loop.var for loop in scope.loops)
    inner = Surroundings(iterators, scope.buffers, scope.loops, block, outside, guarded=False)
    for region in (*block.reads, *block.writes):
        _visit(region, inner, rows)
    inner = inner.with_buffers(*block.alloc_buffers)
    for match in block.match_buffers:
        _visit(match.source, inner, rows)
    views = [match.buffer for match in block.match_buffers]
    fields = [item for b in views for item in (*b.strides, b.elem_offset) if isinstance(item, Var)]
    inner = inner.with_buffers(*views).with_variables(*fields)  # strides and offset of a view are bound by it
    if block.init is not None:
        _visit(block.init, replace(inner, guarded=True), rows)
    _visit(block.body, inner, rows)


@lru_cache(maxsize=1)
def every_node(func: tir.PrimFunc) -> Sequence[Node]:
    """Return the nodes of a function's body in the order of `walk`. The result for the last function is cached."""
    return tuple(walk(func.body))


@lru_cache(maxsize=1)
def _nodes_by_class(func: tir.PrimFunc) -> dict[type, list[Node]]:
    nodes: dict[type, list[Node]] = {}
    for node in every_node(func):
        nodes.setdefault(node.__class__, []).append(node)
    return nodes


def nodes_with(func: tir.PrimFunc, *fields: str) -> Sequence[Node]:
    """Return the nodes of `every_node` that have at least one of the fields `fields`."""
    kinds = tuple(kind for kind in _nodes_by_class(func) if any(hasattr(kind, field) for field in fields))
    return nodes_of(func, *kinds)


def nodes_of(func: tir.PrimFunc, *kinds: type) -> Sequence[Node]:
    """Return the nodes of `every_node` that are instances of one of the classes `kinds`."""
    nodes = _nodes_by_class(func)
    present = {kind for kind in nodes if issubclass(kind, kinds)}
    if len(present) > 1:
        return [node for node in every_node(func) if node.__class__ in present]
    return nodes[present.pop()] if present else ()


def _guards(node: Node) -> bool:
    return isinstance(node, tir.If | tir.While | Select) or (isinstance(node, Call) and node.op == "if_then_else")


USES_BUFFER = (tir.BufferLoad, tir.BufferStore, tir.BufferRegion, tir.BufferData)


@kept_with_node
def buffers_in(node: Node) -> frozenset[tir.Buffer]:
    """Return the buffers used by loads, stores, regions and addresses in a tree."""
    return frozenset(buffer for part in walk(node) if (buffer := used_buffer(part)) is not None)


def used_buffer(node: Node) -> tir.Buffer | None:
    """Return the buffer that a load, store, region or address uses; None for any other node."""
    if isinstance(node, USES_BUFFER):
        return node.buffer
    return None


CONDITIONS = ("condition", "predicate")


def conditions(node: Node) -> list[Expr]:
    """Return the expressions of a node that must have dtype bool."""
    return [value for name in CONDITIONS if isinstance(value := getattr(node, name, None), Expr)]
