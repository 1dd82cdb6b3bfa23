"""How expressions are spelled in OpenCL C: indices in one type of integers, values in exactly their dtype.

Indices are `int` where all of a kernel's provably fit, else `long`: many GPUs compute with 64 bits at a fraction of
the speed. `library` has what the language lacks, `types` the types.
"""

from __future__ import annotations

from typing import Any

from ....arith import Analyzer
from ....codegen.emitter import Emitter
from ....codegen.spelling import BITS, atom, is_index, keeps_value
from ....errors import InternalError, Unsupported
from ....expr import (
    EQ,
    GE,
    GT,
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
from ....expr.intrin import COLLECTIVES
from ....tir import fixed_point, tfloat32
from ....tir.analysis.registers import slot
from ....tir.analysis.threads import is_shared
from ....tir.nodes import Buffer, BufferLoad, PrimFunc
from ...gpu.codegen.index_width import index_dtype
from ...simd.codegen.alignment import is_whole
from .library import Library, added, element, library_round
from .types import literal, value_type

_OPERATORS = {Add: "+", Sub: "-", Mul: "*"}
_COMPARE = {EQ: "==", NE: "!=", LT: "<", LE: "<=", GT: ">", GE: ">="}
_DIVISIONS = {FloorDiv: "floordiv", FloorMod: "floormod", Div: "truncdiv", Mod: "truncmod"}
_FLOAT_CALLS = {
    **{name: name for name in (
        "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan",
        "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "floor", "ceil", "trunc", "round", "pow", "atan2",
        "hypot", "copysign", "fmod", "fma",
    )},
    "nearbyint": "rint", "abs": "fabs",
}  # fmt: skip
_TESTS = ("isnan", "isinf", "isfinite")
_SPACES = {"global": "__global", "local": "__private"}
_KEYWORDS = """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool half
    quad complex imaginary uchar ushort uint ulong size_t ptrdiff_t intptr_t uintptr_t image2d_t image3d_t sampler_t
    event_t kernel global local constant private read_only write_only read_write uniform pipe barrier prefetch select
    min max clamp mix step sign dot cross length normalize distance any all signbit fract frexp ldexp modf degrees
    radians rotate popcount clz ctz mad mul24 mad24 hadd rhadd upsample bitselect shuffle shuffle2 NAN INFINITY HUGE_VAL
    M_PI M_E as_int as_float convert_int work_group main NULL true false thread threads
"""
RESERVED = frozenset(_KEYWORDS.split()) | set(_FLOAT_CALLS) | set(_FLOAT_CALLS.values()) | set(_TESTS)


class OpenCLExpressions(Emitter):
    """The half of the dialect that spells expressions; `opencl` spells statements."""

    def __init__(self, kernel: PrimFunc, target: Any) -> None:
        vectors = {f"{t}{n}" for t in ("char", "short", "int", "long", "float", "double", "uchar", "ushort", "uint",
                                       "ulong", "half") for n in (2, 3, 4, 8, 16)}  # fmt: skip
        super().__init__(kernel, target, RESERVED | vectors | {kernel.name})
        self.index_dtype = index_dtype(kernel)
        self.library = Library(value_type(self.index_dtype), getattr(target, "half_arithmetic", False))
        self.analyzer = Analyzer()
        self.wide: set[Var] = set()  # integer variables that are kept in the type of indices
        self.lets: dict[Var, Expr] = {}  # indices that have names, written out
        self.on_stack: set[Buffer] = set()  # arrays of the kernel, whatever their scope is called
        self.uses_double = False

    def type_of(self, dtype: DType) -> str:
        """The type of a value; notes that a kernel needs double precision."""
        self.uses_double |= dtype.scalar == "float64"
        return value_type(dtype)

    def space(self, buffer: Buffer) -> str:
        """The address space of a buffer."""
        if buffer.dtype.lanes > 1:
            raise Unsupported(f"buffer {buffer.name} of vector dtype {buffer.dtype} in an OpenCL kernel")
        if buffer in self.on_stack:
            return "__private"
        return "__local" if is_shared(buffer.scope) else _SPACES.get(buffer.scope, "__global")

    def pointer(self, buffer: Buffer) -> str:
        """A buffer as a pointer to its elements; an array of halves is declared as one of bits."""
        space = self.space(buffer)
        declared = buffer.dtype == "float16" and space != "__global"
        return f"(({space} half *){self.names[buffer]})" if declared else self.names[buffer]

    def use(self, name: str, dtype: DType, space: str = "") -> str:
        """A function of the library."""
        self.type_of(dtype)
        return self.library.use(name, dtype, space)

    def register(self, buffer: Buffer, index: Expr) -> str:
        at = slot(index)
        if at is None:
            raise InternalError(f"{buffer.name}[{index}] is not a constant slot")
        return self.registers[buffer][at]

    # -- indices

    def index(self, e: Expr) -> str:
        """A scalar index."""
        if isinstance(e, IntImm):
            return str(e.value) if abs(e.value) < 2**31 else f"({e.value}L)"
        if isinstance(e, Var) and e in self.wide:
            return self.names[e]
        if isinstance(e, Cast) and is_index(e) and keeps_value(e, self.analyzer):
            return self.index(e.value)
        if not is_index(e) or isinstance(e, Var | Cast):
            return f"({value_type(self.index_dtype)}){atom(self.value(e))}"
        if isinstance(e, Add | Sub):
            right = self.index(e.b)
            return f"{self.index(e.a)} {_OPERATORS[type(e)]} {f'({right})' if isinstance(e.b, Add | Sub) else right}"
        if isinstance(e, Mul):
            return f"{atom(self.index(e.a))} * {atom(self.index(e.b))}"
        if isinstance(e, Call):
            return f"({f' {BITS[e.op]} '.join(atom(self.index(a)) for a in e.args)})"
        if isinstance(e, Min | Max):
            function = self.use("minimum" if isinstance(e, Min) else "maximum", self.index_dtype)
            return f"{function}({self.index(e.a)}, {self.index(e.b)})"
        return self.division(e)

    def division(self, e: Any) -> str:
        a, floor, quotient = atom(self.index(e.a)), isinstance(e, FloorDiv | FloorMod), isinstance(e, FloorDiv | Div)
        divisor = e.b.value if isinstance(e.b, IntImm) else 0
        low, _ = self.analyzer.bounds(e.a)
        if divisor > 0 and (not floor or (low is not None and low >= 0)):
            return f"({a} {'/' if quotient else '%'} {divisor})"
        if floor and divisor > 0 and divisor & (divisor - 1) == 0:  # exact for negative dividends too
            return f"({a} >> {divisor.bit_length() - 1})" if quotient else f"({a} & {divisor - 1})"
        return f"{self.use(_DIVISIONS[type(e)], self.index_dtype)}({self.index(e.a)}, {self.index(e.b)})"

    def contiguous(self, e: Expr) -> str | None:
        """The start of a vector index of stride one; None for any other."""
        return self.index(e.base) if isinstance(e, Ramp) and is_const(e.stride, 1) else None

    def vector_index(self, e: Expr) -> str:
        """The places of a vector's lanes, in the type of indices."""
        t = value_type(self.index_dtype.with_lanes(e.dtype.lanes))
        if isinstance(e, Ramp):
            lanes = ", ".join(map(str, range(e.lanes)))
            return f"(({t})({self.index(e.base)}) + ({t})({lanes}) * ({t})({self.index(e.stride)}))"
        return f"convert_{t}({self.value(e)})"

    # -- values

    def value(self, e: Expr) -> str:
        """A value of exactly its dtype."""
        self.type_of(e.dtype)
        if isinstance(e, IntImm | FloatImm):
            return literal(e)
        if isinstance(e, Var):
            narrow = e in self.wide and e.dtype != self.index_dtype
            return f"({value_type(e.dtype)}){self.names[e]}" if narrow else self.names[e]
        if isinstance(e, BufferLoad):
            return self.load(e)
        if isinstance(e, Broadcast):
            text = self.value(e.value)
            return f"({value_type(e.dtype)})({f'-({text})' if e.dtype.is_bool else text})"
        if isinstance(e, Ramp):
            t, lanes = value_type(e.dtype), ", ".join(map(str, range(e.lanes)))
            steps = added(self.library, e.dtype, f"({t})({lanes})", f"({t})({self.value(e.stride)})", "*")
            return added(self.library, e.dtype, f"({t})({self.value(e.base)})", steps)
        if isinstance(e, Cast):
            return self.cast(e)
        if isinstance(e, CompareOp):
            return self.compare(e)
        if isinstance(e, And | Or):
            single = "&&" if isinstance(e, And) else "||"
            return f"({self.value(e.a)} {single if e.dtype.lanes == 1 else single[0]} {self.value(e.b)})"
        if isinstance(e, Not):
            return f"({'!' if e.dtype.lanes == 1 else '~'}{atom(self.value(e.a))})"
        if isinstance(e, BinaryOp):
            return self.binary(e)
        if isinstance(e, Select):
            return self.choice(e.condition, e.true_value, e.false_value)
        if isinstance(e, Call):
            return self.call(e)
        if isinstance(e, Shuffle):
            return self.shuffle(e)
        if isinstance(e, Let):
            raise InternalError("a let expression in a kernel: lowering should have removed it")
        raise Unsupported(f"{type(e).__name__} in an OpenCL kernel: {e}")

    def choice(self, condition: Expr, yes: Expr, no: Expr) -> str:
        a, b = self.value(yes), self.value(no)
        if condition.dtype.lanes == 1:
            return f"({self.value(condition)} ? {a} : {b})"
        return f"{self.use('select', yes.dtype)}({self.value(condition)}, {a}, {b})"

    def load(self, e: BufferLoad) -> str:
        index, buffer = e.indices[0], e.buffer
        zero = literal(FloatImm(0.0, e.dtype.scalar)) if e.dtype.is_float else literal(IntImm(0, e.dtype.scalar))
        if buffer in self.registers:
            text = self.register(buffer, index)
            if e.predicate is None:
                return text
            return f"{self.use('select', e.dtype)}({self.value(e.predicate)}, {text}, ({value_type(e.dtype)})({zero}))"
        pointer, space = self.pointer(buffer), self.space(buffer)
        if index.dtype.lanes == 1:
            text = element(self.library, e.dtype, pointer, self.index(index))
            return text if e.predicate is None else f"({self.value(e.predicate)} ? {text} : {zero})"
        base, n = self.contiguous(index), e.dtype.lanes
        if e.predicate is not None:
            mask = self.value(e.predicate)
            if base is not None:
                return f"{self.use('load_masked', e.dtype, space)}({pointer} + {base}, {mask})"
            return f"{self.use('gather_masked', e.dtype, space)}({pointer}, {self.vector_index(index)}, {mask})"
        if base is None:
            return f"{self.use('gather', e.dtype, space)}({pointer}, {self.vector_index(index)})"
        if self.whole(e.buffer, index):
            return self.word(e.dtype, space, pointer, base)
        at = pointer if base == "0" else f"{pointer} + {base}"
        if e.dtype.scalar == "float16":
            return f"vload_half{n}(0, {at})"
        text = f"vload{n}(0, {at})"
        if e.dtype.scalar == "bfloat16":
            return f"{self.use('from_bits', e.dtype)}({text})"
        return f"({text} != (uchar{n})(0))" if e.dtype.is_bool else text

    def whole(self, buffer: Buffer, index: Expr) -> bool:
        """Whether a vector of neighbours surely lies at a multiple of its size: then it is one access.

        `vload` and `vstore` are for any place, and on PoCL functions that are called.
        """
        plain = not buffer.dtype.is_half and not buffer.dtype.is_bool
        return plain and is_whole(buffer, index, self.analyzer, self.lets)

    def word(self, dtype: DType, space: str, pointer: str, base: str) -> str:
        """A vector in memory, at a multiple of its size."""
        return f"*({space} {value_type(dtype)} *)({pointer} + {base})"

    def cast(self, e: Cast) -> str:
        source, to = e.value.dtype, e.dtype
        if source == to:
            return self.value(e.value)
        if "handle" in (source.kind, to.kind):
            raise Unsupported(f"a cast of {source} to {to} in an OpenCL kernel")
        indices = is_index(e.value) and not isinstance(e.value, IntImm)
        text = self.index(e.value) if indices else self.value(e.value)
        return self.converted(text, self.index_dtype if indices else source, to)

    def converted(self, text: str, source: DType, to: DType) -> str:
        """A conversion as NumPy's: floats to integers truncate, integers wrap, anything but 0 is true."""
        n = "" if to.lanes == 1 else str(to.lanes)
        self.type_of(to)
        if to.is_bool:
            return f"({text} != 0)" if not n else f"convert_char{n}({text} != ({value_type(source)})(0))"
        if source.is_bool and n:
            return self.converted(f"(-{text})", DType("int8").with_lanes(to.lanes), to)
        if to.is_half:
            return self.halved(text, source, to)
        if source.is_float and to.is_int:  # narrow integers go through a wider one and wrap
            wide = "ulong" if to.scalar == "uint64" else "long" if to.bits == 64 or to.scalar == "uint32" else "int"
            if f"{wide}{n}" != value_type(to):
                text = f"(int){atom(text)}" if wide == "int" and not n else self.plainly(f"{wide}{n}", text)
        return self.plainly(value_type(to), text)

    def plainly(self, t: str, text: str) -> str:
        """C's conversion of a scalar, OpenCL's of a vector."""
        return f"convert_{t}({text})" if t[-1].isdigit() else f"({t}){atom(text)}"

    def halved(self, text: str, source: DType, to: DType) -> str:
        wide = DType("float64").with_lanes(to.lanes)
        if to.scalar == "float16" and source.scalar == "float64":
            return f"{self.use('rounded_once', to)}({text})"
        if to.scalar == "bfloat16" and not source.is_float:
            text = self.plainly(self.type_of(wide), text)
        t = value_type(to)
        inner = text if source.is_half or source.scalar == "float32" else self.plainly(t, text)
        exact = source.is_int and source.bits <= 8
        return inner if exact else library_round(self.library, to, inner)

    def compare(self, e: CompareOp) -> str:
        sign = _COMPARE[type(e)]
        if is_index(e.a) and is_index(e.b):
            return f"({self.index(e.a)} {sign} {self.index(e.b)})"
        prefix = self.prefix_mask(e)
        if prefix is not None:
            return prefix
        a, b = atom(self.value(e.a)), atom(self.value(e.b))
        if e.a.dtype.lanes == 1:
            return f"({a} {sign} {b})"
        if e.a.dtype.is_bool and type(e) in (LT, LE, GT, GE):
            a, b = f"(-{a})", f"(-{b})"
        return f"convert_char{e.a.dtype.lanes}({a} {sign} {b})"

    def prefix_mask(self, e: CompareOp) -> str | None:
        """`ramp(base) < broadcast(n)` is the mask of the first `n - base` lanes."""
        ramp, limit = e.a, e.b
        if not (isinstance(e, LT) and isinstance(ramp, Ramp) and isinstance(limit, Broadcast)):
            return None
        if not is_const(ramp.stride, 1) or not (is_index(ramp.base) and is_index(limit.value)):
            return None
        rest = f"{atom(self.index(limit.value))} - {atom(self.index(ramp.base))}"
        return f"{self.use('first', DType('bool').with_lanes(ramp.lanes))}({rest})"

    def binary(self, e: BinaryOp) -> str:
        fused = self.fused_multiply_add(e)
        if fused is not None:
            return fused
        a, b = self.value(e.a), self.value(e.b)
        if e.dtype.is_bool:
            return f"({a} {'&' if isinstance(e, Min | Mul) else '|'} {b})"
        if type(e) in _OPERATORS:
            return added(self.library, e.dtype, a, b, _OPERATORS[type(e)])
        if isinstance(e, Min | Max):
            return f"{self.use('minimum' if isinstance(e, Min) else 'maximum', e.dtype)}({a}, {b})"
        if e.dtype.is_float and isinstance(e, Div | Mod):
            return library_round(self.library, e.dtype, f"({a} / {b})" if isinstance(e, Div) else f"fmod({a}, {b})")
        return f"{self.use(_DIVISIONS[type(e)], e.dtype)}({a}, {b})"

    def fused_multiply_add(self, e: BinaryOp) -> str | None:
        """`c + a * b` in floats is rounded once, on devices that do so as fast as twice."""
        if not isinstance(e, Add) or not e.dtype.is_float or e.dtype.is_half:
            return None
        for words, c in ((factors_of_words(e.b), e.a), (factors_of_words(e.a), e.b)):
            if words is not None:  # of bfloat16, since this is a sum of floats
                return f"{self.use('dot2_bf16', e.dtype)}({', '.join(map(self.value, (c, *words)))})"
        product, addend = (e.b, e.a) if isinstance(e.b, Mul) else (e.a, e.b)
        if not isinstance(product, Mul):
            return None
        return f"{self.use('multiply_add', e.dtype)}({', '.join(map(self.value, (product.a, product.b, addend)))})"

    def call(self, e: Call) -> str:
        if e.op == "if_then_else":
            return self.choice(*e.args)
        if e.op == "likely":
            return self.value(e.args[0])
        if e.op == "reinterpret":
            return self.reinterpreted(e)
        if e.op == "q_multiply_shift":
            return self.value(fixed_point.written_out(e))
        if e.op == "round_tf32":
            return self.value(tfloat32.written_out(e))
        if e.op in COLLECTIVES:
            raise Unsupported(
                f"{e.op} in an OpenCL kernel: OpenCL 1.2 has no warps whose threads read each other's registers\n"
                "  try:    tvm_thread_allreduce, of which a tree in local memory is made\n"
                "          a buffer in shared storage"
            )
        args = [self.value(a) for a in e.args]
        if e.op.startswith("vector_reduce_"):
            return f"{self.use('reduce_' + e.op.removeprefix('vector_reduce_'), e.args[0].dtype)}({', '.join(args)})"
        first = e.args[0].dtype
        if first.is_float:
            return self.float_call(e, first, args)
        if e.op in BITS:
            return f"({value_type(e.dtype)})({args[0]} {BITS[e.op]} {args[1]})"
        if e.op == "bitwise_not":
            scalar_truth = e.dtype.is_bool and e.dtype.lanes == 1
            return f"(!{args[0]})" if scalar_truth else f"({value_type(e.dtype)})(~{args[0]})"
        if e.op in ("shift_left", "shift_right", "dot4_u8i8"):
            return f"{self.use(e.op, e.dtype)}({', '.join(args)})"
        if e.op == "popcount":
            return f"popcount({args[0]})"
        if e.op == "abs":
            t = value_type(e.dtype)
            return args[0] if e.dtype.is_bool or e.dtype.kind == "uint" else f"as_{t}(abs({args[0]}))"
        if e.op in _TESTS:
            return literal(IntImm(int(e.op == "isfinite"), DType("bool")))
        raise Unsupported(f"the intrinsic {e.op} in an OpenCL kernel")

    def float_call(self, e: Call, dtype: DType, args: list[str]) -> str:
        if e.op in _TESTS:
            text = f"{e.op}({args[0]})"
            return f"({text} != 0)" if dtype.lanes == 1 else f"convert_char{dtype.lanes}({text})"
        if e.op == "sigmoid":
            return f"{self.use('sigmoid', dtype)}({args[0]})"
        if e.op == "dot2_bf16":
            return f"{self.use('dot2_bf16', dtype)}({', '.join(args)})"
        if e.op == "rsqrt":
            return library_round(self.library, dtype, f"(({value_type(dtype)})(1) / sqrt({args[0]}))")
        if e.op not in _FLOAT_CALLS:
            raise Unsupported(f"the intrinsic {e.op} in an OpenCL kernel")
        return library_round(self.library, dtype, f"{_FLOAT_CALLS[e.op]}({', '.join(args)})")

    def reinterpreted(self, e: Call) -> str:
        source, to, text = e.args[0].dtype, e.dtype, self.value(e.args[0])
        if source == to:
            return text
        if source.is_half:
            text = f"{self.use('bits', source)}({text})"
        if to.is_half:
            return f"{self.use('from_bits', to)}(as_ushort{'' if to.lanes == 1 else to.lanes}({text}))"
        if to.is_bool or source.is_bool:
            return self.converted(text, source, to)
        return f"as_{value_type(to)}({text})"

    def shuffle(self, e: Shuffle) -> str:
        lanes: list[str] = []
        for vector in e.vectors:
            text = self.value(vector)
            count = vector.dtype.lanes
            lanes += [f"{atom(text)}.s{k:x}" if count > 1 else text for k in range(count)]
        picked = [lanes[k] for k in e.indices]
        truth = e.dtype.is_bool and len(picked) > 1 and all(v.dtype.lanes == 1 for v in e.vectors)
        if len(picked) == 1:
            return f"(-{picked[0]})" if e.dtype.is_bool and e.vectors[0].dtype.lanes > 1 else picked[0]
        return f"({value_type(e.dtype)})({', '.join(f'-({p})' if truth else p for p in picked)})"
