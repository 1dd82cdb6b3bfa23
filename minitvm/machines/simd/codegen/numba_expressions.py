"""How expressions are spelled in Python for Numba: indices as int64 arithmetic, values in exactly their dtype.

Indices use Python's operators; vectors, narrow integers and half floats call the library `machines.simd.vectors.simd`,
and the names that are used are collected for the import.
"""

from __future__ import annotations

import math
from typing import Any

from ....arith import Analyzer
from ....codegen.emitter import Emitter
from ....codegen.spelling import BITS, atom, is_index, keeps_value, rounded
from ....errors import InternalError, Unsupported
from ....expr import (
    EQ,
    GE,
    GT,
    INTRINSICS,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    CompareOp,
    Div,
    DType,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
    Sub,
    Var,
    factors_of_words,
)
from ....expr.conditions import is_const
from ....tir import fixed_point, tfloat32
from ....tir.analysis.registers import slot
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
_NATIVE = {Add: "+", Sub: "-", Mul: "*"}
_MARKER = {
    Add: "add", Sub: "sub", Mul: "mul", FloorDiv: "floordiv", FloorMod: "floormod", Min: "minimum", Max: "maximum",
    EQ: "eq", NE: "ne", LT: "lt", LE: "le", GT: "gt", GE: "ge",
}  # fmt: skip
_BYTE_VALUES = 256
_COMPARE = {EQ: "==", NE: "!=", LT: "<", LE: "<=", GT: ">", GE: ">="}
_RENAMED = {
    "abs": "absolute", "round": "round_away", "nearbyint": "rint", "fmod": "truncmod",
    "shift_left": "shl", "shift_right": "shr", "bitwise_and": "bitand", "bitwise_or": "bitor", "bitwise_xor": "bitxor",
    "bitwise_not": "invert", "vector_reduce_add": "reduce_add", "vector_reduce_min": "reduce_min",
    "vector_reduce_max": "reduce_max", "vector_reduce_mul": "reduce_mul",
}  # fmt: skip
_CALLS = {**{name: name for name in SIMD if name in INTRINSICS}, **_RENAMED}


def short_name(dtype: DType) -> str:
    """`float32x8` -> `f32x8`."""
    if dtype.scalar not in _SHORT:
        raise Unsupported(f"a value of dtype {dtype} in a kernel for Numba")
    base = _SHORT[dtype.scalar]
    return base if dtype.lanes == 1 else f"{base}x{dtype.lanes}"


class NumbaExpressions(Emitter):
    """The half of the dialect that spells expressions; `numba_statements` spells statements."""

    machine = ""  # for people: what runs the kernel
    index_dtype = DType("int64")  # of indices, wherever they are complete
    whole_vectors = False  # whether an access of a whole vector at a multiple of its size is another instruction

    def __init__(self, kernel: PrimFunc, target: Any) -> None:
        short = set(_SHORT.values())
        reserved = {*SIMD, *short, "args", "thread", "threads", "range", "min", "max", "INF", "NAN", kernel.name}
        reserved |= {f"{p}_{s}" for p in ("pointer", "stack", "scalar", "as") for s in short}
        super().__init__(kernel, target, reserved)
        self.imports: set[str] = set()
        self.wide: set[Var] = set()  # integer variables that are kept in the type of indices
        self.lets: dict[Var, Expr] = {}  # indices that have names, written out
        self.analyzer = Analyzer()  # ranges of variables in scope: they choose cheap divisions

    def scalar(self, buffer: Buffer) -> DType:
        if buffer.dtype.lanes > 1:
            raise Unsupported(f"buffer {buffer.name} of vector dtype {buffer.dtype} in a {self.machine} kernel")
        return buffer.dtype

    def use(self, name: str) -> str:
        """A name of the support library, noted for the import."""
        self.imports.add(name)
        return name

    def register(self, buffer: Buffer, index: Expr) -> str:
        at = slot(index)
        if at is None:
            raise InternalError(f"{buffer.name}[{index}] is not a constant slot")
        return self.registers[buffer][at]

    # -- index expressions, spelled with Python's operators, which compute in int64

    def place(self, e: Expr) -> str:
        """A complete index, in the type of indices: with 32 bits, a compiler does all steps of it in 32.

        A constant added last stays outside, since it becomes the offset of the instruction that accesses memory.
        """
        if self.index_dtype == "int64" or isinstance(e, Var | IntImm) or not is_index(e):
            return self.index(e)
        if isinstance(e, Add) and isinstance(e.b, IntImm):
            return f"{self.place(e.a)} + {self.index(e.b)}"
        return self.word(self.index(e))

    def word(self, text: str) -> str:
        """A conversion to the type of indices."""
        return f"{self.use(short_name(self.index_dtype))}({text})"

    def index(self, e: Expr) -> str:
        if isinstance(e, IntImm):
            return str(e.value)
        if isinstance(e, Var):
            return self.names[e] if e in self.wide else self.word(self.names[e])
        if isinstance(e, Cast) and is_index(e) and keeps_value(e, self.analyzer):
            return self.index(e.value)
        if not is_index(e):
            return self.word(self.value(e))
        if isinstance(e, Add):
            return f"{self.index(e.a)} + {self.operand(e.b, Add | Sub)}"
        if isinstance(e, Sub):
            return f"{self.index(e.a)} - {self.operand(e.b, Add | Sub)}"
        if isinstance(e, Mul):
            return f"{atom(self.index(e.a))} * {atom(self.index(e.b))}"
        if isinstance(e, Call):
            return f"({f' {BITS[e.op]} '.join(atom(self.index(a)) for a in e.args)})"
        if isinstance(e, Min | Max):
            return f"{'min' if isinstance(e, Min) else 'max'}({self.index(e.a)}, {self.index(e.b)})"
        if isinstance(e, FloorDiv | FloorMod | Div | Mod):
            return self.division(e)
        return self.word(self.value(e))

    def operand(self, e: Expr, parenthesised: Any) -> str:
        text = self.index(e)
        return f"({text})" if isinstance(e, parenthesised) else text

    def division(self, e: Any) -> str:
        a = atom(self.index(e.a))
        floor, quotient = isinstance(e, FloorDiv | FloorMod), isinstance(e, FloorDiv | Div)
        divisor = e.b.value if isinstance(e.b, IntImm) else 0
        if floor and divisor > 0 and divisor & (divisor - 1) == 0:  # exact for negative dividends too
            return f"({a} >> {divisor.bit_length() - 1})" if quotient else f"({a} & {divisor - 1})"
        if not floor or (divisor > 0 and self.not_negative(e.a)):
            op = self.use("truncdiv" if quotient else "truncmod")
        else:
            op = self.use("floordiv" if quotient else "floormod")
        return f"{op}({self.operand_of_division(e.a)}, {self.operand_of_division(e.b)})"

    def operand_of_division(self, e: Expr) -> str:
        """Both operands have the type of indices, which decides what is divided."""
        text = self.index(e)
        return text if self.index_dtype == "int64" or isinstance(e, Var) else self.word(text)

    def not_negative(self, e: Expr) -> bool:
        low, _ = self.analyzer.bounds(e)
        return low is not None and low >= 0

    def vector_index(self, e: Expr) -> str:
        if isinstance(e, Ramp):
            return f"{self.use('ramp')}({self.index64(e.base)}, {self.index(e.stride)}, {e.lanes})"
        return self.value(e)

    def index64(self, e: Expr) -> str:
        """An index where a literal would be typed by its own size."""
        return f"{self.use('i64')}({self.index(e)})" if isinstance(e, IntImm) else self.index(e)

    def contiguous(self, e: Expr) -> str | None:
        """The start of a vector index of stride one; None for any other."""
        unit = isinstance(e, Ramp) and is_const(e.stride, 1)
        return self.place(e.base) if unit else None  # type: ignore[attr-defined]

    # -- values: of exactly their dtype

    def vector(self, e: Expr) -> str:
        """A value that must be a vector: a broadcast is spelled out."""
        if isinstance(e, Broadcast):
            return f"{self.use(short_name(e.dtype))}({self.broadcast_operand(e)})"
        return self.value(e)

    def broadcast_operand(self, e: Broadcast) -> str:
        if isinstance(e.value, IntImm | FloatImm) and self.plain_literal(e.value) is not None:
            return str(self.plain_literal(e.value))
        return self.value(e.value)

    def plain_literal(self, e: IntImm | FloatImm) -> str | None:
        """A constant without a conversion, for places that convert; None if Python has no literal for it."""
        if isinstance(e, IntImm):
            return str(e.value) if not e.dtype.is_bool else str(bool(e.value))
        number = rounded(e)
        return repr(number) if math.isfinite(number) else None

    def beside(self, e: Expr, other: Expr) -> str:
        """An operand of an element-wise operation; next to a vector, the operation itself broadcasts scalars."""
        if isinstance(e, Broadcast) and not isinstance(other, Broadcast):
            return self.broadcast_operand(e)
        return self.vector(e)

    def value(self, e: Expr) -> str:
        if isinstance(e, IntImm | FloatImm):
            return self.constant(e)
        if isinstance(e, Var):
            name = self.names[e]
            narrow = e in self.wide and (e.dtype != "int64" or self.index_dtype != "int64")
            return f"{self.use(short_name(e.dtype))}({name})" if narrow else name
        if isinstance(e, BufferLoad):
            return self.load(e)
        if isinstance(e, Broadcast):
            return self.vector(e)
        if isinstance(e, Cast):
            return self.cast(e)
        if isinstance(e, CompareOp):
            return self.compare(e)
        if isinstance(e, And | Or):
            return self.logical(e)
        if isinstance(e, Not):
            return (
                f"(not {atom(self.value(e.a))})" if e.dtype.lanes == 1 else f"{self.use('invert')}({self.value(e.a)})"
            )
        if isinstance(e, BinaryOp):
            return self.binary(e)
        if isinstance(e, Select):
            a, b = self.vector(e.true_value), self.vector(e.false_value)
            return f"{self.use('select')}({self.value(e.condition)}, {a}, {b})"
        if isinstance(e, Call):
            return self.call(e)
        if isinstance(e, Ramp):
            return f"{self.use('ramp')}({self.value(e.base)}, {self.value(e.stride)}, {e.lanes})"
        if isinstance(e, Shuffle):
            return self.shuffle(e)
        if isinstance(e, Let):
            raise InternalError("a let expression in a kernel: lowering should have removed it")
        raise Unsupported(f"{type(e).__name__} in a {self.machine} kernel: {e}")

    def constant(self, e: IntImm | FloatImm) -> str:
        if e.dtype.is_bool:
            return str(bool(e.value))
        text = self.plain_literal(e)
        if text is None:
            number = rounded(e)  # type: ignore[arg-type]
            text = self.use("NAN") if math.isnan(number) else ("-" if number < 0 else "") + self.use("INF")
        return f"{self.use(short_name(e.dtype))}({text})"

    def load(self, e: BufferLoad) -> str:
        index = e.indices[0]
        if e.buffer in self.registers:
            value = self.register(e.buffer, index)
            if e.predicate is None:
                return value
            zero = f"{self.use(short_name(e.dtype))}(0)"
            return f"{self.use('select')}({self.value(e.predicate)}, {value}, {zero})"
        name = self.names[e.buffer]
        self.scalar(e.buffer)
        if index.dtype.lanes == 1:
            text = f"{name}[{self.place(index)}]"
            if e.predicate is None:
                return text
            zero = f"{self.use(short_name(e.dtype))}(0)"
            return f"({text} if {self.value(e.predicate)} else {zero})"
        base = self.contiguous(index)
        mask = "" if e.predicate is None else f", {self.value(e.predicate)}"
        places = self.places_in_table(e)
        if places is not None:  # all of a table may be read, also for lanes that are not asked for
            return f"{self.use('lookup')}({name}, {self.value(places)})"
        if base is None:
            return f"{self.use('gather')}({name}, {self.vector_index(index)}{mask})"
        if mask:
            return f"{self.use('load_masked')}({name}, {base}{mask})"
        whole = self.whole(e.buffer, index)
        return f"{self.use('load_whole' if whole else 'load')}({name}, {base}, {e.dtype.lanes})"

    def places_in_table(self, e: BufferLoad) -> Expr | None:
        """The vector of uint8 that are the places of a load from a table of 256 bytes; None if it is no such load."""
        place, (*outer, extent) = e.indices[0], e.buffer.shape
        while isinstance(place, Cast) and place.dtype.is_int and place.dtype.scalar.bytes > 1:
            place = place.value
        table = e.dtype.scalar in ("int8", "uint8") and not outer and is_const(extent, _BYTE_VALUES)
        return place if table and place.dtype == DType("uint8").with_lanes(e.dtype.lanes) else None

    def whole(self, buffer: Buffer, index: Expr) -> bool:
        """Whether to read or write a vector as one that surely lies at a multiple of its size."""
        return self.whole_vectors and is_whole(buffer, index, self.analyzer, self.lets)

    def cast(self, e: Cast) -> str:
        if e.dtype == e.value.dtype:
            return self.value(e.value)
        if e.value.dtype.kind == "handle":
            raise Unsupported(f"a cast of {e.value.dtype} in a {self.machine} kernel")
        inner = self.index(e.value) if is_index(e.value) and not isinstance(e.value, IntImm) else self.value(e.value)
        return f"{self.use(short_name(e.dtype))}({inner})"

    def compare(self, e: CompareOp) -> str:
        if is_index(e.a) and is_index(e.b):
            return f"({self.index(e.a)} {_COMPARE[type(e)]} {self.index(e.b)})"
        prefix = self.prefix_mask(e)
        if prefix is not None:
            return prefix
        if e.a.dtype.lanes == 1 and not e.a.dtype.is_half:
            return f"({atom(self.value(e.a))} {_COMPARE[type(e)]} {atom(self.value(e.b))})"
        return f"{self.use(_MARKER[type(e)])}({self.beside(e.a, e.b)}, {self.beside(e.b, e.a)})"

    def prefix_mask(self, e: CompareOp) -> str | None:
        """`ramp(base) < broadcast(n)` is the mask of the first `n - base` lanes."""
        ramp, limit = e.a, e.b
        if not (isinstance(e, LT) and isinstance(ramp, Ramp) and isinstance(limit, Broadcast)):
            return None
        unit = is_const(ramp.stride, 1)
        if not unit or not (is_index(ramp.base) and is_index(limit.value)):
            return None
        zero = is_const(ramp.base, 0)
        rest = self.index(limit.value) if zero else f"{self.index(limit.value)} - {self.operand(ramp.base, Add | Sub)}"
        return f"{self.use('first')}({rest}, {ramp.lanes})"

    def logical(self, e: Any) -> str:
        conjunction = isinstance(e, And)
        if e.dtype.lanes == 1:
            return f"({self.value(e.a)} {'and' if conjunction else 'or'} {self.value(e.b)})"
        return f"({self.vector(e.a)} {'&' if conjunction else '|'} {self.vector(e.b)})"

    def binary(self, e: BinaryOp) -> str:
        fused = self.fused_multiply_add(e) or self.added_words(e)
        if fused is not None:
            return fused
        a, b = self.beside(e.a, e.b), self.beside(e.b, e.a)
        native = e.dtype.lanes > 1 or e.dtype.scalar in ("float32", "float64")
        if type(e) in _NATIVE and native:
            # The operation converts a literal next to a vector; two scalars already have one dtype.
            return f"({a} {_NATIVE[type(e)]} {b})"
        if isinstance(e, Div):
            return f"{self.use('div' if e.dtype.is_float else 'truncdiv')}({a}, {b})"
        if isinstance(e, Mod):
            return f"{self.use('truncmod')}({a}, {b})"
        return f"{self.use(_MARKER[type(e)])}({a}, {b})"

    def fused_multiply_add(self, e: BinaryOp) -> str | None:
        """`c + a * b` in floats is rounded once."""
        if not isinstance(e, Add) or not e.dtype.is_float or e.dtype.is_half:
            return None
        product, addend = (e.b, e.a) if isinstance(e.b, Mul) else (e.a, e.b)
        if not isinstance(product, Mul):
            return None
        parts = [product.a, product.b, addend]
        vectors = [p for p in parts if not isinstance(p, Broadcast)]
        texts = [self.beside(p, vectors[0] if vectors else p) for p in parts]
        return f"{self.use('fma')}({', '.join(texts)})"

    def added_words(self, e: BinaryOp) -> str | None:
        """`c + dot4_u8i8(a, b)` is one instruction, and so is `c + dot2_bf16(0, a, b)`."""
        if not isinstance(e, Add):
            return None
        for product, addend in ((e.b, e.a), (e.a, e.b)):
            words = factors_of_words(product)
            if words is None or not isinstance(product, Call):
                continue
            a, b, c = map(self.vector, (*words, addend))
            if product.op == "dot2_bf16":
                return f"{self.use('dot2_bf16')}({c}, {a}, {b})"
            return f"{self.use('dot4_add')}({a}, {b}, {c})"
        return None

    def call(self, e: Call) -> str:
        if e.op == "if_then_else":
            condition, a, b = e.args
            if condition.dtype.lanes > 1:
                return f"{self.use('select')}({self.value(condition)}, {self.vector(a)}, {self.vector(b)})"
            return f"({self.vector(a)} if {self.value(condition)} else {self.vector(b)})"
        if e.op == "likely":
            return self.value(e.args[0])
        if e.op == "reinterpret":
            return f"{self.use('as_' + short_name(e.dtype.scalar))}({self.value(e.args[0])})"
        if e.op == "q_multiply_shift":
            return self.value(fixed_point.written_out(e))
        if e.op == "round_tf32":
            return self.value(tfloat32.written_out(e))
        if e.op not in _CALLS:
            raise Unsupported(f"the intrinsic {e.op} in a {self.machine} kernel")
        args = [self.vector(a) for a in e.args]
        return f"{self.use(_CALLS[e.op])}({', '.join(args)})"

    def shuffle(self, e: Shuffle) -> str:
        if len(e.vectors) == 1 and len(e.indices) == 1:
            return f"{self.use('extract')}({self.value(e.vectors[0])}, {e.indices[0]})"
        if all(v.dtype.lanes == 1 for v in e.vectors):
            raise Unsupported(f"a shuffle of scalars in a {self.machine} kernel")
        whole = [self.vector(v) for v in e.vectors]
        both = (whole[0], whole[1] if len(whole) == 2 else whole[0])
        if len(whole) > 2:
            both = (f"{self.use('concat')}({', '.join(whole)})",) * 2
        picks = ", ".join(map(str, e.indices))
        if len(e.indices) == 1:
            return f"{self.use('extract')}({self.use('shuffle')}({both[0]}, {both[1]}, {picks}), 0)"
        return f"{self.use('shuffle')}({both[0]}, {both[1]}, {picks})"
