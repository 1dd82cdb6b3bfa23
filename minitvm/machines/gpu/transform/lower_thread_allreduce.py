"""Lower `AllReduce` to a tree in shared storage, or to shuffles of registers if the target's warps have them.

    for tx in thread_binding(4, "threadIdx.x"):
        S[tx] = P[0]                                         # S: shared; `insert_barriers` makes the threads wait
        if tx % 2 == 0: S[tx] = S[tx] + S[tx + 1]
        if tx % 4 == 0: S[tx] = S[tx] + S[tx + 2]
        R[0] = S[0]

With warps, it is for 64 threads (two warps), with a single barrier:

        v = P[0]
        v = v + shuffle_down(v, 1)                           # then 2, 4, 8, 16: the first lane gets the warp's total
        if tx % 32 == 0: W[tx // 32] = v                     # W: shared, a place for each warp
        v = W[tx % 32] where tx % 32 < 2, else the identity
        v = v + shuffle_down(v, 1)
        R[0] = shuffle(v, 0)                                 # to all lanes

Values are combined in the order of the threads. Shuffles are used if the threads of a reduction are adjacent and form a
part of a warp, one warp, or several whole warps (`_Warps.of` has the conditions). This corresponds to TVM's pass
LowerThreadAllreduce.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ....errors import Unsupported
from ....expr import EQ, LT, Call, DataVar, DType, Expr, IntImm, Var, const, contains, map_children, replace
from ....target import Target
from ....tir.all_reduce import AllReduce
from ....tir.analysis.threads import is_hardware_thread
from ....tir.conditions import all_of, is_const
from ....tir.nodes import Allocate, Buffer, BufferLoad, BufferStore, For, If, LetStmt, PrimFunc, Seq, Stmt
from ....tir.op import if_then_else, select
from ....tir.op import min as smaller

_AXES = "xyz"


def lower_thread_allreduce(func: PrimFunc, target: Target | None = None) -> PrimFunc:
    """Write out how threads combine their values. Runs after `drop_blocks` and before `bind_threads`.

    before:
        P = T.decl_buffer((1,), scope="local")
        total = T.decl_buffer((1,), scope="local")
        for tx in T.thread_binding(4, thread="threadIdx.x"):
            P[0] = A[tx]
            with T.attr(
                T.comm_reducer(lambda x, y: x + y, [0.0]), "reduce_scope", T.reinterpret("handle", T.uint64(0))
            ):
                T.tvm_thread_allreduce(T.uint32(1), P[0], T.bool(True), total[0], tx)
            B[tx] = total[0]
    after:
        P = T.decl_buffer((1,), scope="local")
        total = T.decl_buffer((1,), scope="local")
        total_shared = T.decl_buffer((4,), scope="shared")
        for tx in T.thread_binding(4, thread="threadIdx.x"):
            P[0] = A[tx]
            with T.decl_buffer((1,), scope="local") as total_own:
                total_own[0] = P[0]
                total_shared[tx] = total_own[0]
                if tx % 2 == 0:
                    total_shared[tx] = total_shared[tx] + total_shared[tx + 1]
                if tx % 4 == 0:
                    total_shared[tx] = total_shared[tx] + total_shared[tx + 2]
                total_own[0] = total_shared[0]
                total[0] = total_own[0]
            B[tx] = total[0]

    Raises `Unsupported` if a participating thread axis is not a loop around the statement, or if its extent is not
    known.
    """
    if not contains(func.body, AllReduce):
        return func
    warp = int(getattr(target, "warp_size", 1)) if getattr(target, "has_shuffles", False) else 1
    return func.with_body(_visit(func.body, warp))


def _visit(node: Any, warp: int) -> Any:
    if not isinstance(node, Stmt):
        return node
    if (isinstance(node, For) and str(node.thread).startswith("blockIdx")) or not _is_threads(node):
        return map_children(node, lambda child: _visit(child, warp))
    lowering = _AllreduceLowering(warp)
    nest: Stmt = lowering.visit(node, ())
    for buffer in reversed(lowering.shared):
        nest = Allocate(buffer, nest)
    return nest


def _is_threads(node: Any) -> bool:
    return isinstance(node, For) and is_hardware_thread(node)


class _AllreduceLowering:
    """Lowers the all-reductions in one nest of loops over threads. `shared` is the storage that they need outside of
    the nest.
    """

    def __init__(self, warp: int) -> None:
        self.warp = warp
        self.shared: list[Buffer] = []

    def visit(self, node: Any, loops: tuple[For, ...]) -> Any:
        if not isinstance(node, Stmt):
            return node
        if isinstance(node, AllReduce):
            return self.lowered(node, loops)
        inner = (*loops, node) if isinstance(node, For) and is_hardware_thread(node) else loops
        return map_children(node, lambda child: self.visit(child, inner))

    def lowered(self, stmt: AllReduce, loops: tuple[For, ...]) -> Stmt:
        """Return the statements with which the threads combine their values, to be placed inside of the thread
        loops.
        """
        team = _team(stmt, loops)
        warps = _Warps.of(team, loops, self.warp)
        values = [if_then_else(stmt.condition, v, i) if not is_const(stmt.condition, 1) else v
                  for v, i in zip(stmt.values, stmt.reducer.identity, strict=True)]  # fmt: skip
        results = [store.buffer for store in stmt.stores]
        own = [Buffer(f"{r.name}_own", (const(1),), r.dtype, "local") for r in results]
        body = self.by_shuffles(stmt, team, warps, own) if warps else self.by_a_tree(stmt, team, loops, own)
        begin = [BufferStore(o, v, (const(0),)) for o, v in zip(own, values, strict=True)]
        end = [replace(s, value=BufferLoad(o, (const(0),))) for s, o in zip(stmt.stores, own, strict=True)]
        whole = Seq.of(*begin, *body, *end)
        for buffer in reversed(own):
            whole = Allocate(buffer, whole)
        return whole

    # -- a tree in shared storage

    def by_a_tree(self, stmt: AllReduce, team: Team, loops: Sequence[For], own: Sequence[Buffer]) -> list[Stmt]:
        """Store each thread's values to shared storage, then combine neighbours, then pairs of neighbours, and so
        on.
        """
        if team.count == 1:
            return []
        others = [l for l in loops if l not in team.loops]
        extents = [l.extent for l in others]
        where = tuple(l.var - l.start for l in others)
        room = [self.room(o, (*extents, const(team.count))) for o in own]
        me = team.index

        def at(index: Expr) -> tuple[BufferLoad, ...]:
            return tuple(BufferLoad(b, (*where, index)) for b in room)

        parts: list[Stmt] = [
            BufferStore(s.buffer, BufferLoad(o, (const(0),)), s.indices) for s, o in zip(at(me), own, strict=True)
        ]
        step = 1
        while step < team.count:
            conditions: list[Expr] = [EQ(me % (2 * step), const(0))]
            if team.count % (2 * step):
                conditions.append(LT(me + step, const(team.count)))
            combined = stmt.reducer.apply(at(me), at(me + step))
            parts.append(If(all_of(conditions), _stored(at(me), combined)))
            step *= 2
        parts += [BufferStore(o, s, (const(0),)) for o, s in zip(own, at(const(0)), strict=True)]
        return parts

    def room(self, like: Buffer, shape: tuple[Expr, ...]) -> Buffer:
        """Return a new shared buffer for values of a dtype."""
        buffer = Buffer(f"{like.name.removesuffix('_own')}_shared", shape, like.dtype, "shared")
        self.shared.append(buffer)
        return buffer

    # -- shuffles

    def by_shuffles(self, stmt: AllReduce, team: Team, warps: _Warps, own: Sequence[Buffer]) -> list[Stmt]:
        """Combine the registers of a warp's lanes by shuffles. The totals of several warps go through shared
        storage.
        """
        width, me = warps.width, team.index
        if team.count <= warps.size:
            lanes = team.count
            parts = _down(stmt, own, warps, me % width if team.count < warps.size else me, lanes)
            return [*parts, *_to_all(own, warps)]
        lane, warp = me % width, me // width
        count = -(-team.count // width)
        rest = team.count % width
        here: Expr | int = select(LT(warp, const(count - 1)), const(width), const(rest)) if rest else width
        parts = _down(stmt, own, warps, lane, here)
        others = warps.others
        extents = [l.extent for l in others]
        where = tuple(l.var - l.start for l in others)
        room = [self.room(o, (*extents, const(count))) for o in own]
        put = [BufferStore(b, BufferLoad(o, (const(0),)), (*where, warp)) for b, o in zip(room, own, strict=True)]
        parts.append(If(EQ(lane, const(0)), Seq.of(*put)))
        for b, o, identity in zip(room, own, stmt.reducer.identity, strict=True):
            total = BufferLoad(b, (*where, lane))
            parts.append(BufferStore(o, if_then_else(LT(lane, const(count)), total, identity), (const(0),)))
        second = here if rest else count
        parts += _down(stmt, own, warps, lane, second if rest else min(count, width), upto=count)
        return [*parts, *_to_all(own, warps)]


def _down(
    stmt: AllReduce, own: Sequence[Buffer], warps: _Warps, lane: Expr, lanes: Expr | int, upto: int | None = None
) -> list[Stmt]:
    """Combine the values of lanes, in order, into the first lane. `upto` limits how many lanes count.

    If the number of lanes is a power of two, they fill a section of the warp, and shuffles stay in the section.
    Otherwise they are all lanes of a warp, and no lane reads beyond the last one.
    """
    first = (const(0),)
    count = upto or (lanes if isinstance(lanes, int) else warps.width)
    whole = isinstance(lanes, int) and lanes & (lanes - 1) == 0
    parts: list[Stmt] = []
    step = 1
    while step < count:
        shown = [DataVar(f"{o.name.removesuffix('_own')}_next", o.dtype) for o in own]
        old = tuple(BufferLoad(o, first) for o in own)
        last = const(lanes - 1) if isinstance(lanes, int) else lanes - 1
        combined = stmt.reducer.apply(old, tuple(shown))
        if not whole:
            inside = LT(lane + step, const(lanes) if isinstance(lanes, int) else lanes)
            combined = tuple(select(inside, c, o) for c, o in zip(combined, old, strict=True))
        body = _stored(old, combined)
        for name, load in reversed(list(zip(shown, old, strict=True))):
            if whole:
                moved = shuffle(
                    "tvm_warp_shuffle_down", warps.mask, load, const(step), warps.section(lanes), warps.size
                )
            else:
                moved = shuffle(
                    "tvm_warp_shuffle", warps.mask, load, smaller(lane + step, last), warps.size, warps.size
                )
            body = LetStmt(name, moved, body)
        parts.append(body)
        step *= 2
    return parts


def _to_all(own: Sequence[Buffer], warps: _Warps) -> list[Stmt]:
    """Copy the value of a section's first lane to all of its lanes."""
    first = (const(0),)
    return [
        BufferStore(
            o, shuffle("tvm_warp_shuffle", warps.mask, BufferLoad(o, first), const(0), warps.width, warps.size), first
        )
        for o in own
    ]


def shuffle(op: str, mask: Expr, value: Expr, by: Expr, width: int, size: int) -> Expr:
    """Return `T.tvm_warp_shuffle*(mask, value, lane or offset, width, warp size)`, which reads a value from another
    lane.
    """
    return Call(value.dtype, op, (mask, value, by, const(width), const(size)))


@dataclass(frozen=True, slots=True)
class Team:
    """The threads that combine values: their loops, outermost first, their number, and the index of a thread among
    them.
    """

    loops: tuple[For, ...]
    count: int
    index: Expr


def _team(stmt: AllReduce, loops: Sequence[For]) -> Team:
    around = {loop.var: loop for loop in loops}
    mine: list[For] = []
    for thread in stmt.threads:
        loop = around.get(thread) if isinstance(thread, Var) else None
        if loop is None or not isinstance(loop.extent, IntImm):
            what = "no loop over threadIdx around it" if loop is None else f"a loop of {loop.extent} threads"
            raise Unsupported(
                f"tvm_thread_allreduce over {thread}: which threads combine?\n"
                f"  wanted: variables of loops over threadIdx of constant extents\n  found:  {what}"
            )
        if not is_const(loop.extent, 1):
            mine.append(loop)
    index: Expr = const(0)
    for loop in mine:
        place = loop.var - loop.start if not is_const(loop.start, 0) else loop.var
        index = place if is_const(index, 0) else index * loop.extent + place
    return Team(tuple(mine), prod(_number(l.extent) for l in mine), index)


@dataclass(frozen=True, slots=True)
class _Warps:
    """The position of the combining threads in warps of `size` lanes: sections of `width` lanes, with the loops
    `others` around.
    """

    size: int
    width: int
    mask: Expr
    others: tuple[For, ...]

    def section(self, lanes: Expr | int) -> int:
        """Return the size of the section that these lanes fill."""
        return lanes if isinstance(lanes, int) else self.width

    @staticmethod
    def of(team: Team, loops: Sequence[For], size: int) -> _Warps | None:
        """Return the layout of the threads in warps, or None if they do not form sections of warps or the target has no
        shuffles.

        A block numbers its threads along x first. So a reduction's threads are adjacent if they are the threads along
        x, along y and x, or along z, y and x. They then form sections of warps if they are all threads of the block.
        Otherwise, the block must consist of whole warps, and the number of threads must be whole warps, or a power of
        two that is part of a warp.
        """
        axes = {str(loop.thread)[-1]: loop for loop in loops}
        extents = [axes[a].extent if a in axes else const(1) for a in _AXES]
        if size < 2 or team.count < 2 or not all(isinstance(e, IntImm) for e in extents):
            return None
        counted = [a for a in _AXES if a in axes and not is_const(axes[a].extent, 1)]
        mine = [str(loop.thread)[-1] for loop in reversed(team.loops)]
        if counted[: len(mine)] != mine or team.count > size * size:
            return None
        whole = prod(map(_number, extents))
        others = tuple(l for l in loops if l not in team.loops)
        full = IntImm((1 << size) - 1, DType("uint32"))
        power = team.count & (team.count - 1) == 0
        if whole % size == 0 and ((power and team.count <= size) or team.count % size == 0):
            return _Warps(size, min(team.count, size), full, others)
        if whole != team.count:
            return None
        if team.count <= size:
            width = team.count if power else size
            return _Warps(size, width, IntImm((1 << team.count) - 1, DType("uint32")), others)
        rest = IntImm((1 << team.count % size) - 1, DType("uint32"))
        last = team.count // size
        if team.count % size <= last:
            return None  # the last warp has fewer lanes than there are warps, whose totals each warp combines
        return _Warps(size, size, select(LT(team.index, const(last * size)), full, rest), others)


def _stored(places: Sequence[BufferLoad], values: Sequence[Expr]) -> Stmt:
    """Store several values, after computing all of them first."""
    if len(places) == 1:
        return BufferStore(places[0].buffer, values[0], places[0].indices)
    names = [DataVar(f"v_{p.buffer.name}", p.dtype) for p in places]
    body = Seq.of(*(BufferStore(p.buffer, n, p.indices) for p, n in zip(places, names, strict=True)))
    for name, value in reversed(list(zip(names, values, strict=True))):
        body = LetStmt(name, value, body)
    return body


def _number(extent: Expr) -> int:
    assert isinstance(extent, IntImm)  # `lower_thread_allreduce` refused other extents
    return int(extent.value)
