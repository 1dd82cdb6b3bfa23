"""Load each value only once and name it, if consecutive stores load it several times.

For example, a register-blocked micro-kernel reads each element of its A column once per vector, and each vector of B
once per row. LLVM would find this too, but every node that Numba types and lowers costs compile time. The source
becomes shorter as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...expr import DataVar, Expr, Var, contains, find, map_children
from ...expr.conditions import certain_parts
from ...expr.node import kept_with_node
from ..nodes import BufferLoad, BufferStore, LetStmt, PrimFunc, Seq, Stmt
from .affine import structural_key
from .store_runs import with_runs

MIN_RUN = 2


def share_loads(func: PrimFunc) -> PrimFunc:
    """Name values that are loaded several times: `C0 = C0 + A[k]*B[0]; C1 = C1 + A[k]*B[1]` -> `a = A[k]; C0 = C0 +
    a*B[0]; C1 = C1 + a*B[1]`. Runs after `unroll`.

    before:
        for i in range(8):
            B[i] = A[i] * A[i]
            C[i] = A[i] + 1.0
    after:
        for i in range(8):
            A_x: T.float32 = A[i]
            B[i] = A_x * A_x
            C[i] = A_x + 1.0
    """
    return with_runs(func, _shared_run)


def _shared_run(run: Sequence[BufferStore]) -> list[Stmt]:
    """Return the stores of a run, with lets for the values that they load more than once."""
    written = {stmt.buffer for stmt in run}
    counts: dict[Any, int] = {}
    loads: dict[Any, BufferLoad] = {}
    if len(run) < MIN_RUN:
        return list(run)
    for stmt in run:
        for key, load in _unconditional_loads(stmt.value, written):
            counts[key] = counts.get(key, 0) + 1
            loads.setdefault(key, load)
    shared = {
        key: DataVar(f"{load.buffer.name}_{load_name(load)}", load.dtype)
        for key, load in loads.items()
        if counts[key] > 1
    }
    if not shared:
        return list(run)
    # Legal: the statements write no buffer that these loads read, and each load happens whenever its statement runs. So
    # it has the same value at its first place as at all later ones, and nothing is loaded that was not loaded before.
    pending = dict(shared)
    total: list[tuple[list[tuple[Var, BufferLoad]], BufferStore]] = []
    # A load in an index or behind a condition may come before the first certain one, when its value has no name yet.
    named: dict[Any, Var] = {}
    for stmt in run:
        here = [key for key, _ in _unconditional_loads(stmt.value, written)]
        needed = [(pending.pop(key), loads[key]) for key in here if key in pending]
        named |= {key: shared[key] for key in here if key in shared}
        total.append((needed, BufferStore(stmt.buffer, _named(stmt.value, named), stmt.indices, stmt.predicate)))
    result: Stmt | None = None
    for needed, stmt in reversed(total):
        result = Seq.of(stmt, result)
        for var, load in reversed(needed):
            result = LetStmt(var, load, result)
    return [result] if result is not None else []


def load_name(load: BufferLoad) -> str:
    """Return a short name for the value of a load."""
    return "v" if load.dtype.lanes > 1 else "x"


def _unconditional_loads(e: Expr, written: set[Any]) -> list[tuple[Any, BufferLoad]]:
    """Return (key, load) for the loads that certainly happen and read no buffer that the run writes, not even in their
    masks.

    Equal loads have equal keys.
    """
    loads: list[tuple[Any, BufferLoad]] = []
    stack: list[Any] = [e]
    while stack:
        node = stack.pop()
        if not contains(node, BufferLoad):
            continue
        if isinstance(node, BufferLoad) and node.buffer not in written and node.buffer.scope != "local":
            in_indices = any(contains(i, BufferLoad) for i in node.indices)
            if not in_indices and not _reads(node.predicate, written):
                loads.append((_key(node), node))
            continue
        stack.extend(reversed(certain_parts(node)[0]))
    return loads


def _reads(mask: Expr | None, buffers: set[Any]) -> bool:
    return mask is not None and any(load.buffer in buffers for load in find(mask, BufferLoad))


@kept_with_node
def _key(load: BufferLoad) -> Any:
    return load.buffer, structural_key(load.indices), structural_key(load.predicate)


def _named(e: Any, shared: dict[Any, Var]) -> Any:
    if not shared or not contains(e, BufferLoad):
        return e
    if isinstance(e, BufferLoad) and _key(e) in shared:
        return shared[_key(e)]
    return map_children(e, lambda child: _named(child, shared))
