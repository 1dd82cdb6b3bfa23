"""`decl_tensor_intrin`: define an intrinsic by a tensor expression and a function that builds its code (TVM's name)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import InputError
from ..expr import Expr, Var, const, replace
from ..tir import nodes as tir
from ..tir.analysis.block_regions import regions_read, regions_written
from ..tir.tensor_intrin import TensorIntrin
from .nodes import ComputeOp, PlaceholderOp, Tensor
from .primfunc import create_prim_func


def decl_tensor_intrin(
    op: Tensor | ComputeOp,
    fcompute: Callable[..., Any],
    name: str = "tensor_intrin",
    binds: Mapping[Tensor, tir.Buffer] | None = None,
    scalar_params: Sequence[Var] | None = None,
    default_buffer_params: Mapping[str, Any] | None = None,
) -> TensorIntrin:
    """Register a tensor intrinsic under `name`, for use with `sch.tensorize`. It computes one tensor from placeholders.

    `fcompute(ins, outs)` takes buffers, and `scalar_params` as a third argument if there are any. It returns statements
    (or an expression to evaluate) for the whole computation. For a reduction it may return a tuple (body, reset,
    update): the whole computation, its initialisation, and one further step. With reset and update, loops around the
    intrinsic may belong to the reduction; without them, the whole reduction must be inside the intrinsic. `binds` maps
    some tensors to buffers; the buffers of the other tensors get `default_buffer_params`, the fields of a `Buffer`.
    Raises `InputError` unless the expression is one compute over placeholders.
    """
    tensor = op if isinstance(op, Tensor) else Tensor(op, tuple(a.dom.extent for a in op.axis), op.body[0].dtype)
    if not isinstance(tensor.op, ComputeOp) or len(tensor.op.body) != 1:
        raise InputError(f"decl_tensor_intrin: {tensor.name} is not one compute of one result")
    inputs = tensor.op.input_tensors
    for source in inputs:
        if not isinstance(source.op, PlaceholderOp):
            raise InputError(f"decl_tensor_intrin: {source.name} is computed; an intrinsic reads placeholders")
    scalars = tuple(scalar_params or ())
    desc = _description(create_prim_func([*inputs, tensor, *scalars]), name)
    buffers: list[tir.Buffer] = []
    for item, declared in zip((*inputs, tensor), desc.buffers, strict=False):
        bound = (binds or {}).get(item)
        default = dict(default_buffer_params or {})
        default.pop("offset_factor", None)  # a hint of TVM's; offsets are exact here
        buffers.append(bound or tir.Buffer(declared.name, declared.shape, declared.dtype, **default))
    ins, outs = buffers[:-1], buffers[-1:]
    statements = fcompute(ins, outs, list(scalars)) if scalars else fcompute(ins, outs)
    body, reset, update = (
        (*statements, None, None)[:3] if isinstance(statements, tuple | list) else (statements, None, None)
    )
    reduces = bool(tensor.op.reduce_axis)
    if (reset is not None or update is not None) and not reduces:
        raise InputError(f"decl_tensor_intrin: {tensor.name} is no reduction, so it has no reset and no update")
    if reduces and reset is not None and update is not None:
        impl = _implementation(desc, buffers, scalars, _stmt(update), _stmt(reset))
    elif body is None:
        raise InputError("decl_tensor_intrin: wanted a body, or reset and update of a reduction")
    else:
        impl = _implementation(desc, buffers, scalars, _stmt(body), None)
    return TensorIntrin.register(name, desc, impl, override=True)


def _stmt(value: Any) -> tir.Stmt:
    if isinstance(value, tir.Stmt):
        return value
    if isinstance(value, Expr):
        return tir.Evaluate(value)
    if isinstance(value, list | tuple):
        return tir.Seq.of(*map(_stmt, value))
    raise InputError(f"decl_tensor_intrin: wanted a statement or an expression, found {type(value).__name__}")


def _description(func: tir.PrimFunc, name: str) -> tir.PrimFunc:
    """Return the description of an intrinsic: the compute's loop nest as the root block, with init and update split.

    The split is the same as in `blockize`.
    """
    from ..tir.nodes import IRModule
    from ..tir.schedule import PRIMITIVES
    from ..tir.schedule.registry import Refused
    from ..tir.schedule.state import ScheduleState

    state = ScheduleState(IRModule({"main": func}), "main")
    loop = tir.root_block(func).body
    if not isinstance(loop, tir.For):
        raise InputError(f"decl_tensor_intrin: {name} has no loops")
    try:
        outer: tir.BlockRealize = PRIMITIVES["blockize"].run(state, {"target": loop, "preserve_unit_iters": False})
    except Refused as refused:
        raise InputError(f"decl_tensor_intrin: {name}: {refused.failure.found}") from None
    # Each of its iterators has only one value, and is not used.
    block = replace(outer.block, name="root", annotations={}, iter_vars=())
    return tir.PrimFunc(func.params, tir.BlockRealize((), const(True), block), func.attrs)


def _implementation(
    desc: tir.PrimFunc, buffers: Sequence[tir.Buffer], scalars: Sequence[Var], body: tir.Stmt, init: tir.Stmt | None
) -> tir.PrimFunc:
    pattern = tir.root_block(desc)
    own = dict(zip(desc.buffers, buffers, strict=False))

    def regions(declared: Sequence[tir.BufferRegion]) -> tuple[tir.BufferRegion, ...]:
        return tuple(tir.BufferRegion(own[r.buffer], r.region) for r in declared)

    block = tir.Block((), regions(regions_read(pattern)), regions(regions_written(pattern)), "root", body, init)
    return tir.PrimFunc((*buffers, *scalars), tir.BlockRealize((), const(True), block), {"global_symbol": "impl"})


__all__ = ["decl_tensor_intrin"]
