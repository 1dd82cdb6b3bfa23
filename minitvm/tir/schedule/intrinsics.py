"""Using an intrinsic: its implementation as a copy of its own, and its description as a program to try it on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import InputError, report
from ...expr import Expr, IntImm, Range, Var, const, find, map_children, replace, substitute
from ..analysis.declared import with_declared_regions
from ..analysis.tree import fresh_copy, with_own_keys
from ..nodes import (
    Block,
    BlockId,
    BlockRealize,
    Buffer,
    BufferData,
    BufferLoad,
    BufferRegion,
    BufferStore,
    IRModule,
    MatchBufferRegion,
    PrimFunc,
    Seq,
    Stmt,
    with_root,
)
from .access_remapping import point_block
from .registry import Refused, lookup
from .state import ScheduleState

if TYPE_CHECKING:
    from ..tensor_intrin import TensorIntrin


def check_intrinsic(intrin: TensorIntrin, **options: Any) -> Any:
    """Whether an implementation computes what its description says: a `Verdict` of the reference interpreter.

    Both run on a tile inside of larger buffers, so that strides and offsets count. `options` are those of
    `reference.check`.
    """
    from ...reference import check

    func = embedded(intrin)
    # Not through a `Schedule`: what has no name yet leaves no trace.
    state = ScheduleState(IRModule({"main": func}), "main")
    arguments = {"block_or_loop": state.block_named("tile"), "tensor_intrin": intrin, "preserve_unit_iters": True}
    try:
        lookup("tensorize").run(state, arguments)
    except Refused as refused:
        expected, fault = refused.failure.wanted, refused.failure.found
        text = f"{intrin.name} cannot stand in the place of its own description: {refused.requirement.name}"
        raise InputError(report(text, wanted=expected, found=fault)) from None
    return check(func, state.mod["main"], **options)


_LOW, _HIGH = (1, 2), (2, 1)  # elements before and after the tile, in even and odd dimensions


def embedded(intrin: TensorIntrin) -> PrimFunc:
    """A function with a block "tile" that does what the description says inside of buffers larger on every side.

    Where a parameter of the implementation declares constant strides, its buffer is the tile alone.
    """
    places: dict[Buffer, tuple[Buffer, tuple[int, ...]]] = {}
    params: list[Buffer | Var] = []
    for described, implemented in zip(intrin.desc.params, intrin.impl.params, strict=False):
        if not isinstance(described, Buffer) or not isinstance(implemented, Buffer):
            params.append(described)
            continue
        if not all(isinstance(d, IntImm) for d in described.shape):
            raise InputError(f"{intrin.name}: the shape of {described.name} is not constant, so it cannot be tried out")
        tight = any(isinstance(s, IntImm) for s in implemented.strides[:-1])
        low = tuple(0 if tight else _LOW[d % 2] for d in range(described.ndim))
        high = tuple(0 if tight else _HIGH[d % 2] for d in range(described.ndim))
        shape = tuple(
            const(int(d) + a + b) for d, a, b in zip(described.shape, low, high, strict=False) if isinstance(d, IntImm)
        )
        large = Buffer(described.name, shape, described.dtype, described.scope)
        places[described] = (large, low)
        params.append(large)

    def moved(node: Any) -> Any:
        rebuilt = map_children(node, moved)
        if isinstance(rebuilt, BufferLoad | BufferStore) and rebuilt.buffer in places:
            large, low = places[rebuilt.buffer]
            return replace(
                rebuilt,
                buffer=large,
                indices=tuple(i + n if n else i for i, n in zip(rebuilt.indices, low, strict=False)),
            )
        if isinstance(rebuilt, BufferRegion) and rebuilt.buffer in places:
            large, low = places[rebuilt.buffer]
            return BufferRegion(
                large,
                tuple(
                    Range(r.start + n if n else r.start, r.extent) for r, n in zip(rebuilt.region, low, strict=False)
                ),
            )
        return rebuilt

    tile: Block = with_declared_regions(replace(moved(intrin.pattern), name="tile", id=BlockId()))
    body: list[Stmt] = []
    written = {n.buffer for n in find(tile, BufferStore)}
    for large, _ in places.values():
        if large not in written:
            continue
        # What the tile adds to must hold something: it comes from one more parameter.
        start = replace(large, name=f"{large.name}_start")
        params.insert(0, start)

        def copied(v: tuple[Var, ...], large: Buffer = large, start: Buffer = start) -> BufferStore:
            return BufferStore(large, BufferLoad(start, v), v)

        body.append(point_block(f"{large.name}_in", large.shape, copied))
    body.append(BlockRealize((), const(True), tile))
    func = with_root(tuple(params), Seq.of(*body), {"global_symbol": "main"})
    return with_own_keys(func)


def renamed_inside(func: PrimFunc) -> PrimFunc:
    """A copy of a function with loops, blocks, variables and buffers of its own, as each use of it must have."""
    names: dict[Var, Expr] = {}
    buffers: dict[Buffer, Buffer] = {}

    def fresh(buffer: Buffer) -> Buffer:
        if buffer not in buffers:
            for part in (*buffer.strides, buffer.elem_offset, *buffer.shape):
                if isinstance(part, Var):
                    names.setdefault(part, part.with_name(part.name))
            buffers[buffer] = substitute(replace(buffer), names)
        return buffers[buffer]

    params = tuple(fresh(p) if isinstance(p, Buffer) else p for p in func.params)

    def go(node: Any) -> Any:
        rebuilt = map_children(node, go)
        if isinstance(rebuilt, Block):
            allocated = tuple(map(fresh, rebuilt.alloc_buffers))
            return replace(rebuilt, alloc_buffers=allocated)
        if isinstance(rebuilt, BufferLoad | BufferStore | BufferRegion | BufferData):
            return replace(rebuilt, buffer=fresh(rebuilt.buffer))
        if isinstance(rebuilt, MatchBufferRegion):
            return replace(rebuilt, buffer=fresh(rebuilt.buffer))
        return rebuilt

    body = substitute(go(fresh_copy(func.body)), names)
    return PrimFunc(params, body, func.attrs)
