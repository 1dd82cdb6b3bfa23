"""Keep track of the parameters that a function's program writes, even if lowering finds that no write ever happens."""

from __future__ import annotations

from ...expr import find, replace
from ..nodes import Block, Buffer, BufferStore, IRModule, KernelCall, PrimFunc

WRITES = "tir.writes"  # attribute of a host function: the positions of the parameters that are outputs


def written_parameters(func: PrimFunc, module: IRModule | None = None) -> tuple[int, ...]:
    """Return the positions of the parameters that a function writes, directly, through views, or in its kernels."""
    stored: set[Buffer] = set()
    views: list[tuple[Buffer, Buffer]] = []
    for node in find(func.body, BufferStore | Block | KernelCall):
        if isinstance(node, BufferStore):
            stored.add(node.buffer)
        elif isinstance(node, Block):
            views += [(match.buffer, match.source.buffer) for match in node.match_buffers]
        elif isinstance(node, KernelCall) and module is not None:
            inner = written_parameters(module[node.kernel])
            stored |= {arg for k, arg in enumerate(node.args) if k in inner and isinstance(arg, Buffer)}
    for view, source in reversed(views):  # a view of a view comes after what it views
        if view in stored:
            stored.add(source)
    own = {k for k, param in enumerate(func.params) if param in stored}
    return tuple(sorted(own | set(func.attrs.get(WRITES, ()))))


def keep_roles(func: PrimFunc, module: IRModule, name: str) -> IRModule:
    """Return the lowered module of `func`. If its host function writes fewer parameters than `func` does, it gets an
    attribute that lists `func`'s outputs.
    """
    host = module[name]
    writes = written_parameters(func)
    if writes == written_parameters(host, module):
        return module
    return IRModule({**dict(module.items()), name: replace(host, attrs={**host.attrs, WRITES: writes})})
