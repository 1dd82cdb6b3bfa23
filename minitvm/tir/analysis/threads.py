"""The GPU grid in loop programs: which loops run on it, who owns storage, and what it means to bind an axis twice.

As in TVM, lowering decides how threads share data. A loop over threadIdx.x inside another loop over threadIdx.x is the
same thread again: the thread does its own iteration (*cooperative fetching*). Wherever it is allocated, a buffer in
"shared" exists once for each block of threads, a buffer in "local" once for each thread, and a buffer in "warp" once
for all threads along threadIdx.x whose other indices are equal. Threads that share storage run in step, statement by
statement. They are also in the same iteration of a parallel or vectorised loop inside, which is possible because its
iterations need no order. `reference.meaning.threads` implements this meaning for the interpreters.

A loop over threadIdx may drive a reduction (a *cross-thread reduction*). Its iterations have the meaning of a serial
loop: they run in order and own no storage. Lowering decides how the threads compute the sum together
(`lower_thread_reductions`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from typing import Any

from ... import expr as ex
from ...errors import Unsupported
from ..nodes import BlockRealize, BufferLoad, BufferStore, For, ForKind, If, LetStmt, PrimFunc, Seq, Stmt


def is_virtual(loop: For) -> bool:
    """Return whether a loop is bound to virtual threads."""
    return loop.kind is ForKind.THREAD and str(loop.thread).startswith("vthread")


def is_thread(loop: For) -> bool:
    """Return whether a loop runs over independent threads of a block. Virtual threads count; threads that reduce
    together do not.
    """
    return loop.kind is ForKind.THREAD and not str(loop.thread).startswith("blockIdx") and not adds_up(loop)


def is_hardware_thread(loop: For) -> bool:
    """Return whether a loop runs over independent hardware threads (threadIdx)."""
    return is_thread(loop) and not is_virtual(loop)


def adds_up(loop: For) -> bool:
    """Return whether a loop is bound to threadIdx and drives a reduction, so that its threads compute one result
    together.
    """
    return loop.kind is ForKind.THREAD and str(loop.thread).startswith("threadIdx") and bool(reductions_over(loop))


def reductions_over(loop: For) -> list[BlockRealize]:
    """Return the blocks inside a loop that have a reduction iterator driven by the loop."""
    return [
        node
        for node in ex.walk(loop.body)
        if isinstance(node, BlockRealize)
        and any(
            axis.kind == ex.REDUCE and loop.var in ex.free_vars(value)
            for axis, value in zip(node.block.iter_vars, node.iter_values, strict=True)
        )
    ]


GRID = tuple(f"{index}.{axis}" for index in ("blockIdx", "threadIdx") for axis in "xyz")


def grid_of(kernel: Stmt) -> tuple[ex.Expr, ...]:
    """Return the extents of the loops bound to the axes of `GRID`, with 1 for an axis without a loop. Returns () if the
    kernel has no such loops.

    Raises `Unsupported` if an extent depends on a loop or let inside the kernel, or if two loops over one axis have
    different extents.
    """
    if not any(loop.thread in GRID for loop in ex.find(kernel, For)):
        return ()
    extents: dict[str, ex.Expr] = {}
    inside: set[ex.Node] = set()
    for node in ex.walk(kernel):
        inside.update(var for var, _ in _bound(node))
        if not isinstance(node, For) or node.thread not in GRID:
            continue
        other = extents.setdefault(node.thread, node.extent)
        if not _same(other, node.extent):
            raise Unsupported(f"loops over {node.thread} of two extents, {other} and {node.extent}, in one kernel")
        decided = [v.name for v in ex.free_vars(node.extent) if v in inside]
        if decided:
            raise Unsupported(f"the loop over {node.thread} has the extent {node.extent}, which {decided[0]} decides")
    return tuple(extents.get(axis, ex.IntImm(1)) for axis in GRID)


def thread_reduction(func: PrimFunc) -> For | None:
    """Return the first loop over threads that compute a result together; None if the function has none."""
    return next((node for node in ex.find(func.body, For) if adds_up(node)), None)


def each_axis_once(func: PrimFunc, loops: Collection[For]) -> PrimFunc:
    """Remove inner loops that bind a thread axis again, with the same number of threads.

    This is legal because a thread of the outer loop runs only its own iteration of an inner loop that is bound to the
    same axis.
    """

    def visit(node: Any, bound: Mapping[str, For]) -> Any:
        if not isinstance(node, Stmt):
            return node
        if isinstance(node, For) and is_hardware_thread(node):
            outer = bound.get(str(node.thread))
            if outer is None:
                bound = {**bound, str(node.thread): node}
            elif node in loops and _same(outer.extent, node.extent) and _same(outer.start, node.start):
                return visit(ex.substitute(node.body, {node.var: outer.var.astype(node.var.dtype)}), bound)
        return ex.map_children(node, lambda child: visit(child, bound))

    return func.with_body(visit(func.body, {}))


def in_step(func: PrimFunc, loop: For) -> tuple[PrimFunc, For]:
    """Wrap each statement of a loop's body that fills shared storage in loops that bind its thread axes again. Returns
    the new function and loop.

    This is legal because threads that share storage run in lockstep: all of them finish such a statement before the
    next one starts. As a result, the loop itself shows which elements an iteration fills. Statements that are the same
    in all threads are not changed.
    """
    above: list[For] = []

    def again(part: Stmt) -> Stmt:
        if not any(isinstance(n, BufferStore) and is_shared(n.buffer.scope) for n in ex.walk(part)):
            return part
        for thread in reversed([l for l in above if is_hardware_thread(l) and l.var in ex.free_vars(part)]):
            own = thread.var.with_name(f"{thread.var.name}_again")
            part = ex.replace(thread, var=own, body=ex.substitute(part, {thread.var: own}))
        return part

    def visit(node: Any) -> Any:
        if not isinstance(node, Stmt):
            return node
        if node is loop:
            parts = loop.body.stmts if isinstance(loop.body, Seq) else (loop.body,)
            new = [again(part) for part in parts]
            if all(a is b for a, b in zip(parts, new, strict=True)):
                return node
            return ex.replace(loop, body=Seq(tuple(new)))
        if isinstance(node, For):
            above.append(node)
        visited = ex.map_children(node, visit)
        if isinstance(node, For):
            above.pop()
        return visited

    changed = func.with_body(visit(func.body))
    inside = next(node for node in ex.find(changed.body, For) if node.var is loop.var)
    return (func, loop) if inside is loop else (changed, inside)


def owns(loop: For, scope: str) -> bool:
    """Return whether each iteration of a concurrent loop owns its own copy of storage in a scope, wherever it is
    allocated.

    "local" storage also belongs to one iteration of a parallel loop, unless the loop divides it; that case is not
    covered here.
    """
    if loop.kind in (ForKind.PARALLEL, ForKind.VECTORIZED):
        return is_register(scope)
    if loop.kind is not ForKind.THREAD or scope.startswith("global") or adds_up(loop):
        return False
    if is_of_a_warp(scope):
        return loop.thread != LANES
    return not scope.startswith("shared") or not is_thread(loop)


LANES = "threadIdx.x"  # the axis along which neighbouring threads are in one warp


def is_of_a_warp(scope: str) -> bool:
    """Return whether storage in this scope is owned by a warp, that is, jointly by neighbouring threads along `LANES`.
    Matrix fragments are an example.
    """
    return scope.startswith("warp")


def is_private(scope: str) -> bool:
    """Return whether each thread has its own storage in this scope, on its stack or in its registers."""
    return scope.startswith("local")


def is_register(scope: str) -> bool:
    """Return whether storage in this scope has no address, such as tile registers.

    Each concurrent iteration has its own copy.
    """
    return scope.startswith("local.")


def is_shared(scope: str) -> bool:
    """Return whether the threads of a block share storage in this scope."""
    return scope.startswith("shared")


def depends(outer: For, stmt: Stmt) -> bool:
    """Return whether a statement inside the thread loop `outer` behaves differently in different threads.

    It does if it uses the loop variable (even indirectly, through block iterators or loop bounds), if a condition
    around it does, or if it reads storage that each thread owns.
    """
    varying = {outer.var}
    for node in _path(outer.body, stmt):
        if isinstance(node, If | BlockRealize) and differs((outer,), varying, _condition(node)):
            return True
        for var, values in _bound(node):
            if differs((outer,), varying, *values):
                varying.add(var)
    return differs((outer,), varying, stmt)


def differs(threads: Iterable[For], varying: Set[ex.Var], *parts: ex.Node) -> bool:
    """Return whether any of `parts` can differ between iterations of the loops `threads`.

    A part can differ if it uses a variable in `varying` (the variables that differ, including the loops' own) or reads
    storage that each thread owns.
    """
    if any(v in varying for part in parts for v in ex.free_vars(part)):
        return True
    read = {n.buffer.scope for part in parts for n in ex.find(part, BufferLoad)}
    return any(owns(loop, scope) for loop in threads for scope in read)


def _condition(node: If | BlockRealize) -> ex.Expr:
    return node.condition if isinstance(node, If) else node.predicate


def _bound(node: ex.Node) -> list[tuple[ex.Var, tuple[ex.Expr, ...]]]:
    """Return the variables that a statement defines for its body, each with the expressions that determine
    its value.
    """
    if isinstance(node, For):
        return [(node.var, (node.start, node.extent))]
    if isinstance(node, LetStmt):
        return [(node.var, (node.value,))]
    if isinstance(node, BlockRealize):
        return [(axis.var, (value,)) for axis, value in zip(node.block.iter_vars, node.iter_values, strict=True)]
    return []


def _path(start: ex.Node, end: ex.Node) -> list[ex.Node]:
    """Return the nodes on the path from `start` down to the parent of `end`, which is inside `start`."""
    if start is end:
        return []
    for child in ex.children(start):
        if child is end or any(node is end for node in ex.walk(child)):
            return [start, *_path(child, end)]
    return []


def why_not_again(outer: For, inner: For) -> str | None:
    """Return None if a loop may be bound to the same thread axis as the loop `outer` around it, otherwise the reason.

    Before binding, every thread runs all iterations; afterwards, the iterations are divided among the threads. This is
    legal if there are as many iterations as threads, the iterations do not depend on the thread, and all threads can
    see the elements that are written.
    """
    for loop in (outer, inner):
        if reductions_over(loop):
            return f"{loop.var.name} drives a reduction"
    if not (_same(outer.extent, inner.extent) and _same(outer.start, inner.start)):
        return f"{inner.var.name} has extent {inner.extent}, {outer.var.name} has {outer.extent}"
    if depends(outer, inner):
        return f"what {inner.var.name} does depends on {outer.var.name}"
    for node in ex.walk(inner):
        if isinstance(node, BufferStore) and not is_shared(node.buffer.scope):
            return f"{node.buffer.name}, written inside {inner.var.name}, is {node.buffer.scope} storage, not shared"
    return None


def _same(a: ex.Node, b: ex.Node) -> bool:
    if isinstance(a, ex.IntImm) and isinstance(b, ex.IntImm):
        return a.value == b.value
    return ex.structural_equal(a, b)
