"""Tensor expressions under TVM's names: `te.placeholder`, `te.compute`, `te.sum`, ..., `te.create_prim_func`.

A = te.placeholder((m, k), name="A")
B = te.placeholder((k, n), name="B")
r = te.reduce_axis((0, k), name="k")
C = te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
func = te.create_prim_func([A, B, C])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..absent import absent
from ..tir.op import (
    NAMED,
    abs,
    all,
    any,
    floordiv,
    floormod,
    if_then_else,
    infinity,
    max_value,
    min_value,
    select,
    truncdiv,
    truncmod,
)
from ..tir.op import max as maximum
from ..tir.op import min as minimum
from .nodes import ComputeOp, ExternOp, Operation, PlaceholderOp, Tensor, TensorLoad
from .reducers import comm_reducer, max, min, prod, sum
from .tensors import compute, const, placeholder, post_order, rational, reduce_axis, size_var, var

if TYPE_CHECKING:
    from .external import extern_primfunc
    from .primfunc import create_prim_func
    from .tensor_intrin import decl_tensor_intrin

__all__ = [
    "ComputeOp", "ExternOp", "Operation", "PlaceholderOp", "Tensor", "TensorLoad", "abs", "all", "any", "comm_reducer",
    "compute", "const", "create_prim_func", "decl_tensor_intrin", "extern_primfunc", "floordiv", "floormod",
    "if_then_else", "infinity", "max", "max_value", "maximum", "min", "min_value", "minimum", "placeholder",
    "post_order", "prod", "rational", "reduce_axis", "select", "size_var", "sum", "truncdiv", "truncmod", "var",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # On first use only: a module that reads te's nodes (the oracle) must not load loop programs.
    if name == "create_prim_func":
        from .primfunc import create_prim_func

        return create_prim_func
    if name == "extern_primfunc":
        from .external import extern_primfunc

        return extern_primfunc
    if name == "decl_tensor_intrin":
        from .tensor_intrin import decl_tensor_intrin

        return decl_tensor_intrin
    if name == "AXIS_SEPARATOR":
        from ..tir.index_map import IndexMap

        return IndexMap.AXIS_SEPARATOR
    # The scalar functions are tir's: `te.exp` is `tir.exp`.
    if name in NAMED:
        return NAMED[name]
    raise absent(__name__, name, __dir__())


def __dir__() -> list[str]:
    return sorted({*globals(), "AXIS_SEPARATOR", "create_prim_func", "decl_tensor_intrin", "extern_primfunc", *NAMED})
