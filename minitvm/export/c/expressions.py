"""How expressions are spelled in C: values in exactly their dtype, indices as `int64_t` arithmetic.

A CPU with addresses of 32 bits computes indices as `int32_t` if they fit.

Floats use C's operators; all else calls a function of the `library`, which wraps, rounds and compares as the reference
interpreter does.
"""

from __future__ import annotations

import re
from typing import Any

from ... import expr as ex
from ...codegen import decompose
from ...codegen.emitter import Emitter
from ...codegen.expressions import first_lanes_of
from ...codegen.index_width import index_dtype
from ...codegen.spelling import BITS, COMPARISONS, C, Names, atom, rounded
from ...errors import Unsupported
from ...expr.conditions import is_const
from ...machines.simd.codegen.alignment import is_whole
from ...machines.simd.codegen.numba_expressions import CALLS, MARKERS, places_in_table
from ...machines.simd.vectors.lanes import B1, F32, F64, I32, I64
from ...target import Target
from ...tir.nodes import Buffer, BufferLoad, PrimFunc
from .library import CLibrary
from .memory import element
from .types import constant, element_of, literal, memory_type, scalar_type, shape_of, value_type

_KEYWORDS = """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof
    linux unix i386 main thread threads
"""
RESERVED = frozenset(_KEYWORDS.split())
# The names of types and of the library's functions: no variable may have one.
_TAKEN = re.compile(r"_.*|KERNEL_\w*|u?int\w+_t|(.*_)?(b1|[iu](8|16|32|64)|f(16|32|64)|bf16)(x\d+)?(_\w+)?")
_OPERATORS = {ex.Add: "+", ex.Sub: "-", ex.Mul: "*"}
_FOLDED = ("pow", "shl", "shr")  # operations that are another function for a constant second operand


class CNames(Names):
    """Names that are legal in C and that no type or function of the library has."""

    def fresh(self, wish: str) -> str:
        return super().fresh(
            f"{wish}_" if _TAKEN.fullmatch(wish) and not wish.startswith("_") else wish.lstrip("_") or "v"
        )


class CExpressions(Emitter):
    """The half of the dialect that spells expressions; `statements` spells statements."""

    syntax = C
    language = "a C kernel"
    dialect = "c"
    index_rules = (decompose.TRUNCATED, decompose.SHIFTED)
    functions = CALLS

    def __init__(self, kernel: PrimFunc, target: Target | None) -> None:
        super().__init__(kernel, target, ())
        self.names = CNames(RESERVED | {kernel.name})
        self.library = CLibrary()
        if target is not None and target.instruction_set.pointer_bits == 32:
            self.index_dtype = index_dtype(kernel)
        self.arrays: set[Buffer] = set()  # on the stack, aligned

    def type_of(self, dtype: ex.DType) -> str:
        """Return the C type of a value."""
        return self.library.type(*shape_of(dtype))

    def use(self, name: str, dtype: ex.DType) -> str:
        """Return the name of an operation on values of a dtype."""
        return self.library.operation(name, *shape_of(dtype), {})

    def helper(self, name: str, dtype: ex.DType) -> str:
        """Return the name of a function of the library that is no operation on values."""
        return self.library.use(name, *shape_of(dtype))

    # -- indices

    @property
    def index_type(self) -> str:
        """The C type of indices."""
        return scalar_type(element_of(self.index_dtype))

    def to_index(self, text: str) -> str:
        return f"({self.index_type}){atom(text)}"

    def from_index(self, name: str, dtype: ex.DType) -> str:
        return name if dtype == self.index_dtype else f"({value_type(*shape_of(dtype))}){name}"

    def index_constant(self, number: int) -> str:
        return literal(number, I64 if abs(number) >= 2**31 else I32)

    def index_extreme(self, x: ex.Min | ex.Max) -> str:
        return f"{self.use(MARKERS[type(x)], self.index_dtype)}({self.index(x.a)}, {self.index(x.b)})"

    def index_division(self, x: Any) -> str:
        a = self.index(x.a)
        if isinstance(x, ex.Div | ex.Mod) and isinstance(x.b, ex.IntImm) and x.b.value > 0:
            return f"({atom(a)} {'/' if isinstance(x, ex.Div) else '%'} {self.index(x.b)})"
        return f"{self.use(MARKERS[type(x)], self.index_dtype)}({a}, {self.index(x.b)})"

    def address(self, buffer: Buffer, index: str) -> str:
        """Return the address of an element."""
        return self.names[buffer] if index == "0" else f"{self.names[buffer]} + {index}"

    # -- values: of exactly their dtype

    def constant(self, x: ex.IntImm | ex.FloatImm) -> str:
        return constant(x)

    def zero(self, dtype: ex.DType) -> str:
        kind, lanes = shape_of(dtype)
        text = literal(0, kind)
        return f"{self.library.use('all', kind, lanes)}({text})" if lanes else text

    def broadcast(self, x: ex.Broadcast) -> str:
        text = self.value(x.value)
        return f"{self.helper('all', x.dtype)}({f'-{atom(text)}' if x.dtype.is_bool else text})"

    def ramp(self, x: ex.Ramp) -> str:
        return f"{self.helper('ramp', x.dtype)}({self.value(x.base)}, {self.value(x.stride)})"

    def choice_of_lanes(self, condition: ex.Expr, yes: str, no: str, dtype: ex.DType) -> str:
        return f"{self.library.select(*shape_of(dtype))}({self.value(condition)}, {yes}, {no})"

    def load(self, x: BufferLoad) -> str:
        places = None if x.dtype.lanes == 1 or x.buffer in self.registers else places_in_table(x)
        if places is None:
            return super().load(x)
        return f"{self.helper('lookup', x.dtype)}({self.names[x.buffer]}, {self.value(places)})"

    def element(self, x: BufferLoad) -> str:
        return element(self.names[x.buffer], self.place(x.indices[0]), element_of(x.dtype))

    def neighbours(self, x: BufferLoad, base: str) -> str:
        at = self.address(x.buffer, base)
        if x.predicate is not None:
            count = self.count_of_first(x.predicate)
            if count is not None:
                return f"{self.helper('load_first', x.dtype)}({at}, {count})"
            return f"{self.helper('load_masked', x.dtype)}({at}, {self.value(x.predicate)})"
        return f"{self.helper('load_whole' if self.whole(x.buffer, x.indices[0]) else 'load', x.dtype)}({at})"

    def whole(self, buffer: Buffer, index: ex.Expr) -> bool:
        """Return whether a vector is known to be at a multiple of its size: one in an array of the kernel.

        The memory of a parameter is the caller's, who need not align it.
        """
        return buffer in self.arrays and is_whole(buffer, index, self.analyzer, self.lets)

    def gather(self, x: BufferLoad) -> str:
        kind, pointer, places = self.places(x.buffer, x.indices[0])
        if x.predicate is None:
            return f"{self.helper(f'gather_{kind}', x.dtype)}({pointer}, {places})"
        return f"{self.helper(f'gather_masked_{kind}', x.dtype)}({pointer}, {places}, {self.value(x.predicate)})"

    def places(self, buffer: Buffer, index: ex.Expr) -> tuple[str, str, str]:
        """Return (kind, pointer, places) of elements that are no neighbours: a stride apart, or where a vector says."""
        if isinstance(index, ex.Ramp):
            return "strided", self.address(buffer, self.index(index.base)), self.index(index.stride)
        return element_of(index.dtype).name, self.names[buffer], self.value(index)

    def converted(self, text: str, source: ex.DType, to: ex.DType) -> str:
        (a, lanes), (b, _) = shape_of(source), shape_of(to)
        plain = b is not B1 and "half" not in (_half(source), _half(to)) and not (a.kind == "f" and b.kind != "f")
        if plain and not lanes:
            return f"({scalar_type(b)}){atom(text)}"
        return f"{self.library.cast(a, b, lanes)}({text})"

    def comparison(self, x: ex.CompareOp) -> str:
        a, b, dtype = self.value(x.a), self.value(x.b), x.a.dtype
        if dtype.lanes == 1 and not dtype.is_half:
            return f"({atom(a)} {COMPARISONS[type(x)]} {atom(b)})"
        return f"{self.use(MARKERS[type(x)], dtype)}({a}, {b})"

    def count_of_first(self, mask: ex.Expr) -> str | None:
        """Return the number of lanes that a mask of the first lanes selects, or None for any other mask."""
        first = first_lanes_of(mask)
        return None if first is None else self.count(*first)

    def first_lanes(self, limit: ex.Expr, base: ex.Expr, lanes: int) -> str:
        return f"{self.library.use('first', B1, lanes)}({self.count(limit, base)})"

    def count(self, limit: ex.Expr, base: ex.Expr) -> str:
        """Return the difference of two indices."""
        return self.index(limit) if is_const(base, 0) else f"{self.index(limit)} - {self.index_term(base)}"

    def arithmetic(self, x: ex.BinaryOp) -> str:
        a, b, kind = self.value(x.a), self.value(x.b), element_of(x.dtype)
        if kind in (F32, F64) and type(x) in (*_OPERATORS, ex.Div):
            return f"({a} {_OPERATORS.get(type(x), '/')} {b})"
        if kind.kind == "u" and kind.bits >= 32 and type(x) in _OPERATORS:
            return f"({a} {_OPERATORS[type(x)]} {b})"
        return self.called("div" if isinstance(x, ex.Div) and x.dtype.is_float else MARKERS[type(x)], [x.a, x.b])

    def called(self, name: str, operands: list[ex.Expr]) -> str:
        """Return the call of an operation. A constant that decides which function it is becomes a part of it."""
        kind, lanes = shape_of(operands[0].dtype)
        numbers: dict[int, float] = {}
        number = constant_of(operands[-1]) if len(operands) == 2 else None
        if number is not None and (name in _FOLDED or (("div" in name or "mod" in name) and kind.kind in "iu")):
            numbers[1] = number
        texts = [self.value(operand) for position, operand in enumerate(operands) if position not in numbers]
        return f"{self.library.operation(name, kind, lanes, numbers)}({', '.join(texts)})"

    def multiply_add(self, a: ex.Expr, b: ex.Expr, c: ex.Expr) -> str:
        return f"{self.use('fma', c.dtype)}({self.value(a)}, {self.value(b)}, {self.value(c)})"

    def words_added(self, op: str, a: ex.Expr, b: ex.Expr, c: ex.Expr) -> str:
        if op == "dot2_bf16":
            return f"{self.library.dot2(shape_of(c.dtype)[1])}({self.value(c)}, {self.value(a)}, {self.value(b)})"
        return f"{self.use('dot4_add', c.dtype)}({self.value(a)}, {self.value(b)}, {self.value(c)})"

    def call(self, x: ex.Call) -> str:
        if x.op in ("if_then_else", "reinterpret"):
            return super().call(x)
        first = x.args[0].dtype if x.args else x.dtype
        if x.op in BITS and first.lanes == 1 and not first.is_bool:
            return f"({scalar_type(element_of(first))})({f' {BITS[x.op]} '.join(atom(self.value(a)) for a in x.args)})"
        if x.op == "dot2_bf16":
            texts = ", ".join(self.value(a) for a in x.args)
            return f"{self.library.dot2(shape_of(x.dtype)[1])}({texts})"
        if x.op not in self.functions:
            raise Unsupported(f"the intrinsic {x.op} in {self.language}")
        return self.called(self.functions[x.op], list(x.args))

    def reinterpreted(self, x: ex.Call) -> str:
        (source, lanes), (to, _) = shape_of(x.args[0].dtype), shape_of(x.dtype)
        text = self.value(x.args[0])
        return text if source is to else f"{self.library.bitcast(source, to, lanes)}({text})"

    def shuffle(self, x: ex.Shuffle) -> str:
        kind, lanes = shape_of(x.vectors[0].dtype)
        if not lanes:
            raise Unsupported(f"a shuffle of scalars in {self.language}")
        function = self.library.shuffle(kind, [v.dtype.lanes for v in x.vectors], list(x.indices))
        return f"{function}({', '.join(self.value(v) for v in x.vectors)})"


def _half(dtype: ex.DType) -> str:
    return "half" if dtype.is_half else ""


def constant_of(x: ex.Expr) -> float | None:
    """Return the number that an expression has in every lane, or None if it is no constant."""
    if isinstance(x, ex.Broadcast):
        return constant_of(x.value)
    if isinstance(x, ex.IntImm):
        return x.value
    return rounded(x) if isinstance(x, ex.FloatImm) else None


def pointer(buffer: Buffer, is_const_pointer: bool) -> str:
    """Return the C type of a pointer to the elements of a buffer."""
    return f"{'const ' if is_const_pointer else ''}{memory_type(element_of(buffer.dtype))} *"
