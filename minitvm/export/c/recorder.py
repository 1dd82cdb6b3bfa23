"""Elementary functions and other operations of kernels as C functions, recorded from their one definition in Python.

`machines.simd.vectors` defines each operation on a `Value`, whose arithmetic emits LLVM instructions. A `CValue` has
the same arithmetic and writes C statements instead. So the functions that write `exp` for Numba also write it for C,
with the same roundings:

    static inline f32x16 sigmoid_f32x16(f32x16 a) {
        const f32x16 v1 = fabs_f32x16(a);
        const f32x16 v2 = -v1;
        ...
        return v31;
    }

Integers wrap: signed arithmetic is done on unsigned types. Each arithmetic operation is one statement, and the C code
must be compiled without contraction of products and sums (`-ffp-contract=off`); `fma` is a function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Protocol

from ...machines.simd.vectors.lanes import B1, ELEMENTS, F16, F32, U32, Element, Value
from .types import MASK_BITS, is_half, literal, physical, scalar_type

_OPERATORS = {
    "fadd": "+", "fsub": "-", "fmul": "*", "fdiv": "/", "add": "+", "sub": "-", "mul": "*", "and_": "&", "or_": "|",
    "xor": "^", "shl": "<<", "lshr": ">>", "ashr": ">>", "sdiv": "/", "udiv": "/", "srem": "%", "urem": "%",
}  # fmt: skip
_WRAPPING = ("add", "sub", "mul", "shl")
_BITWISE = ("and_", "or_", "xor")


class CFunctions(Protocol):
    """The library for which functions are recorded: it returns names, and defines what it has named."""

    def type(self, element: Element, lanes: int) -> str:
        """Return the C type of a value."""

    def use(self, name: str, element: Element, lanes: int) -> str:
        """Return the name of the C function for an operation on values of a type."""

    def bits(self, source: Element, to: Element) -> str:
        """Return the name of the function that returns the bits of a scalar as another type."""

    def cast(self, source: Element, to: Element, lanes: int) -> str:
        """Return the name of the conversion between types."""


class Recorder:
    """The statements of one C function."""

    def __init__(self, library: CFunctions) -> None:
        self.library = library
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.module = SimpleNamespace(triple="c")  # `lanes.architecture` reads it: C is no machine of LLVM's

    def line(self, text: str) -> None:
        """Add a statement."""
        self.lines.append("    " * self.depth + text)

    def name(self) -> str:
        """Return a new name of a variable."""
        self.count += 1
        return f"v{self.count}"


class CValue(Value):
    """The text of a C expression, a name or a constant, with its element type and lanes.

    `number` is the constant in every lane, or None. `bits` is the width of the lanes of a mask. A mask has the width of
    the operands that were compared, until it chooses between values of another width.
    """

    __slots__ = ("bits", "number", "text")

    def __init__(
        self, recorder: Recorder, element: Element, lanes: int, text: str, number: Any = None, bits: int = MASK_BITS
    ) -> None:
        self.builder: Any = recorder
        self.element, self.lanes, self.text, self.number, self.bits = element, lanes, text, number, bits

    @property
    def recorder(self) -> Recorder:
        """The statements that this value is one of."""
        recorder: Recorder = self.builder
        return recorder

    @property
    def lacks_halves(self) -> bool:
        return False  # the C code has functions for them

    # -- making values

    def type(self, element: Element | None = None, lanes: int | None = None, bits: int = MASK_BITS) -> str:
        """Return the C type of a value with this value's element and lanes, or with others."""
        element, lanes = element or self.element, self.lanes if lanes is None else lanes
        if element is B1 and lanes and bits != MASK_BITS:
            element = ELEMENTS[f"i{bits}"]
        return self.recorder.library.type(element, lanes)

    def named(
        self, text: str, element: Element | None = None, lanes: int | None = None, bits: int = MASK_BITS
    ) -> CValue:
        """Record a variable with a value."""
        element, lanes, name = element or self.element, self.lanes if lanes is None else lanes, self.recorder.name()
        self.recorder.line(f"const {self.type(element, lanes, bits)} {name} = {text};")
        return CValue(self.recorder, element, lanes, name, bits=bits)

    def wrap(self, llvm: Any, element: Element | None = None) -> CValue:
        return CValue(self.recorder, element or self.element, self.lanes, llvm)

    def constant(self, x: Any, element: Element | None = None) -> CValue:
        element = element or self.element
        text = literal(x, element)
        if self.lanes:
            if element is B1:
                text = str(-int(bool(x)))
            text = f"{self.recorder.library.use('all', element, self.lanes)}({text})"
        return CValue(self.recorder, element, self.lanes, text, number=None if element is B1 else x)

    def constants(self, xs: Sequence[int], element: Element) -> CValue:
        padded = [*xs, *[0] * (physical(self.lanes) - len(xs))]
        numbers = ", ".join(literal(x, element) for x in padded)
        return self.named(f"{{{numbers}}}", element)

    def _number(self) -> Any:
        return None if self.lanes or self.kind == "b" or self.element.bits < 32 else self.number

    def same_number(self) -> float | None:
        return None if self.number is None else float(self.number)

    def splat(self, lanes: int) -> CValue:
        if not lanes:
            return self
        if self.number is not None:
            return CValue(self.recorder, self.element, lanes, "").constant(self.number)
        text = f"-{self.text}" if self.element is B1 else self.text
        return self.named(f"{self.recorder.library.use('all', self.element, lanes)}({text})", lanes=lanes)

    def lane(self, i: Any) -> CValue:
        vector = self.text if self.text.isidentifier() else self.named(self.text, bits=self.bits).text
        text = f"{vector}[{i}] != 0" if self.element is B1 else f"{vector}[{i}]"
        return self.named(text, lanes=0)

    def with_lane(self, i: Any, x: Value) -> CValue:
        return self.from_lanes([(i, x)], self.text)

    def from_lanes(self, lanes: Sequence[tuple[int, Any]], start: str) -> CValue:
        """Record a variable that begins as `start`, with these scalars in its lanes."""
        name = self.recorder.name()
        element = lanes[0][1].element
        self.recorder.line(f"{self.type(element)} {name} = {start};")
        for i, x in lanes:
            self.recorder.line(f"{name}[{i}] = {'-' if element is B1 else ''}{x.text};")
        return CValue(self.recorder, element, self.lanes, name)

    def lane_by_lane(self, function: Callable[..., Value], *others: Value) -> Value:
        if not self.lanes:
            return function(self, *others)
        results = [function(self.lane(i), *(o.lane(i) for o in others)) for i in range(self.lanes)]
        return self.from_lanes(list(enumerate(results)), "{0}")

    def shuffle(self, other: Value | None, lanes: Sequence[int]) -> CValue:
        first = self.masked()
        second = first if other is None else own(other).masked()
        size = physical(self.lanes)
        picks = [i if i < self.lanes else size + i - self.lanes for i in lanes]
        picks += [0] * (physical(len(picks)) - len(picks))
        text = f"__builtin_shufflevector({first.text}, {second.text}, {', '.join(map(str, picks))})"
        return self.named(text, lanes=len(lanes))

    def library_call(self, symbol: str, *others: Value) -> CValue:
        return self.named(f"__builtin_{symbol}({', '.join(own(x).text for x in (self, *others))})")

    def unless_rare(self, rare: Value, instead: Callable[[], Value]) -> CValue:
        mask, recorder, name = own(rare), self.recorder, self.recorder.name()
        recorder.line(f"{self.type()} {name} = {self.text};")
        condition = mask.text
        if mask.lanes:
            mask = mask.masked()
            condition = f"{recorder.library.use('any', B1, mask.lanes)}({mask.text})"
        recorder.line(f"if ({condition}) {{")
        recorder.depth += 1
        other = own(mask.select(instead(), self))
        recorder.line(f"{name} = {other.text};")
        recorder.depth -= 1
        recorder.line("}")
        return CValue(recorder, self.element, self.lanes, name)

    # -- functions of the processor

    def intrinsic(self, name: str, *others: Value, element: Element | None = None, extra: Sequence[Any] = ()) -> CValue:
        if is_half(self.element):
            wide = self.cast(F32).intrinsic(name, *(o.cast(F32) for o in others), element=element)
            return own(wide if element else wide.cast(self.element))
        texts = ", ".join(own(x).text for x in (self, *others))
        return self.named(f"{self.recorder.library.use(name, self.element, self.lanes)}({texts})", element)

    # -- arithmetic

    def _binary(self, op: str, other: Any) -> CValue:
        right = own(self.like(other))
        if is_half(self.element) and op not in _BITWISE:
            return own(own(self.cast(F32))._binary(op, right.cast(F32)).cast(self.element))
        if self.element is B1 and self.lanes:
            return self.named(f"{self.text} {_OPERATORS[op]} {right.masked(self.bits).text}", bits=self.bits)
        a, b = self.text, right.text
        if op in ("sdiv", "udiv", "srem", "urem") and self.lanes:
            return own(self.lane_by_lane(lambda x, y: x._binary(op, y), right))
        if op in _WRAPPING and self.kind == "i":
            return self._wrapping(op, right)
        if op == "ashr" and self.kind == "u":
            raise AssertionError("an arithmetic shift of an unsigned number")
        return self.named(f"{a} {_OPERATORS[op]} {b}")

    def _wrapping(self, op: str, right: CValue) -> CValue:
        """Signed arithmetic, in unsigned types: there it wraps."""
        unsigned = ELEMENTS[f"u{max(32, self.element.bits) if not self.lanes else self.element.bits}"]
        t = self.type(unsigned)
        return self.named(f"({self.type()})(({t}){self.text} {_OPERATORS[op]} ({t}){right.text})")

    def __lshift__(self, other: Any) -> Value:
        return self._shifted("shl", other) or super().__lshift__(other)

    def __rshift__(self, other: Any) -> Value:
        return self._shifted("lshr" if self.kind == "u" else "ashr", other) or super().__rshift__(other)

    def _shifted(self, op: str, other: Any) -> CValue | None:
        """Shift by a constant that is less than the width; return None for any other amount."""
        amount = other.same_number() if isinstance(other, Value) else other
        if amount is None or not 0 <= amount < self.element.bits:
            return None
        if op == "shl" and self.kind == "i":
            unsigned = ELEMENTS[f"u{max(32, self.element.bits) if not self.lanes else self.element.bits}"]
            return self.named(f"({self.type()})(({self.type(unsigned)}){self.text} << {int(amount)})")
        return self.named(f"{self.text} {_OPERATORS[op]} {int(amount)}")

    def __invert__(self) -> CValue:
        if self.element is B1 and not self.lanes:
            return self.named(f"!{self.text}")
        return self.named(f"~{self.text}", bits=self.bits)

    def __neg__(self) -> Value:
        if is_half(self.element):
            return (-self.cast(F32)).cast(self.element)
        return self.named(f"-{self.text}") if self.kind == "f" else self.constant(0) - self

    def unsigned(self) -> CValue:
        return self._as_integer(ELEMENTS[f"u{self.element.bits}"])

    def signed(self) -> CValue:
        return self._as_integer(ELEMENTS[f"i{self.element.bits}"])

    def _as_integer(self, to: Element) -> CValue:
        if to is self.element:
            return self
        return (
            self.constant(self.number, to)
            if self.number is not None
            else self.named(f"({self.type(to)}){self.text}", to)
        )

    # -- comparison

    def _compare(self, op: str, other: Any) -> CValue:
        right = own(self.like(other))
        if is_half(self.element):
            return own(own(self.cast(F32))._compare(op, right.cast(F32)))
        if self.element is B1 and self.lanes:
            right = right.masked(self.bits)
            forms = {"<": "~{0} & {1}", "<=": "~{0} | {1}", ">": "{0} & ~{1}", ">=": "{0} | ~{1}", "==": "~({0} ^ {1})",
                     "!=": "{0} ^ {1}"}  # fmt: skip
            return self.named(forms[op].format(self.text, right.text), bits=self.bits)
        text, bits = f"{self.text} {op} {right.text}", self.element.bits
        if not self.lanes:
            return self.named(text, B1)
        return self.named(f"({self.type(B1, bits=bits)})({text})", B1, bits=bits)

    def is_nan(self) -> CValue:
        return self._compare("!=", self)

    def masked(self, bits: int = MASK_BITS) -> CValue:
        """Return this vector with lanes of that width if it is a mask, and as it is if it is none."""
        if self.element is not B1 or not self.lanes or self.bits == bits:
            return self
        return self.named(f"__builtin_convertvector({self.text}, {self.type(bits=bits)})", bits=bits)

    def select(self, a: Value, b: Value) -> CValue:
        yes, no = own(a), own(b)
        if not self.lanes or not yes.lanes:
            if yes.element is B1 and yes.lanes:
                yes, no = yes.masked(), no.masked()
            return yes.named(f"{self.text} ? {yes.text} : {no.text}")
        bits = yes.bits if yes.element is B1 else yes.element.bits
        mask = self.masked(bits)
        t = yes.type(bits=bits)
        m = mask.type(bits=bits)
        no = no.masked(bits)
        if _is_zero(no):
            text = f"({m}){yes.text} & {mask.text}"
        elif _is_zero(yes):
            text = f"({m}){no.text} & ~{mask.text}"
        else:
            text = f"(({m}){yes.text} & {mask.text}) | (({m}){no.text} & ~{mask.text})"
        return yes.named(f"({t})({text})", bits=bits if yes.element is B1 else MASK_BITS)

    # -- conversion

    def bitcast(self, element: Element) -> CValue:
        if self.element is element:
            return self
        bits = [ELEMENTS["u16"] if is_half(e) else e for e in (self.element, element)]
        if self.lanes:
            return self.named(f"({self.type(element)}){self.text}", element)
        if "f" in (bits[0].kind, bits[1].kind):
            return self.named(f"{self.recorder.library.bits(bits[0], bits[1])}({self.text})", element)
        return self.named(f"({scalar_type(bits[1])}){self.text}", element)

    def _converted(self, to: Element) -> CValue:
        if to is F16:
            single = own(self.cast(F32))
            return single.named(f"{self.recorder.library.cast(F32, F16, self.lanes)}({single.text})", F16)
        if self.element is F16:
            text = f"{self.recorder.library.cast(F16, F32, self.lanes)}({self.text})"
            return own(self.named(text, F32).cast(to))
        if self.element is B1 and self.lanes:
            whole = self.named(f"-{self.text}", ELEMENTS[f"i{self.bits}"])
            return own(whole.cast(to))
        if self.kind == "f" and to.kind != "f":
            return self._truncated(to)
        return self._plainly(to)

    def _plainly(self, to: Element) -> CValue:
        if not self.lanes:
            return self.named(f"({scalar_type(to)}){self.text}", to)
        if self.kind in "iu" and to.kind in "iu" and self.element.bits == to.bits:
            return self.named(f"({self.type(to)}){self.text}", to)
        text = self.text
        if self.kind in "iu" and to.kind == "f" and to.bits == 64 and physical(self.lanes) * self.element.bits == 512:
            text = f"{text} + ({self.type()}){{0}}"  # GCC 12 without optimisation cannot convert a variable of 512 bits
        return self.named(f"__builtin_convertvector({text}, {self.type(to)})", to)

    def _truncated(self, to: Element) -> CValue:
        """A float as an integer of 32 or 64 bits. A number outside its range is the least integer, as on x86."""
        low = -(2.0 ** (to.bits - 1)) if to.kind == "i" else 0.0
        high = 2.0 ** (to.bits - (to.kind == "i"))
        inside = (self >= low if to.kind == "i" else self > -1.0) & (self < high)
        near = own(inside.select(self, self.constant(0.0)))
        least = near.constant(-(1 << (to.bits - 1)) if to.kind == "i" else 1 << (to.bits - 1), to)
        return own(inside.select(near._plainly(to), least))


def own(x: Value) -> CValue:
    """Return a value that C code is recorded for."""
    assert isinstance(x, CValue)
    return x


def _is_zero(x: CValue) -> bool:
    return x.number is not None and x.number == 0 and str(float(x.number)) != "-0.0"


def float_of(half: CValue) -> Value:
    """Return a float16, given as its bits, as float32: exact."""
    bits = half.bitcast(ELEMENTS["u16"]).cast(U32)
    magnitude = bits & 0x7FFF
    # With the exponent's bits in their place, the number is 2^-112 times what it was, subnormal numbers included.
    number = ((magnitude << 13).bitcast(F32) * 2.0**112).bitcast(U32)
    number = (magnitude >= 0x7C00).select((magnitude << 13) | 0x7F800000, number)
    number = (magnitude > 0x7C00).select(number | 0x400000, number)
    return (number | ((bits & 0x8000) << 16)).bitcast(F32)


def half_of(x: CValue) -> Value:
    """Return a float32 as the bits of the nearest float16, ties to even."""
    bits = x.bitcast(U32)
    magnitude = bits & 0x7FFFFFFF
    # Subnormal: the last place of a number from 1/2 to 1 is the least float16.
    small = (magnitude.bitcast(F32) + 0.5).bitcast(U32) - 0x3F000000
    # Normal: half of the last place is added, a little less if the last place is even; the exponent counts from -14.
    usual = (magnitude + (((magnitude >> 13) & 1) + (0xFFF - (112 << 23)))) >> 13
    result = (magnitude < 0x38800000).select(small, usual)
    result = (magnitude >= 0x477FF000).select(result.constant(0x7C00), result)
    nan = ((magnitude >> 13) & 0x3FF) | 0x7E00
    result = (magnitude > 0x7F800000).select(nan, result)
    return (result | ((bits >> 16) & 0x8000)).cast(ELEMENTS["u16"]).bitcast(F16)
