"""Foreign calls in TVMScript: `T.call_extern("int32", "f", A.access_ptr("r"))`, `T.tvm_mma_sync(...)`, ...

In a program, each is a `Call` whose first argument is the name of the foreign code. `expr.foreign` lists the foreign
operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import InputError, TypeMismatch
from ...expr import Call, DType, Expr, as_expr
from ...expr.foreign import FOREIGN, GIVEN, ForeignOp, result_dtype
from ..nodes import Buffer
from .descriptions import TypeName


def maker(name: str) -> Callable[..., Expr]:
    """Return the function that `T.name` refers to for a foreign operation."""
    row = FOREIGN[name]

    def make(*args: Any, dtype: Any = None) -> Expr:
        # TVM's texts give the dtype first, or by name.
        stated: Any = dtype
        values = list(args)
        if name == "type_annotation" and not values:
            values, stated = [dtype], None
        if row.result == GIVEN and stated is None and values and _is_dtype(values[0]):
            stated = values.pop(0)
        return foreign_call(row, [_argument(name, v) for v in values], _dtype(stated))

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"`T.{name}`: carried and scheduled, and not run: {row.reason}."
    return make


def foreign_call(row: ForeignOp, args: list[Expr], stated: DType | None) -> Expr:
    """Return the call, with the dtype that follows from the operation and its arguments.

    Raises `TypeMismatch` if arguments are missing, or if the text gives a different dtype.
    """
    own = result_dtype(row, args)
    if own is None and row.result != GIVEN:
        raise TypeMismatch(f"T.{row.name} takes more arguments")
    dtype = own or stated or DType("int32")
    if own is not None and stated is not None and stated != own and row.name != "tvm_access_ptr":
        raise TypeMismatch(f"T.{row.name} of {own}: the text says dtype={stated}")
    return Call(dtype, row.name, tuple(args))


def as_text(e: Call, args: list[str]) -> str | None:
    """Return the call as `T.name(...)` if that text parses back to the same call; None if the dtype would differ."""
    row = FOREIGN[e.op]
    if row.result == GIVEN:
        return f'T.{e.op}("{e.dtype}", {", ".join(args)})' if args else f'T.{e.op}("{e.dtype}")'
    if result_dtype(row, e.args) == e.dtype:
        return f"T.{e.op}({', '.join(args)})"
    return None


def _is_dtype(value: Any) -> bool:
    if isinstance(value, TypeName):
        return True
    if not isinstance(value, str):
        return False
    try:
        DType(value)
    except ValueError:
        return value in ("", "void")
    return True


def _dtype(value: Any) -> DType | None:
    if value is None:
        return None
    if isinstance(value, TypeName):
        return value.dtype
    return DType("int32" if value in ("", "void") else value)


def _argument(name: str, value: Any) -> Expr:
    if isinstance(value, Buffer):
        raise InputError(
            f"T.{name} takes values and addresses, found the buffer {value.name}\n"
            f'  try:    {value.name}.access_ptr("r"), or {value.name}[...] for an element'
        )
    if isinstance(value, TypeName):
        value = value.dtype
    return as_expr(str(value) if isinstance(value, DType) else value)
