"""The grid of a GPU in loop programs: which loops run on it, who owns which storage, and what a second binding means.

As in TVM, a program leaves to lowering what its threads share. A loop over threadIdx.x inside another one over
threadIdx.x is the same thread again: it does its own iteration (*cooperative fetching*). A buffer in "shared" exists
once for each block of threads, one in "local" once for each thread and one in "warp" once for all threads along
threadIdx.x that have the other indices in common, wherever they are allocated. Threads that share
storage go in step, from statement to statement. They are in the same iteration of a parallel or vectorised loop inside,
too: that needs no order of its iterations. `reference.meaning.threads` writes that meaning out for the interpreters.

A loop over threadIdx may drive a reduction (a *cross-thread reduction*). Its iterations mean what a serial loop means:
they run in order and own no storage. How threads add up together is left to lowering (`lower_thread_reductions`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from typing import Any

from ... import expr as ex
from ...errors import Unsupported
from ..nodes import BlockRealize, BufferLoad, BufferStore, For, ForKind, If, LetStmt, PrimFunc, Seq, Stmt


def is_virtual(loop: For) -> bool:
    """Whether a loop is bound to virtual threads."""
    return loop.kind is ForKind.THREAD and str(loop.thread).startswith("vthread")


def is_thread(loop: For) -> bool:
    """Whether a loop runs over the threads of a block, virtual ones among them, each for itself."""
    return loop.kind is ForKind.THREAD and not str(loop.thread).startswith("blockIdx") and not adds_up(loop)


def is_hardware_thread(loop: For) -> bool:
    """Whether a loop runs over threadIdx."""
    return is_thread(loop) and not is_virtual(loop)


def adds_up(loop: For) -> bool:
    """Whether a loop is bound to threadIdx and drives a reduction: its threads compute one result together."""
    return loop.kind is ForKind.THREAD and str(loop.thread).startswith("threadIdx") and bool(reductions_over(loop))


def reductions_over(loop: For) -> list[BlockRealize]:
    """The blocks below a loop of which it drives a reduction iterator."""
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
    """The extents of the loops that are bound to `GRID`, 1 where none is; () for a kernel without such loops.

    Raises `Unsupported` for an extent that a loop or let inside of the kernel decides, and for two of one axis.
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
    """The first loop of a function over threads that compute one result together; None where there is none."""
    return next((node for node in ex.find(func.body, For) if adds_up(node)), None)


def each_axis_once(func: PrimFunc, loops: Collection[For]) -> PrimFunc:
    """A function in which some loops that bind an axis of threads again, in as many threads, are gone: their iteration
    is the thread of the loop around them that binds it. That is what they mean.
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
    """The function, and the loop in it, with statements of the loop's body that fill shared storage in loops that bind
    the axes of their threads again.

    Threads that share storage go in step: what all of them do in such a statement is done before the next one. So it
    means the same, and what an iteration of the loop fills shows in the loop itself. Statements that no thread around
    the loop tells apart stay as they are.
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
    """Whether each iteration of a concurrent loop has storage of a scope for itself, wherever it is allocated.

    Storage in "local" belongs to an iteration of a parallel loop, too, but only where the loop does not divide it.
    """
    if loop.kind in (ForKind.PARALLEL, ForKind.VECTORIZED):
        return is_register(scope)
    if loop.kind is not ForKind.THREAD or scope.startswith("global") or adds_up(loop):
        return False
    if is_of_a_warp(scope):
        return loop.thread != LANES
    return not scope.startswith("shared") or not is_thread(loop)


LANES = "threadIdx.x"  # the axis along which threads are neighbours in a warp


def is_of_a_warp(scope: str) -> bool:
    """Whether neighbouring threads along `LANES` have storage of a scope together: fragments of matrices."""
    return scope.startswith("warp")


def is_private(scope: str) -> bool:
    """Whether each thread has storage of a scope for itself: on its stack, or in its registers."""
    return scope.startswith("local")


def is_register(scope: str) -> bool:
    """Whether storage of a scope has no addresses, as tile registers: concurrent iterations have their own."""
    return scope.startswith("local.")


def is_shared(scope: str) -> bool:
    """Whether the threads of a block share storage of a scope."""
    return scope.startswith("shared")


def depends(outer: For, stmt: Stmt) -> bool:
    """Whether what a statement inside a loop over threads does is another thing for each of them.

    It is where the statement uses the loop's variable, through iterators of blocks and bounds of loops too, stands
    under such a condition, or reads storage that the threads own.
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
    """Whether a part may be another one for each iteration of loops over threads: it uses a variable that is, one of
    `varying` (the loops' own among them), or reads storage that each of them owns.
    """
    if any(v in varying for part in parts for v in ex.free_vars(part)):
        return True
    read = {n.buffer.scope for part in parts for n in ex.find(part, BufferLoad)}
    return any(owns(loop, scope) for loop in threads for scope in read)


def _condition(node: If | BlockRealize) -> ex.Expr:
    return node.condition if isinstance(node, If) else node.predicate


def _bound(node: ex.Node) -> list[tuple[ex.Var, tuple[ex.Expr, ...]]]:
    """The variables that a statement binds for what it holds, with what decides their values."""
    if isinstance(node, For):
        return [(node.var, (node.start, node.extent))]
    if isinstance(node, LetStmt):
        return [(node.var, (node.value,))]
    if isinstance(node, BlockRealize):
        return [(axis.var, (value,)) for axis, value in zip(node.block.iter_vars, node.iter_values, strict=True)]
    return []


def _path(start: ex.Node, end: ex.Node) -> list[ex.Node]:
    """The nodes from `start` down to the one before `end`, which is inside it."""
    if start is end:
        return []
    for child in ex.children(start):
        if child is end or any(node is end for node in ex.walk(child)):
            return [start, *_path(child, end)]
    return []


def why_not_again(outer: For, inner: For) -> str | None:
    """None where a loop may be bound to the axis that `outer`, around it, is bound to; else why it may not.

    Its iterations, all done by every thread before, are then shared out among the threads. That is the same if they
    are as many as the threads, if they do not depend on the thread, and if all threads see what they write.
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
