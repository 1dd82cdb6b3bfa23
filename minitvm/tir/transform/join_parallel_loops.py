"""Join consecutive parallel loops that touch different elements into a single loop with the iterations of all of them.

A kernel has one parallel loop, and threads wait between kernels. For example, a schedule may divide rows into groups of
four and a remainder: each loop has few iterations, and they are independent. If two loops write the same buffer,
integer sets decide whether they touch a common element (`arith.dependence`). If they write different buffers, and one
of them reads a buffer that the other writes, they are not joined; their elements are not compared.
"""

from __future__ import annotations

from ...arith.dependence import Access, find_dependence
from ...expr import Expr, IntImm, Var
from ..analysis.dependences import touched_point
from ..analysis.effects import Effects, effects
from ..conditions import is_const, iterations
from ..nodes import Allocate, Buffer, For, ForKind, If, LetStmt, PrimFunc, Seq, Stmt


def join_parallel_loops(func: PrimFunc) -> PrimFunc:
    """Join the parallel loops at the top of a function that touch different elements.

    before:
        for i in T.parallel(4):
            B[i] = A[i] * 2.0
        for j in T.parallel(3):
            B[j + 4] = A[j + 4] + 1.0
    after, simplified:
        for i_j in T.parallel(7):
            if i_j < 4:
                i: T.int32 = i_j
                B[i] = A[i] * 2.0
            else:
                j: T.int32 = i_j - 4
                B[j + 4] = A[j + 4] + 1.0
    """
    return func.with_body(_visit(func.body))


def _visit(stmt: Stmt) -> Stmt:
    if isinstance(stmt, Allocate):
        return Allocate(stmt.buffer, _visit(stmt.body), stmt.annotations)
    if not isinstance(stmt, Seq):
        return stmt
    parts: list[Stmt] = []
    together: list[For] = []
    for part in stmt.stmts:
        loop = part if isinstance(part, For) and _may_join(part) else None
        if loop is None or not _fit([*together, loop]) or not all(_apart(earlier, loop) for earlier in together):
            parts += _joined(together)
            together = []
        if loop is None:
            parts.append(_visit(part))
        else:
            together.append(loop)
    return Seq.of(*parts, *_joined(together))


def _may_join(loop: For) -> bool:
    return loop.kind is ForKind.PARALLEL and is_const(loop.start, 0) and not loop.annotations


def _fit(loops: list[For]) -> bool:
    """Return whether the dtype of the loop variables can count the iterations of all loops together.

    Symbolic extents are ignored if the dtype has at least 32 bits; with a smaller dtype, they are refused.
    """
    dtype = loops[0].var.dtype
    if any(loop.var.dtype != dtype for loop in loops):
        return False
    known = [loop.extent.value for loop in loops if isinstance(loop.extent, IntImm)]
    return sum(known) <= dtype.max and (len(known) == len(loops) or dtype.bits >= 32)


def _apart(first: For, second: For) -> bool:
    """Return whether no iteration of either loop touches an element that an iteration of the other loop writes."""
    one, other = effects(first), effects(second)
    written = [{touch.buffer for touch in each.writes} for each in (one, other)]
    if not written[0] & written[1]:
        read = [{touch.buffer for touch in each.reads} for each in (one, other)]
        return not (written[0] & read[1] or written[1] & read[0])
    points = [_points(each, written[0] | written[1]) for each in (one, other)]
    order = {point: (position,) for position, every in enumerate(points) for point in every}
    return find_dependence([*points[0], *points[1]], order, order, [0]) is None


def _points(touched: Effects, buffers: set[Buffer]) -> list[Access]:
    return [
        touched_point(t, write)
        for write, touches in ((False, touched.reads), (True, touched.writes))
        for t in touches
        if t.buffer in buffers
    ]


def _joined(loops: list[For]) -> list[For]:
    if len(loops) < 2:
        return list(loops)
    # Legal: iterations of a parallel loop run in any order, and `_apart` has shown that none touches what an iteration
    # of another loop writes. So all of them may run in any order. Each new iteration is exactly one of the old ones.
    var = Var("_".join(dict.fromkeys(loop.var.name for loop in loops)), loops[0].var.dtype)
    counts = [iterations(loop.extent).astype(loop.extent.dtype) for loop in loops]
    ends = [counts[0]]
    for count in counts[1:]:
        ends.append(ends[-1] + count)
    return [For(var, loops[0].start, ends[-1], ForKind.PARALLEL, _chosen(var, loops, ends))]


def _chosen(var: Var, loops: list[For], ends: list[Expr]) -> Stmt:
    """Return the body of iteration `var` of the joined loop: the body of the loop in `loops` that the iteration belongs
    to.

    `ends[k]` is the total number of iterations in loops 0 to k.
    """
    body: Stmt | None = None
    for number in reversed(range(len(loops))):
        own = var - ends[number - 1].astype(var.dtype) if number else var
        part = LetStmt(loops[number].var, own, loops[number].body)
        body = part if body is None else If(var < ends[number].astype(var.dtype), part, body)
    assert body is not None
    return body
