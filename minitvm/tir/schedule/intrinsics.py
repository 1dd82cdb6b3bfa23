"""Helpers for using an intrinsic: a fresh copy of its implementation, and a test program built from its description."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from ... import expr as ex
from ...arith import Analyzer
from ...errors import InputError, report
from .. import nodes as tir
from ..analysis.block_regions import with_declared_regions
from ..analysis.tree import fresh_copy, statements, with_own_keys
from ..conditions import is_const
from ..index_map import IndexMap
from .access_remapping import point_block
from .block_scope import StmtSRef
from .handles import BlockRV
from .registry import Refused, lookup
from .state import ScheduleState

if TYPE_CHECKING:
    from ..tensor_intrin import TensorIntrin
    from .schedule import Schedule


def check_intrinsic(intrin: TensorIntrin, **options: Any) -> Any:
    """Check that the implementation of an intrinsic computes what its description says. Returns the `Verdict` of the
    reference interpreter.

    Both run on a tile inside larger buffers, so that wrong strides and offsets are noticed. `options` are those of
    `reference.check`.
    """
    from ...reference import check

    func = embedded(intrin)
    # A `Schedule` is not used: its trace could not refer to an intrinsic without a name.
    state = ScheduleState(tir.IRModule({"main": func}), "main")
    arguments = {"block_or_loop": state.block_named("tile"), "tensor_intrin": intrin, "preserve_unit_iters": True}
    try:
        lookup("tensorize").run(state, arguments)
    except Refused as refused:
        expected, fault = refused.failure.wanted, refused.failure.found
        text = f"{intrin.name} cannot stand in the place of its own description: {refused.requirement.name}"
        raise InputError(report(text, wanted=expected, found=fault)) from None
    return check(func, state.mod["main"], **options)


_LOW, _HIGH = (1, 2), (2, 1)  # elements before and after the tile, in even and odd dimensions


def embedded(intrin: TensorIntrin) -> tir.PrimFunc:
    """Return a function with a block "tile" that performs the description of an intrinsic inside larger buffers.

    If the implementation declares constant strides for a parameter, the buffer of this parameter is exactly the tile.
    """
    places: dict[tir.Buffer, tuple[tir.Buffer, tuple[int, ...]]] = {}
    params: list[tir.Buffer | ex.Var] = []
    for described, implemented in zip(intrin.desc.params, intrin.impl.params, strict=False):
        if not isinstance(described, tir.Buffer) or not isinstance(implemented, tir.Buffer):
            params.append(described)
            continue
        if not all(isinstance(d, ex.IntImm) for d in described.shape):
            raise InputError(f"{intrin.name}: the shape of {described.name} is not constant, so it cannot be tried out")
        tight = any(isinstance(s, ex.IntImm) for s in implemented.strides[:-1])
        low = tuple(0 if tight else _LOW[d % 2] for d in range(described.ndim))
        high = tuple(0 if tight else _HIGH[d % 2] for d in range(described.ndim))
        shape = tuple(
            ex.const(int(d) + a + b)
            for d, a, b in zip(described.shape, low, high, strict=False)
            if isinstance(d, ex.IntImm)
        )
        large = tir.Buffer(described.name, shape, described.dtype, described.scope)
        places[described] = (large, low)
        params.append(large)

    def moved(node: Any) -> Any:
        rebuilt = ex.map_children(node, moved)
        if isinstance(rebuilt, tir.BufferLoad | tir.BufferStore) and rebuilt.buffer in places:
            large, low = places[rebuilt.buffer]
            return ex.replace(
                rebuilt,
                buffer=large,
                indices=tuple(i + n if n else i for i, n in zip(rebuilt.indices, low, strict=False)),
            )
        if isinstance(rebuilt, tir.BufferRegion) and rebuilt.buffer in places:
            large, low = places[rebuilt.buffer]
            return tir.BufferRegion(
                large,
                tuple(
                    ex.Range(r.start + n if n else r.start, r.extent) for r, n in zip(rebuilt.region, low, strict=False)
                ),
            )
        return rebuilt

    tile: tir.Block = with_declared_regions(ex.replace(moved(intrin.pattern), name="tile", id=tir.BlockId()))
    body: list[tir.Stmt] = []
    written = {n.buffer for n in ex.find(tile, tir.BufferStore)}
    for large, _ in places.values():
        if large not in written:
            continue
        # The values to which the tile adds must be initialised: they come from one more parameter.
        start = ex.replace(large, name=f"{large.name}_start")
        params.insert(0, start)

        def copied(v: tuple[ex.Var, ...], large: tir.Buffer = large, start: tir.Buffer = start) -> tir.BufferStore:
            return tir.BufferStore(large, tir.BufferLoad(start, v), v)

        body.append(point_block(f"{large.name}_in", large.shape, copied))
    body.append(tir.BlockRealize((), ex.const(True), tile))
    func = tir.with_root(tuple(params), tir.Seq.of(*body), {"global_symbol": "main"})
    return with_own_keys(func)


def renamed_inside(func: tir.PrimFunc) -> tir.PrimFunc:
    """Return a copy of a function with new loops, blocks, variables and buffers, because each use of the function needs
    its own.
    """
    names: dict[ex.Var, ex.Expr] = {}
    buffers: dict[tir.Buffer, tir.Buffer] = {}

    def fresh(buffer: tir.Buffer) -> tir.Buffer:
        if buffer not in buffers:
            for part in (*buffer.strides, buffer.elem_offset, *buffer.shape):
                if isinstance(part, ex.Var):
                    names.setdefault(part, part.with_name(part.name))
            buffers[buffer] = ex.substitute(ex.replace(buffer), names)
        return buffers[buffer]

    params = tuple(fresh(p) if isinstance(p, tir.Buffer) else p for p in func.params)

    def go(node: Any) -> Any:
        rebuilt = ex.map_children(node, go)
        if isinstance(rebuilt, tir.Block):
            allocated = tuple(map(fresh, rebuilt.alloc_buffers))
            return ex.replace(rebuilt, alloc_buffers=allocated)
        if isinstance(rebuilt, tir.BufferLoad | tir.BufferStore | tir.BufferRegion | tir.BufferData):
            return ex.replace(rebuilt, buffer=fresh(rebuilt.buffer))
        if isinstance(rebuilt, tir.MatchBufferRegion):
            return ex.replace(rebuilt, buffer=fresh(rebuilt.buffer))
        return rebuilt

    body = ex.substitute(go(fresh_copy(func.body)), names)
    return tir.PrimFunc(params, body, func.attrs)


# --- How a tensor intrinsic could compute a block: which of its loops, or iterators, correspond to the description's.
# These are TVM's functions of the same names. The result is a candidate: `tensorize` decides whether the computations
# are equal.


@dataclass(frozen=True)
class TensorizeInfo:
    """A mapping from the loops of a block to the loops of a description.

    `loop_map` maps each loop of the block to one of the description, and `desc_loop_indexer` gives the positions of the
    latter. If the block's iterators must be padded first, `block_iter_paddings` has a factor for each of them: pad its
    extent to a multiple of this factor. It is None if no padding is needed.
    """

    loop_map: Mapping[StmtSRef, tir.For]
    desc_loop_indexer: Mapping[tir.For, int]
    block_iter_paddings: tuple[int, ...] | None = None


@dataclass(frozen=True)
class AutoTensorizeMappingInfo:
    """The ways to transform a block's iterators so that the block may match a description.

    `mappings` are maps of the block's iterators. Fields that start with `lhs_` describe the block, and those that start
    with `rhs_` the description.
    """

    mappings: tuple[IndexMap, ...]
    lhs_buffer_map: Mapping[tir.Buffer, tir.Buffer]
    rhs_buffer_indices: Mapping[tir.Buffer, tuple[ex.Expr, ...]]
    lhs_iters: tuple[ex.IterVar, ...]
    rhs_iters: tuple[ex.IterVar, ...]


def _described(desc: tir.PrimFunc) -> tuple[list[tir.For], tir.BlockRealize]:
    """Return the loops of a description, outermost first, and the block inside them."""
    inner = [stmt for stmt in statements(tir.root_block(desc).body) if isinstance(stmt, tir.BlockRealize)]
    block = inner[0]
    loops = [stmt for stmt in statements(tir.root_block(desc).body) if isinstance(stmt, tir.For)]
    nested = [stmt for stmt in statements(block.block.body) if isinstance(stmt, tir.For | tir.BlockRealize)]
    if any(isinstance(stmt, tir.BlockRealize) for stmt in nested):  # a block around the loops: use those inside
        block = next(stmt for stmt in nested if isinstance(stmt, tir.BlockRealize))
        loops = [stmt for stmt in nested if isinstance(stmt, tir.For)]
    return loops, block


def get_tensorize_loop_mapping(
    sch: Schedule, block: BlockRV | str, desc_func: tir.PrimFunc, allow_padding: bool = False
) -> TensorizeInfo | None:
    """Find the loops of a block that correspond to the loops of an intrinsic's description, starting with the
    innermost.

    A loop corresponds if it binds an iterator of the same kind with step 1, and if its extent is divisible by the
    description's extent. With `allow_padding`, the block's iterators may be padded to make their extents divisible.
    Returns None if there is no such mapping.
    """
    realize = _realize(sch, block)
    tree = sch.state.home(realize)
    desc_loops, desc_block = _described(desc_func)
    loops: list[tir.For] = []
    for loop in reversed(tree.loops_above(realize)):
        if not isinstance(loop.body, tir.For | tir.BlockRealize):
            break
        loops.insert(0, loop)
    if any(not is_const(loop.start, 0) for loop in loops):
        return None
    mapped: dict[StmtSRef, tir.For] = {}
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
        if not isinstance(bound.extent, ex.IntImm) or not isinstance(described.extent, ex.IntImm):
            return None
        if bound.extent.value % described.extent.value:
            if not allow_padding:
                return None
            paddings[position] = described.extent.value
        mapped[StmtSRef.of(bound, tree)] = described
    multiples = tuple(paddings.get(k, 1) for k in range(len(realize.iter_values))) if paddings else None
    return TensorizeInfo(mapped, {loop: k for k, loop in enumerate(desc_loops)}, multiples)


def _realize(sch: Schedule, block: BlockRV | str) -> tir.BlockRealize:
    handle: BlockRV = sch.get_block(block) if isinstance(block, str) else block
    realize = sch.state.block(sch.get(handle).id)
    assert realize is not None  # the handle was just resolved
    return realize


def _kind_of(loop: tir.For, block: tir.BlockRealize) -> str | None:
    pairs = zip(block.block.iter_vars, block.iter_values, strict=True)
    return next((it.kind for it, value in pairs if loop.var in ex.free_vars(value)), None)


def _with_step_one(binding: ex.Expr, loops: list[tir.For]) -> tir.For | None:
    """Return the loop that a binding uses with step 1; None if there is none."""
    analyzer = Analyzer()
    for loop in loops:
        rest = analyzer.simplify(binding - loop.var)
        if loop.var in ex.free_vars(binding) and loop.var not in ex.free_vars(rest):
            return loop
    return None


# ---- layouts -------------------------------------------------------------------------------------------------------


class _Differ(Exception):
    """Raised if two expressions are not the same computation."""


def get_auto_tensorize_mapping_info(
    sch: Schedule, block: BlockRV | str, desc_func: tir.PrimFunc
) -> AutoTensorizeMappingInfo | None:
    """Find maps of a block's iterators after which the block may match a description, regardless of its current
    indices.

    The block and the description must store the same expression of loads. An iterator of the block corresponds to one
    of the description if it has the same kind and indexes the same buffers. Iterators of the block that correspond to
    the same iterator of the description are fused in order; iterators without a counterpart come first. Returns None if
    an iterator of the description has no counterpart, or if the choice is ambiguous.
    """
    realize = _realize(sch, block)
    _, desc = _described(desc_func)
    mine, described = realize.block.body, desc.block.body
    loads: dict[tir.Buffer, tuple[tir.Buffer, tuple[ex.Expr, ...], tuple[ex.Expr, ...]]] = {}
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
    a: tir.Stmt | ex.Node,
    b: tir.Stmt | ex.Node,
    loads: dict[tir.Buffer, tuple[tir.Buffer, tuple[ex.Expr, ...], tuple[ex.Expr, ...]]],
) -> None:
    if type(a) is not type(b):
        raise _Differ
    if isinstance(a, tir.BufferLoad | tir.BufferStore) and isinstance(b, tir.BufferLoad | tir.BufferStore):
        if a.buffer.dtype != b.buffer.dtype:
            raise _Differ
        earlier = loads.setdefault(a.buffer, (b.buffer, a.indices, b.indices))
        taken = [other for buffer, (other, _, _) in loads.items() if buffer is not a.buffer]
        if earlier[0] is not b.buffer or b.buffer in taken:
            raise _Differ
        if isinstance(a, tir.BufferStore) and isinstance(b, tir.BufferStore):
            _compare(a.value, b.value, loads)
        return
    if isinstance(a, ex.Expr) and isinstance(b, ex.Expr) and a.dtype != b.dtype:
        raise _Differ
    parts, others = list(ex.children(a)), list(ex.children(b))
    if len(parts) != len(others) or _own_fields(a) != _own_fields(b):
        raise _Differ
    for part, other in zip(parts, others, strict=True):
        _compare(part, other, loads)


def _own_fields(node: ex.Node) -> list[str]:
    """Return the fields of a node that are not sub-nodes, such as the value of a constant or the name of an intrinsic,
    each as text `name=value`.
    """
    return [f"{f.name}={getattr(node, f.name)}" for f in fields(node) if f.name not in node._children and f.compare]  # type: ignore[arg-type]


def _fusing(
    lhs: tuple[ex.IterVar, ...],
    rhs: tuple[ex.IterVar, ...],
    loads: Mapping[tir.Buffer, tuple[tir.Buffer, tuple[ex.Expr, ...], tuple[ex.Expr, ...]]],
) -> IndexMap | None:
    def where(var: ex.Var, side: int) -> frozenset[tir.Buffer]:
        # The buffers, as the description names them, whose indices use a variable.
        return frozenset(
            entry[0] for entry in loads.values() if any(var in ex.free_vars(index) for index in entry[1 + side])
        )

    sources = tuple(ex.Var(it.var.name, it.var.dtype) for it in lhs)
    first: list[ex.Expr] = []
    fused: dict[ex.Var, ex.Expr] = {}
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
