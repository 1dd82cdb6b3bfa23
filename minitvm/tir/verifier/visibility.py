"""Every node of a function with what is visible there: variables, buffers, loops and blocks around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from ...expr import Expr, Let, Node, Var, children, walk
from ..nodes import Allocate, Block, BlockRealize, Buffer, BufferData, BufferLoad, BufferRegion, For, LetStmt, PrimFunc


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What surrounds a place. `block_loops` are the loops outside of the innermost block, `guarded` says that an `if`
    or a guarding expression stands between that block and the place."""

    variables: frozenset[Var] = frozenset()
    buffers: frozenset[Buffer] = frozenset()
    loops: tuple[For, ...] = ()
    block: Block | None = None
    block_loops: frozenset[Var] = frozenset()
    guarded: bool = False

    def with_variables(self, *variables: Var) -> Surroundings:
        """The same with more variables."""
        return replace(self, variables=self.variables | set(variables))

    def with_buffers(self, *buffers: Buffer) -> Surroundings:
        """The same with more buffers."""
        return replace(self, buffers=self.buffers | set(buffers))


def scope_of_function(func: PrimFunc) -> Surroundings:
    """What the signature defines: parameters and symbolic dimensions."""
    scalars = [p for p in func.params if isinstance(p, Var)]
    return Surroundings(frozenset([*scalars, *dimensions(func)]), frozenset(func.buffers))


def dimensions(func: PrimFunc) -> list[Var]:
    """The variables that the buffers of the signature use in shapes, strides and offsets."""
    parts = [part for b in func.buffers for part in (*b.shape, *b.strides, b.elem_offset)]
    return list(dict.fromkeys(item for part in parts for item in walk(part) if isinstance(item, Var)))


@lru_cache(maxsize=1)
def scoped(func: PrimFunc) -> Sequence[tuple[Node, Surroundings]]:
    """Every node below the function with its surroundings, in program order.

    The regions of a block know its iterators, and not what it allocates or views.
    Kept for the function that was asked about last: the rules of the verifier ask one after the other.
    """
    rows: list[tuple[Node, Surroundings]] = []
    _visit(func.body, scope_of_function(func), rows)
    return rows


def _visit(node: Node, scope: Surroundings, rows: list[tuple[Node, Surroundings]]) -> None:
    rows.append((node, scope))
    if isinstance(node, For):
        _visit(node.start, scope, rows)
        _visit(node.extent, scope, rows)
        inner = scope.with_variables(node.var)
        _visit(node.body, replace(inner, loops=(*scope.loops, node)), rows)
    elif isinstance(node, LetStmt | Let):
        _visit(node.value, scope, rows)
        _visit(node.body, scope.with_variables(node.var), rows)
    elif isinstance(node, Allocate):
        _visit(node.body, scope.with_buffers(node.buffer), rows)
    elif isinstance(node, Block):
        _visit_block(node, scope, rows)
    else:
        inner = replace(scope, guarded=True) if _guards(node) else scope
        defined = [v for name in node._defs for v in _as_tuple(getattr(node, name)) if isinstance(v, Var)]
        inner = inner.with_variables(*defined) if defined else inner
        for child in children(node):
            _visit(child, inner, rows)


def _as_tuple(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)


def _visit_block(block: Block, scope: Surroundings, rows: list[tuple[Node, Surroundings]]) -> None:
    for axis in block.iter_vars:
        _visit(axis.dom, scope, rows)
    inner = scope.with_variables(*(axis.var for axis in block.iter_vars))
    inner = replace(inner, block=block, block_loops=frozenset(loop.var for loop in scope.loops), guarded=False)
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
def every_node(func: PrimFunc) -> Sequence[Node]:
    """The nodes of a function's body as `walk` gives them, kept as in `scoped`."""
    return tuple(walk(func.body))


def _guards(node: Node) -> bool:
    if isinstance(node, BlockRealize):
        return False
    return type(node).__name__ in ("If", "While", "Select") or getattr(node, "op", None) == "if_then_else"


def used_buffer(node: Node) -> Buffer | None:
    """The buffer that a load, store, region or address names."""
    if isinstance(node, BufferLoad | BufferRegion | BufferData) or type(node).__name__ == "BufferStore":
        return node.buffer  # type: ignore[attr-defined]
    return None


def conditions(node: Node) -> list[Expr]:
    """The expressions of a node that must be true or false."""
    names = ("condition", "predicate")
    return [value for name in names if isinstance(value := getattr(node, name, None), Expr)]
