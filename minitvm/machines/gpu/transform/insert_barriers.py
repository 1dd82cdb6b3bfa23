"""Let threads that share storage wait for each other where one accesses what another one has accessed before.

By definition, all threads of a program wait after every statement (`analysis.threads`). This pass keeps only the
barriers between two accesses of one element by different threads, at least one of which is a write; integer sets decide
this (`arith.dependence`). It corresponds to TVM's pass ThreadSync. Barriers that `threads_outside` put between stages
stay if the stages access the same memory, including memory that all blocks see. An asynchronous copy counts as a write
where it begins and, for later accesses, again where its thread waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as with_changes
from typing import Any

from .... import expr as ex
from ....arith.dependence import find_dependence
from ....errors import Unsupported
from ....expr.intrin import COLLECTIVES
from ....tir import nodes as tir
from ....tir.analysis.bindings import loop_ranges
from ....tir.analysis.dependences import touched_point
from ....tir.analysis.effects import effects, guarded
from ....tir.analysis.threads import LANES, differs, is_hardware_thread, is_of_a_warp, is_private, is_shared
from ....tir.analysis.touches import Touch
from ....tir.async_copies import is_wait
from ....tir.conditions import all_of
from ....tir.transform.unroll import bind

BARRIER = "tvm_storage_sync"
Use = tuple[Touch, bool]  # with whether it is a write


def insert_barriers(func: tir.PrimFunc) -> tir.PrimFunc:
    """Add barriers between the statements of thread loops. Runs before conditions are hoisted and storage scopes are
    lowered.

    before:
        A: T.Buffer((32,), "float32")
        B: T.Buffer((32,), "float32")
        for b in T.thread_binding(1, thread="blockIdx.x"):
            S = T.decl_buffer((32,), scope="shared")
            for t in T.thread_binding(32, thread="threadIdx.x"):
                S[t] = A[t]
                B[t] = S[31 - t]
    after:
        for b in T.thread_binding(1, thread="blockIdx.x"):
            S = T.decl_buffer((32,), scope="shared")
            for t in T.thread_binding(32, thread="threadIdx.x"):
                S[t] = A[t]
                T.tvm_storage_sync("shared")
                B[t] = S[31 - t]

    Raises `Unsupported` if some threads would not reach a barrier: under a condition or in a loop that depends on the
    thread, or inside of a `while`.
    """
    return func.with_body(_visit(func.body))


def _visit(node: Any) -> Any:
    if not isinstance(node, tir.Stmt):
        return node
    if isinstance(node, tir.For) and is_hardware_thread(node):
        return _Threads((node,), {}, ()).inside(node)
    return ex.map_children(node, _visit)


@dataclass(frozen=True)
class _Threads:
    """The statements inside loops over the threads of a block, with the lets and conditions around them."""

    loops: tuple[tir.For, ...]
    lets: Mapping[ex.Var, ex.Expr]
    conditions: tuple[ex.Expr, ...]

    def inside(self, loop: tir.For) -> tir.Stmt:
        return ex.replace(loop, body=self.visit(loop.body))

    def visit(self, stmt: tir.Stmt) -> tir.Stmt:
        """Return the statement with its barriers."""
        if isinstance(stmt, tir.Seq):
            return self.sequence(stmt)
        if isinstance(stmt, tir.Allocate):
            return ex.replace(stmt, body=self.visit(stmt.body))
        if isinstance(stmt, tir.LetStmt):
            lets = {**self.lets, stmt.var: ex.substitute(stmt.value, self.lets)}
            body = with_changes(self, lets=lets).visit(stmt.body)
            return ex.replace(stmt, body=self.after_reading((stmt.value,), stmt.body, body))
        if isinstance(stmt, tir.If):
            condition = ex.substitute(stmt.condition, self.lets)
            yes, no = (with_changes(self, conditions=(*self.conditions, c)) for c in (condition, ex.Not(condition)))
            first = self.after_reading((stmt.condition,), stmt.then_case, yes.visit(stmt.then_case))
            other = None
            if stmt.else_case is not None:
                other = self.after_reading((stmt.condition,), stmt.else_case, no.visit(stmt.else_case))
            return self.for_all(stmt, tir.If(stmt.condition, first, other), (condition,))
        if isinstance(stmt, tir.While):
            self.refuse_waiting(stmt)
        if not isinstance(stmt, tir.For):
            return stmt
        if is_hardware_thread(stmt):
            return with_changes(self, loops=(*self.loops, stmt)).inside(stmt)
        start, extent = ex.substitute(stmt.start, self.lets), ex.substitute(stmt.extent, self.lets)
        within = (*self.conditions, stmt.var >= start, stmt.var < start + extent)
        stages = _without_last_barrier(stmt.body)
        inside = with_changes(self, conditions=within)
        body = inside.visit(stmt.body if stages is None else stages)
        if self.meet_later(stmt, is_shared):
            if not self.waits_between(stmt, body, stages is not None):
                once = inside.one_barrier(stmt) if stages is None and _waits(body) else None
                body = tir.Seq.of(body, _barrier()) if once is None else once
        elif stages is not None and self.meet_later(stmt, _is_common):
            body = tir.Seq.of(body, _barrier("global"))
        body = self.after_reading((stmt.start, stmt.extent), stmt.body, body)
        # Lanes have no barriers between them. They are independent, so one may go after the other.
        lanes = stmt.kind is tir.ForKind.VECTORIZED and _waits(body)
        rebuilt = ex.replace(stmt, body=body, kind=tir.ForKind.SERIAL if lanes else stmt.kind)
        return self.for_all(stmt, rebuilt, (start, extent))

    def sequence(self, stmt: tir.Seq, since: Sequence[Use] = ()) -> tir.Stmt:
        """Return the statements with barriers between those that conflict. `since` holds the accesses before the first
        one.
        """
        parts: list[tir.Stmt] = []
        earlier = list(since)
        for number, part in enumerate(stmt.stmts):
            if _is_barrier(part):  # between stages, if they hand on values in memory
                before, after = (tir.Seq.of(*some) for some in (stmt.stmts[:number], stmt.stmts[number + 1 :]))
                if self.meet(self.uses(before, _is_common), self.uses(after, _is_common)):
                    parts.append(part)
                    earlier = []
                continue
            own = self.uses(part)
            if self.meet(earlier, own):
                parts.append(_barrier())
                earlier = []
            parts.append(self.visit(part))
            earlier = [*([] if _ends_waiting(parts[-1]) else [*earlier, *own]), *self.arrivals(part)]
        return tir.Seq.of(*parts)

    def waits_between(self, loop: tir.For, body: tir.Stmt, stages: bool) -> bool:
        """Return whether the barriers in an iteration separate it from other iterations, as those of a double buffer
        do.

        `body` is the loop's body with its barriers. `stages` says that there was one at its end.
        """
        while isinstance(body, tir.Allocate):
            body = body.body
        places = [k for k, s in enumerate(body.stmts) if _is_barrier(s)] if isinstance(body, tir.Seq) else []
        if (
            not isinstance(body, tir.Seq)
            or not places
            or any(isinstance(n, tir.Async) or is_wait(n) for n in ex.walk(loop))
        ):
            return False
        if stages and self.meet_later(loop, _is_common):
            return False
        # Legal: let every iteration have a barrier. Call the part before its first barrier the head, and the part after
        # its last barrier the tail. Two accesses of different iterations have a barrier between them, unless the first
        # is in a tail and the second in the head of the very next iteration. In all other cases, the end of the earlier
        # iteration, the beginning of the later one, or an iteration between them has a barrier. So only a tail and the
        # next head must not conflict. (Copies that arrive later than where they began do not fit this scheme, and are
        # excluded above.)
        head, tail = tir.Seq.of(*body.stmts[: places[0]]), tir.Seq.of(*body.stmts[places[-1] + 1 :])
        inside = all_of((loop.var >= loop.start, loop.var + 1 < loop.start + loop.extent))
        following = [(t.at({loop.var: loop.var + 1}).under(inside), write) for t, write in self.uses(head)]
        return not self.meet(self.uses(tail), following)

    def one_barrier(self, loop: tir.For) -> tir.Stmt | None:
        """Return the body of a loop with a single barrier that separates it from earlier iterations, or None if one is
        not enough.

        All accesses of earlier iterations are assumed to come right before the first statement. So the barrier goes
        before the first statement that conflicts with them, and the statements after it must not conflict with each
        other.
        """
        if not isinstance(loop.body, tir.Seq):
            return None
        before = [(t, write) for t, write in self.uses(loop.body)] + self.arrivals(loop.body)
        shift = ex.Var("before", loop.var.dtype)
        inside = all_of((loop.var - shift >= loop.start, loop.var - shift < loop.start + loop.extent))
        steps = ex.replace(loop, var=shift, start=ex.const(1, shift.dtype))
        earlier = [(t.at({loop.var: loop.var - shift}).under(inside).inside(steps), write) for t, write in before]
        body = self.sequence(loop.body, earlier)
        barriers = [s for s in ex.find(body, tir.Stmt) if _is_barrier(s)]
        return body if len(barriers) == 1 and isinstance(body, tir.Seq) and barriers[0] in body.stmts else None

    def after_reading(self, values: Sequence[ex.Expr], stmt: tir.Stmt, rebuilt: tir.Stmt) -> tir.Stmt:
        """Return `rebuilt`, after a barrier if it overwrites data that other threads may still have to read for
        `values`.

        `values` are the values of a let, a condition or the bounds of a loop around the statement.
        """
        read = [a for value in values for a in self.uses(value)]
        return tir.Seq.of(_barrier(), rebuilt) if read and self.meet(read, self.uses(stmt)) else rebuilt

    def meet(self, first: Sequence[Use], second: Sequence[Use]) -> bool:
        """Return whether two threads access the same element, one in `first` and one in `second`, and at least one
        writes it.
        """
        buffers = {touch.buffer for touch, write in (*first, *second) if write}
        threads = loop_ranges(self.loops)
        one, other = (
            [touched_point(t, write, threads) for t, write in every if t.buffer in buffers] for every in (first, second)
        )
        if not one or not other:
            return False
        order = tuple(l.var for l in self.loops)
        points = [*one, *other]
        within = [{*map(id, one)}, {*map(id, other)}]
        dependence = find_dependence(
            points,
            dict.fromkeys(points, order),
            dict.fromkeys(points, order),
            range(len(order)),
            lambda a, b: not any(id(a) in x and id(b) in y for x, y in (within, within[::-1])),
        )
        return dependence is not None

    def meet_later(self, loop: tir.For, scopes: Callable[[str], bool]) -> bool:
        """Return whether an iteration of a loop conflicts with another thread's later iteration, in storage of certain
        scopes.
        """
        now = self.uses(loop.body, scopes)
        if not any(write for _, write in now):
            return False
        earlier = now if scopes is not is_shared else now + self.arrivals(loop.body)
        ahead = ex.Var("ahead", loop.var.dtype)
        inside = all_of((loop.var >= loop.start, loop.var + ahead < loop.start + loop.extent))
        steps = ex.replace(loop, var=ahead, start=ex.const(1, ahead.dtype))
        later = [(t.at({loop.var: loop.var + ahead}).under(inside).inside(steps), write) for t, write in now]
        return self.meet(earlier, later)

    def arrivals(self, stmt: tir.Stmt) -> list[Use]:
        """Return the writes of all asynchronous copies of the threads if a statement waits for some of them.

        A later access of the data must not come before the wait. An earlier access came before the copy began, which
        counts as a write there.
        """
        if not any(is_wait(node) for node in ex.walk(stmt)):
            return []
        copies = bind(_copies(self.loops[-1].body), {})
        return [(touch, True) for touch in effects(copies).writes if is_shared(touch.buffer.scope)]

    def uses(self, node: tir.Stmt | ex.Expr, scopes: Callable[[str], bool] = is_shared) -> list[Use]:
        """Return the accesses of storage of certain scopes in a statement or an expression, with the loops and
        conditions around it.
        """
        touched = effects(node)
        uses: list[Use] = []
        for write, touches in ((False, touched.reads), (True, touched.writes)):
            for touch in touches:
                if scopes(touch.buffer.scope):
                    seen = touch.at(self.lets)
                    for condition in self.conditions:
                        seen = guarded(seen, condition)
                    uses.append((seen, write))
        return uses

    def refuse_waiting(self, stmt: tir.While) -> None:
        """Raise `Unsupported` if threads would have to wait inside of a `while`; no interpreter or level defines
        this.
        """
        now = self.uses(stmt)  # any iteration may come later than another one
        if self.meet(now, now) or _waits(self.visit(stmt.body)):
            buffers = dict.fromkeys(t.buffer.name for t, _ in now)
            raise Unsupported(
                f"while {stmt.condition}: threads would have to wait inside of it\n"
                "  wanted: `for` loops around what threads share\n"
                f"  found:  uses of {', '.join(buffers)}, which threads share and write"
            )

    def for_all(self, stmt: tir.For | tir.If, rebuilt: tir.Stmt, decides: Sequence[ex.Expr]) -> tir.Stmt:
        """Return `rebuilt`. Raises `Unsupported` if it contains a barrier that only some threads would reach."""
        own = {l.var for l in self.loops}
        lanes = [l for l in self.loops if l.thread == LANES]
        if any(isinstance(n, tir.Instruction) and n.together > 1 for n in ex.walk(rebuilt)):
            if differs(lanes, {l.var for l in lanes}, *decides):
                raise Unsupported(
                    "some threads of a warp would not reach an instruction that it runs together\n"
                    f"  wanted: conditions and loops around it that are the same for all threads along {LANES}\n"
                    f"  found:  {', '.join(map(str, decides))}"
                )
        if _waits(rebuilt) and differs(self.loops, own, *decides):
            head = f"if {stmt.condition}" if isinstance(stmt, tir.If) else f"the loop over {stmt.var.name}"
            raise Unsupported(
                f"{head}: some threads would not reach a barrier\n"
                "  wanted: conditions and loops around uses of shared storage that are the same for all threads\n"
                f"  found:  {', '.join(map(str, decides))}, which depends on the thread"
            )
        return rebuilt


def _copies(node: Any) -> Any:
    """Return a statement reduced to its asynchronous copies."""
    if isinstance(node, tir.Async):
        return node.body
    if not isinstance(node, tir.Stmt):
        return node
    if isinstance(node, tir.Seq | tir.For | tir.If | tir.LetStmt | tir.Allocate | tir.While):
        return ex.map_children(node, _copies)
    return tir.Seq(())


def _waits(stmt: tir.Stmt) -> bool:
    """Return whether threads wait for others in a statement: at a barrier, or at an operation of their warp."""
    calls: Iterable[Any] = (n for n in ex.find(stmt, ex.Call))
    return any(call.op == BARRIER or call.op in COLLECTIVES for call in calls)


def _is_common(scope: str) -> bool:
    """Return whether storage of a scope is visible to threads of several blocks, or to all threads of one block."""
    return not is_private(scope) and not is_of_a_warp(scope)


def _ends_waiting(stmt: tir.Stmt) -> bool:
    """Return whether all threads certainly wait for each other at the end of a statement."""
    if isinstance(stmt, tir.Seq):
        return bool(stmt.stmts) and _ends_waiting(stmt.stmts[-1])
    if isinstance(stmt, tir.Allocate | tir.LetStmt):
        return _ends_waiting(stmt.body)
    if isinstance(stmt, tir.For):
        return isinstance(stmt.extent, ex.IntImm) and stmt.extent.value > 0 and _ends_waiting(stmt.body)
    return _is_barrier(stmt)


def _is_barrier(stmt: tir.Stmt) -> bool:
    return isinstance(stmt, tir.Evaluate) and isinstance(stmt.value, ex.Call) and stmt.value.op == BARRIER


def _without_last_barrier(body: tir.Stmt) -> tir.Stmt | None:
    """Return the body of a loop without the barrier at its end, or None if it does not end with one."""
    if not isinstance(body, tir.Seq) or not body.stmts or not _is_barrier(body.stmts[-1]):
        return None
    return tir.Seq.of(*body.stmts[:-1])


def _barrier(scope: str = "shared") -> tir.Stmt:
    return tir.Evaluate(ex.Call(ex.DType("int32"), BARRIER, (ex.StringImm(scope),)))
