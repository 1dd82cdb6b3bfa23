"""Loop programs that the nodes `call_tir` of a graph call: from a schedule, a module, or tensor expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import te
from ..errors import InputError, report
from ..expr import DType, Expr, Var, as_expr, free_vars
from ..tir.analysis.by_hand import SCHEDULED
from ..tir.nodes import IRModule, PrimFunc
from ..tir.schedule import Schedule
from ..topi.called import require_callable
from ..topi.registry import TensorType


def one_function(func: Any) -> PrimFunc:
    """Return the loop program of a `PrimFunc`, of a module with one function, or of a `Schedule`.

    The result of a schedule with at least one step is marked as scheduled. Raises `InputError` for anything else.
    """
    if isinstance(func, Schedule):
        scheduled = func.func
        return scheduled.with_attr(SCHEDULED, True) if len(func.trace.insts) else scheduled
    if isinstance(func, IRModule):
        if len(func.functions) != 1:
            names = ", ".join(func.functions)
            raise InputError(
                report(
                    "call_tir calls one function", found=f"a module of {len(func.functions)}: {names}",
                    tries=['module["NAME"]'],
                )
            )  # fmt: skip
        return next(iter(func.functions.values()))
    require_callable(func)
    result: PrimFunc = func
    return result


def te_function(
    fcompute: Callable[..., Any], types: Sequence[TensorType], attrs: Mapping[str, Any], name: str | None = None
) -> tuple[PrimFunc, tuple[Var, ...]]:
    """Return the loop program of the tensors that `fcompute` returns for placeholders of these types, and its scalar
    parameters: the sizes that are not themselves a dimension of a placeholder.

    If `fcompute` returns a loop program instead, that program is the result. Raises `InputError` for anything else.
    """
    label = name or _name_of(fcompute)
    inputs = [te.placeholder(list(shape), dtype, name=f"p{k}") for k, (shape, dtype) in enumerate(types)]
    results = fcompute(*inputs, **attrs)
    if isinstance(results, PrimFunc | Schedule):
        return one_function(results), ()
    outputs = list(results) if isinstance(results, tuple | list) else [results]
    if not outputs or not all(isinstance(tensor, te.Tensor) for tensor in outputs):
        raise InputError(
            report(
                f"{label} is no tensor expression",
                wanted="a te.Tensor, a list of them, or a PrimFunc",
                found=repr(results),
            )
        )
    plain = {d for shape, _ in types for d in shape if isinstance(d, Var)}
    sizes: dict[Var, None] = {}
    for tensor in te.post_order(outputs):
        for part in _expressions(tensor):
            sizes.update((v, None) for v in free_vars(part) if v not in plain)
    places: list[te.Tensor] = list(inputs)  # a tensor that has a place already is copied to another one
    for t in outputs:
        places.append(te.compute(t.shape, lambda *i, t=t: t[i], name="copy") if t in places else t)
    return te.create_prim_func([*places, *sizes], name=label), tuple(sizes)


def result_types(types: Any) -> tuple[tuple[tuple[Any, ...], str], ...]:
    """Return the (shape, dtype) of each result from a list of such pairs, or from one pair. A dtype is a name, or a
    dtype of NumPy.

    Raises `InputError` for anything else.
    """
    try:
        single = len(types) == 2 and not isinstance(types[1], tuple | list)
        return tuple((tuple(shape), _dtype_name(dtype)) for shape, dtype in ([types] if single else types))
    except (TypeError, ValueError) as error:
        raise InputError(
            report(
                "call_packed: types",
                wanted='((2, 3), "float32"), or a list of such pairs',
                found=f"{types!r} ({error})",
            )
        ) from None


def _dtype_name(dtype: Any) -> str:
    return str(DType(dtype if isinstance(dtype, str) else np.dtype(dtype).name))


def _expressions(tensor: te.Tensor) -> list[Expr]:
    """Return the dimensions of a tensor, and the bounds of the axes of its operation."""
    axes = (
        [axis.dom for axis in (*tensor.op.axis, *tensor.op.reduce_axis)] if isinstance(tensor.op, te.ComputeOp) else []
    )
    return [*map(as_expr, tensor.shape), *(dim for dom in axes for dim in (dom.start, dom.extent))]


def _name_of(fcompute: Callable[..., Any]) -> str:
    name = getattr(fcompute, "__name__", "")
    return name if name.isidentifier() else "call_te"
