"""Tensor expressions under TVM's names: `te.placeholder`, `te.compute`, `te.sum`, ..., `te.create_prim_func`.

    A = te.placeholder((m, k), name="A")
    B = te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="k")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    func = te.create_prim_func([A, B, C])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .intrinsics import (
    abs,
    acos,
    acosh,
    all,
    any,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    ceil,
    copysign,
    cos,
    cosh,
    erf,
    exp,
    exp2,
    exp10,
    floor,
    floordiv,
    floormod,
    fma,
    fmod,
    hypot,
    if_then_else,
    infinity,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    log10,
    max_value,
    maximum,
    min_value,
    minimum,
    nearbyint,
    popcount,
    power,
    round,
    rsqrt,
    select,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
    truncdiv,
    truncmod,
)  # fmt: skip
from .nodes import ComputeOp, Operation, PlaceholderOp, Tensor, TensorLoad
from .reducers import comm_reducer, max, min, prod, sum
from .tensors import compute, const, placeholder, post_order, rational, reduce_axis, size_var, var

if TYPE_CHECKING:
    from .primfunc import create_prim_func

pow = power

__all__ = [
    "ComputeOp",
    "Operation",
    "PlaceholderOp",
    "Tensor",
    "TensorLoad",
    "abs",
    "acos",
    "acosh",
    "all",
    "any",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "ceil",
    "comm_reducer",
    "compute",
    "const",
    "copysign",
    "cos",
    "cosh",
    "create_prim_func",
    "erf",
    "exp",
    "exp2",
    "exp10",
    "floor",
    "floordiv",
    "floormod",
    "fma",
    "fmod",
    "hypot",
    "if_then_else",
    "infinity",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log1p",
    "log2",
    "log10",
    "max",
    "max_value",
    "maximum",
    "min",
    "min_value",
    "minimum",
    "nearbyint",
    "placeholder",
    "popcount",
    "post_order",
    "pow",
    "power",
    "prod",
    "rational",
    "reduce_axis",
    "round",
    "rsqrt",
    "select",
    "sigmoid",
    "sin",
    "sinh",
    "size_var",
    "sqrt",
    "sum",
    "tan",
    "tanh",
    "trunc",
    "truncdiv",
    "truncmod",
    "var",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # On first use only: whoever reads te's nodes (the oracle) must not load level 3 for it.
    if name == "create_prim_func":
        from .primfunc import create_prim_func

        return create_prim_func
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
