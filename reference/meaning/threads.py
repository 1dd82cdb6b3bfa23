"""Write out the meaning of GPU threads in a loop program, as loops and dimensions that every interpreter has.

TVM's programs leave six things implicit, which its lowering adds. `written_out` adds them for the interpreters:

- **Threads that reduce go in order.** A loop over threadIdx that drives a reduction iterator of a block below it (a
  cross-thread reduction) is a serial loop. It owns no storage.
- **A thread is bound once.** A loop over threadIdx.x inside another loop over threadIdx.x does not loop again: each
  thread does its own iteration of it.
- **Storage has owners.** Wherever it is allocated, a buffer in "shared" exists once for each block of threads, a buffer
  in "warp" once for the threads along threadIdx.x, and a buffer in "local" (or another scope that is not global) once
  for each thread. So it gets a dimension for each loop of its owners that contains all its accesses. An iteration of a
  parallel loop also owns "local" storage. But if all indices of a buffer depend on the loop, its iterations already use
  different parts of it, and it does not change; except in registers ("local.tile"), where each iteration of a
  vectorised loop also has its own copy.
- **Threads that share storage go in step.** If a nest of threads writes "shared", all threads do one statement before
  any thread does the next, as with a barrier between statements: the loops over threads move inwards to the statements.
  All threads read the value of a let before any thread goes on, and the value stays the same afterwards. The same holds
  for a parallel or vectorised loop inside: its iterations are independent, and all threads do one of them before any
  thread does the next.
- **Threads that combine values wait for each other.** At an `AllReduce`, all threads give their values before any
  thread gets the result; the values are combined one after the other.
- **Work that does not depend on the thread is done once.** A statement that writes "shared" and is the same for all
  threads of a loop is done by one of them.

Without such storage, loops over threads and parallel loops are ordinary loops with independent iterations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from weakref import WeakKeyDictionary

from minitvm import expr as x
from minitvm.errors import ExecutionError, Unsupported
from minitvm.tir import nodes as t
from minitvm.tir.all_reduce import AllReduce

from .text import statement_text

Wrapper = t.For | t.LetStmt | t.If
Loops = tuple[t.For, ...]

# None if a function needs no change: a value that is its own key would live forever.
_KNOWN: WeakKeyDictionary[t.PrimFunc, t.PrimFunc | None] = WeakKeyDictionary()


def written_out(func: t.PrimFunc) -> t.PrimFunc:
    """Return the function with the storage and the waits of its threads as loops and dimensions; unchanged without
    threads.

    Raises `ExecutionError` if an axis is bound again with another extent, and `Unsupported` if threads that share
    storage run loops of different lengths.
    """
    if func not in _KNOWN:
        kinds = {n.kind for n in x.walk(func.body) if isinstance(n, t.For)}
        if t.ForKind.THREAD in kinds:
            _KNOWN[func] = func.with_body(_explicit(func.body))
        else:
            body = _with_owners(func.body) if kinds & {t.ForKind.PARALLEL, t.ForKind.VECTORIZED} else func.body
            _KNOWN[func] = None if body is func.body else func.with_body(body)  # type: ignore[arg-type]
    return _KNOWN[func] or func


def _explicit(body: t.Stmt) -> t.Stmt:
    written = _in_step(_with_owners(_bound_once(_reductions_in_order(body), {})))
    assert isinstance(written, t.Stmt)
    return written


def _on_grid(loop: t.For) -> bool:
    return loop.kind is t.ForKind.THREAD and not _is_virtual(loop)


def _is_virtual(loop: t.For) -> bool:
    return str(loop.thread).startswith("vthread")


def _is_thread(node: x.Node) -> bool:
    """Return whether a node is a loop over the threads of a block, including virtual threads."""
    return isinstance(node, t.For) and node.kind is t.ForKind.THREAD and not str(node.thread).startswith("blockIdx")


# --- threads that reduce go in order -------------------------------------------------------------------------------


def _reductions_in_order(body: x.Node) -> x.Node:
    reducing = {
        v
        for node in x.walk(body)
        if isinstance(node, t.BlockRealize)
        for axis, value in zip(node.block.iter_vars, node.iter_values, strict=True)
        if axis.kind == x.REDUCE
        for v in x.free_vars(value)
    }

    def change(node: x.Node) -> x.Node | None:
        if isinstance(node, t.For) and str(node.thread).startswith("threadIdx") and node.var in reducing:
            return x.replace(node, kind=t.ForKind.SERIAL, thread=None)
        return None

    return x.rewrite(body, change) if reducing else body


# --- a thread is bound once ----------------------------------------------------------------------------------------


def _bound_once(node: x.Node, bound: dict[str, t.For]) -> x.Node:
    if not isinstance(node, t.For) or not _on_grid(node):
        return x.map_children(node, lambda n: _bound_once(n, bound) if isinstance(n, t.Stmt) else n)
    axis = str(node.thread)
    outer = bound.get(axis)
    if outer is None:
        return x.replace(node, body=_bound_once(node.body, {**bound, axis: node}))
    if not (_same(node.extent, outer.extent) and _same(node.start, outer.start)):
        raise ExecutionError(
            f"{axis} is bound twice: by the loop over {outer.var.name} and, inside it, by that over {node.var.name}\n"
            f"  wanted: {outer.extent} threads from {outer.start}, as outside\n"
            f"  found:  {node.extent} from {node.start}"
        )
    return _bound_once(x.substitute(node.body, {node.var: outer.var.astype(node.var.dtype)}), bound)


def _same(a: x.Expr, b: x.Expr) -> bool:
    if isinstance(a, x.IntImm) and isinstance(b, x.IntImm):
        return a.value == b.value
    return x.structural_equal(a, b)


# --- storage has owners --------------------------------------------------------------------------------------------


def _owns(loop: t.For, scope: str) -> bool:
    """Return whether each iteration of a loop has its own storage in a scope."""
    if loop.kind is t.ForKind.VECTORIZED:
        return scope.startswith("local.")
    if loop.kind is t.ForKind.PARALLEL:
        return not scope.startswith(("global", "shared", "warp"))
    if loop.kind is not t.ForKind.THREAD or scope.startswith("global"):
        return False
    if scope.startswith("warp"):  # all threads along x are a warp
        return loop.thread != "threadIdx.x"
    return not scope.startswith("shared") or str(loop.thread).startswith("blockIdx")


def _with_owners(body: x.Node) -> x.Node:
    nodes = list(_with_loops(body, ()))
    places = {b: loops for node, loops in nodes if isinstance(node, t.Block) for b in node.alloc_buffers}
    owned: dict[t.Buffer, list[t.For]] = {}
    apart = _parts(nodes)
    for node, loops in nodes:
        buffer = _accessed(node)
        if buffer in places:
            own = [l for l in loops if l not in places[buffer] and _owns(l, buffer.scope)]
            whole = buffer.scope.startswith("local.")  # registers have no parts
            own = [l for l in own if l.kind is t.ForKind.THREAD or whole or l.var not in apart[buffer]]
            owned[buffer] = [l for l in owned.get(buffer, own) if l in own]
    copies = {b: _copies(b, loops) for b, loops in owned.items() if loops}

    def change(node: x.Node) -> x.Node | None:
        if isinstance(node, t.Block):  # signatures mean nothing to an interpreter
            kept = [tuple(r for r in regions if r.buffer not in copies) for regions in (node.reads, node.writes)]
            allocated = tuple(copies.get(b, b) for b in node.alloc_buffers)
            return x.replace(node, reads=kept[0], writes=kept[1], alloc_buffers=allocated)
        buffer = _accessed(node)
        if buffer not in copies:
            return None
        at = tuple(l.var if _same(l.start, x.const(0)) else l.var - l.start for l in owned[buffer])
        if isinstance(node, t.MatchBufferRegion):
            first = tuple(x.Range(i, x.const(1, i.dtype)) for i in at)
            return x.replace(node, source=t.BufferRegion(copies[buffer], (*first, *node.source.region)))
        return x.replace(node, buffer=copies[buffer], indices=(*at, *node.indices))  # type: ignore[attr-defined]

    return x.rewrite(body, change) if copies else body


def _parts(nodes: Sequence[tuple[x.Node, Loops]]) -> dict[t.Buffer, set[x.Var]]:
    """Return the variables that the indices of all accesses to a buffer depend on, also through iterators and lets."""
    behind: dict[x.Var, set[x.Var]] = {}

    def variables(e: x.Node) -> set[x.Var]:
        return {w for v in x.free_vars(e) for w in behind.get(v, {v})}

    apart: dict[t.Buffer, set[x.Var]] = {}
    for node, _ in nodes:
        if isinstance(node, t.BlockRealize):
            for axis, value in zip(node.block.iter_vars, node.iter_values, strict=True):
                behind[axis.var] = variables(value)
        if isinstance(node, t.LetStmt):
            behind[node.var] = variables(node.value)
        buffer = _accessed(node)
        if buffer is None:
            continue
        places = [r.start for r in node.source.region] if isinstance(node, t.MatchBufferRegion) else node.indices  # type: ignore[attr-defined]
        used = {v for place in places for v in variables(place)}
        apart[buffer] = apart[buffer] & used if buffer in apart else used
    return apart


def _accessed(node: x.Node) -> t.Buffer | None:
    """Return the buffer that a load or store accesses, or that a view refers to."""
    if isinstance(node, t.BufferLoad | t.BufferStore):
        return node.buffer
    return node.source.buffer if isinstance(node, t.MatchBufferRegion) else None


def _with_loops(node: x.Node, loops: Loops) -> Iterator[tuple[x.Node, Loops]]:
    yield node, loops
    inner = (*loops, node) if isinstance(node, t.For) else loops
    for child in x.children(node):
        yield from _with_loops(child, inner)


def _copies(buffer: t.Buffer, owners: Sequence[t.For]) -> t.Buffer:
    extents = tuple(l.extent for l in owners)
    steps: tuple[x.Expr, ...] = buffer.strides
    if steps:
        step = buffer.shape[0] * steps[0]
        for extent in reversed(extents):
            steps = (step, *steps)
            step = step * extent
    return x.replace(buffer, shape=(*extents, *buffer.shape), strides=steps)


# --- threads that share storage go in step -------------------------------------------------------------------------


def _in_step(node: x.Node) -> x.Node:
    if _is_thread(node):
        return _apart(node, ()) if _writes_shared(node) or _combines(node) else node
    return x.map_children(node, lambda n: _in_step(n) if isinstance(n, t.Stmt) else n)


def _writes_shared(node: x.Node) -> bool:
    return any(isinstance(n, t.BufferStore) and n.buffer.scope.startswith("shared") for n in x.walk(node))


def _combines(node: x.Node) -> bool:
    return any(isinstance(n, AllReduce) for n in x.walk(node))


def _uses_shared(node: x.Node) -> bool:
    accesses = (n for n in x.walk(node) if isinstance(n, t.BufferStore | t.BufferLoad))
    return any(n.buffer.scope.startswith("shared") for n in accesses)


def _apart(stmt: x.Node, around: tuple[Wrapper, ...]) -> t.Stmt:
    """Put the loops over threads `around` each part of a statement separately."""
    if isinstance(stmt, t.Seq):
        return t.Seq.of(*(_apart(s, around) for s in stmt.stmts))
    if isinstance(stmt, AllReduce):
        return _combined(stmt, around)
    if isinstance(stmt, t.BlockRealize) and _combines(stmt):
        return _apart(_opened(stmt), around)
    if isinstance(stmt, t.Allocate) and _combines(stmt):
        return _allocated(stmt, around)
    if isinstance(stmt, t.LetStmt) and _loads(stmt.value):
        return _held(stmt, around)
    if isinstance(stmt, t.LetStmt) or (isinstance(stmt, t.For) and _is_thread(stmt)):
        return _apart(stmt.body, (*around, stmt))
    if isinstance(stmt, t.If) and stmt.else_case is None and not _loads(stmt.condition):
        return _apart(stmt.then_case, (*around, stmt))
    if isinstance(stmt, t.For) and stmt.kind is not t.ForKind.THREAD:
        varying = _varying(around)
        if not any(v in varying for e in (stmt.start, stmt.extent) for v in x.free_vars(e)):
            return x.replace(stmt, body=_apart(stmt.body, around))
        if _uses_shared(stmt):
            raise Unsupported(f"{statement_text(stmt)} has another length in each thread, and uses shared storage")
    if _combines(stmt):
        raise Unsupported(f"{statement_text(stmt)}: threads combine values inside, and some may not get there")
    assert isinstance(stmt, t.Stmt)
    return _wrapped(stmt, around)


def _held(stmt: t.LetStmt, around: tuple[Wrapper, ...]) -> t.Stmt:
    """Return the loops for a let whose value is read from memory: it keeps its value, whatever the statements inside
    store.
    """
    varying = _varying(around)
    if not any(isinstance(w, t.If) for w in around) and not any(v in varying for v in x.free_vars(stmt.value)):
        return x.replace(stmt, body=_apart(stmt.body, around))
    threads = [w for w in around if isinstance(w, t.For)]
    own = t.Buffer(stmt.var.name, tuple(w.extent for w in threads), stmt.var.dtype, "local")
    at = tuple(w.var - w.start for w in threads)
    body = x.substitute(stmt.body, {stmt.var: t.BufferLoad(own, at)})
    return t.Allocate(own, t.Seq.of(_wrapped(t.BufferStore(own, stmt.value, at), around), _apart(body, around)))


def _opened(realize: t.BlockRealize) -> t.Stmt:
    """Return the body of a block, with the values of its iterators."""
    block = realize.block
    values = {i.var: v.astype(i.var.dtype) for i, v in zip(block.iter_vars, realize.iter_values, strict=True)}
    body: t.Stmt = x.substitute(block.body, values)
    if block.init is not None or block.match_buffers:
        raise Unsupported(f"block {block.name}, in which threads combine values, has an init or views")
    always = isinstance(realize.predicate, x.IntImm) and realize.predicate.value == 1
    body = body if always else t.If(realize.predicate, body)
    for buffer in reversed(block.alloc_buffers):
        body = t.Allocate(buffer, body)
    return body


def _allocated(stmt: t.Allocate, around: Sequence[Wrapper]) -> t.Stmt:
    """Allocate the storage of all threads outside of the loops over them, with a part for each."""
    threads = [w for w in around if isinstance(w, t.For)]
    wide = _copies(stmt.buffer, threads)
    at = tuple(w.var - w.start for w in threads)

    def change(node: x.Node) -> x.Node | None:
        if not isinstance(node, t.BufferLoad | t.BufferStore) or node.buffer is not stmt.buffer:
            return None
        return x.replace(node, buffer=wide, indices=(*at, *node.indices))

    return t.Allocate(wide, _apart(x.rewrite(stmt.body, change), tuple(around)))


def _combined(stmt: AllReduce, around: Sequence[Wrapper]) -> t.Stmt:
    """Store the values of all threads, combine them for each team of threads, and give all threads the result."""
    varying = _varying(around)
    for w in around:
        if isinstance(w, t.If) and any(v in varying for v in x.free_vars(w.condition)):
            raise Unsupported(f"{w.condition}: some threads do not reach where values are combined")
    loops = [w for w in around if isinstance(w, t.For)]
    team = [next((l for l in loops if l.var is v), None) for v in stmt.threads]
    if None in team:
        raise ExecutionError("tvm_thread_allreduce: its threads are no loops around it")
    others = [l for l in loops if l not in team]
    pairs = list(zip(stmt.values, stmt.reducer.identity, strict=True))
    given = [t.Buffer(f"given_{k}", tuple(l.extent for l in loops), i.dtype, "local") for k, (_, i) in enumerate(pairs)]
    one = (x.const(1),)
    whole = [
        t.Buffer(f"whole_{k}", (*(l.extent for l in others), *one), i.dtype, "local") for k, (_, i) in enumerate(pairs)
    ]
    here = tuple(l.var - l.start for l in loops)
    there = (*(l.var - l.start for l in others), x.const(0))
    put = [
        t.BufferStore(g, x.call("if_then_else", stmt.condition, v, i), here)
        for g, (v, i) in zip(given, pairs, strict=True)
    ]
    acc = tuple(t.BufferLoad(w, there) for w in whole)
    start = [t.BufferStore(w, i, there) for w, (_, i) in zip(whole, pairs, strict=True)]
    results = stmt.reducer.apply(acc, tuple(t.BufferLoad(g, here) for g in given))
    names = [x.DataVar(f"new_{k}", e.dtype) for k, e in enumerate(results)]
    step: t.Stmt = t.Seq.of(*(t.BufferStore(w, n, there) for w, n in zip(whole, names, strict=True)))
    for name, value in reversed(list(zip(names, results, strict=True))):
        step = t.LetStmt(name, value, step)
    for loop in reversed(team):
        assert loop is not None
        step = x.replace(loop, kind=t.ForKind.SERIAL, thread=None, body=step)
    outside = [w for w in around if w not in team]
    get = x.substitute(t.Seq.of(*stmt.stores), dict(zip(stmt.totals, acc, strict=True)))
    # `whole` has a place for each team, where one thread stores the value for the others.
    body = t.Seq.of(
        _wrapped(t.Seq.of(*put), around),
        _fresh(_wrapped(t.Seq.of(*start, step), outside)),
        _fresh(_wrapped(get, around)),
    )
    for buffer in (*given, *whole):
        body = t.Allocate(buffer, body)
    return body


def _fresh(stmt: t.Stmt) -> t.Stmt:
    """Return the statement with new variables for its loops and lets."""
    if isinstance(stmt, t.For | t.LetStmt):
        var = stmt.var.with_name(stmt.var.name)
        return x.replace(stmt, var=var, body=_fresh(x.substitute(stmt.body, {stmt.var: var})))
    return x.replace(stmt, then_case=_fresh(stmt.then_case)) if isinstance(stmt, t.If) else stmt


def _loads(e: x.Node) -> bool:
    return any(isinstance(n, t.BufferLoad) for n in x.walk(e))


def _varying(around: Sequence[Wrapper]) -> set[x.Var]:
    """Return the variables that differ between threads."""
    return {w.var for w in around if isinstance(w, t.For | t.LetStmt)}


def _wrapped(stmt: t.Stmt, around: Sequence[Wrapper]) -> t.Stmt:
    """Return a statement that all threads do, or only one of them if it is the same for all."""
    written = {n.buffer for n in x.walk(stmt) if isinstance(n, t.BufferStore)}
    for_all = bool(written) and all(b.scope.startswith("shared") for b in written)
    for outer in reversed(around):
        if isinstance(outer, t.For) and for_all and outer.var not in x.free_vars(stmt):
            if not isinstance(outer.extent, x.IntImm):
                stmt = t.If(outer.extent > 0, stmt)
            continue
        if isinstance(outer, t.If):
            stmt = x.replace(outer, then_case=stmt)
        elif isinstance(outer, t.For) or outer.var in x.free_vars(stmt):
            stmt = x.replace(outer, body=stmt)
    return stmt
