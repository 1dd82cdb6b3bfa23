"""Write expressions as Python for Numba: indices as int64 arithmetic, values in exactly their dtype.

Indices use Python's operators. Vectors, narrow integers and half floats call the library `machines.simd.vectors.simd`;
the names that the kernel uses are collected for the import statement.
"""

from __future__ import annotations

import math
from typing import Any

from .... import expr as ex
from ....codegen import decompose
from ....codegen.emitter import Emitter
from ....codegen.spelling import COMPARISONS, PYTHON, atom, is_index, rounded
from ....errors import Unsupported
from ....expr.conditions import is_const
from ....target import Target
from ....tir.nodes import Buffer, BufferLoad, PrimFunc
from .alignment import is_whole

_SHORT = {"bool": "b1", **{f"{k}int{n}": f"{k or 'i'}{n}" for k in ("", "u") for n in (8, 16, 32, 64)}}
_SHORT.update({"bfloat16": "bf16", **{f"float{n}": f"f{n}" for n in (16, 32, 64)}})
_SIMD_NAMES = """
    load load_words store load_whole store_whole load_masked store_masked prefetch gather scatter lookup
    ramp broadcast first select shuffle extract insert
    concat fma add sub mul div floordiv floormod truncdiv truncmod maximum minimum neg absolute
    bitand bitor bitxor invert shl shr popcount dot4_u8i8 dot4_add dot2_bf16 lt le gt ge eq ne isnan isinf isfinite
    sqrt rsqrt floor ceil trunc rint round_away copysign exp exp2 exp10 expm1 log log2 log10 log1p
    sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid erf pow atan2 hypot
    reduce_add reduce_mul reduce_max reduce_min
"""
SIMD = frozenset(_SIMD_NAMES.split())
_NATIVE = {ex.Add: "+", ex.Sub: "-", ex.Mul: "*"}
MARKERS = {
    ex.Add: "add", ex.Sub: "sub", ex.Mul: "mul", ex.Div: "truncdiv", ex.Mod: "truncmod", ex.Min: "minimum",
    ex.Max: "maximum",
    ex.FloorDiv: "floordiv", ex.FloorMod: "floormod", ex.EQ: "eq", ex.NE: "ne", ex.LT: "lt", ex.LE: "le", ex.GT: "gt",
    ex.GE: "ge",
}  # fmt: skip
_BYTE_VALUES = 256
_RENAMED = {
    "abs": "absolute", "round": "round_away", "nearbyint": "rint", "fmod": "truncmod",
    "shift_left": "shl", "shift_right": "shr", "bitwise_and": "bitand", "bitwise_or": "bitor", "bitwise_xor": "bitxor",
    "bitwise_not": "invert", "vector_reduce_add": "reduce_add", "vector_reduce_min": "reduce_min",
    "vector_reduce_max": "reduce_max", "vector_reduce_mul": "reduce_mul",
}  # fmt: skip
CALLS = {**{name: name for name in SIMD if name in ex.INTRINSICS}, **_RENAMED}


def short_name(dtype: ex.DType) -> str:
    """Return the short name of a dtype: `float32x8` becomes `f32x8`."""
    if dtype.scalar not in _SHORT:
        raise Unsupported(f"a value of dtype {dtype} in a kernel for Numba")
    base = _SHORT[dtype.scalar]
    return base if dtype.lanes == 1 else f"{base}x{dtype.lanes}"


def places_in_table(x: BufferLoad) -> ex.Expr | None:
    """Return the uint8 indices of a load from a table of 256 bytes, or None for any other load."""
    place, (*outer, extent) = x.indices[0], x.buffer.shape
    while isinstance(place, ex.Cast) and place.dtype.is_int and place.dtype.scalar.bytes > 1:
        place = place.value
    table = x.dtype.scalar in ("int8", "uint8") and not outer and is_const(extent, _BYTE_VALUES)
    return place if table and place.dtype == ex.DType("uint8").with_lanes(x.dtype.lanes) else None


class NumbaExpressions(Emitter):
    """The part of the dialect that writes expressions; `numba_statements` writes statements."""

    syntax = PYTHON
    index_rules = (decompose.SHIFTED, decompose.TRUNCATED)
    functions = CALLS
    whole_vectors = False  # whether an access of a whole vector at a multiple of its size is another instruction

    def __init__(self, kernel: PrimFunc, target: Target | None) -> None:
        short = set(_SHORT.values())
        reserved = {*SIMD, *short, "args", "thread", "threads", "range", "min", "max", "INF", "NAN", kernel.name}
        reserved |= {f"{p}_{s}" for p in ("pointer", "stack", "scalar", "as") for s in short}
        super().__init__(kernel, target, reserved)
        self.imports: set[str] = set()

    def use(self, name: str) -> str:
        """Return a name of the support library, and add it to the import statement."""
        self.imports.add(name)
        return name

    # -- index expressions, spelled with Python's operators, which compute in int64

    def place(self, x: ex.Expr) -> str:
        """Return a complete index in the type of indices. If they have 32 bits, all steps of it are computed in 32
        bits.

        A constant that is added last is kept outside, because it becomes the offset of the memory instruction.
        """
        if self.index_dtype == "int64" or isinstance(x, ex.Var | ex.IntImm) or not is_index(x):
            return self.index(x)
        if isinstance(x, ex.Add) and isinstance(x.b, ex.IntImm):
            return f"{self.place(x.a)} + {self.index(x.b)}"
        return self.to_index(self.index(x))

    def to_index(self, text: str) -> str:
        return f"{self.use(short_name(self.index_dtype))}({text})"

    def from_index(self, name: str, dtype: ex.DType) -> str:
        return name if dtype == self.index_dtype == "int64" else f"{self.use(short_name(dtype))}({name})"

    def index_extreme(self, x: ex.Min | ex.Max) -> str:
        return f"{'min' if isinstance(x, ex.Min) else 'max'}({self.index(x.a)}, {self.index(x.b)})"

    def index_division(self, x: Any) -> str:
        op = self.use(MARKERS[type(x)])
        return f"{op}({self.operand_of_division(x.a)}, {self.operand_of_division(x.b)})"

    def operand_of_division(self, x: ex.Expr) -> str:
        """Return an operand of a division, converted to the type of indices, because this type decides how to
        divide.
        """
        text = self.index(x)
        return text if self.index_dtype == "int64" or isinstance(x, ex.Var) else self.to_index(text)

    def vector_index(self, x: ex.Expr) -> str:
        if isinstance(x, ex.Ramp):
            return f"{self.use('ramp')}({self.index64(x.base)}, {self.index(x.stride)}, {x.lanes})"
        return self.value(x)

    def index64(self, x: ex.Expr) -> str:
        """Return the text of an index as int64; a literal is converted, because Numba would infer a type from its
        value.
        """
        return f"{self.use('i64')}({self.index(x)})" if isinstance(x, ex.IntImm) else self.index(x)

    # -- values: of exactly their dtype

    def broadcast(self, x: ex.Broadcast) -> str:
        return f"{self.use(short_name(x.dtype))}({self.broadcast_operand(x)})"

    def broadcast_operand(self, x: ex.Broadcast) -> str:
        if isinstance(x.value, ex.IntImm | ex.FloatImm) and self.plain_literal(x.value) is not None:
            return str(self.plain_literal(x.value))
        return self.value(x.value)

    def plain_literal(self, x: ex.IntImm | ex.FloatImm) -> str | None:
        """Return a constant as a literal, for places that convert it, or None if Python has no literal for it."""
        if isinstance(x, ex.IntImm):
            return str(x.value) if not x.dtype.is_bool else str(bool(x.value))
        number = rounded(x)
        return repr(number) if math.isfinite(number) else None

    def beside(self, x: ex.Expr, other: ex.Expr) -> str:
        """Return an operand of an element-wise operation. A broadcast scalar stays a scalar if the other operand is a
        vector.
        """
        if isinstance(x, ex.Broadcast) and not isinstance(other, ex.Broadcast):
            return self.broadcast_operand(x)
        return self.value(x)

    def ramp(self, x: ex.Ramp) -> str:
        return f"{self.use('ramp')}({self.value(x.base)}, {self.value(x.stride)}, {x.lanes})"

    def negation(self, x: ex.Not) -> str:
        return super().negation(x) if x.dtype.lanes == 1 else f"{self.use('invert')}({self.value(x.a)})"

    def select(self, x: ex.Select) -> str:
        # Both values are computed even if the condition is a scalar: there is no branch.
        return self.choice_of_lanes(x.condition, self.value(x.true_value), self.value(x.false_value), x.dtype)

    def choice_of_lanes(self, condition: ex.Expr, yes: str, no: str, dtype: ex.DType) -> str:  # noqa: ARG002
        return f"{self.use('select')}({self.value(condition)}, {yes}, {no})"

    def constant(self, x: ex.IntImm | ex.FloatImm) -> str:
        if x.dtype.is_bool:
            return str(bool(x.value))
        text = self.plain_literal(x)
        if text is None:
            number = rounded(x)  # type: ignore[arg-type]
            text = self.use("NAN") if math.isnan(number) else ("-" if number < 0 else "") + self.use("INF")
        return f"{self.use(short_name(x.dtype))}({text})"

    def zero(self, dtype: ex.DType) -> str:
        return f"{self.use(short_name(dtype))}(0)"

    def load(self, x: BufferLoad) -> str:
        places = None if x.dtype.lanes == 1 or x.buffer in self.registers else places_in_table(x)
        if places is None:
            return super().load(x)
        # All of a table may be read, also for lanes that a mask keeps out.
        return f"{self.use('lookup')}({self.names[x.buffer]}, {self.value(places)})"

    def element(self, x: BufferLoad) -> str:
        return f"{self.names[x.buffer]}[{self.place(x.indices[0])}]"

    def gather(self, x: BufferLoad) -> str:
        mask = "" if x.predicate is None else f", {self.value(x.predicate)}"
        return f"{self.use('gather')}({self.names[x.buffer]}, {self.vector_index(x.indices[0])}{mask})"

    def neighbours(self, x: BufferLoad, base: str) -> str:
        name = self.names[x.buffer]
        if x.predicate is not None:
            return f"{self.use('load_masked')}({name}, {base}, {self.value(x.predicate)})"
        whole = self.whole(x.buffer, x.indices[0])
        return f"{self.use('load_whole' if whole else 'load')}({name}, {base}, {x.dtype.lanes})"

    def whole(self, buffer: Buffer, index: ex.Expr) -> bool:
        """Return whether to access a vector in one piece, because it certainly starts at a multiple of its size."""
        return self.whole_vectors and is_whole(buffer, index, self.analyzer, self.lets)

    def converted(self, text: str, source: ex.DType, to: ex.DType) -> str:  # noqa: ARG002
        return f"{self.use(short_name(to))}({text})"

    def comparison(self, x: ex.CompareOp) -> str:
        if x.a.dtype.lanes == 1 and not x.a.dtype.is_half:
            return f"({atom(self.value(x.a))} {COMPARISONS[type(x)]} {atom(self.value(x.b))})"
        return f"{self.use(MARKERS[type(x)])}({self.beside(x.a, x.b)}, {self.beside(x.b, x.a)})"

    def first_lanes(self, limit: ex.Expr, base: ex.Expr, lanes: int) -> str:
        rest = self.index(limit) if is_const(base, 0) else f"{self.index(limit)} - {self.index_term(base)}"
        return f"{self.use('first')}({rest}, {lanes})"

    def arithmetic(self, x: ex.BinaryOp) -> str:
        a, b = self.beside(x.a, x.b), self.beside(x.b, x.a)
        native = x.dtype.lanes > 1 or x.dtype.scalar in ("float32", "float64")
        if type(x) in _NATIVE and native:
            # The operation converts a literal next to a vector; two scalars already have one dtype.
            return f"({a} {_NATIVE[type(x)]} {b})"
        return f"{self.use('div' if isinstance(x, ex.Div) and x.dtype.is_float else MARKERS[type(x)])}({a}, {b})"

    def multiply_add(self, a: ex.Expr, b: ex.Expr, c: ex.Expr) -> str:
        parts = [a, b, c]
        vectors = [p for p in parts if not isinstance(p, ex.Broadcast)]
        texts = [self.beside(p, vectors[0] if vectors else p) for p in parts]
        return f"{self.use('fma')}({', '.join(texts)})"

    def words_added(self, op: str, a: ex.Expr, b: ex.Expr, c: ex.Expr) -> str:
        words = f"{self.value(a)}, {self.value(b)}"
        if op == "dot2_bf16":
            return f"{self.use(op)}({self.value(c)}, {words})"
        return f"{self.use('dot4_add')}({words}, {self.value(c)})"

    def function(self, x: ex.Call, args: list[str]) -> str:
        text = super().function(x, args)
        self.use(self.functions[x.op])
        return text

    def reinterpreted(self, x: ex.Call) -> str:
        return f"{self.use('as_' + short_name(x.dtype.scalar))}({self.value(x.args[0])})"

    def shuffle(self, x: ex.Shuffle) -> str:
        if len(x.vectors) == 1 and len(x.indices) == 1:
            return f"{self.use('extract')}({self.value(x.vectors[0])}, {x.indices[0]})"
        if all(v.dtype.lanes == 1 for v in x.vectors):
            raise Unsupported(f"a shuffle of scalars in {self.language}")
        whole = [self.value(v) for v in x.vectors]
        both = (whole[0], whole[1] if len(whole) == 2 else whole[0])
        if len(whole) > 2:
            both = (f"{self.use('concat')}({', '.join(whole)})",) * 2
        picks = ", ".join(map(str, x.indices))
        if len(x.indices) == 1:
            return f"{self.use('extract')}({self.use('shuffle')}({both[0]}, {both[1]}, {picks}), 0)"
        return f"{self.use('shuffle')}({both[0]}, {both[1]}, {picks})"
