"""Lower cross-thread reductions: each thread reduces a share into separate storage, and then the threads combine their
results.

This corresponds to TVM's pass LowerCrossThreadReduction. The order of the sum changes, as it does with `rfactor`. A
reducer that keeps the first of equal values must get its values in order, so its threads must be the outermost loops of
the reduction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .... import expr as ex
from ....arith import Analyzer
from ....errors import Unsupported, report
from ....tir import nodes as tir
from ....tir.all_reduce import AllReduce, AllReducer
from ....tir.analysis.bindings import why_not_injective
from ....tir.analysis.reducers import ReducerMatch
from ....tir.analysis.threads import adds_up, is_hardware_thread, reductions_over, thread_reduction
from ....tir.analysis.updates import Update, recognised
from ....tir.conditions import all_of, conjuncts, is_const, uses


def lower_thread_reductions(func: tir.PrimFunc) -> tir.PrimFunc:
    """Replace each reduction over threads with an `AllReduce`. Runs before `lower_init`.

    before:
        A: T.Buffer((128,), "float32")
        C: T.Buffer((1,), "float32")
        for ko in range(4):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                with T.block("C"):
                    v = T.axis.spatial(1, 0)
                    k = T.axis.reduce(128, ko * 32 + tx)
                    with T.init(): C[v] = 0.0
                    C[v] = C[v] + A[k]
    after:
        C_partial = T.alloc_buffer((1,), scope="local")
        C_total = T.alloc_buffer((1,), scope="local")
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            C_partial[0] = 0.0
            for ko in range(4):
                C_partial[0] = C_partial[0] + A[ko * 32 + tx]
            with T.attr(
                T.comm_reducer(lambda x, y: x + y, [0.0]), "reduce_scope", T.reinterpret("handle", T.uint64(0))
            ):
                T.tvm_thread_allreduce(T.uint32(1), C_partial[0], T.bool(True), C_total[0], tx)
            if tx == 0:
                C[0] = C_total[0]

    Raises `Unsupported`, naming the loop and the block, if a nest does not have the required form.
    """
    if thread_reduction(func) is None:
        return func
    return func.with_body(_Lowering(func).visit(func.body))


@dataclass(frozen=True, slots=True)
class _Reduction:
    """A block whose result threads compute together, and the loops around it, from the outermost loop of the nest
    on.
    """

    realize: tir.BlockRealize
    path: tuple[tir.For, ...]

    @property
    def block(self) -> tir.Block:
        return self.realize.block

    def variables(self, reduced: bool) -> set[ex.Var]:
        """Return the variables in the values of the reduction iterators, or in those of the other iterators."""
        pairs = zip(self.block.iter_vars, self.realize.iter_values, strict=True)
        return {v for axis, value in pairs if (axis.kind == ex.REDUCE) is reduced for v in ex.free_vars(value)}

    @property
    def over(self) -> list[tir.For]:
        """The loops that drive the reduction, outermost first."""
        reduced = self.variables(True)
        return [loop for loop in self.path if loop.var in reduced]

    @property
    def threads(self) -> list[tir.For]:
        """The loops of the reduction that run over more than one thread."""
        return [loop for loop in self.over if adds_up(loop)]

    @property
    def points(self) -> list[tir.For]:
        """The loops inside of the nest that run over results."""
        over = self.over
        return [l for l in self.path if l not in over and not is_hardware_thread(l)]


class _Lowering:
    def __init__(self, func: tir.PrimFunc) -> None:
        self.func = func
        self.allocated: list[tir.Buffer] = []  # for the block around

    def visit(self, node: Any) -> Any:
        if not isinstance(node, tir.Stmt):
            return node
        if isinstance(node, tir.Block):
            outer, self.allocated = self.allocated, []
            new = ex.map_children(node, self.visit)
            if self.allocated:
                new = ex.replace(new, alloc_buffers=(*new.alloc_buffers, *self.allocated))
            self.allocated = outer
            return new
        if isinstance(node, tir.For):
            nest = [r for r in _reductions(node, ()) if node in r.over]
            if any(r.threads for r in nest):
                return self.nest(node, [r for r in nest if r.threads])
        return ex.map_children(node, self.visit)

    def refuse(self, reduction: _Reduction, wanted: str, found: str, *tries: str) -> Unsupported:
        """Return the error for a reduction that does not have the required form, with its loop marked."""
        from ....tir.script.printer import script

        loop, name = reduction.threads[0], reduction.block.name
        return Unsupported(
            report(
                f"cross-thread reduction: {loop.var.name}, bound to {loop.thread}, drives a reduction of {name}",
                program=script(self.func, mark={loop: "its threads compute one result together"}, context=6),
                wanted=wanted,
                found=found,
                tries=tries
                or (f"rfactor({loop.var.name}, ...) in place of bind, then bind the partial results' loop",),
            )
        )

    def nest(self, outermost: tir.For, reductions: list[_Reduction]) -> tir.Stmt:
        """Rewrite a loop over a reduction and its body, so that the loops over its threads come outermost."""
        mine = {id(r.realize) for r in reductions}
        threads: dict[ex.Var, tir.For] = {}
        for r in reductions:
            for loop in r.threads:
                threads[loop.var] = loop
                for other in reductions_over(loop):
                    if id(other) not in mine:
                        raise self.refuse(r, "reductions over the same loops", f"{other.block.name} below it, too")
            self.check_loops(r)
        plain = isinstance(_below(outermost), tir.BlockRealize)
        spatial: dict[ex.Var, tir.For] = {}
        for r in reductions:
            for loop in r.path:
                if is_hardware_thread(loop):
                    if not plain:
                        raise self.refuse(
                            r,
                            "loops over threads around the reduction",
                            f"{loop.var.name} inside of {outermost.var.name}",
                        )
                    spatial[loop.var] = loop
        if not plain:
            self.check_beside(outermost, reductions)
        shares = [_Share(self, r) for r in reductions]
        updates: dict[ex.Node, tir.Stmt] = {share.of.realize: share.update() for share in shares}
        outside = {**spatial, **threads}
        body = _without(outermost, set(outside), updates)
        parts: list[tir.Stmt] = [*(share.start() for share in shares), self.visit(body), *(s.finish() for s in shares)]
        nest = tir.Seq.of(*parts)
        for loop in reversed(outside.values()):
            nest = ex.replace(loop, body=nest)
        return nest

    def check_loops(self, r: _Reduction) -> None:
        """Raise `Unsupported` if a loop does not divide the reduction into shares, or does not run over results."""
        reduced, spatial = r.variables(True), r.variables(False)
        bound = {loop.var for loop in r.path}
        for loop in r.path:
            if loop.var in reduced and loop.var in spatial:
                raise self.refuse(
                    r,
                    "loops over the reduction or over results, not both",
                    f"{loop.var.name} binds both kinds of iterators",
                )
            decided = [v.name for e in (loop.start, loop.extent) for v in ex.free_vars(e) if v in bound]
            if decided and loop in (*r.threads, *r.points):
                raise self.refuse(
                    r, f"as many iterations of {loop.var.name} in each", f"{decided[0]} decides their number"
                )
            if loop.kind in (tir.ForKind.PARALLEL, tir.ForKind.THREAD) and loop.var in reduced and not adds_up(loop):
                raise self.refuse(
                    r, "serial loops and loops over threadIdx", f"{loop.var.name} is {loop.thread or loop.kind}"
                )
        inside = [loop for loop in r.path if not is_const(loop.extent, 1)]
        reason = why_not_injective(r.realize, inside, Analyzer.inside(*r.path))
        if reason is not None:
            raise self.refuse(r, "each point of the reduction once", reason)
        for loop in r.threads:
            if not isinstance(loop.extent, ex.IntImm):
                raise self.refuse(r, "a constant number of threads", f"{loop.extent}")
        for condition in conjuncts(r.realize.predicate):
            if uses(condition, reduced & bound) and uses(condition, bound - reduced):
                raise self.refuse(r, "conditions on the reduction or on the result, not both", f"{condition}")

    def check_beside(self, outermost: tir.For, reductions: Sequence[_Reduction]) -> None:
        """Raise `Unsupported` if other statements in a nest use the results, or storage that becomes separate for each
        thread.
        """
        mine = {id(r.realize) for r in reductions}
        results = {store.buffer for r in reductions for store in ex.find(r.block, tir.BufferStore)}
        inside = {b for n in ex.find(outermost, tir.Block) for b in n.alloc_buffers}
        for node in ex.walk(outermost):
            if not isinstance(node, tir.BlockRealize) or id(node) in mine:
                continue
            for access in ex.walk(node.block):
                if not isinstance(access, tir.BufferLoad | tir.BufferStore):
                    continue
                if access.buffer in results:
                    raise self.refuse(
                        reductions[0], "results that are used behind the whole reduction",
                        f"block {node.block.name} uses {access.buffer.name} inside of {outermost.var.name}",
                    )  # fmt: skip
                if (
                    isinstance(access, tir.BufferStore)
                    and access.buffer.scope == "local"
                    and access.buffer not in inside
                ):
                    raise self.refuse(
                        reductions[0], "nothing but the reduction below its loops, or stages in shared storage",
                        f"block {node.block.name} fills {access.buffer.name} in local storage",
                    )  # fmt: skip


def _reductions(node: ex.Node, path: tuple[tir.For, ...]) -> list[_Reduction]:
    """Return the reduction blocks in a statement, outside of other blocks, with the loops around them."""
    if isinstance(node, tir.BlockRealize):
        found = any(axis.kind == ex.REDUCE for axis in node.block.iter_vars)
        return [_Reduction(node, path)] if found else []
    if isinstance(node, tir.For):
        return _reductions(node.body, (*path, node))
    if isinstance(node, tir.Seq):
        return [r for stmt in node.stmts for r in _reductions(stmt, path)]
    if isinstance(node, tir.If):
        return []
    return _reductions(node.body, path) if isinstance(node, tir.LetStmt) else []


def _below(stmt: tir.Stmt) -> tir.Stmt:
    """Return the statement inside of directly nested loops."""
    while isinstance(stmt, tir.For):
        stmt = stmt.body
    return stmt


def _without(node: Any, loops: set[ex.Var], instead: Mapping[ex.Node, tir.Stmt]) -> Any:
    """Return the statement without some loops, and with blocks replaced by the statements in `instead`."""
    if not isinstance(node, tir.Stmt):
        return node
    if node in instead:
        return instead[node]
    new: Any = ex.map_children(node, lambda child: _without(child, loops, instead))
    return new.body if isinstance(node, tir.For) and node.var in loops else new


class _Share:
    """One thread's share of a reduction."""

    def __init__(self, lowering: _Lowering, reduction: _Reduction) -> None:
        self.of, self.refuse = reduction, lowering.refuse
        read = recognised(reduction.block, without_init=True)
        if isinstance(read, str):
            raise self.refuse(reduction, "an update that a registered reducer describes", read)
        self.read: Update = read[0]
        self.match: ReducerMatch = read[1]
        if any(e.loops for e in self.read.elements):
            raise self.refuse(reduction, "one element of each result", "a block that accumulates rows")
        self.check_order()
        pairs = zip(reduction.block.iter_vars, reduction.realize.iter_values, strict=True)
        self.values: dict[ex.Var, ex.Expr] = {axis.var: value.astype(axis.var.dtype) for axis, value in pairs}
        dtypes = tuple(e.value.dtype for e in self.read.elements)
        self.identity = tuple(self.match.reducer.identity(dtypes))
        self.partial = [self.own(lowering, "partial", b) for b in self.read.buffers]
        self.total = [self.own(lowering, "total", b) for b in self.read.buffers]

    def own(self, lowering: _Lowering, what: str, result: tir.Buffer) -> tir.Buffer:
        """Return new storage of a thread, with an element for each result of the nest."""
        points = self.of.points
        extents = tuple(loop.extent for loop in points)
        if what == "total":
            points, extents = [], ()
        for loop in points:
            if not isinstance(loop.extent, ex.IntImm):
                raise self.refuse(
                    self.of, "a constant number of results inside of the reduction's loops",
                    f"{loop.var.name} has {loop.extent}",
                    f"reorder {loop.var.name} outside of the reduction's loops",
                )  # fmt: skip
        buffer = tir.Buffer(f"{result.name}_{what}", extents or (ex.const(1),), result.dtype, "local")
        lowering.allocated.append(buffer)
        return buffer

    def check_order(self) -> None:
        """Raise `Unsupported` if the order matters (the first of equal values) and a thread's share is not a contiguous
        range.
        """
        if self.match.reducer.commutative:
            return
        over, threads = self.of.over, self.of.threads
        if over[: len(threads)] != threads:
            raise self.refuse(
                self.of, f"threads outside of the reduction's other loops, as {self.match.reducer.name} goes in order",
                f"{over[0].var.name} around {threads[0].var.name}",
                f"reorder({threads[0].var.name}, {over[0].var.name})",
            )  # fmt: skip

    def at(self, buffers: Sequence[tir.Buffer], points: Sequence[ex.Expr]) -> tuple[tir.BufferLoad, ...]:
        """Return a load of one element of each buffer."""
        return tuple(tir.BufferLoad(b, tuple(points) if len(points) else (ex.const(0),)) for b in buffers)

    def start(self) -> tir.Stmt:
        """Return the statement that sets each partial result to the identity."""
        loops = [
            ex.replace(l, var=l.var.with_name(l.var.name), kind=tir.ForKind.SERIAL, thread=None) for l in self.of.points
        ]
        points = [l.var - l.start for l in loops]
        loads = self.at(self.partial, points)
        body = tir.Seq.of(*(tir.BufferStore(p.buffer, i, p.indices) for p, i in zip(loads, self.identity, strict=True)))
        return _around(loops, body)

    def update(self) -> tir.Stmt:
        """Return the block's update, applied to the thread's own partial results."""
        partial = self.at(self.partial, [l.var - l.start for l in self.of.points])
        operand = tuple(ex.substitute(e, self.values) for e in self.match.operand)
        combined = self.match.apply(tuple(partial), operand)
        stmt = _stored(partial, combined)
        predicate = self.of.realize.predicate
        return stmt if is_const(predicate, 1) else tir.If(predicate, stmt)

    def finish(self) -> tir.Stmt:
        """Return the statements in which threads combine their partial results, and one thread updates the block's
        result.
        """
        renamed: dict[ex.Var, ex.Expr] = {l.var: l.var.with_name(l.var.name) for l in self.of.points}
        loops = [ex.replace(l, var=renamed[l.var], kind=tir.ForKind.SERIAL, annotations={}) for l in self.of.points]
        partial = self.at(self.partial, [l.var - l.start for l in loops])
        total = self.at(self.total, [])
        left, right, totals = (
            tuple(ex.DataVar(name + (str(k) if k else ""), i.dtype) for k, i in enumerate(self.identity))
            for name in ("x", "y", "total")
        )
        reducer = AllReducer(left, right, self.match.apply(left, right), self.identity)
        stores = tuple(tir.BufferStore(t.buffer, v, t.indices) for t, v in zip(total, totals, strict=True))
        threads = tuple(loop.var for loop in self.of.threads)
        combine = AllReduce(reducer, tuple(partial), ex.const(True), threads, totals, stores)
        alone = [ex.EQ(loop.var, loop.start) for loop in self.of.threads]
        write = tir.If(all_of(alone), ex.substitute(self.write(total), renamed))
        return _around(loops, tir.Seq.of(combine, write))

    def write(self, total: tuple[ex.Expr, ...]) -> tir.Stmt:
        """Return the update of the result by the total. It starts from the init value if the reduction begins here,
        else from the old value.
        """
        reduction = self.of
        conditions = conjuncts(reduction.realize.predicate)
        elements = self.read.elements
        places = tuple(
            tir.BufferLoad(e.buffer, tuple(ex.substitute(i, self.values) for i in e.indices)) for e in elements
        )  # fmt: skip
        goes_on = _stored(places, self.match.apply(places, total))
        stmt: tir.Stmt = goes_on
        if reduction.block.init is not None:
            init = tuple(ex.substitute(e, self.values) for e in self.read.init)
            same = all(ex.structural_equal(a, b) for a, b in zip(self.read.init, self.identity, strict=True))
            begins = _stored(places, total if same else self.match.apply(init, total))
            here = self.begins(conditions)
            stmt = begins if is_const(here, 1) else tir.If(here, begins, goes_on)
        kept = all_of(c for c in conditions if not uses(c, {l.var for l in reduction.over}))
        return stmt if is_const(kept, 1) else tir.If(kept, stmt)

    def begins(self, conditions: Sequence[ex.Expr]) -> ex.Expr:
        """Return the condition under which the block's init runs in this nest, or True if it always does."""
        starts: dict[ex.Var, ex.Expr] = {}
        for loop in self.of.over:
            starts[loop.var] = ex.substitute(loop.start, starts)
        analyzer = Analyzer()
        for part in (*conditions, *(e for loop in self.of.path for e in (loop.start, loop.extent))):
            for size in ex.free_vars(part):
                if isinstance(size, ex.SizeVar):
                    analyzer.bind(size, (1, None))
        pairs = zip(self.of.block.iter_vars, self.of.realize.iter_values, strict=True)
        asked: list[ex.Expr] = [
            ex.EQ(ex.substitute(value, starts), axis.dom.start.astype(value.dtype))
            for axis, value in pairs
            if axis.kind == ex.REDUCE
        ]
        asked += [ex.substitute(c, starts) for c in conditions if uses(c, set(starts))]
        return all_of(c for c in asked if not analyzer.can_prove(c))


def _around(loops: Sequence[tir.For], body: tir.Stmt) -> tir.Stmt:
    for loop in reversed(loops):
        body = ex.replace(loop, body=body)
    return body


def _stored(places: Sequence[tir.BufferLoad], values: Sequence[ex.Expr]) -> tir.Stmt:
    """Store several values, after computing all of them first."""
    if len(places) == 1:
        return tir.BufferStore(places[0].buffer, values[0], places[0].indices)
    names = [ex.DataVar(f"v_{p.buffer.name}", p.dtype) for p in places]
    body = tir.Seq.of(*(tir.BufferStore(p.buffer, n, p.indices) for p, n in zip(places, names, strict=True)))
    for name, value in reversed(list(zip(names, values, strict=True))):
        body = tir.LetStmt(name, value, body)
    return body


__all__ = ["lower_thread_reductions"]
