"""How a block could be computed by a tensor intrinsic: which of its loops, or iterators, stand for the description's.

After TVM's functions of the same names. An answer is a candidate: `tensorize` decides whether the computation is the
intrinsic's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from ...arith import Analyzer
from ...expr import Expr, IntImm, IterVar, Node, Var, children, free_vars
from ..analysis.tree import statements
from ..conditions import is_const
from ..index_map import IndexMap
from ..nodes import BlockRealize, Buffer, BufferLoad, BufferStore, For, PrimFunc, Stmt, root_block
from .block_scope import StmtSRef
from .handles import BlockRV

if TYPE_CHECKING:
    from .schedule import Schedule


@dataclass(frozen=True)
class TensorizeInfo:
    """`loop_map`: from a loop of the block to that of the description; `desc_loop_indexer`: the latter's positions;
    `block_iter_paddings`: to which multiples the block's iterators would have to be padded, None where not at all."""

    loop_map: Mapping[StmtSRef, For]
    desc_loop_indexer: Mapping[For, int]
    block_iter_paddings: tuple[int, ...] | None = None


@dataclass(frozen=True)
class AutoTensorizeMappingInfo:
    """`mappings`: maps of the block's iterators, after which it may match the description; `lhs_` is of the block,
    `rhs_` of the description."""

    mappings: tuple[IndexMap, ...]
    lhs_buffer_map: Mapping[Buffer, Buffer]
    rhs_buffer_indices: Mapping[Buffer, tuple[Expr, ...]]
    lhs_iters: tuple[IterVar, ...]
    rhs_iters: tuple[IterVar, ...]


def _described(desc: PrimFunc) -> tuple[list[For], BlockRealize]:
    """The loops of a description, outermost first, and the block in them."""
    inner = [stmt for stmt in statements(root_block(desc).body) if isinstance(stmt, BlockRealize)]
    block = inner[0]
    loops = [stmt for stmt in statements(root_block(desc).body) if isinstance(stmt, For)]
    nested = [stmt for stmt in statements(block.block.body) if isinstance(stmt, For | BlockRealize)]
    if any(isinstance(stmt, BlockRealize) for stmt in nested):  # a block around the loops: what is inside counts
        block = next(stmt for stmt in nested if isinstance(stmt, BlockRealize))
        loops = [stmt for stmt in nested if isinstance(stmt, For)]
    return loops, block


def get_tensorize_loop_mapping(
    sch: Schedule, block: BlockRV | str, desc_func: PrimFunc, allow_padding: bool = False
) -> TensorizeInfo | None:
    """Which loops of a block stand for the loops of an intrinsic's description, its innermost ones first.

    A loop fits when it binds, with step 1, an iterator of the same kind, and the description's extent divides its own;
    with `allow_padding` the block's iterators may be padded to that. None where there is no such mapping.
    """
    realize = _realize(sch, block)
    tree = sch.state.home(realize)
    desc_loops, desc_block = _described(desc_func)
    loops: list[For] = []
    for loop in reversed(tree.loops_above(realize)):
        if not isinstance(loop.body, For | BlockRealize):
            break
        loops.insert(0, loop)
    if any(not is_const(loop.start, 0) for loop in loops):
        return None
    mapped: dict[StmtSRef, For] = {}
    paddings: dict[int, int] = {}
    next_iterator = len(realize.block.iter_vars) - 1
    for described in reversed(desc_loops):
        kind = _kind_of(described, desc_block)
        position = next(
            (k for k in range(next_iterator, -1, -1) if realize.block.iter_vars[k].kind == kind), None
        )  # from the last iterator on
        if position is None:
            return None
        next_iterator = position - 1
        bound = _with_step_one(realize.iter_values[position], loops)
        if bound is None:
            continue
        if not isinstance(bound.extent, IntImm) or not isinstance(described.extent, IntImm):
            return None
        if bound.extent.value % described.extent.value:
            if not allow_padding:
                return None
            paddings[position] = described.extent.value
        mapped[StmtSRef.of(bound, tree)] = described
    multiples = tuple(paddings.get(k, 1) for k in range(len(realize.iter_values))) if paddings else None
    return TensorizeInfo(mapped, {loop: k for k, loop in enumerate(desc_loops)}, multiples)


def _realize(sch: Schedule, block: BlockRV | str) -> BlockRealize:
    handle: BlockRV = sch.get_block(block) if isinstance(block, str) else block
    realize = sch.state.block(sch.get(handle).id)
    assert realize is not None  # the handle was just resolved
    return realize


def _kind_of(loop: For, block: BlockRealize) -> str | None:
    pairs = zip(block.block.iter_vars, block.iter_values, strict=True)
    return next((it.kind for it, value in pairs if loop.var in free_vars(value)), None)


def _with_step_one(binding: Expr, loops: list[For]) -> For | None:
    """The innermost loop that a binding uses with step 1."""
    analyzer = Analyzer()
    for loop in loops:
        rest = analyzer.simplify(binding - loop.var)
        if loop.var in free_vars(binding) and loop.var not in free_vars(rest):
            return loop
    return None


# ---- layouts -------------------------------------------------------------------------------------------------------


class _Differ(Exception):
    """Two expressions are not the same computation."""


def get_auto_tensorize_mapping_info(
    sch: Schedule, block: BlockRV | str, desc_func: PrimFunc
) -> AutoTensorizeMappingInfo | None:
    """Maps of a block's iterators after which it may match an intrinsic's description, whatever its indices are now.

    The two must store the same expression of loads. An iterator of the block stands for one of the description's when
    it is of the same kind and indexes the same buffers; those that stand for one are fused, in their order, those that
    stand for none come first. None where that leaves an iterator of the description without one, or is ambiguous.
    """
    realize = _realize(sch, block)
    _, desc = _described(desc_func)
    mine, described = realize.block.body, desc.block.body
    loads: dict[Buffer, tuple[Buffer, tuple[Expr, ...], tuple[Expr, ...]]] = {}
    try:
        _compare(mine, described, loads)
    except _Differ:
        return None
    lhs, rhs = realize.block.iter_vars, desc.block.iter_vars
    mapping = _fusing(lhs, rhs, loads)
    if mapping is None:
        return None
    return AutoTensorizeMappingInfo(
        (mapping,),
        {b: other for b, (other, _, _) in loads.items()},
        {other: theirs for other, _, theirs in loads.values()},
        lhs,
        rhs,
    )


def _compare(
    a: Stmt | Node, b: Stmt | Node, loads: dict[Buffer, tuple[Buffer, tuple[Expr, ...], tuple[Expr, ...]]]
) -> None:
    if type(a) is not type(b):
        raise _Differ
    if isinstance(a, BufferLoad | BufferStore) and isinstance(b, BufferLoad | BufferStore):
        if a.buffer.dtype != b.buffer.dtype:
            raise _Differ
        earlier = loads.setdefault(a.buffer, (b.buffer, a.indices, b.indices))
        taken = [other for buffer, (other, _, _) in loads.items() if buffer is not a.buffer]
        if earlier[0] is not b.buffer or b.buffer in taken:
            raise _Differ
        if isinstance(a, BufferStore) and isinstance(b, BufferStore):
            _compare(a.value, b.value, loads)
        return
    if isinstance(a, Expr) and isinstance(b, Expr) and a.dtype != b.dtype:
        raise _Differ
    parts, others = list(children(a)), list(children(b))
    if len(parts) != len(others) or _own_fields(a) != _own_fields(b):
        raise _Differ
    for part, other in zip(parts, others, strict=True):
        _compare(part, other, loads)


def _own_fields(node: Node) -> list[str]:
    """What a node holds besides its sub-nodes: a constant's value, an intrinsic's name."""
    return [f"{f.name}={getattr(node, f.name)}" for f in fields(node) if f.name not in node._children and f.compare]  # type: ignore[arg-type]


def _fusing(
    lhs: tuple[IterVar, ...],
    rhs: tuple[IterVar, ...],
    loads: Mapping[Buffer, tuple[Buffer, tuple[Expr, ...], tuple[Expr, ...]]],
) -> IndexMap | None:
    def where(var: Var, side: int) -> frozenset[Buffer]:
        # The buffers, as the description knows them, in whose indices a variable stands.
        return frozenset(
            entry[0] for entry in loads.values() if any(var in free_vars(index) for index in entry[1 + side])
        )

    sources = tuple(Var(it.var.name, it.var.dtype) for it in lhs)
    first: list[Expr] = []
    fused: dict[Var, Expr] = {}
    for it, source in zip(lhs, sources, strict=True):
        fitting = [other.var for other in rhs if other.kind == it.kind and where(other.var, 1) == where(it.var, 0)]
        if not fitting:
            first.append(source)
        elif len(fitting) == 1:
            so_far = fused.get(fitting[0])
            fused[fitting[0]] = source if so_far is None else so_far * it.dom.extent + source
        else:
            return None
    if any(other.var not in fused for other in rhs):
        return None
    return IndexMap(sources, (*first, *(fused[other.var] for other in rhs))).simplified()
