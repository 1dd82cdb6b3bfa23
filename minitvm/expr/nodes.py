"""The nodes that te and tir share: scalar expressions, iteration variables and reducers.

    expr ::= Var | IntImm | FloatImm | StringImm | Cast | binary | Not | Select | Let | Call
           | Ramp | Broadcast | Shuffle                                      vectors, at kernel level
           | Reduce                                                          te only
           | tir.BufferLoad | te.TensorLoad                                  defined by their levels

Nodes are frozen. `==` on expressions *builds* an `EQ`; `expr.structural_equal` compares; hashing is by identity.
Constructors check dtypes but never fold or simplify: the oracle must see what was written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from fractions import Fraction
from typing import Any

import numpy as np

from ..errors import TypeMismatch
from .dtypes import DType, dtype_of_value, promote
from .node import Node, node

_set = object.__setattr__


class Expr(Node):
    """A scalar value, or a vector value at the kernel level. Every expression has a `dtype`."""

    __slots__ = ()
    dtype: DType

    def __str__(self) -> str:
        from .printer import format_expr

        return format_expr(self)

    __repr__ = __str__
    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise TypeMismatch(
            f"the value of `{self}` is not known while the program is built\n"
            "  try:    tir.if_then_else(cond, a, b) or T.Select instead of `if`; tir.all(a, b) instead of `and`"
        )

    def __add__(self, other: Any) -> Expr:
        return binary(Add, self, other)

    def __radd__(self, other: Any) -> Expr:
        return binary(Add, other, self)

    def __sub__(self, other: Any) -> Expr:
        return binary(Sub, self, other)

    def __rsub__(self, other: Any) -> Expr:
        return binary(Sub, other, self)

    def __mul__(self, other: Any) -> Expr:
        return binary(Mul, self, other)

    def __rmul__(self, other: Any) -> Expr:
        return binary(Mul, other, self)

    def __truediv__(self, other: Any) -> Expr:
        return _true_divide(self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return _true_divide(other, self)

    def __floordiv__(self, other: Any) -> Expr:
        return binary(FloorDiv, self, other)

    def __rfloordiv__(self, other: Any) -> Expr:
        return binary(FloorDiv, other, self)

    def __mod__(self, other: Any) -> Expr:
        return binary(FloorMod, self, other)

    def __rmod__(self, other: Any) -> Expr:
        return binary(FloorMod, other, self)

    def __neg__(self) -> Expr:
        return binary(Sub, const(0, self.dtype), self)

    def __lshift__(self, other: Any) -> Expr:
        return _bits("shift_left", self, other)

    def __rshift__(self, other: Any) -> Expr:
        return _bits("shift_right", self, other)

    def __rlshift__(self, other: Any) -> Expr:
        return _bits("shift_left", other, self)

    def __rrshift__(self, other: Any) -> Expr:
        return _bits("shift_right", other, self)

    def __rand__(self, other: Any) -> Expr:
        return _bits("bitwise_and", other, self)

    def __ror__(self, other: Any) -> Expr:
        return _bits("bitwise_or", other, self)

    def __rxor__(self, other: Any) -> Expr:
        return _bits("bitwise_xor", other, self)

    def __and__(self, other: Any) -> Expr:
        return _bits("bitwise_and", self, other)

    def __or__(self, other: Any) -> Expr:
        return _bits("bitwise_or", self, other)

    def __xor__(self, other: Any) -> Expr:
        return _bits("bitwise_xor", self, other)

    def __invert__(self) -> Expr:
        return Not(self) if self.dtype.is_bool else Call(self.dtype, "bitwise_not", (self,))

    def __lt__(self, other: Any) -> Expr:
        return binary(LT, self, other)

    def __le__(self, other: Any) -> Expr:
        return binary(LE, self, other)

    def __gt__(self, other: Any) -> Expr:
        return binary(GT, self, other)

    def __ge__(self, other: Any) -> Expr:
        return binary(GE, self, other)

    def __eq__(self, other: object) -> Any:
        return binary(EQ, self, other) if _is_scalar(other) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return binary(NE, self, other) if _is_scalar(other) else NotImplemented

    def astype(self, dtype: str) -> Expr:
        """Return this value converted to another dtype, or the expression itself if it has that dtype already.

        Raises `TypeMismatch` for an integer constant outside the range of the dtype, because the wrapped number is
        hardly ever intended. If you do want it, `Cast(dtype, value)` wraps.
        """
        return self if self.dtype == dtype else Cast(DType(dtype), self)

    def same_as(self, other: Any) -> bool:
        """Return whether `other` is the very same node, not just an equal one (TVM's name for identity)."""
        return self is other


@node
class Var(Expr):
    """A named scalar. Two `Var`s with the same name are different variables."""

    name: str
    dtype: DType = DType("int32")

    def __post_init__(self) -> None:
        if self.dtype.__class__ is not DType:
            _set(self, "dtype", DType(self.dtype))

    def with_name(self, name: str) -> Var:
        """Return a new variable of the same kind and dtype, with another name."""
        return type(self)(name, self.dtype)


@node
class SizeVar(Var):
    """A variable that is never negative. Use it for symbolic dimensions."""


def _in_our_order(constant: Any) -> None:
    """Accept TVM's argument order for constants: if the dtype comes first, swap it with the value."""
    if isinstance(constant.value, str):
        dtype, value = constant.value, constant.dtype
        _set(constant, "value", value)
        _set(constant, "dtype", dtype)


@node
class DataVar(Var):
    """A variable that holds data, such as a scalar argument that is not a size, or a loaded value.

    Its arithmetic wraps. Every other variable of int32 or int64 is an index: its sums and products stay within the
    range of its dtype.
    """


_INTEGERS = [DType("bool"), *(DType(f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64))]
_LIMITS = {dtype: (int(dtype.min), int(dtype.max)) for dtype in _INTEGERS}


@node
class IntImm(Expr):
    """An integer or bool constant. The constructor raises an error if the value is out of range for the dtype.

    `IntImm("int32", 5)`, TVM's argument order, is the same as `IntImm(5, "int32")`.
    """

    value: int
    dtype: DType = DType("int32")
    _names = (frozenset(), frozenset(), frozenset())  # instead of the slot

    def __post_init__(self) -> None:
        limits = _LIMITS.get(self.dtype) if self.value.__class__ is int and self.dtype.__class__ is DType else None
        if limits is not None and limits[0] <= self.value <= limits[1]:
            return  # the usual case
        _in_our_order(self)
        dtype = DType(self.dtype)
        _set(self, "dtype", dtype)
        _set(self, "value", int(self.value))
        if not (dtype.is_int or dtype.is_bool) or not dtype.min <= self.value <= dtype.max:
            raise TypeMismatch(f"{self.value} is not a value of dtype {dtype}")

    def astype(self, dtype: str) -> Expr:
        """Return this constant converted to another dtype. Raises `TypeMismatch` if an integer dtype cannot hold the
        value.
        """
        kind = DType(dtype)
        if kind.is_int and not kind.min <= self.value <= kind.max:
            raise TypeMismatch(
                f"{self.value} is not a value of dtype {kind}\n"
                f"  wanted: {kind.min} to {kind.max}\n"
                f"  try:    a wider dtype; Cast({str(kind)!r}, value) where the number is meant to wrap"
            )
        return Expr.astype(self, dtype)

    def __int__(self) -> int:
        return self.value

    __index__ = __int__

    def __bool__(self) -> bool:
        return self.value != 0


@node
class FloatImm(Expr):
    """A float constant. A `Fraction` stays exact until code generation rounds it.

    `FloatImm("float32", 0.5)`, TVM's argument order, is the same as `FloatImm(0.5, "float32")`.
    """

    value: float | Fraction
    dtype: DType = DType("float32")
    _names = (frozenset(), frozenset(), frozenset())

    def __post_init__(self) -> None:
        _in_our_order(self)
        _set(self, "dtype", DType(self.dtype))
        if not self.dtype.is_float:
            raise TypeMismatch(f"{self.value} is not a value of dtype {self.dtype}")
        if not isinstance(self.value, Fraction):
            _set(self, "value", float(self.value))


@node
class StringImm(Expr):
    """A string that is passed to an intrinsic."""

    value: str
    dtype: DType = DType("handle")


@node
class Cast(Expr):
    """`value`, converted as in C: float to int truncates, int to narrower int wraps, and anything to bool is `!= 0`."""

    dtype: DType
    value: Expr
    _children = ("value",)

    def __post_init__(self) -> None:
        if self.dtype.__class__ is not DType:
            _set(self, "dtype", DType(self.dtype))
        if not isinstance(self.value, Expr):
            _set(self, "value", as_expr(self.value))


@node
class BinaryOp(Expr):
    """Base class of operators on two operands of the same dtype."""

    a: Expr
    b: Expr
    dtype: DType = field(init=False)
    _children = ("a", "b")

    def __post_init__(self) -> None:
        a, b = self.a, self.b
        if not (isinstance(a, Expr) and isinstance(b, Expr)):
            a, b = match(a, b)
            _set(self, "a", a)
            _set(self, "b", b)
        if a.dtype is not b.dtype and a.dtype != b.dtype:
            raise TypeMismatch(
                f"{type(self).__name__}: the operands differ in dtype\n"
                f"  found:  {a} is {a.dtype}, {b} is {b.dtype}\n"
                f"  try:    .astype(...) on one of them"
            )
        _set(self, "dtype", a.dtype)


@node
class Add(BinaryOp):
    """`a + b`. Integers wrap on overflow."""


@node
class Sub(BinaryOp):
    """`a - b`. Integers wrap on overflow."""


@node
class Mul(BinaryOp):
    """`a * b`. Integers wrap on overflow."""


@node
class Div(BinaryOp):
    """`a / b`: exact division for floats; for integers, division that truncates toward zero, as in C."""


@node
class Mod(BinaryOp):
    """The remainder of `a / b`, with the sign of the dividend, as in C."""


@node
class FloorDiv(BinaryOp):
    """`a // b`: division rounded toward minus infinity."""


@node
class FloorMod(BinaryOp):
    """The remainder `a % b`, with the sign of the divisor."""


@node
class Min(BinaryOp):
    """The smaller of two values, or NaN if either is NaN."""


@node
class Max(BinaryOp):
    """The larger of two values, or NaN if either is NaN."""


_BOOL = DType("bool")


@node
class CompareOp(BinaryOp):
    """Base class of comparisons. The result is a bool with as many lanes as the operands."""

    def __post_init__(self) -> None:
        BinaryOp.__post_init__(self)
        lanes = self.a.dtype.lanes
        _set(self, "dtype", _BOOL if lanes == 1 else _BOOL.with_lanes(lanes))


@node
class EQ(CompareOp):
    """`a == b`."""

    def __bool__(self) -> bool:
        return _identical(self.a, self.b)


@node
class NE(CompareOp):
    """`a != b`."""

    def __bool__(self) -> bool:
        return not _identical(self.a, self.b)


@node
class LT(CompareOp):
    """`a < b`."""


@node
class LE(CompareOp):
    """`a <= b`."""


@node
class GT(CompareOp):
    """`a > b`."""


@node
class GE(CompareOp):
    """`a >= b`."""


@node
class LogicalOp(BinaryOp):
    """Base class of `and` and `or`. The right operand is evaluated only if the left operand leaves the result open."""

    def __post_init__(self) -> None:
        BinaryOp.__post_init__(self)
        if not self.dtype.is_bool:
            raise TypeMismatch(f"{type(self).__name__} takes bool operands, found {self.dtype}")


@node
class And(LogicalOp):
    """`a and b`."""


@node
class Or(LogicalOp):
    """`a or b`."""


@node
class Not(Expr):
    """`not a`."""

    a: Expr
    dtype: DType = field(init=False)
    _children = ("a",)

    def __post_init__(self) -> None:
        if not self.a.dtype.is_bool:
            raise TypeMismatch(f"not takes a bool, found {self.a.dtype}")
        _set(self, "dtype", self.a.dtype)


@node
class Select(Expr):
    """`true_value if condition else false_value`. Both values are evaluated; use `if_then_else` to guard an access."""

    condition: Expr
    true_value: Expr
    false_value: Expr
    dtype: DType = field(init=False)
    _children = ("condition", "true_value", "false_value")

    def __post_init__(self) -> None:
        if self.true_value.dtype != self.false_value.dtype:
            raise TypeMismatch(f"Select between {self.true_value.dtype} and {self.false_value.dtype}")
        if not self.condition.dtype.is_bool:
            raise TypeMismatch(f"Select takes a bool condition, found {self.condition.dtype}")
        _set(self, "dtype", self.true_value.dtype)


@node
class Let(Expr):
    """`body`, evaluated with `var` bound to `value`."""

    var: Var
    value: Expr
    body: Expr
    dtype: DType = field(init=False)
    _children = ("value", "body")
    _defs = ("var",)

    def __post_init__(self) -> None:
        _set(self, "dtype", self.body.dtype)


@node
class Call(Expr):
    """A call of the intrinsic `op`, such as `exp`, `if_then_else` or `shift_left`. `expr.intrin` lists all intrinsics.

    `if_then_else(cond, a, b)` evaluates only the selected value, so it can guard an access.
    """

    dtype: DType
    op: str
    args: tuple[Expr, ...]
    _children = ("args",)

    def __post_init__(self) -> None:
        if self.dtype.__class__ is not DType:
            _set(self, "dtype", DType(self.dtype))


@node
class Ramp(Expr):
    """The vector `base, base + stride, ..., base + (lanes - 1) * stride`."""

    base: Expr
    stride: Expr
    lanes: int
    dtype: DType = field(init=False)
    _children = ("base", "stride")

    def __post_init__(self) -> None:
        _set(self, "dtype", self.base.dtype.with_lanes(self.lanes))


@node
class Broadcast(Expr):
    """A vector of `lanes` copies of a scalar."""

    value: Expr
    lanes: int
    dtype: DType = field(init=False)
    _children = ("value",)

    def __post_init__(self) -> None:
        _set(self, "dtype", self.value.dtype.with_lanes(self.lanes))


@node
class Shuffle(Expr):
    """A vector of the lanes that `indices` selects from the concatenated `vectors`, or a scalar if there is only one
    index.

    If one of the vectors is a load, all of its elements must be inside the buffer, but only the selected ones are read.
    """

    vectors: tuple[Expr, ...]
    indices: tuple[int, ...]
    dtype: DType = field(init=False)
    _children = ("vectors",)

    def __post_init__(self) -> None:
        _set(self, "dtype", self.vectors[0].dtype.with_lanes(len(self.indices)))


@node
class Range(Node):
    """The half-open interval [start, start + extent)."""

    start: Expr
    extent: Expr
    _children = ("start", "extent")

    @staticmethod
    def of(start: Any, stop: Any | None = None) -> Range:
        """Build a range: `Range.of(n)` is [0, n) and `Range.of(a, b)` is [a, b)."""
        if stop is None:
            extent = as_expr(start)
            return Range(const(0, extent.dtype), extent)
        first, last = match(as_expr(start), as_expr(stop))
        if isinstance(first, IntImm) and first.value == 0:
            return Range(first, last)
        constant = isinstance(first, IntImm) and isinstance(last, IntImm)
        return Range(first, const(last.value - first.value, first.dtype) if constant else last - first)  # type: ignore[attr-defined]

    @staticmethod
    def from_min_extent(start: Any, extent: Any) -> Range:
        """Return the range [start, start + extent) (TVM's name)."""
        return Range(*match(as_expr(start), as_expr(extent)))

    @property
    def min(self) -> Expr:
        """TVM's name for `start`."""
        return self.start


SPATIAL, REDUCE, OPAQUE = "S", "R", "O"
# TVM's numbers of the kinds of iterators that a block may have: DataPar, CommReduce, Ordered, Opaque.
_TVM_KINDS: dict[Any, str] = {0: SPATIAL, 2: REDUCE, 3: OPAQUE, 4: OPAQUE}


@node
class IterVar(Node):
    """An iterator of a block or a compute: a variable, its domain, and its kind.

    `kind` is "S" (spatial: independent), "R" (reduction: commutative) or "O" (opaque: in order). TVM's order of
    arguments, `IterVar(dom, var, iter_type)` with a number for the kind, is accepted too.
    """

    var: Var
    dom: Range
    kind: str = SPATIAL
    _children = ("dom",)
    _defs = ("var",)

    def __post_init__(self) -> None:
        if isinstance(self.var, Range | tuple | list):
            dom, var = self.var, self.dom
            _set(self, "dom", dom if isinstance(dom, Range) else Range.of(*dom))
            _set(self, "var", Var(var) if isinstance(var, str) else var)
        if self.kind in _TVM_KINDS:
            _set(self, "kind", _TVM_KINDS[self.kind])

    # In arithmetic an iteration variable means its variable: `A[i, k + 1]` with a reduce_axis k.
    def __add__(self, other: Any) -> Expr:
        return self.var + other

    def __radd__(self, other: Any) -> Expr:
        return other + self.var

    def __sub__(self, other: Any) -> Expr:
        return self.var - other

    def __rsub__(self, other: Any) -> Expr:
        return other - self.var

    def __mul__(self, other: Any) -> Expr:
        return self.var * other

    def __rmul__(self, other: Any) -> Expr:
        return other * self.var

    def astype(self, dtype: str) -> Expr:
        """Return the variable converted to another dtype."""
        return self.var.astype(dtype)

    def __floordiv__(self, other: Any) -> Expr:
        return self.var // other

    def __mod__(self, other: Any) -> Expr:
        return self.var % other

    def __lt__(self, other: Any) -> Expr:
        return self.var < other

    def __le__(self, other: Any) -> Expr:
        return self.var <= other

    def __gt__(self, other: Any) -> Expr:
        return self.var > other

    def __ge__(self, other: Any) -> Expr:
        return self.var >= other

    @property
    def dtype(self) -> DType:
        return self.var.dtype


@node
class CommReducer(Node):
    """An associative, commutative function that combines tuples: it computes `results` from `lhs` and `rhs`."""

    name: str
    lhs: tuple[Var, ...]
    rhs: tuple[Var, ...]
    results: tuple[Expr, ...]
    identity: tuple[Expr, ...]
    _children = ("results", "identity")
    _defs = ("lhs", "rhs")


@node
class Reduce(Expr):
    """The reduction of `sources[value_index]` over the points of `axes` at which `condition` holds. It appears only in
    te.

    The reduction starts from `init` (one expression per value) or, if `init` is empty, from the combiner's neutral
    element.
    """

    combiner: CommReducer
    axes: tuple[IterVar, ...]
    sources: tuple[Expr, ...]
    condition: Expr
    value_index: int = 0
    init: tuple[Expr, ...] = ()
    dtype: DType = field(init=False)
    _children = ("combiner", "axes", "sources", "condition", "init")

    def __post_init__(self) -> None:
        _set(self, "dtype", self.sources[self.value_index].dtype)


def _identical(a: Expr, b: Expr) -> bool:
    # Dictionaries fall back on == when hashes collide, so the truth of an EQ must never raise.
    return a is b or (isinstance(a, IntImm) and isinstance(b, IntImm) and a.value == b.value and a.dtype == b.dtype)


def _is_scalar(value: object) -> bool:
    return isinstance(value, (Expr, IterVar, bool, int, float, Fraction, np.generic))


def const(value: Any, dtype: str | None = None) -> Expr:
    """Build a constant. Without a `dtype`, the value decides: bool, int32 (int64 for large numbers) or float32."""
    kind = dtype_of_value(value) if dtype is None else DType(dtype)
    if value.__class__ is int and kind in _LIMITS:
        return IntImm(value, kind)
    if kind.lanes > 1:
        return Broadcast(const(value, kind.scalar), kind.lanes)
    if kind.is_float:
        return FloatImm(value if isinstance(value, Fraction) else float(value), kind)
    if int(value) != value:
        raise TypeMismatch(f"{value} is not a value of dtype {kind}")
    return IntImm(int(value), kind)


def as_expr(value: Any, dtype: str | None = None) -> Expr:
    """Convert a value to an expression.

    An `Expr` is returned unchanged, an `IterVar` becomes its variable, and a number or string becomes a constant.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, IterVar):
        return value.var
    if isinstance(value, str):
        return StringImm(value)
    convert: Callable[[], Expr] | None = getattr(value, "asobject_expr", None)
    if convert is not None:
        return convert()
    return const(value, dtype)


def match(a: Any, b: Any) -> tuple[Expr, Expr]:
    """Convert two operands to a common dtype and number of lanes. A plain number takes the dtype of the other
    operand.
    """
    if isinstance(a, Expr):  # the usual case
        if isinstance(b, Expr) and a.dtype is b.dtype:
            return a, b
        if b.__class__ is int and a.dtype.is_int:
            return a, const(b, a.dtype)
    a_const, b_const = _is_number(a), _is_number(b)
    if a_const and not b_const:
        right = _beside(as_expr(b), a)
        return _number_like(a, right), right
    if b_const and not a_const:
        left = _beside(as_expr(a), b)
        return left, _number_like(b, left)
    left, right = as_expr(a), as_expr(b)
    if left.dtype == right.dtype:
        return left, right
    # Next to an int64 operand, an int32 constant (a Python number that went through as_expr) becomes int64.
    if isinstance(left, IntImm) and right.dtype.is_int and right.dtype.lanes == 1 and not left.dtype.is_bool:
        return IntImm(left.value, right.dtype), right
    if isinstance(right, IntImm) and left.dtype.is_int and left.dtype.lanes == 1 and not right.dtype.is_bool:
        return left, IntImm(right.value, left.dtype)
    common = promote(left.dtype, right.dtype)
    return _convert(left, common), _convert(right, common)


def _is_number(value: Any) -> bool:
    return not isinstance(value, Expr | IterVar) and _is_scalar(value)


def _beside(value: Expr, number: Any) -> Expr:
    """Convert an operand to suit the Python number that it is combined with: an integer combined with a float
    becomes float32, as in TVM.
    """
    own = dtype_of_value(number)
    return _convert(value, own.with_lanes(value.dtype.lanes)) if own.is_float and not value.dtype.is_float else value


def _number_like(value: Any, other: Expr) -> Expr:
    target = other.dtype
    own = dtype_of_value(value)
    if target.is_bool and not own.is_bool:
        target = own.with_lanes(target.lanes)
    return const(value, target)


def _convert(value: Expr, dtype: DType) -> Expr:
    if value.dtype.lanes == 1 and dtype.lanes > 1:
        return Broadcast(value.astype(dtype.scalar), dtype.lanes)
    return value.astype(dtype)


def binary(kind: type[BinaryOp], a: Any, b: Any) -> Expr:
    """Return `kind(a, b)` after converting both operands to a common dtype (see `match`)."""
    left, right = match(a, b)
    return kind(left, right)


def _true_divide(a: Any, b: Any) -> Expr:
    left, right = match(a, b)
    if not left.dtype.is_float:
        raise TypeMismatch(
            f"`/` between integers is ambiguous: {left} / {right}\n"
            "  try:    `//` (floor), tir.truncdiv (C's), or .astype('float32') first"
        )
    return Div(left, right)


def _bits(op: str, a: Any, b: Any) -> Expr:
    left, right = match(a, b)
    if left.dtype.is_bool and op in ("bitwise_and", "bitwise_or"):
        return And(left, right) if op == "bitwise_and" else Or(left, right)
    return Call(left.dtype, op, (left, right))
