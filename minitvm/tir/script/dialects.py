"""The versions of TVMScript that the printer supports: TVM v0.23 (our own), and one that TVM v0.27 can parse.

When v0.27 parses text, Python's operators are folded if an operand is a neutral constant: `x + 0` becomes x. An
expression that would be folded is therefore printed as a constructor, `T.Add(x, 0)`, which both versions read without
changes.
"""

from __future__ import annotations

from dataclasses import dataclass

from ... import expr as ex


@dataclass(frozen=True, slots=True)
class Dialect:
    """The TVMScript notation of one TVM version, limited to the differences between the versions."""

    name: str
    module: str  # the module from which `T` is imported
    block: str
    alloc_buffer: str
    block_attr: str
    prefix: str  # of the names of attributes and intrinsics
    options: tuple[str, ...]  # of @T.prim_func on a function with blocks
    folds: bool  # whether reading the text folds neutral constants
    size_vars: bool  # whether variables are marked as sizes
    remaps: str  # the kinds of iterators that T.axis.remap takes
    flat_lets: bool  # whether `x: T.let[dtype] = value` is the only form of a let


DIALECTS: dict[str, Dialect] = {
    "tvm-0.23": Dialect(
        "tvm-0.23", "minitvm.script import tir", "block", "alloc_buffer", "block_attr", "tir.",
        (), False, True, "SRO", False,
    ),
    "tvm-0.27": Dialect(
        "tvm-0.27", "tvm.script import tirx", "sblock", "sblock_alloc_buffer", "sblock_attr", "tirx.",
        ("s_tir=True",), True, False, "SR", True,
    ),
}  # fmt: skip


# The constants, on the left and on the right, for which an operator is folded instead of built.
_NEUTRAL: dict[type, tuple[tuple[int, ...], tuple[int, ...]]] = {
    ex.Add: ((0,), (0,)), ex.Sub: ((), (0,)), ex.Mul: ((0, 1), (0, 1)),
    ex.Div: ((0,), (1,)), ex.FloorDiv: ((0,), (1,)), ex.Mod: ((0,), (1,)), ex.FloorMod: ((0,), (1,)),
}  # fmt: skip


def would_fold(e: ex.Expr) -> bool:
    """Return whether v0.27 may change an expression when parsing it, if it is written with Python's operators."""
    if isinstance(e, ex.Not):
        return _value(e.a) is not None
    if not isinstance(e, ex.BinaryOp):
        return False
    a, b = _value(e.a), _value(e.b)
    if isinstance(e, ex.And | ex.Or):
        return a is not None or b is not None
    if isinstance(e, ex.Min | ex.Max):
        same = e.a is e.b and isinstance(e.a, ex.Var)
        return same or (a is not None and b is not None) or _is_end(e.a) or _is_end(e.b)
    if a is not None and b is not None:
        return True
    left, right = _NEUTRAL.get(type(e), ((), ()))
    return a in left or b in right


def _value(e: ex.Expr) -> object:
    return e.value if isinstance(e, ex.IntImm | ex.FloatImm) else None


def _is_end(e: ex.Expr) -> bool:
    """Return whether a constant is the smallest or largest value of its dtype, which makes it neutral in a
    min or max.
    """
    return isinstance(e, ex.IntImm | ex.FloatImm) and (
        e.value in (e.dtype.min, e.dtype.max) or abs(e.value) == float("inf")
    )
