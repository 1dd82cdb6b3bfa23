"""The element-wise operations of kernel source, as one table with a row per operation.

Each works on scalars and vectors of the dtypes that it lists, and never promotes: the operands and the result have the
same dtype (with `mask`, the result is `b1`). A scalar next to a vector is converted to the vector's dtype and
broadcast; an integer literal takes the dtype of the other operand.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import types

from . import division, dot2, dot4, elementary
from .float_formats import multiply_add
from .lanes import B1, F32, I32, Element, Value, VectorType, marker, numba_type, register, shape_of, value_of


@dataclass(frozen=True, slots=True)
class ElementOperation:
    """An operation: `emit(*values)` gets operands of one type. `kinds` are the element kinds that it accepts, or it has
    one `element`.
    """

    name: str
    emit: Callable[..., Value]
    arity: int
    kinds: str
    mask: bool = False
    operators: tuple[Any, ...] = ()
    element: str = ""
    doc: str = ""


def maximum(a: Value, b: Value) -> Value:
    largest = (a > b).select(a, b)  # b where either is NaN
    return a.is_nan().select(a, largest) if a.kind == "f" else largest


def minimum(a: Value, b: Value) -> Value:
    least = (a < b).select(a, b)
    return a.is_nan().select(a, least) if a.kind == "f" else least


def absolute(a: Value) -> Value:
    if a.kind == "f":
        return a.intrinsic("fabs")
    return a if a.kind in "ub" else (a < 0).select(-a, a)


def fused_multiply_add(a: Value, b: Value, c: Value) -> Value:
    return multiply_add(a, b, c) if a.kind == "f" else a * b + c


def _intrinsic(name: str) -> Callable[..., Value]:
    return lambda a, *others: a.intrinsic(name, *others)


def _count(name: str) -> Callable[[Value], Value]:
    return lambda a: a.intrinsic(name, extra=(ir.Constant(ir.IntType(1), 0),))


def _round_function(name: str) -> Callable[[Value], Value]:
    """Return a function that rounds floats to integral values. Integers are unchanged."""
    return lambda a: a.intrinsic(name) if a.kind == "f" else a


def _predicate(test: Callable[[Value], Value]) -> Callable[[Value], Value]:
    return lambda a: test(a) if a.kind == "f" else a != a


def _rows() -> list[ElementOperation]:
    op = operator
    inf = float("inf")
    row = ElementOperation
    return [
        row("add", lambda a, b: a + b, 2, "fiub", operators=(op.add, op.iadd)),
        row("sub", lambda a, b: a - b, 2, "fiub", operators=(op.sub, op.isub)),
        row("mul", lambda a, b: a * b, 2, "fiub", operators=(op.mul, op.imul)),
        row(
            "div",
            division.div,
            2,
            "fiu",
            operators=(op.truediv, op.itruediv),
            doc="integers: rounds towards zero",
        ),
        row(
            "floordiv",
            division.floordiv,
            2,
            "fiu",
            operators=(op.floordiv, op.ifloordiv),
            doc="x // 0 is 0 for integers",
        ),
        row(
            "floormod", division.floormod, 2, "fiu", operators=(op.mod, op.imod), doc="sign of the divisor; x % 0 is 0"
        ),
        row("truncdiv", division.truncdiv, 2, "iu"),
        row("truncmod", division.truncmod, 2, "fiu", doc="sign of the dividend; floats: fmod"),
        row("fma", fused_multiply_add, 3, "fiu", doc="a * b + c, rounded once where the CPU can"),
        row("maximum", maximum, 2, "fiub", doc="as numpy.maximum: NaN wins"),
        row("minimum", minimum, 2, "fiub", doc="as numpy.minimum: NaN wins"),
        row("max_select", lambda a, b: (a > b).select(a, b), 2, "fiub", doc="a if a > b else b: one instruction"),
        row("min_select", lambda a, b: (a < b).select(a, b), 2, "fiub", doc="a if a < b else b: one instruction"),
        row("neg", lambda a: -a, 1, "fiu", operators=(op.neg,)),
        row("absolute", absolute, 1, "fiub"),
        row("sign", elementary.sign, 1, "fiu", doc="-1, 0 or 1; NaN stays NaN"),
        row("bitand", lambda a, b: a & b, 2, "iub", operators=(op.and_, op.iand)),
        row("bitor", lambda a, b: a | b, 2, "iub", operators=(op.or_, op.ior)),
        row("bitxor", lambda a, b: a ^ b, 2, "iub", operators=(op.xor, op.ixor)),
        row("invert", lambda a: ~a, 1, "iub", operators=(op.invert,)),
        row("shl", lambda a, b: a << b, 2, "iu", operators=(op.lshift, op.ilshift), doc="0 from the width on"),
        row("shr", lambda a, b: a >> b, 2, "iu", operators=(op.rshift, op.irshift), doc="arithmetic for signed"),
        row("popcount", _intrinsic("ctpop"), 1, "iu"),
        row("dot4_u8i8", dot4.dot4, 2, "i", element="i32", doc="the sum of four products of bytes"),
        row("dot4_add", dot4.dot4_add, 3, "i", element="i32", doc="c + dot4_u8i8(a, b)"),
        row("clz", _count("ctlz"), 1, "iu", doc="leading zeros; the width for 0"),
        row("ctz", _count("cttz"), 1, "iu", doc="trailing zeros; the width for 0"),
        row("lt", lambda a, b: a < b, 2, "fiub", True, (op.lt,)),
        row("le", lambda a, b: a <= b, 2, "fiub", True, (op.le,)),
        row("gt", lambda a, b: a > b, 2, "fiub", True, (op.gt,)),
        row("ge", lambda a, b: a >= b, 2, "fiub", True, (op.ge,)),
        row("eq", lambda a, b: a == b, 2, "fiub", True, (op.eq,)),
        row("ne", lambda a, b: a != b, 2, "fiub", True, (op.ne,)),
        row("isnan", _predicate(lambda a: a.is_nan()), 1, "fiub", True),
        row("isinf", _predicate(lambda a: a.intrinsic("fabs") == inf), 1, "fiub", True),
        row("isfinite", lambda a: a.intrinsic("fabs") < inf if a.kind == "f" else a == a, 1, "fiub", True),
        row("sqrt", _intrinsic("sqrt"), 1, "f"),
        row("rsqrt", lambda a: 1.0 / a.intrinsic("sqrt"), 1, "f"),
        row("floor", _round_function("floor"), 1, "fiu"),
        row("ceil", _round_function("ceil"), 1, "fiu"),
        row("trunc", _round_function("trunc"), 1, "fiu"),
        row("rint", _round_function("rint"), 1, "fiu", doc="to nearest, halves to even"),
        row("round_away", _round_function("round"), 1, "fiu", doc="to nearest, halves away from zero"),
        row("copysign", _intrinsic("copysign"), 2, "f"),
        *(row(name, emit, 1, "f", doc=emit.__doc__ or "") for name, emit in elementary.UNARY.items()),
        *(row(name, emit, 2, "f", doc=emit.__doc__ or "") for name, emit in elementary.BINARY.items()),
    ]


def common_type(args: Sequence[types.Type]) -> tuple[Element, int] | None:
    """Return the common (element, lanes) of the operands of an element-wise operation, or None if there is none."""
    shapes = [shape_of(a) for a in args]
    if None in shapes:
        return None
    vectors = {s for s in shapes if s is not None and s[1]}
    if len(vectors) > 1:
        return None
    if vectors:
        return vectors.pop()
    fixed = {s for s, a in zip(shapes, args, strict=True) if s is not None and not isinstance(a, types.IntegerLiteral)}
    if not fixed:
        return shapes[0]
    return fixed.pop() if len(fixed) == 1 else None


def bring(builder: ir.IRBuilder, ty: types.Type, llvm: ir.Value, to: tuple[Element, int]) -> Value:
    value = value_of(builder, ty, llvm).cast(to[0])
    return value if value.lanes == to[1] else value.splat(to[1])


def _define(row: ElementOperation) -> Any:
    def typer(*args: types.Type) -> types.Type | None:
        if len(args) != row.arity:
            return None
        to = common_type(args)
        if to is None or to[0].kind not in row.kinds or row.element not in ("", to[0].name):
            return None
        return numba_type(B1 if row.mask else to[0], to[1])

    def vector_typer(*args: types.Type) -> types.Type | None:
        return typer(*args) if any(isinstance(a, VectorType) for a in args) else None

    def emit(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> Any:
        to = common_type(sig.args)
        assert to is not None
        return row.emit(*(bring(builder, ty, a, to) for ty, a in zip(sig.args, args, strict=True))).llvm

    for symbol in row.operators:
        if row.arity == 1:
            patterns: list[tuple[Any, ...]] = [(VectorType,)]
        else:
            patterns = [(VectorType, VectorType), (VectorType, types.Any), (types.Any, VectorType)]
        register(symbol, vector_typer, emit, patterns)
    return register(marker(row.name, row.doc), typer, emit)


OPERATIONS = {row.name: row for row in _rows()}
MARKERS: dict[str, Any] = {row.name: _define(row) for row in OPERATIONS.values()}


def _dot2_bf16() -> Any:
    """Register the only operation with operands of two dtypes: float32 sums and int32 words."""
    wanted = (F32, I32, I32)

    def typer(*args: types.Type) -> types.Type | None:
        shapes = [shape_of(a) for a in args]
        lanes = next((s[1] for s in shapes if s is not None), 0)
        return numba_type(F32, lanes) if shapes == [(element, lanes) for element in wanted] else None

    def emit(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> Any:
        return dot2.dot2(*(value_of(builder, ty, a) for ty, a in zip(sig.args, args, strict=True))).llvm

    return register(marker("dot2_bf16", dot2.dot2.__doc__), typer, emit)


MARKERS["dot2_bf16"] = _dot2_bf16()
