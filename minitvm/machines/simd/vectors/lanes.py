"""SIMD vectors as Numba types, and the values that the operations of `simd` work on.

`VectorType(element, lanes)` is a Numba type whose LLVM representation is `<lanes x element>`, that is, one or more
machine registers. `Value` wraps one LLVM value, scalar or vector, with its element type. Arithmetic on `Value`s emits
LLVM instructions, so an operation is written once and works for every dtype and every number of lanes (a scalar has no
lanes). `register` makes such an operation callable from generated kernel source.

To save compile time, this does not use `@intrinsic` and `@overload`. An operation is typed by a small template and
emitted directly into the caller, without a separate function that Numba must type and LLVM must inline.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.extending import models, register_model
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate

MAX_LANES = 64


class HalfType(types.Type):
    """float16 as LLVM's `half`, because Numba has no float16 on the CPU. Each operation rounds to half precision."""

    def __init__(self) -> None:
        super().__init__(name="float16")


half = HalfType()


@register_model(HalfType)
class HalfModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: HalfType) -> None:
        super().__init__(dmm, fe_type, ir.HalfType())


class BrainType(types.Type):
    """bfloat16 as its bits, the upper half of a float32. Each operation is computed in float32 and rounded."""

    def __init__(self) -> None:
        super().__init__(name="bfloat16")


brain = BrainType()


@register_model(BrainType)
class BrainModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: BrainType) -> None:
        super().__init__(dmm, fe_type, ir.IntType(16))


@dataclass(frozen=True, slots=True)
class Element:
    """One scalar dtype: its short name (`f32`), kind (`f`loat, `i`nt, `u`nsigned, `b`ool), width in bits and types.

    `memory` is the type of one element in a buffer. For example, a bool is a byte in a buffer and a bit in a
    register.
    """

    name: str
    dtype: str
    kind: str
    bits: int
    numba: types.Type
    llvm: ir.Type
    memory: ir.Type

    @property
    def itemsize(self) -> int:
        return max(1, self.bits // 8)


def _element(name: str, dtype: str, numba_type: types.Type, llvm: ir.Type, memory: ir.Type | None = None) -> Element:
    return Element(name, dtype, name[0], int(name[1:]), numba_type, llvm, llvm if memory is None else memory)


ELEMENTS: dict[str, Element] = {
    e.name: e
    for e in (
        _element("b1", "bool", types.boolean, ir.IntType(1), ir.IntType(8)),
        *(_element(f"i{n}", f"int{n}", getattr(types, f"int{n}"), ir.IntType(n)) for n in (8, 16, 32, 64)),
        *(_element(f"u{n}", f"uint{n}", getattr(types, f"uint{n}"), ir.IntType(n)) for n in (8, 16, 32, 64)),
        _element("f16", "float16", half, ir.HalfType()),
        Element("bf16", "bfloat16", "f", 16, brain, ir.IntType(16), ir.IntType(16)),
        _element("f32", "float32", types.float32, ir.FloatType()),
        _element("f64", "float64", types.float64, ir.DoubleType()),
    )
}
B1, I32, I64, U32, U64 = (ELEMENTS[n] for n in ("b1", "i32", "i64", "u32", "u64"))
F16, BF16, F32, F64 = (ELEMENTS[n] for n in ("f16", "bf16", "f32", "f64"))
_OF_NUMBA = {e.numba: e for e in ELEMENTS.values()}


class VectorType(types.Type):
    """The Numba type of a vector with `lanes` elements in SIMD registers."""

    def __init__(self, element: Element, lanes: int) -> None:
        self.element = element
        self.lanes = lanes
        super().__init__(name=f"{element.name}x{lanes}")


@register_model(VectorType)
class VectorModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: VectorType) -> None:
        super().__init__(dmm, fe_type, ir.VectorType(fe_type.element.llvm, fe_type.lanes))


def numba_type(element: Element, lanes: int) -> types.Type:
    """Return the Numba type of a vector, or of a scalar if `lanes` is 0."""
    return VectorType(element, lanes) if lanes else element.numba


def shape_of(ty: types.Type) -> tuple[Element, int] | None:
    """Return (element, lanes) of a Numba type, or None if it is neither a vector nor a scalar. A scalar has 0 lanes.

    A literal counts as a value of its type.
    """
    if isinstance(ty, VectorType):
        return ty.element, ty.lanes
    element = _OF_NUMBA.get(types.unliteral(ty))
    return None if element is None else (element, 0)


class Value:
    """An LLVM value, scalar (`lanes == 0`) or vector, that knows its element type and the builder to extend.

    Operators follow NumPy: `/` is for floats, and comparisons give `b1` masks. If the other operand is a Python number,
    it becomes a constant of the same type. Integer division is in `division`.
    """

    __slots__ = ("builder", "element", "lanes", "llvm")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, builder: ir.IRBuilder, element: Element, lanes: int, llvm: ir.Value) -> None:
        self.builder, self.element, self.lanes, self.llvm = builder, element, lanes, llvm

    # -- making values

    @property
    def kind(self) -> str:
        return self.element.kind

    @property
    def computes_in_float32(self) -> bool:
        """Return whether operations on this 16-bit float convert it to float32, and conversions use integers."""
        return self.element is BF16 or (self.element is F16 and self.lacks_halves)

    @property
    def lacks_halves(self) -> bool:
        """Return whether the machine has no instructions that convert float16."""
        return architecture(self.builder) in WITHOUT_HALVES or not HALVES.get()

    def llvm_type(self, element: Element | None = None) -> ir.Type:
        scalar = (element or self.element).llvm
        return ir.VectorType(scalar, self.lanes) if self.lanes else scalar

    def wrap(self, llvm: ir.Value, element: Element | None = None) -> Value:
        return Value(self.builder, element or self.element, self.lanes, llvm)

    def constant(self, x: Any, element: Element | None = None) -> Value:
        """Return `x` in every lane."""
        element = element or self.element
        x = _brain_bits(x) if element is BF16 else float(x) if element.kind == "f" else int(x)
        scalar = ir.Constant(element.llvm, x)
        if not self.lanes:
            return self.wrap(scalar, element)
        return self.wrap(ir.Constant(ir.VectorType(element.llvm, self.lanes), [scalar] * self.lanes), element)

    def constants(self, xs: Sequence[int], element: Element) -> Value:
        """Return a vector with one constant per lane."""
        vector = ir.VectorType(element.llvm, self.lanes)
        return self.wrap(ir.Constant(vector, [ir.Constant(element.llvm, x) for x in xs]), element)

    def _number(self) -> Any:
        """Return the value as a Python number if it is a constant scalar of at least 32 bits, or None."""
        if self.lanes or self.kind not in "fiu" or self.element.bits < 32 or not isinstance(self.llvm, ir.Constant):
            return None
        return self.llvm.constant if isinstance(self.llvm.constant, int | float) else None

    def same_number(self) -> float | None:
        """Return the constant that is in every lane, or None if lanes differ or are known only at run time."""
        if not isinstance(self.llvm, ir.Constant):
            return None
        numbers = [c.constant for c in self.llvm.constant] if self.lanes else [self.llvm.constant]
        first = numbers[0]
        return float(first) if isinstance(first, int | float) and numbers == [first] * len(numbers) else None

    def like(self, x: Any) -> Value:
        return x if isinstance(x, Value) else self.constant(x)

    def splat(self, lanes: int) -> Value:
        """Return this scalar in each of `lanes` lanes (0 leaves it a scalar)."""
        if not lanes:
            return self
        vector = ir.VectorType(self.element.llvm, lanes)
        if isinstance(self.llvm, ir.Constant):
            return Value(self.builder, self.element, lanes, ir.Constant(vector, [self.llvm] * lanes))
        undef = ir.Constant(vector, ir.Undefined)
        one = self.builder.insert_element(undef, self.llvm, ir.Constant(ir.IntType(32), 0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
        return Value(self.builder, self.element, lanes, self.builder.shuffle_vector(one, undef, zeros))

    def lane(self, i: Any) -> Value:
        index = i if isinstance(i, ir.Value) else ir.Constant(ir.IntType(32), i)
        return Value(self.builder, self.element, 0, self.builder.extract_element(self.llvm, index))

    def with_lane(self, i: Any, x: Value) -> Value:
        index = i if isinstance(i, ir.Value) else ir.Constant(ir.IntType(32), i)
        return self.wrap(self.builder.insert_element(self.llvm, x.llvm, index))

    def shuffle(self, other: Value | None, lanes: Sequence[int]) -> Value:
        """Pick lanes out of `self` followed by `other`."""
        second = ir.Constant(self.llvm.type, ir.Undefined) if other is None else other.llvm
        mask = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), list(lanes))
        return Value(self.builder, self.element, len(lanes), self.builder.shuffle_vector(self.llvm, second, mask))

    def intrinsic(self, name: str, *others: Value, element: Element | None = None, extra: Sequence[Any] = ()) -> Value:
        """Call the LLVM intrinsic `llvm.<name>` overloaded on this value's type; `extra` are raw LLVM arguments."""
        if self.computes_in_float32:
            wide = self.cast(F32).intrinsic(name, *(o.cast(F32) for o in others), element=element, extra=extra)
            return wide if element else wide.cast(self.element)
        instead = INTRINSICS.get(architecture(self.builder), {}).get(name)
        if instead is not None:
            return instead(self, *others)
        letter = "f" if self.kind == "f" else "i"
        suffix = f"v{self.lanes}{letter}{self.element.bits}" if self.lanes else f"{letter}{self.element.bits}"
        args = [self.llvm, *(o.llvm for o in others), *extra]
        function_type = ir.FunctionType(self.llvm_type(element), [a.type for a in args])
        function = declare(self.builder, f"llvm.{name}.{suffix}", function_type)
        return self.wrap(self.builder.call(function, args), element)

    def lane_by_lane(self, function: Callable[..., Value], *others: Value) -> Value:
        """Apply a scalar operation to each lane in turn, for operations without a vector form."""
        if not self.lanes:
            return function(self, *others)
        results = [function(self.lane(i), *(o.lane(i) for o in others)) for i in range(self.lanes)]
        element = results[0].element
        undef = ir.Constant(ir.VectorType(element.llvm, self.lanes), ir.Undefined)
        total = Value(self.builder, element, self.lanes, undef)
        for i, r in enumerate(results):
            total = total.with_lane(i, r)
        return total

    def library_call(self, symbol: str, *others: Value) -> Value:
        """Call a function of the C library on scalars of this type."""
        function_type = ir.FunctionType(self.llvm.type, [self.llvm.type] * (1 + len(others)))
        function = library_function(self.builder, symbol, function_type)
        return self.wrap(self.builder.call(function, [self.llvm, *(o.llvm for o in others)]))

    def unless_rare(self, rare: Value, instead: Callable[[], Value]) -> Value:
        """Return this value, but in lanes of the mask `rare` the result of `instead`, which runs in a branch that is
        rarely taken.
        """
        b = self.builder
        some = b.bitcast(rare.llvm, ir.IntType(rare.lanes)) if rare.lanes else rare.llvm
        before = b.basic_block
        with b.if_then(b.icmp_unsigned("!=", some, ir.Constant(some.type, 0)), likely=False):
            other = rare.select(instead(), self)
            after = b.basic_block
        result = b.phi(self.llvm.type)
        result.add_incoming(self.llvm, before)
        result.add_incoming(other.llvm, after)
        return self.wrap(result)

    # -- arithmetic

    def _binary(self, op: str, other: Any) -> Value:
        if self.computes_in_float32:
            return self.cast(F32)._binary(op, self.like(other).cast(F32)).cast(self.element)
        return self.wrap(getattr(self.builder, op)(self.llvm, self.like(other).llvm))

    def __add__(self, other: Any) -> Value:
        return self._binary({"f": "fadd", "b": "or_"}.get(self.kind, "add"), other)

    def __sub__(self, other: Any) -> Value:
        return self._binary({"f": "fsub", "b": "xor"}.get(self.kind, "sub"), other)

    def __mul__(self, other: Any) -> Value:
        return self._binary({"f": "fmul", "b": "and_"}.get(self.kind, "mul"), other)

    def __radd__(self, other: Any) -> Value:
        return self.like(other) + self

    def __rsub__(self, other: Any) -> Value:
        return self.like(other) - self

    def __rmul__(self, other: Any) -> Value:
        return self.like(other) * self

    def __truediv__(self, other: Any) -> Value:
        return self._binary("fdiv", other)

    def __rtruediv__(self, other: Any) -> Value:
        return self.like(other) / self

    def __and__(self, other: Any) -> Value:
        return self._binary("and_", other)

    def __or__(self, other: Any) -> Value:
        return self._binary("or_", other)

    def __xor__(self, other: Any) -> Value:
        return self._binary("xor", other)

    def __lshift__(self, other: Any) -> Value:
        # A shift by the width or more is undefined in LLVM, and zero (or the sign) in NumPy.
        count = self.like(other)
        inside = count.unsigned() < self.element.bits
        zero = self.constant(0)
        return inside.select(self._binary("shl", inside.select(count, zero)), zero)

    def __rshift__(self, other: Any) -> Value:
        count = self.like(other)
        inside = count.unsigned() < self.element.bits
        if self.kind == "u":
            return inside.select(self._binary("lshr", inside.select(count, self.constant(0))), self.constant(0))
        return self._binary("ashr", inside.select(count, self.constant(self.element.bits - 1)))

    def __invert__(self) -> Value:
        return self.wrap(self.builder.xor(self.llvm, self.constant(1 if self.kind == "b" else -1).llvm))

    def __neg__(self) -> Value:
        if self.computes_in_float32:
            return (-self.cast(F32)).cast(self.element)
        if self.kind != "f":
            return self.wrap(self.builder.neg(self.llvm))
        instead = INTRINSICS.get(architecture(self.builder), {}).get("fneg")
        return self.wrap(self.builder.fneg(self.llvm)) if instead is None else instead(self)

    def unsigned(self) -> Value:
        return self.wrap(self.llvm, ELEMENTS[f"u{self.element.bits}"])

    def signed(self) -> Value:
        return self.wrap(self.llvm, ELEMENTS[f"i{self.element.bits}"])

    # -- comparison

    def _compare(self, op: str, other: Any) -> Value:
        if self.computes_in_float32:
            return self.cast(F32)._compare(op, self.like(other).cast(F32))
        right = self.like(other).llvm
        if self.kind == "f":
            compare = self.builder.fcmp_unordered if op == "!=" else self.builder.fcmp_ordered
        else:
            compare = self.builder.icmp_signed if self.kind == "i" else self.builder.icmp_unsigned
        return self.wrap(compare(op, self.llvm, right), B1)

    def __lt__(self, other: Any) -> Value:
        return self._compare("<", other)

    def __le__(self, other: Any) -> Value:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> Value:
        return self._compare(">", other)

    def __ge__(self, other: Any) -> Value:
        return self._compare(">=", other)

    def __eq__(self, other: Any) -> Value:  # type: ignore[override]
        return self._compare("==", other)

    def __ne__(self, other: Any) -> Value:  # type: ignore[override]
        return self._compare("!=", other)

    def is_nan(self) -> Value:
        if self.computes_in_float32:
            return self.cast(F32).is_nan()
        return self.wrap(self.builder.fcmp_unordered("uno", self.llvm, self.llvm), B1)

    def select(self, a: Value, b: Value) -> Value:
        """Return `a` in lanes in which this mask is set, and `b` elsewhere. A scalar mask chooses between whole
        vectors.
        """
        return a.wrap(self.builder.select(self.llvm, a.llvm, b.llvm))

    # -- conversion

    def bitcast(self, element: Element) -> Value:
        return self.wrap(self.builder.bitcast(self.llvm, self.llvm_type(element)), element)

    def cast(self, to: Element) -> Value:
        """Convert as NumPy's `astype` does: float to integer truncates, integers wrap, anything non-zero is True."""
        if to is self.element:
            return self
        known = self._number()
        if known is not None and to.kind in "fiu" and to.bits >= 32 and (to.kind == "f" or _fits(known, to)):
            return self.constant(known, to)
        if to is B1:
            return self != 0
        if self.computes_in_float32:
            return (_widened(self) if self.element is BF16 else _widened_half(self)).cast(to)
        if to is BF16:  # by way of float32; integers by way of float64 and float32
            return _to_brain(self.cast(F32) if self.kind == "f" else self.cast(F64).cast(F32))
        source = self.element
        if source is F64 and to is F16:
            return _f64_to_f16(self)
        if source.kind == "f" and to.kind != "f":
            # Narrow integers go through a wider one and wrap, as compiled C does for NumPy.
            wide = U64 if to is U64 else I64 if to.bits == 64 or to is U32 else I32
            if wide is not to:
                return self.cast(wide).cast(to)
        elif source.kind != "f" and to is F16 and source.bits > 16:
            return self.cast(F32).cast(F16)  # exact below 2^24, infinite in both above
        if to is F16 and self.lacks_halves:
            return _to_half(self.cast(F32))
        return self._converted(to)

    def _converted(self, to: Element) -> Value:
        """Convert by one instruction."""
        source, b, ty = self.element, self.builder, self.llvm_type(to)
        if source.kind == "f" and to.kind == "f":
            op = b.fptrunc if source.bits > to.bits else b.fpext
        elif source.kind == "f":
            op = b.fptoui if to is U64 else b.fptosi
        elif to.kind == "f":
            op = b.sitofp if source.kind == "i" else b.uitofp
        elif source.bits == to.bits:
            return self.wrap(self.llvm, to)
        else:
            op = b.trunc if source.bits > to.bits else b.sext if source.kind == "i" else b.zext
        return self.wrap(op(self.llvm, ty), to)


def _fits(number: float, to: Element) -> bool:
    """Return whether an integer dtype can represent a number exactly."""
    low, high = (-(1 << (to.bits - 1)), (1 << (to.bits - 1)) - 1) if to.kind == "i" else (0, (1 << to.bits) - 1)
    return isinstance(number, int) and low <= number <= high


def _widened(x: Value) -> Value:
    """Convert bfloat16 to float32 by appending zero bits."""
    bits = x.bitcast(ELEMENTS["u16"]).cast(U32)
    return (bits << 16).bitcast(F32)


def _widened_half(x: Value) -> Value:
    """Convert float16 to float32 by operations on integers. A subnormal number is scaled in float32, exactly."""
    bits = x.bitcast(ELEMENTS["i16"]).cast(I32)
    rest = bits & 0x7FFF
    bias = (rest >= 0x7C00).select(bits.constant(224 << 23), bits.constant(112 << 23))
    small = (rest.cast(F32) * 2.0**-24).bitcast(I32)
    magnitude = (rest < 0x400).select(small, (rest << 13) + bias)
    return (magnitude | ((bits & 0x8000) << 16)).bitcast(F32)


def _to_half(x: Value) -> Value:
    """Round float32 to float16, ties to even, with integer operations.

    Adding 0.5 to a small float32 leaves as many bits as a subnormal float16 has, so the addition rounds it.
    """
    bits = x.bitcast(I32)
    rest = bits & 0x7FFFFFFF
    small = (rest.bitcast(F32) + 0.5).bitcast(I32) - (126 << 23)
    normal = (rest - (112 << 23) + 0xFFF + ((rest >> 13) & 1)) >> 13
    finite = (rest < (113 << 23)).select(small, normal)
    limited = (rest < (143 << 23)).select(finite, bits.constant(0x7C00))
    magnitude = (rest > (255 << 23)).select(((rest >> 13) & 0x3FF) | 0x7E00, limited)
    return (magnitude | ((bits >> 16) & 0x8000)).cast(ELEMENTS["i16"]).bitcast(F16)


def _to_brain(x: Value) -> Value:
    """Round float32 to bfloat16, ties to even. NaN keeps its sign."""
    bits = x.bitcast(U32)
    even = (bits >> 16) & 1
    rounded = (bits + even + 0x7FFF) >> 16
    nan = ((bits >> 16) & 0x8000) | 0x7FC0
    return x.is_nan().select(nan, rounded).cast(ELEMENTS["u16"]).bitcast(BF16)


def _brain_bits(x: float) -> int:
    return int(np.array(x, np.float32).astype(ml_dtypes.bfloat16).view(np.int16))


def _f64_to_f16(x: Value) -> Value:
    """Round float64 to float16 once: through float32 rounded to odd, which keeps enough bits for a correct second
    rounding.
    """
    near = x.cast(F32)
    back = near.cast(F64)
    bits = near.bitcast(I32)
    inexact = (back != x) & ~x.is_nan()
    even = (bits & 1) == 0
    # The neighbour of an even result on the other side of x is odd.
    grew = back.intrinsic("fabs") > x.intrinsic("fabs")
    odd = (inexact & even).select(bits + grew.select(bits.constant(-1), bits.constant(1)), bits)
    overflow = near.intrinsic("fabs") == math.inf
    return overflow.select(near, odd.bitcast(F32)).cast(F16)


def declare(builder: ir.IRBuilder, name: str, function_type: ir.FunctionType) -> ir.Function:
    """Return an external function in the module under construction, declaring it on first use."""
    existing = builder.module.globals.get(name)
    return existing if existing is not None else ir.Function(builder.module, function_type, name)


def architecture(builder: ir.IRBuilder) -> str:
    """Return the architecture that the module's code is for: "x86_64", "aarch64" or "nvptx64"."""
    return str(builder.module.triple).partition("-")[0]


# For an architecture, what stands for instructions and intrinsics that its LLVM does not have.
INTRINSICS: dict[str, dict[str, Callable[..., Value]]] = {}
# Architectures for which LLVM has no conversions of float16: it would call a library.
WITHOUT_HALVES: set[str] = set()
# Whether the CPU that a kernel is compiled for has such conversions.
HALVES: ContextVar[bool] = ContextVar("halves", default=True)
LIBRARIES: dict[str, Callable[[str], str]] = {}  # for an architecture, the name there of a function of the C library


def library_function(builder: ir.IRBuilder, name: str, function_type: ir.FunctionType) -> ir.Function:
    """Declare a function of the C library, under the name that it has on the module's machine."""
    renamed = LIBRARIES.get(architecture(builder))
    return declare(builder, renamed(name) if renamed else name, function_type)


def value_of(builder: ir.IRBuilder, ty: types.Type, llvm: ir.Value) -> Value:
    shape = shape_of(ty)
    if shape is None:
        raise TypeError(f"{ty} is neither a scalar nor a vector")
    return Value(builder, shape[0], shape[1], llvm)


# -- making operations callable from kernel source

Typer = Callable[..., "types.Type | None"]
Emitter = Callable[[Any, ir.IRBuilder, Any, Sequence[ir.Value]], Any]
ANYTHING = (types.VarArg(types.Any),)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation that kernel source may call: its name or operator, its typing (None: Numba's), and its code
    generator.
    """

    marker: Any
    typer: Typer | None
    emit: Emitter
    patterns: tuple[tuple[Any, ...], ...]

    @property
    def name(self) -> str:
        return getattr(self.marker, "__name__", str(self.marker))

    @property
    def template(self) -> type[AbstractTemplate]:
        """Return the typing of a call, in the form that Numba expects."""
        typer = self.typer
        assert typer is not None
        accepted = inspect.signature(typer)

        def generic(self: Any, args: tuple[types.Type, ...], kws: dict[str, Any]) -> Any:
            if kws:
                return None
            try:
                accepted.bind(*args)
            except TypeError:
                return None  # a wrong number of arguments
            result = typer(*args)
            return None if result is None else signature(result, *args)

        body = {"generic": generic, "prefer_literal": True, "key": self.marker}
        return type(f"Simd_{self.name}", (AbstractTemplate,), body)


Machine = Callable[[Operation], None]
_OPERATIONS: list[Operation] = []
_MACHINES: list[Machine] = []


def on_machine(machine: Machine) -> None:
    """Call `machine` with each operation, including those that are registered later.

    `machine` registers the operation with the part of Numba that compiles for one kind of machine.
    """
    _MACHINES.append(machine)
    for operation in list(_OPERATIONS):
        machine(operation)


def register(marker: Any, typer: Typer | None, emit: Emitter, patterns: Sequence[tuple[Any, ...]] = (ANYTHING,)) -> Any:
    """Let kernel source for every machine call `marker`, and return `marker`.

    `typer(*numba_types)` returns the result type, or None if the arguments do not fit; integer literals arrive as
    `IntegerLiteral`. Without a typer, Numba determines the types. `emit(context, builder, sig, args)` returns the LLVM
    value for argument types that match one of `patterns`. For an operator (`operator.add`), the typer and the patterns
    must not match arguments without a vector, because Numba handles these.
    """
    operation = Operation(marker, typer, emit, tuple(patterns))
    _OPERATIONS.append(operation)
    for machine in _MACHINES:
        machine(operation)
    return marker


def marker(name: str, doc: str | None) -> Callable[..., Any]:
    """Return the object that a name of the support library refers to in kernel source. Python code cannot call it."""

    def function(*args: Any) -> Any:
        raise TypeError(f"{name} exists only in kernel source, where Numba compiles it")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function
