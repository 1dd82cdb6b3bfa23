"""Split a function into kernels and a host function that calls them in order."""

from __future__ import annotations

from ...errors import InternalError
from ...expr import Node, Var, free_vars, walk
from ..analysis.scratchpads import is_scratchpad
from ..analysis.threads import grid_of, is_of_a_warp, is_private, is_shared
from ..nodes import Allocate, Buffer, BufferLoad, BufferStore, For, ForKind, IRModule, KernelCall, PrimFunc, Seq, Stmt
from .flatten_buffers import symbolic_dimensions

Args = tuple["Buffer | Var", ...]


def split_host(func: PrimFunc, name: str) -> IRModule:
    """Turn each top-level nest that is parallel or runs on a grid into a kernel; consecutive sequential statements
    share a kernel.

    Allocations around kernels become workspaces of the host. The host function is called `name` and has the attribute
    "host". Its kernels are `name_kernel_0`, ...; their parameters are the buffers and scalars that they use, in order
    of first use.
    """
    kernels: dict[str, PrimFunc] = {}
    scope = [*func.params, *(v for v in symbolic_dimensions(func.params) if v not in func.params)]

    def kernel(body: Stmt, visible: list[Buffer | Var]) -> KernelCall:
        label = f"{name}_kernel_{len(kernels)}"
        args = used(body, visible)
        attrs = {k: v for k, v in func.attrs.items() if k in ("target", "schedule_trace")}
        kernels[label] = PrimFunc(args, body, {"global_symbol": label, **attrs})
        return KernelCall(label, args, parallel=is_parallel(body), grid=grid_of(body))

    def host(stmt: Stmt, visible: list[Buffer | Var]) -> Stmt:
        if isinstance(stmt, Allocate) and not is_stack(stmt.buffer):
            return Allocate(stmt.buffer, host(stmt.body, [*visible, stmt.buffer]), stmt.annotations)
        if not isinstance(stmt, Seq):
            return kernel(stmt, visible)
        steps: list[Stmt] = []
        pending: list[Stmt] = []
        for part in stmt.stmts:
            own = is_parallel(part) or is_grid(part) or (isinstance(part, Allocate) and not is_stack(part.buffer))
            if not own:
                pending.append(part)
                continue
            if pending:
                steps.append(kernel(Seq.of(*pending), visible))
                pending = []
            steps.append(host(part, visible))
        if pending:
            steps.append(kernel(Seq.of(*pending), visible))
        return Seq.of(*steps)

    body = Seq(()) if isinstance(func.body, Seq) and not func.body.stmts else host(func.body, scope)
    attrs = {**func.attrs, "global_symbol": name, "host": True}
    return IRModule({name: PrimFunc(func.params, body, attrs), **kernels})


def is_parallel(stmt: Stmt) -> bool:
    """Return whether a statement is a parallel loop."""
    return isinstance(stmt, For) and stmt.kind == ForKind.PARALLEL


def is_grid(stmt: Stmt) -> bool:
    """Return whether a statement is a loop over blocks or threads of a GPU, possibly inside allocations."""
    while isinstance(stmt, Allocate) and is_stack(stmt.buffer):
        stmt = stmt.body
    return isinstance(stmt, For) and stmt.kind == ForKind.THREAD


def is_stack(buffer: Buffer) -> bool:
    """Return whether a buffer is allocated inside a kernel: on a thread's stack, in a block's shared storage, or in a
    scratchpad.
    """
    scope = buffer.scope
    return is_private(scope) or is_shared(scope) or is_of_a_warp(scope) or is_scratchpad(scope)


def used(body: Stmt, visible: list[Buffer | Var]) -> Args:
    """Return the visible buffers and variables that a statement uses: buffers first, each kind in order of
    first use.
    """
    buffers: dict[Buffer, None] = {}
    scalars: dict[Var, None] = {}
    defined: set[Node] = set()
    for node in walk(body):
        if isinstance(node, BufferLoad | BufferStore):
            buffers.setdefault(node.buffer)
        elif isinstance(node, Var):
            scalars.setdefault(node)
        elif isinstance(node, Allocate):
            defined.add(node.buffer)
        for name in node._defs:
            value = getattr(node, name)
            defined.update(value if isinstance(value, tuple) else (value,))
    free: list[Buffer | Var] = [*(b for b in buffers if b not in defined), *(v for v in scalars if v not in defined)]
    unknown = [item for item in free if item not in visible]
    if unknown:
        raise InternalError(f"a kernel uses {', '.join(str(u) for u in unknown)}, which nothing defines")
    # A dimension whose value no other argument gives is an argument, whether or not the body uses it.
    told = {dim for b in free if isinstance(b, Buffer) for dim in b.shape} | {v for v in free if isinstance(v, Var)}
    sizes = {v: None for b in free if isinstance(b, Buffer) for dim in b.shape for v in free_vars(dim) if v not in told}
    return (*free, *sizes)
