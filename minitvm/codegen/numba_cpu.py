"""Python for Numba on CPUs, over the SIMD vectors of `runtime.cpu.simd`.

A kernel becomes `def name(args, thread, threads)`: `args[i]` is the address of buffer parameter i or the value of
scalar parameter i (a float scalar as its bits, in the low end of the word). Values have their declared dtype
throughout; index arithmetic is done in int64, where it cannot wrap.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np

from ..arith import Analyzer
from ..errors import InternalError, Unsupported
from ..expr import (
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
    Range,
    Select,
    Shuffle,
    Sub,
    Var,
)  # fmt: skip
from ..tir.nodes import (
    Assert,
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    LetStmt,
    PrimFunc,
    While,
)  # fmt: skip
from .emitter import Emitter
from .registers import Register, slot

_SHORT = {"bool": "b1", **{f"{k}int{n}": f"{k or 'i'}{n}" for k in ("", "u") for n in (8, 16, 32, 64)}}
_SHORT.update({f"float{n}": f"f{n}" for n in (16, 32, 64)})
_SIMD_NAMES = """
    load store load_masked store_masked gather scatter ramp broadcast first select shuffle extract insert concat
    fma add sub mul div floordiv floormod truncdiv truncmod maximum minimum neg absolute
    bitand bitor bitxor invert shl shr popcount lt le gt ge eq ne isnan isinf isfinite
    sqrt rsqrt floor ceil trunc rint round_away copysign exp exp2 expm1 log log2 log10 log1p
    sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid erf pow atan2 hypot
    reduce_add reduce_mul reduce_max reduce_min
"""
SIMD = frozenset(_SIMD_NAMES.split())
_NATIVE = {Add: "+", Sub: "-", Mul: "*"}
_MARKER = {
    Add: "add", Sub: "sub", Mul: "mul", FloorDiv: "floordiv", FloorMod: "floormod", Min: "minimum", Max: "maximum",
    EQ: "eq", NE: "ne", LT: "lt", LE: "le", GT: "gt", GE: "ge",
}  # fmt: skip
_COMPARE = {EQ: "==", NE: "!=", LT: "<", LE: "<=", GT: ">", GE: ">="}
_RENAMED = {
    "abs": "absolute", "round": "round_away", "nearbyint": "rint", "fmod": "truncmod",
    "shift_left": "shl", "shift_right": "shr", "bitwise_and": "bitand", "bitwise_or": "bitor", "bitwise_xor": "bitxor",
    "bitwise_not": "invert", "vector_reduce_add": "reduce_add", "vector_reduce_min": "reduce_min",
    "vector_reduce_max": "reduce_max", "vector_reduce_mul": "reduce_mul",
}  # fmt: skip
_CALLS = {**{name: name for name in SIMD if name in INTRINSICS}, **_RENAMED}
_ATOM = re.compile(r"-?[\w.]+|[\w.]+\([^()]*\)|[\w.]+\[[^][]*\]")


def generate(kernel: PrimFunc, target: Any = None) -> str:
    """The module text of a kernel: an import line and the function, named as the kernel.

    Raises `Unsupported` for what a CPU kernel cannot say (thread axes, barriers, vector-typed buffers).
    """
    return _NumbaCPU(kernel, target).module()


def short_name(dtype: DType) -> str:
    """`float32x8` -> `f32x8`."""
    if dtype.scalar not in _SHORT:
        raise Unsupported(f"a value of dtype {dtype} in a CPU kernel")
    base = _SHORT[dtype.scalar]
    return base if dtype.lanes == 1 else f"{base}x{dtype.lanes}"


class _NumbaCPU(Emitter):
    def __init__(self, kernel: PrimFunc, target: Any) -> None:
        short = set(_SHORT.values())
        reserved = {*SIMD, *short, "args", "thread", "threads", "range", "min", "max", "INF", "NAN", kernel.name}
        reserved |= {f"{p}_{s}" for p in ("pointer", "stack", "scalar", "as") for s in short}
        super().__init__(kernel, target, reserved)
        self.imports: set[str] = set()
        self.wide: set[Var] = set()  # int variables that are kept in int64
        self.analyzer = Analyzer()  # ranges of variables in scope: they choose cheap divisions
        self.stack_bytes = 0

    # -- the module

    def module(self) -> str:
        self.depth = 1
        for position, param in enumerate(self.kernel.params):
            self.parameter(position, param)
        self.stmt(self.kernel.body)
        if not any(not line.strip().startswith("#") for line in self.lines):
            self.line("pass")
        names = sorted(self.imports - {"INF", "NAN"})
        header = [f"# {line}" for line in self.header()]
        lines = [*header, *import_lines(names)]
        lines += [f"{n} = float({n.lower()!r})" for n in ("INF", "NAN") if n in self.imports]
        lines += ["", "", f"def {self.kernel.name}(args, thread, threads):", *self.lines, ""]
        return "\n".join(lines)

    def header(self) -> list[str]:
        params = ", ".join(
            f"{p.name}: {p.dtype}[{', '.join(map(str, p.shape))}]" if isinstance(p, Buffer) else f"{p.name}: {p.dtype}"
            for p in self.kernel.params
        )
        trace = self.kernel.attrs.get("schedule_trace", ())
        steps = trace.split("\n") if isinstance(trace, str) else [str(step) for step in trace]
        rows = [f"kernel {self.kernel.name}({params})"]
        return rows + (["schedule:", *("  " + step for step in steps)] if steps else [])

    def parameter(self, position: int, param: Buffer | Var) -> None:
        name = self.names[param]
        if isinstance(param, Buffer):
            self.line(f"{name} = {self.use('pointer_' + short_name(self.scalar(param)))}(args[{position}])")
        elif param.dtype.is_float:
            self.line(f"{name} = {self.use('scalar_' + short_name(param.dtype))}(args[{position}])")
        else:
            self.wide.add(param)
            self.line(f"{name} = args[{position}]")

    def scalar(self, buffer: Buffer) -> DType:
        if buffer.dtype.lanes > 1:
            raise Unsupported(f"buffer {buffer.name} of vector dtype {buffer.dtype} in a CPU kernel")
        return buffer.dtype

    def use(self, name: str) -> str:
        """A name of the support library, noted for the import."""
        self.imports.add(name)
        return name

    def no_op(self) -> str:
        return "pass"

    # -- statements

    def if_header(self, condition: Expr) -> str:
        return f"if {self.value(condition)}:"

    def else_header(self) -> str:
        return "else:"

    def loop(self, stmt: For) -> None:
        if stmt.kind not in (ForKind.SERIAL, ForKind.PARALLEL, ForKind.UNROLLED):
            raise Unsupported(f"a {stmt.kind} loop over {stmt.var.name} in a CPU kernel")
        self.wide.add(stmt.var)
        self.analyzer.bind(stmt.var, Range(stmt.start, stmt.extent))
        with self.block(f"for {self.names[stmt.var]} in range({self.loop_bounds(stmt)}):"):
            self.stmt(stmt.body)

    def loop_bounds(self, stmt: For) -> str:
        zero = isinstance(stmt.start, IntImm) and stmt.start.value == 0
        start, extent = self.index(stmt.start), self.index(stmt.extent)
        if stmt.kind != ForKind.PARALLEL:
            constant = isinstance(stmt.start, IntImm) and isinstance(stmt.extent, IntImm)
            stop = str(stmt.start.value + stmt.extent.value) if constant else f"{start} + {extent}"  # type: ignore[attr-defined]
            return extent if zero else f"{start}, {stop}"
        offset = "" if zero else f"{start} + "
        n = _atom(extent)
        return f"{offset}{n} * thread // threads, {offset}{n} * (thread + 1) // threads"

    def while_loop(self, stmt: While) -> None:
        with self.block(f"while {self.value(stmt.condition)}:"):
            self.stmt(stmt.body)

    def let(self, stmt: LetStmt) -> None:
        if _is_index(stmt.value):
            self.wide.add(stmt.var)
            self.analyzer.bind_value(stmt.var, stmt.value)
            text = self.index(stmt.value)
        else:
            text = self.value(stmt.value)
        self.line(f"{self.names[stmt.var]} = {text}")
        self.stmt(stmt.body)

    def store(self, stmt: BufferStore) -> None:
        value, index = stmt.value, stmt.indices[0]
        if stmt.buffer in self.registers:
            self.line(f"{self.register(stmt.buffer, index)} = {self.value(value)}")
            return
        name = self.names[stmt.buffer]
        if index.dtype.lanes == 1:
            self.scalar_store(stmt, name)
            return
        base = self.contiguous(index)
        mask = "" if stmt.predicate is None else f", {self.value(stmt.predicate)}"
        if base is None:
            self.line(f"{self.use('scatter')}({name}, {self.vector_index(index)}, {self.vector(value)}{mask})")
        else:
            op = self.use("store_masked" if mask else "store")
            self.line(f"{op}({name}, {base}, {self.vector(value)}{mask})")

    def scalar_store(self, stmt: BufferStore, name: str) -> None:
        text = f"{name}[{self.index(stmt.indices[0])}] = {self.value(stmt.value)}"
        if stmt.predicate is None:
            self.line(text)
            return
        with self.block(f"if {self.value(stmt.predicate)}:"):
            self.line(text)

    def check(self, stmt: Assert) -> None:
        # Kernels do not raise: whoever calls the host function checks its conditions.
        self.line(f"# holds: {stmt.condition}")

    def evaluate(self, stmt: Evaluate) -> None:
        if isinstance(stmt.value, Call) and stmt.value.op == "tvm_storage_sync":
            raise Unsupported("a barrier in a CPU kernel: kernels are separated by barriers, they contain none")

    def stack_array(self, buffer: Buffer) -> None:
        size = buffer.shape[0]
        if not isinstance(size, IntImm):
            raise InternalError(f"local buffer {buffer.name} has size {size}: only constant sizes fit on the stack")
        self.stack_bytes += size.value * buffer.dtype.bytes
        if self.stack_bytes > 1 << 20:
            raise InternalError(f"kernel {self.kernel.name} needs more than 1 MiB of stack, at buffer {buffer.name}")
        self.line(f"{self.names[buffer]} = {self.use('stack_' + short_name(self.scalar(buffer)))}({size.value})")

    def declare_register(self, buffer: Buffer, register: Register, name: str) -> None:
        # Numba wants a variable typed on every path; LLVM drops the value where it is not read.
        self.line(f"{name} = {self.use(short_name(buffer.dtype.with_lanes(register.lanes)))}(0)")

    def register(self, buffer: Buffer, index: Expr) -> str:
        at = slot(index)
        if at is None:
            raise InternalError(f"{buffer.name}[{index}] is not a constant slot")
        return self.registers[buffer][at]

    # -- index expressions: int64, spelled with Python's operators

    def index(self, e: Expr) -> str:
        if isinstance(e, IntImm):
            return str(e.value)
        if isinstance(e, Var):
            return self.names[e] if e in self.wide else f"{self.use('i64')}({self.names[e]})"
        if isinstance(e, Cast) and e.dtype.is_int and e.dtype.bits >= 32 and _is_index(e.value):
            return self.index(e.value)
        if not _is_index(e):
            return f"{self.use('i64')}({self.value(e)})"
        if isinstance(e, Add):
            return f"{self.index(e.a)} + {self.operand(e.b, Add | Sub)}"
        if isinstance(e, Sub):
            return f"{self.index(e.a)} - {self.operand(e.b, Add | Sub)}"
        if isinstance(e, Mul):
            return f"{_atom(self.index(e.a))} * {_atom(self.index(e.b))}"
        if isinstance(e, Min | Max):
            return f"{'min' if isinstance(e, Min) else 'max'}({self.index(e.a)}, {self.index(e.b)})"
        if isinstance(e, FloorDiv | FloorMod | Div | Mod):
            return self.division(e)
        return f"{self.use('i64')}({self.value(e)})"

    def operand(self, e: Expr, parenthesised: Any) -> str:
        text = self.index(e)
        return f"({text})" if isinstance(e, parenthesised) else text

    def division(self, e: Any) -> str:
        a = _atom(self.index(e.a))
        floor, quotient = isinstance(e, FloorDiv | FloorMod), isinstance(e, FloorDiv | Div)
        divisor = e.b.value if isinstance(e.b, IntImm) else 0
        if floor and divisor > 0 and divisor & (divisor - 1) == 0:  # exact for negative dividends too
            return f"({a} >> {divisor.bit_length() - 1})" if quotient else f"({a} & {divisor - 1})"
        if not floor or (divisor > 0 and self.not_negative(e.a)):
            op = self.use("truncdiv" if quotient else "truncmod")
            return f"{op}({self.index(e.a)}, {self.index(e.b)})"
        op = self.use("floordiv" if quotient else "floormod")
        return f"{op}({self.index(e.a)}, {self.index(e.b)})"

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
        unit = isinstance(e, Ramp) and isinstance(e.stride, IntImm) and e.stride.value == 1
        return self.index(e.base) if unit else None  # type: ignore[attr-defined]

    # -- values: of exactly their dtype

    def vector(self, e: Expr) -> str:
        """A value where a vector must stand: a broadcast is spelled out."""
        if isinstance(e, Broadcast):
            return f"{self.use(short_name(e.dtype))}({self.broadcast_operand(e)})"
        return self.value(e)

    def broadcast_operand(self, e: Broadcast) -> str:
        if isinstance(e.value, IntImm | FloatImm) and self.plain_literal(e.value) is not None:
            return str(self.plain_literal(e.value))
        return self.value(e.value)

    def plain_literal(self, e: IntImm | FloatImm) -> str | None:
        """A constant without a conversion, for places that convert; None for what Python has no literal of."""
        if isinstance(e, IntImm):
            return str(e.value) if not e.dtype.is_bool else str(bool(e.value))
        number = rounded(e)
        return repr(number) if math.isfinite(number) else None

    def beside(self, e: Expr, other: Expr) -> str:
        """An operand of an element-wise operation; beside a vector, scalars are broadcast by the operation itself."""
        if isinstance(e, Broadcast) and not isinstance(other, Broadcast):
            return self.broadcast_operand(e)
        return self.vector(e)

    def value(self, e: Expr) -> str:
        if isinstance(e, IntImm | FloatImm):
            return self.constant(e)
        if isinstance(e, Var):
            name = self.names[e]
            narrow = e in self.wide and e.dtype != "int64"
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
                f"(not {_atom(self.value(e.a))})" if e.dtype.lanes == 1 else f"{self.use('invert')}({self.value(e.a)})"
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
        raise Unsupported(f"{type(e).__name__} in a CPU kernel: {e}")

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
            return self.register(e.buffer, index)
        name = self.names[e.buffer]
        self.scalar(e.buffer)
        if index.dtype.lanes == 1:
            text = f"{name}[{self.index(index)}]"
            if e.predicate is None:
                return text
            zero = f"{self.use(short_name(e.dtype))}(0)"
            return f"({text} if {self.value(e.predicate)} else {zero})"
        base = self.contiguous(index)
        mask = "" if e.predicate is None else f", {self.value(e.predicate)}"
        if base is None:
            return f"{self.use('gather')}({name}, {self.vector_index(index)}{mask})"
        if mask:
            return f"{self.use('load_masked')}({name}, {base}{mask})"
        return f"{self.use('load')}({name}, {base}, {e.dtype.lanes})"

    def cast(self, e: Cast) -> str:
        if e.dtype == e.value.dtype:
            return self.value(e.value)
        if e.value.dtype.kind == "handle":
            raise Unsupported(f"a cast of {e.value.dtype} in a CPU kernel")
        inner = self.index(e.value) if _is_index(e.value) and not isinstance(e.value, IntImm) else self.value(e.value)
        return f"{self.use(short_name(e.dtype))}({inner})"

    def compare(self, e: CompareOp) -> str:
        if _is_index(e.a) and _is_index(e.b):
            return f"({self.index(e.a)} {_COMPARE[type(e)]} {self.index(e.b)})"
        prefix = self.prefix_mask(e)
        if prefix is not None:
            return prefix
        if e.a.dtype.lanes == 1 and e.a.dtype.scalar != "float16":
            return f"({_atom(self.value(e.a))} {_COMPARE[type(e)]} {_atom(self.value(e.b))})"
        return f"{self.use(_MARKER[type(e)])}({self.beside(e.a, e.b)}, {self.beside(e.b, e.a)})"

    def prefix_mask(self, e: CompareOp) -> str | None:
        """`ramp(base) < broadcast(n)` is the mask of the first `n - base` lanes."""
        ramp, limit = e.a, e.b
        if not (isinstance(e, LT) and isinstance(ramp, Ramp) and isinstance(limit, Broadcast)):
            return None
        unit = isinstance(ramp.stride, IntImm) and ramp.stride.value == 1
        if not unit or not (_is_index(ramp.base) and _is_index(limit.value)):
            return None
        zero = isinstance(ramp.base, IntImm) and ramp.base.value == 0
        rest = self.index(limit.value) if zero else f"{self.index(limit.value)} - {self.operand(ramp.base, Add | Sub)}"
        return f"{self.use('first')}({rest}, {ramp.lanes})"

    def logical(self, e: Any) -> str:
        conjunction = isinstance(e, And)
        if e.dtype.lanes == 1:
            return f"({self.value(e.a)} {'and' if conjunction else 'or'} {self.value(e.b)})"
        return f"({self.vector(e.a)} {'&' if conjunction else '|'} {self.vector(e.b)})"

    def binary(self, e: BinaryOp) -> str:
        fused = self.fused_multiply_add(e)
        if fused is not None:
            return fused
        a, b = self.beside(e.a, e.b), self.beside(e.b, e.a)
        native = e.dtype.lanes > 1 or e.dtype.scalar in ("float32", "float64")
        if type(e) in _NATIVE and native:
            # A literal beside a vector is converted by the operation; two scalars have one dtype already.
            return f"({a} {_NATIVE[type(e)]} {b})"
        if isinstance(e, Div):
            return f"{self.use('div' if e.dtype.is_float else 'truncdiv')}({a}, {b})"
        if isinstance(e, Mod):
            return f"{self.use('truncmod')}({a}, {b})"
        return f"{self.use(_MARKER[type(e)])}({a}, {b})"

    def fused_multiply_add(self, e: BinaryOp) -> str | None:
        """`c + a * b` in floats is rounded once."""
        if not isinstance(e, Add) or not e.dtype.is_float or e.dtype.scalar == "float16":
            return None
        product, addend = (e.b, e.a) if isinstance(e.b, Mul) else (e.a, e.b)
        if not isinstance(product, Mul):
            return None
        parts = [product.a, product.b, addend]
        vectors = [p for p in parts if not isinstance(p, Broadcast)]
        texts = [self.beside(p, vectors[0] if vectors else p) for p in parts]
        return f"{self.use('fma')}({', '.join(texts)})"

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
        if e.op == "exp10":
            return f"{self.use('pow')}({self.use(short_name(e.dtype))}(10), {self.vector(e.args[0])})"
        if e.op not in _CALLS:
            raise Unsupported(f"the intrinsic {e.op} in a CPU kernel")
        args = [self.vector(a) for a in e.args]
        return f"{self.use(_CALLS[e.op])}({', '.join(args)})"

    def shuffle(self, e: Shuffle) -> str:
        if len(e.vectors) == 1 and len(e.indices) == 1:
            return f"{self.use('extract')}({self.value(e.vectors[0])}, {e.indices[0]})"
        if all(v.dtype.lanes == 1 for v in e.vectors):
            raise Unsupported("a shuffle of scalars in a CPU kernel")
        whole = [self.vector(v) for v in e.vectors]
        both = (whole[0], whole[1] if len(whole) == 2 else whole[0])
        if len(whole) > 2:
            both = (f"{self.use('concat')}({', '.join(whole)})",) * 2
        picks = ", ".join(map(str, e.indices))
        if len(e.indices) == 1:
            return f"{self.use('extract')}({self.use('shuffle')}({both[0]}, {both[1]}, {picks}), 0)"
        return f"{self.use('shuffle')}({both[0]}, {both[1]}, {picks})"


def rounded(e: FloatImm) -> float:
    """The constant rounded once to its dtype, as a Python float (exact: every dtype's values are float64 values)."""
    value = e.value
    if isinstance(value, Fraction) and e.dtype != "float64":
        value = _rounded_fraction(value, e.dtype)
    with np.errstate(over="ignore"):
        return float(e.dtype.numpy.type(float(value)))


def _rounded_fraction(value: Fraction, dtype: DType) -> Fraction:
    """To odd at more digits than the dtype has, so that rounding through float64 is not rounding twice."""
    if value == 0:
        return value
    exponent = math.frexp(float(value))[1]
    unit = Fraction(2) ** (exponent - 40)
    digits = math.floor(value / unit)
    exact = digits * unit == value
    return digits * unit if exact else (digits | 1) * unit


def import_lines(names: list[str], width: int = 116) -> list[str]:
    """One import of everything that is used, wrapped."""
    if not names:
        return []
    text = f"from minitvm.runtime.cpu.simd import {', '.join(names)}"
    if len(text) <= width:
        return [text]
    lines, row = ["from minitvm.runtime.cpu.simd import ("], "   "
    for name in names:
        if len(row) + len(name) + 2 > width:
            lines.append(row)
            row = "   "
        row += f" {name},"
    return [*lines, row, ")"]


def _atom(text: str) -> str:
    """The text, in parentheses unless it cannot fall apart beside an operator."""
    return text if _ATOM.fullmatch(text) or _enclosed(text) else f"({text})"


def _enclosed(text: str) -> bool:
    """Whether one pair of brackets spans the text, a name before it allowed."""
    start = text.find("(")
    if start < 0 or not text.endswith(")") or (start and not text[:start].isidentifier()):
        return False
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and at >= start and at < len(text) - 1:
            return False
    return True


def _is_index(e: Expr) -> bool:
    """Whether an expression is integer arithmetic over variables and constants only, to be done in int64."""
    if e.dtype not in ("int32", "int64"):
        return False
    if isinstance(e, Var | IntImm):
        return True
    if isinstance(e, Cast):
        return _is_index(e.value)
    return (
        isinstance(e, Add | Sub | Mul | FloorDiv | FloorMod | Div | Mod | Min | Max)
        and _is_index(e.a)
        and _is_index(e.b)
    )
