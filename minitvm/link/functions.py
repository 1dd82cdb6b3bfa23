"""Build the executable of one tir function."""

from __future__ import annotations

from collections.abc import Iterator

from ..executable import nodes as x
from ..executable.nodes import KernelParam
from ..expr import Expr, Var, walk
from ..lowering.lowered import LoweredFunc
from ..tir.nodes import Buffer, KernelCall
from ..tir.transform.flatten_buffers import symbolic_dimensions
from ..tir.transform.keep_roles import WRITES
from .linker import Linker, plain
from .steps import Slot, buffer_bytes, tensor_bytes


def link_function(lowered: LoweredFunc, target: str) -> x.Executable:
    """Build the executable of one tir function. Buffers that it only reads are inputs; buffers that it writes are
    outputs.
    """
    linker = Linker(target)
    access = host_access(lowered)
    inputs: list[x.TensorSpec | x.ScalarSpec] = []
    outputs: list[x.TensorSpec] = []
    calling: list[x.Input | x.Output] = []
    args: list[Slot | Expr] = []
    writes = _written(lowered)
    totals = _stored(lowered)
    for position, (param, flat) in enumerate(zip(lowered.params, lowered.host.params, strict=True)):
        if isinstance(param, Var):
            calling.append(x.Input(len(inputs)))
            inputs.append(x.ScalarSpec(param.name, param.dtype, param))
            args.append(param)
            continue
        assert isinstance(flat, Buffer)
        # An output that no kernel writes completely keeps the contents that the caller passes in.
        mode = access.get(flat, "r") if flat in access or position not in writes else "rw"
        mode = "rw" if mode == "w" and _is_partial(flat, totals.get(flat, 0)) else mode
        shape = tuple(plain(d) for d in param.shape)
        place: x.Input | x.Output
        if mode == "r":
            place = x.Input(len(inputs))
            inputs.append(x.TensorSpec(param.name, param.dtype, shape))
        else:
            place = x.Output(len(outputs))
            outputs.append(x.TensorSpec(param.name, param.dtype, shape, inout="r" in mode))
        calling.append(place)
        args.append(Slot(param.name, buffer_bytes(flat, {}), place))
    linker.call(lowered, args, {v: v for v in symbolic_dimensions(lowered.params)})
    guards = [x.Guard(condition, 1, lowered.name) for condition in lowered.conditions]
    return linker.finish(lowered.name, inputs, outputs, calling=calling, guards=guards)


def _calls(lowered: LoweredFunc) -> Iterator[tuple[Buffer, KernelParam, int | None]]:
    """Yield (buffer, kernel parameter, maximum number of elements that the call stores, None if unknown) for each
    buffer that a host function passes to a kernel.
    """
    for item in walk(lowered.host.body):
        if isinstance(item, KernelCall):
            kernel = lowered.kernels[item.kernel]
            for param, count, arg in zip(kernel.params, kernel.written, item.args, strict=True):
                if isinstance(arg, Buffer):
                    yield arg, param, count


def _written(lowered: LoweredFunc) -> set[int]:
    """Return the positions of the parameters that are outputs: a kernel or the original function writes to them."""
    stored = {buffer for buffer, param, _ in _calls(lowered) if "w" in param.access}
    return {k for k, p in enumerate(lowered.host.params) if p in stored} | set(lowered.host.attrs.get(WRITES, ()))


def _stored(lowered: LoweredFunc) -> dict[Buffer, int | None]:
    """Return an upper bound on the number of elements that kernels store into each parameter, or None if there is no
    bound.
    """
    totals: dict[Buffer, int | None] = {}
    for buffer, _, count in _calls(lowered):
        before = totals.get(buffer, 0)
        totals[buffer] = None if before is None or count is None else before + count
    return totals


def _is_partial(buffer: Buffer, stored: int | None) -> bool:
    """Return whether the kernels store fewer elements than the parameter has."""
    size = tensor_bytes(buffer.shape, buffer.dtype)
    return stored is not None and isinstance(size, int) and stored * buffer.dtype.bytes < size


def host_access(lowered: LoweredFunc) -> dict[Buffer, str]:
    """Return how a host function accesses each of its parameters through its kernels: "r", "w" or "rw"."""
    modes: dict[Buffer, str] = {}
    for buffer, param, _ in _calls(lowered):
        if modes.setdefault(buffer, param.access) == "r" and "w" in param.access:
            modes[buffer] = "rw"
    return modes
