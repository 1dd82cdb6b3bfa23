"""The result of lowering, which linking reads: the host function of a function and its kernels, with their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ..executable.nodes import BUFFER, SCALAR, KernelParam
from ..expr import Expr, IntImm, Var
from ..target import Target
from ..tir.analysis.dynamic_shared import dynamic_storage
from ..tir.analysis.kernel_access import buffer_access, elements_surely_read, elements_written
from ..tir.nodes import Buffer, For, ForKind, IRModule, PrimFunc, Stmt


@dataclass(frozen=True, slots=True, eq=False)
class LoweredKernel:
    """A kernel for a `target`, with the facts that linking needs.

    One run stores at most `written[k]` elements of parameter k (None: unknown), and reads at least `surely_read[k]`.
    `tasks` is the number of iterations of its parallel loop, or 0 if there is no such loop or the number depends on a
    symbolic size. `func` is the kernel as a program. It is None for a kernel from the cache, which has its text in
    `script` instead.
    """

    name: str
    source: str
    params: tuple[KernelParam, ...]
    written: tuple[int | None, ...]
    surely_read: tuple[int, ...]
    script: str
    target: str
    func: PrimFunc | None = None
    shared_bytes: int = 0  # the bytes of storage whose size is given at the launch
    tasks: int = 0

    def program(self) -> PrimFunc:
        """Return the kernel as a program at the kernel level, parsing its text if necessary."""
        if self.func is not None:
            return self.func
        return _parsed(self.script)


@dataclass(frozen=True, slots=True, eq=False)
class LoweredFunc:
    """A loop program and its lowered form.

    `params` are the parameters of the original function. `host` calls the kernels, with flat buffers. If the function
    was lowered for the host instead of the target of its network, `refusal` is the reason; otherwise it is "".
    `conditions` are about its symbolic dimensions and scalars: if all of them hold, its accesses are inside their
    buffers.
    """

    name: str
    params: tuple[Buffer | Var, ...]
    host: PrimFunc
    kernels: Mapping[str, LoweredKernel]
    refusal: str = ""
    conditions: tuple[Expr, ...] = ()

    @property
    def module(self) -> IRModule:
        """The host function and its kernels as one program."""
        return IRModule({self.host.name: self.host, **{name: k.program() for name, k in self.kernels.items()}})

    @property
    def sources(self) -> dict[str, str]:
        """The source text of each kernel."""
        return {name: kernel.source for name, kernel in self.kernels.items()}


def taken_for(func: LoweredFunc, target: Target) -> LoweredFunc:
    """Return the function with `target` as its target. It must have been lowered for a target with the same
    `code_identity`.
    """
    if all(kernel.target == target.brief for kernel in func.kernels.values()):
        return func
    return replace(func, kernels={name: replace(k, target=target.brief) for name, k in func.kernels.items()})


@lru_cache(maxsize=256)
def _parsed(script: str) -> PrimFunc:
    from ..tir.script.source import from_source

    parsed: Any = from_source(script)
    return parsed if isinstance(parsed, PrimFunc) else next(iter(parsed.functions.values()))


def lowered(
    func: PrimFunc, module: IRModule, sources: Mapping[str, str], target: Target, conditions: tuple[Expr, ...] = ()
) -> LoweredFunc:
    """Build a `LoweredFunc` from a function, the module that it was lowered to, and the sources of its kernels."""
    host = next(f for _, f in module.items() if f.attrs.get("host"))
    kernels = {name: _kernel(module[name], source, target) for name, source in sources.items()}
    return LoweredFunc(func.name, func.params, host, kernels, conditions=conditions)


def _kernel(func: PrimFunc, source: str, target: Target) -> LoweredKernel:
    written, read = elements_written(func.body), elements_surely_read(func.body)
    buffers = [p if isinstance(p, Buffer) else None for p in func.params]
    return LoweredKernel(
        func.name,
        source,
        kernel_params(func),
        tuple(written.get(b, 0) if b is not None else 0 for b in buffers),
        tuple(read.get(b, 0) if b is not None else 0 for b in buffers),
        func.script(),
        target.brief,
        func,
        dynamic_storage(func)[1],
        _tasks(func.body),
    )


def _tasks(body: Stmt) -> int:
    if not isinstance(body, For) or body.kind is not ForKind.PARALLEL:
        return 0
    return body.extent.value if isinstance(body.extent, IntImm) else 0


def kernel_params(kernel: PrimFunc) -> tuple[KernelParam, ...]:
    """Return the parameters of a kernel, each with the way in which the kernel accesses it ("r", "w" or "rw")."""
    access = buffer_access(kernel.body)
    return tuple(
        KernelParam(p.name, p.dtype, BUFFER, access.get(p, "r"))
        if isinstance(p, Buffer)
        else KernelParam(p.name, p.dtype, SCALAR)
        for p in kernel.params
    )
