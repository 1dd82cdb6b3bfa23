"""`extern_primfunc`: tensors that a loop program computes, for operators without a formula per element (TVM's name).

For example, a scan carries a sum from element to element, a sort moves elements about, and a scatter writes to indices
given by a tensor. Each is a `T.prim_func`, whose parameters are the inputs and then the results. It is an operation of
the tensor program like a compute: `create_prim_func` inserts its blocks, and interpreters run its loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InputError, report
from ..expr import structural_equal
from ..tir.nodes import Buffer, PrimFunc, root_block
from .nodes import ExternOp, Tensor


def extern_primfunc(
    input_tensors: Sequence[Tensor], primfunc: PrimFunc | str, extra_vars: Mapping[str, Any] | None = None
) -> Any:
    """Return the tensor that a loop program computes from `input_tensors`, or a list of tensors if it computes
    several.

    The function's first parameters are the inputs, and the others are the results. It must write all of a result before
    it reads from it. Shapes are constants or expressions in the dimensions of the inputs. If `primfunc` is a string, it
    is the source of the function, which may refer to `extra_vars` by name. Raises `InputError` for parameters that do
    not fit the inputs.
    """
    func = _parsed(primfunc, extra_vars) if isinstance(primfunc, str) else primfunc
    inputs = tuple(input_tensors)
    buffers = func.buffers
    if len(buffers) != len(func.params) or len(buffers) <= len(inputs):
        raise InputError(
            report(
                f"extern_primfunc {func.name}: the function's parameters are the inputs, and then the results",
                wanted=f"{len(inputs)} buffers and one or more behind them",
                found=f"({', '.join(p.name for p in func.params)})",
            )
        )
    root_block(func)
    for number, (tensor, buffer) in enumerate(zip(inputs, buffers, strict=False)):
        if not _alike(tensor, buffer):
            raise InputError(
                report(
                    f"extern_primfunc {func.name}: input {number} is not what the function takes",
                    wanted=str(buffer), found=str(tensor),
                )
            )  # fmt: skip
    op = ExternOp(func.name, inputs, func)
    results = [Tensor(op, b.shape, b.dtype, k) for k, b in enumerate(buffers[len(inputs) :])]
    return results[0] if len(results) == 1 else results


def _parsed(text: str, extra_vars: Mapping[str, Any] | None) -> PrimFunc:
    from ..tir.script.source import from_source

    func = from_source(text, extra_vars)
    if not isinstance(func, PrimFunc):
        raise InputError("extern_primfunc takes one function, found a module")
    return func


def _alike(tensor: Tensor, buffer: Buffer) -> bool:
    return (
        tensor.dtype == buffer.dtype
        and len(tensor.shape) == len(buffer.shape)
        and all(structural_equal(a, b) for a, b in zip(tensor.shape, buffer.shape, strict=True))
    )
