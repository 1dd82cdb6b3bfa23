"""What lowering hands to linking: the host function and the kernels of a function, with the sources of the kernels."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..executable.nodes import BUFFER, SCALAR, KernelParam
from ..expr import Var, walk
from ..tir.analysis.kernel_access import buffer_access, elements_surely_read, elements_written
from ..tir.nodes import Buffer, IRModule, KernelCall, PrimFunc


@dataclass(frozen=True, slots=True, eq=False)
class LoweredKernel:
    """A kernel, and all that linking asks about it.

    One run stores at most `written[k]` elements of parameter k (None: nobody knows), and reads at least
    `surely_read[k]`. `func` is the kernel as a program; where it comes from the cache, that is None, and `script` is
    its text.
    """

    name: str
    source: str
    params: tuple[KernelParam, ...]
    written: tuple[int | None, ...]
    surely_read: tuple[int, ...]
    script: str
    func: PrimFunc | None = None

    def program(self) -> PrimFunc:
        """The kernel as a program of the kernel level."""
        if self.func is not None:
            return self.func
        return _parsed(self.script)


@dataclass(frozen=True, slots=True, eq=False)
class LoweredFunc:
    """A level-3 function with what it became: `params` are its own, those of `host`, which calls the kernels, flat."""

    name: str
    params: tuple[Buffer | Var, ...]
    host: PrimFunc
    kernels: Mapping[str, LoweredKernel]

    @property
    def module(self) -> IRModule:
        """The host function and its kernels as a program."""
        return IRModule({self.host.name: self.host, **{name: k.program() for name, k in self.kernels.items()}})

    @property
    def sources(self) -> dict[str, str]:
        """The source of each kernel."""
        return {name: kernel.source for name, kernel in self.kernels.items()}


@lru_cache(maxsize=256)
def _parsed(script: str) -> PrimFunc:
    from ..tir.script.source import from_source

    parsed: Any = from_source(script)
    return parsed if isinstance(parsed, PrimFunc) else next(iter(parsed.functions.values()))


def lowered(func: PrimFunc, module: IRModule, sources: Mapping[str, str]) -> LoweredFunc:
    """A function with the module that it was lowered to and the sources of its kernels."""
    host = next(f for _, f in module.items() if f.attrs.get("host"))
    kernels = {name: _kernel(module[name], host, source) for name, source in sources.items()}
    return LoweredFunc(func.name, func.params, host, kernels)


def _kernel(func: PrimFunc, host: PrimFunc, source: str) -> LoweredKernel:
    written = elements_written(func.body)
    buffers = [p if isinstance(p, Buffer) else None for p in func.params]
    return LoweredKernel(
        func.name,
        source,
        kernel_params(func, _new_workspaces(func, host)),
        tuple(written.get(b, 0) if b is not None else 0 for b in buffers),
        tuple(elements_surely_read(func.body, b) if b is not None else 0 for b in buffers),
        func.script(),
        func,
    )


def kernel_params(kernel: PrimFunc, new: Collection[Buffer] = ()) -> tuple[KernelParam, ...]:
    """The parameters of a kernel with how it accesses them.

    Nothing is in `new` ones before: what the kernel reads of them it has written, or the program is undefined, which
    the interpreters check.
    """
    access = {p: "w" if p in new and mode == "rw" else mode for p, mode in buffer_access(kernel.body).items()}
    return tuple(
        KernelParam(p.name, p.dtype, BUFFER, access.get(p, "r"))
        if isinstance(p, Buffer)
        else KernelParam(p.name, p.dtype, SCALAR)
        for p in kernel.params
    )


def _new_workspaces(kernel: PrimFunc, host: PrimFunc) -> set[Buffer]:
    """The parameters of a kernel that are workspaces which no kernel before it has used."""
    used: set[Buffer] = set()
    for item in walk(host.body):
        if isinstance(item, KernelCall):
            if item.kernel == kernel.name:
                own = {a for a in item.args if isinstance(a, Buffer)} - used - set(host.params)
                return {p for p, a in zip(kernel.params, item.args, strict=True) if isinstance(p, Buffer) and a in own}
            used |= {a for a in item.args if isinstance(a, Buffer)}
    return set()
