"""The executable of one tir function."""

from __future__ import annotations

from ..executable import nodes as x
from ..expr import Expr, Var, walk
from ..tir.analysis.kernel_access import buffer_access, elements_written
from ..tir.nodes import Buffer, KernelCall
from ..tir.transform.flatten_buffers import symbolic_dimensions
from ..tir.transform.keep_roles import written_parameters
from .linker import Linker, plain
from .lowered import LoweredFunc
from .slots import Slot, buffer_bytes, tensor_bytes


def link_function(lowered: LoweredFunc, target: str) -> x.Executable:
    """The executable of one tir function: what it only reads is an input, what it writes an output."""
    linker = Linker(target)
    access = host_access(lowered)
    inputs: list[x.TensorSpec | x.ScalarSpec] = []
    outputs: list[x.TensorSpec] = []
    calling: list[x.Input | x.Output] = []
    args: list[Slot | Expr] = []
    writes = written_parameters(lowered.host, lowered.module)
    totals = _stored(lowered)
    for position, (param, flat) in enumerate(zip(lowered.func.params, lowered.host.params, strict=True)):
        if isinstance(param, Var):
            calling.append(x.Input(len(inputs)))
            inputs.append(x.ScalarSpec(param.name, param.dtype, param))
            args.append(param)
            continue
        assert isinstance(flat, Buffer)
        # Where no kernel writes an output, or not all of it, it keeps what the caller passes in.
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
    linker.call(lowered, args, {v: v for v in symbolic_dimensions(lowered.func)})
    return linker.finish(lowered.func.name, inputs, outputs, calling=calling)


def _stored(lowered: LoweredFunc) -> dict[Buffer, int | None]:
    """At most how many elements of each parameter the kernels store; None where there is no bound."""
    totals: dict[Buffer, int | None] = {}
    for item in walk(lowered.host.body):
        if isinstance(item, KernelCall):
            kernel = lowered.module[item.kernel]
            counts = elements_written(kernel.body)
            for param, arg in zip(kernel.params, item.args, strict=True):
                if isinstance(param, Buffer) and isinstance(arg, Buffer):
                    before, count = totals.get(arg, 0), counts.get(param, 0)
                    totals[arg] = None if before is None or count is None else before + count
    return totals


def _is_partial(buffer: Buffer, stored: int | None) -> bool:
    """Whether fewer elements are stored than a parameter has."""
    size = tensor_bytes(buffer.shape, buffer.dtype)
    return stored is not None and isinstance(size, int) and stored * buffer.dtype.bytes < size


def host_access(lowered: LoweredFunc) -> dict[Buffer, str]:
    """How a host function accesses its parameters, through its kernels."""
    found: dict[Buffer, str] = {}
    for item in walk(lowered.host.body):
        if not isinstance(item, KernelCall):
            continue
        kernel = lowered.module[item.kernel]
        access = buffer_access(kernel.body)
        for param, arg in zip(kernel.params, item.args, strict=True):
            if isinstance(arg, Buffer) and isinstance(param, Buffer):
                mode = access.get(param, "r")
                before = found.setdefault(arg, mode)
                if before == "r" and "w" in mode:
                    found[arg] = "rw"
    return found
