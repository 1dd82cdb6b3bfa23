"""Write expressions in OpenCL C: indices in a single integer type, values in exactly their dtype.

Indices are `int` if all indices of a kernel provably fit, and `long` otherwise, because many GPUs are much slower with
64 bits. `library` has the functions that the language lacks, and `types` the names of types.
"""

from __future__ import annotations

from typing import Any

from .... import expr as ex
from ....codegen import decompose
from ....codegen.emitter import Emitter
from ....codegen.index_width import index_dtype
from ....codegen.spelling import BITS, COMPARISONS, C, atom
from ....errors import Unsupported
from ....expr.intrin import COLLECTIVES
from ....target import Target
from ....tir.analysis.threads import is_shared
from ....tir.nodes import Buffer, BufferLoad, PrimFunc
from ...simd.codegen.alignment import is_whole
from .library import FLOAT_CALLS, Library, added, element, library_round
from .types import literal, value_type

_OPERATORS = {ex.Add: "+", ex.Sub: "-", ex.Mul: "*"}
_DIVISIONS = {ex.FloorDiv: "floordiv", ex.FloorMod: "floormod", ex.Div: "truncdiv", ex.Mod: "truncmod"}
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
RESERVED = frozenset(_KEYWORDS.split()) | set(FLOAT_CALLS) | set(FLOAT_CALLS.values()) | set(_TESTS)


class OpenCLExpressions(Emitter):
    """The part of the dialect that writes expressions; `statements` writes statements."""

    syntax = C
    language = "an OpenCL kernel"
    lacks = (*Emitter.lacks, decompose.INTEGER_TESTS, decompose.UNSIGNED_ABS)
    index_rules = (decompose.TRUNCATED, decompose.SHIFTED)

    def __init__(self, kernel: PrimFunc, target: Target | None) -> None:
        vectors = {f"{t}{n}" for t in ("char", "short", "int", "long", "float", "double", "uchar", "ushort", "uint",
                                       "ulong", "half") for n in (2, 3, 4, 8, 16)}  # fmt: skip
        super().__init__(kernel, target, RESERVED | vectors | {kernel.name})
        self.index_dtype = index_dtype(kernel)
        self.library = Library(value_type(self.index_dtype), getattr(target, "half_arithmetic", False))
        self.on_stack: set[Buffer] = set()  # arrays of the kernel, whatever their scope is called
        self.uses_double = False

    def type_of(self, dtype: ex.DType) -> str:
        """Return the type of a value, and record whether the kernel needs double precision."""
        self.uses_double |= dtype.scalar == "float64"
        return value_type(dtype)

    def space(self, buffer: Buffer) -> str:
        """Return the address space of a buffer."""
        self.scalar(buffer)
        if buffer in self.on_stack:
            return "__private"
        return "__local" if is_shared(buffer.scope) else _SPACES.get(buffer.scope, "__global")

    def pointer(self, buffer: Buffer) -> str:
        """Return a buffer as a pointer to its elements. An array of halves is declared as an array of their bits."""
        space = self.space(buffer)
        declared = buffer.dtype == "float16" and space != "__global"
        return f"(({space} half *){self.names[buffer]})" if declared else self.names[buffer]

    def use(self, name: str, dtype: ex.DType, space: str = "") -> str:
        """Return the name of a library function, which is added to the kernel's source."""
        self.type_of(dtype)
        return self.library.use(name, dtype, space)

    # -- indices

    def to_index(self, text: str) -> str:
        return f"({value_type(self.index_dtype)}){atom(text)}"

    def from_index(self, name: str, dtype: ex.DType) -> str:
        return name if dtype == self.index_dtype else f"({value_type(dtype)}){name}"

    def index_constant(self, number: int) -> str:
        return str(number) if abs(number) < 2**31 else f"({number}L)"

    def index_extreme(self, x: ex.Min | ex.Max) -> str:
        function = self.use("minimum" if isinstance(x, ex.Min) else "maximum", self.index_dtype)
        return f"{function}({self.index(x.a)}, {self.index(x.b)})"

    def index_division(self, x: Any) -> str:
        a = self.index(x.a)
        if isinstance(x, ex.Div | ex.Mod) and isinstance(x.b, ex.IntImm) and x.b.value > 0:
            return f"({atom(a)} {'/' if isinstance(x, ex.Div) else '%'} {x.b.value})"
        return f"{self.use(_DIVISIONS[type(x)], self.index_dtype)}({a}, {self.index(x.b)})"

    def vector_index(self, x: ex.Expr) -> str:
        """Return the indices of a vector's lanes, in the type of indices."""
        t = value_type(self.index_dtype.with_lanes(x.dtype.lanes))
        if isinstance(x, ex.Ramp):
            lanes = ", ".join(map(str, range(x.lanes)))
            return f"(({t})({self.index(x.base)}) + ({t})({lanes}) * ({t})({self.index(x.stride)}))"
        return f"convert_{t}({self.value(x)})"

    # -- values

    def value(self, x: ex.Expr) -> str:
        self.type_of(x.dtype)
        return super().value(x)

    def constant(self, x: ex.IntImm | ex.FloatImm) -> str:
        return literal(x)

    def broadcast(self, x: ex.Broadcast) -> str:
        text = self.value(x.value)
        return f"({value_type(x.dtype)})({f'-({text})' if x.dtype.is_bool else text})"

    def ramp(self, x: ex.Ramp) -> str:
        t, lanes = value_type(x.dtype), ", ".join(map(str, range(x.lanes)))
        steps = added(self.library, x.dtype, f"({t})({lanes})", f"({t})({self.value(x.stride)})", "*")
        return added(self.library, x.dtype, f"({t})({self.value(x.base)})", steps)

    def choice_of_lanes(self, condition: ex.Expr, yes: str, no: str, dtype: ex.DType) -> str:
        return f"{self.use('select', dtype)}({self.value(condition)}, {yes}, {no})"

    def zero(self, dtype: ex.DType) -> str:
        zero = literal(ex.FloatImm(0.0, dtype.scalar) if dtype.is_float else ex.IntImm(0, dtype.scalar))
        return zero if dtype.lanes == 1 else f"({value_type(dtype)})({zero})"

    def element(self, x: BufferLoad) -> str:
        return element(self.library, x.dtype, self.pointer(x.buffer), self.index(x.indices[0]))

    def gather(self, x: BufferLoad) -> str:
        pointer, space, at = self.pointer(x.buffer), self.space(x.buffer), x.indices[0]
        if x.predicate is None:
            return f"{self.use('gather', x.dtype, space)}({pointer}, {self.vector_index(at)})"
        mask = self.value(x.predicate)
        return f"{self.use('gather_masked', x.dtype, space)}({pointer}, {self.vector_index(at)}, {mask})"

    def neighbours(self, x: BufferLoad, base: str) -> str:
        pointer, space, n = self.pointer(x.buffer), self.space(x.buffer), x.dtype.lanes
        if x.predicate is not None:
            mask = self.value(x.predicate)
            return f"{self.use('load_masked', x.dtype, space)}({pointer} + {base}, {mask})"
        if self.whole(x.buffer, x.indices[0]):
            return self.word(x.dtype, space, pointer, base)
        at = pointer if base == "0" else f"{pointer} + {base}"
        if x.dtype.scalar == "float16":
            return f"vload_half{n}(0, {at})"
        text = f"vload{n}(0, {at})"
        if x.dtype.scalar == "bfloat16":
            return f"{self.use('from_bits', x.dtype)}({text})"
        return f"({text} != (uchar{n})(0))" if x.dtype.is_bool else text

    def whole(self, buffer: Buffer, index: ex.Expr) -> bool:
        """Return whether a vector of neighbours is certainly aligned to its size, so that it needs a single access.

        `vload` and `vstore` accept any address, but PoCL implements them as function calls.
        """
        plain = not buffer.dtype.is_half and not buffer.dtype.is_bool
        return plain and is_whole(buffer, index, self.analyzer, self.lets)

    def word(self, dtype: ex.DType, space: str, pointer: str, base: str) -> str:
        """Return an access of a vector in memory that is aligned to its size."""
        return f"*({space} {value_type(dtype)} *)({pointer} + {base})"

    def converted(self, text: str, source: ex.DType, to: ex.DType) -> str:
        """Return a conversion like NumPy's: floats to integers truncate, integers wrap, and anything but 0 is true."""
        n = "" if to.lanes == 1 else str(to.lanes)
        self.type_of(to)
        if to.is_bool:
            return f"({text} != 0)" if not n else f"convert_char{n}({text} != ({value_type(source)})(0))"
        if source.is_bool and n:
            return self.converted(f"(-{text})", ex.DType("int8").with_lanes(to.lanes), to)
        if to.is_half:
            return self.halved(text, source, to)
        if source.is_float and to.is_int:  # narrow integers go through a wider one and wrap
            wide = "ulong" if to.scalar == "uint64" else "long" if to.bits == 64 or to.scalar == "uint32" else "int"
            if f"{wide}{n}" != value_type(to):
                text = f"(int){atom(text)}" if wide == "int" and not n else self.plainly(f"{wide}{n}", text)
        return self.plainly(value_type(to), text)

    def plainly(self, t: str, text: str) -> str:
        """Return C's conversion of a scalar, or OpenCL's conversion of a vector."""
        return f"convert_{t}({text})" if t[-1].isdigit() else f"({t}){atom(text)}"

    def halved(self, text: str, source: ex.DType, to: ex.DType) -> str:
        wide = ex.DType("float64").with_lanes(to.lanes)
        if to.scalar == "float16" and source.scalar == "float64":
            return f"{self.use('rounded_once', to)}({text})"
        if to.scalar == "bfloat16" and not source.is_float:
            text = self.plainly(self.type_of(wide), text)
        t = value_type(to)
        inner = text if source.is_half or source.scalar == "float32" else self.plainly(t, text)
        exact = source.is_int and source.bits <= 8
        return inner if exact else library_round(self.library, to, inner)

    def comparison(self, x: ex.CompareOp) -> str:
        sign, a, b = COMPARISONS[type(x)], atom(self.value(x.a)), atom(self.value(x.b))
        if x.a.dtype.lanes == 1:
            return f"({a} {sign} {b})"
        if x.a.dtype.is_bool and type(x) in (ex.LT, ex.LE, ex.GT, ex.GE):
            a, b = f"(-{a})", f"(-{b})"
        return f"convert_char{x.a.dtype.lanes}({a} {sign} {b})"

    def first_lanes(self, limit: ex.Expr, base: ex.Expr, lanes: int) -> str:
        rest = f"{atom(self.index(limit))} - {atom(self.index(base))}"
        return f"{self.use('first', ex.DType('bool').with_lanes(lanes))}({rest})"

    def arithmetic(self, x: ex.BinaryOp) -> str:
        a, b = self.value(x.a), self.value(x.b)
        if x.dtype.is_bool:
            return f"({a} {'&' if isinstance(x, ex.Min | ex.Mul) else '|'} {b})"
        if type(x) in _OPERATORS:
            return added(self.library, x.dtype, a, b, _OPERATORS[type(x)])
        if isinstance(x, ex.Min | ex.Max):
            return f"{self.use('minimum' if isinstance(x, ex.Min) else 'maximum', x.dtype)}({a}, {b})"
        if x.dtype.is_float and isinstance(x, ex.Div | ex.Mod):
            return library_round(self.library, x.dtype, f"({a} / {b})" if isinstance(x, ex.Div) else f"fmod({a}, {b})")
        return f"{self.use(_DIVISIONS[type(x)], x.dtype)}({a}, {b})"

    def multiply_add(self, a: ex.Expr, b: ex.Expr, c: ex.Expr) -> str:
        # One operation, on devices on which a multiply-add is as fast as an addition.
        return f"{self.use('multiply_add', c.dtype)}({self.value(a)}, {self.value(b)}, {self.value(c)})"

    def words_added(self, op: str, a: ex.Expr, b: ex.Expr, c: ex.Expr) -> str | None:
        if op != "dot2_bf16":
            return None
        return f"{self.use('dot2_bf16', c.dtype)}({self.value(c)}, {self.value(a)}, {self.value(b)})"

    def call(self, x: ex.Call) -> str:
        if x.op in COLLECTIVES:
            raise Unsupported(
                f"{x.op} in an OpenCL kernel: OpenCL 1.2 has no warps whose threads read each other's registers\n"
                "  try:    tvm_thread_allreduce, of which a tree in local memory is made\n"
                "          a buffer in shared storage"
            )
        return super().call(x)

    def function(self, x: ex.Call, args: list[str]) -> str:
        first = x.args[0].dtype
        if x.op.startswith("vector_reduce_"):
            return f"{self.use('reduce_' + x.op.removeprefix('vector_reduce_'), first)}({', '.join(args)})"
        if first.is_float:
            return self.float_call(x, first, args)
        if x.op in BITS:
            return f"({value_type(x.dtype)})({args[0]} {BITS[x.op]} {args[1]})"
        if x.op == "bitwise_not":
            scalar_truth = x.dtype.is_bool and x.dtype.lanes == 1
            return f"(!{args[0]})" if scalar_truth else f"({value_type(x.dtype)})(~{args[0]})"
        if x.op in ("shift_left", "shift_right", "dot4_u8i8"):
            return f"{self.use(x.op, x.dtype)}({', '.join(args)})"
        if x.op == "popcount":
            return f"popcount({args[0]})"
        if x.op == "abs":
            return f"as_{value_type(x.dtype)}(abs({args[0]}))"
        raise Unsupported(f"the intrinsic {x.op} in {self.language}")

    def float_call(self, x: ex.Call, dtype: ex.DType, args: list[str]) -> str:
        if x.op in _TESTS:
            text = f"{x.op}({args[0]})"
            return f"({text} != 0)" if dtype.lanes == 1 else f"convert_char{dtype.lanes}({text})"
        if x.op == "sigmoid":
            return f"{self.use('sigmoid', dtype)}({args[0]})"
        if x.op == "dot2_bf16":
            return f"{self.use('dot2_bf16', dtype)}({', '.join(args)})"
        if x.op == "rsqrt":
            return library_round(self.library, dtype, f"(({value_type(dtype)})(1) / sqrt({args[0]}))")
        if x.op not in FLOAT_CALLS:
            raise Unsupported(f"the intrinsic {x.op} in {self.language}")
        return library_round(self.library, dtype, f"{FLOAT_CALLS[x.op]}({', '.join(args)})")

    def reinterpreted(self, x: ex.Call) -> str:
        source, to, text = x.args[0].dtype, x.dtype, self.value(x.args[0])
        if source == to:
            return text
        if source.is_half:
            text = f"{self.use('bits', source)}({text})"
        if to.is_half:
            return f"{self.use('from_bits', to)}(as_ushort{'' if to.lanes == 1 else to.lanes}({text}))"
        if to.is_bool or source.is_bool:
            return self.converted(text, source, to)
        return f"as_{value_type(to)}({text})"

    def shuffle(self, x: ex.Shuffle) -> str:
        lanes: list[str] = []
        for vector in x.vectors:
            text = self.value(vector)
            count = vector.dtype.lanes
            lanes += [f"{atom(text)}.s{k:x}" if count > 1 else text for k in range(count)]
        picked = [lanes[k] for k in x.indices]
        truth = x.dtype.is_bool and len(picked) > 1 and all(v.dtype.lanes == 1 for v in x.vectors)
        if len(picked) == 1:
            return f"(-{picked[0]})" if x.dtype.is_bool and x.vectors[0].dtype.lanes > 1 else picked[0]
        return f"({value_type(x.dtype)})({', '.join(f'-({p})' if truth else p for p in picked)})"
