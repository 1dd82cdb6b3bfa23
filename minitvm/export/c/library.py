"""The functions and types that C kernels use. A file of kernels begins with them, each once.

    typedef float f32x16 __attribute__((vector_size(64)));
    INLINE f32x16 fma_f32x16(f32x16 a, f32x16 b, f32x16 c) { ... }

A function is named after an operation of kernels for Numba (`machines.simd.vectors.simd`) and the type of its first
operand, or of its result if that tells more. `recorder` writes the operations that are defined there. This file writes
those that C spells differently; `memory` writes those that read and write memory.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

from ...machines.simd.vectors.dot2 import dot2
from ...machines.simd.vectors.element_operations import OPERATIONS
from ...machines.simd.vectors.elementary import BINARY, UNARY
from ...machines.simd.vectors.lanes import B1, ELEMENTS, F16, F32, F64, I32, Element, Value
from ...machines.simd.vectors.memory import REDUCTIONS, reduced
from .memory import MEMORY
from .recorder import CValue, Recorder, float_of, half_of, own
from .types import lane_type, literal, physical, scalar_type, short_name, typedef

INLINE, APART = "KERNEL_INLINE", "KERNEL_APART"
# The first lines of a file. Small functions are copied into their callers, also without optimisation.
HEADERS = ("#include <stdint.h>",)
# A vector wider than the processor's is passed in another way than by a compiler for a wider processor. That is of no
# matter here, because no other file calls these functions. GCC's global elimination of common subexpressions spills the
# sums of inner loops to keep constants in registers: without it, squeezenet's kernels are 4% faster. GCC 12 compiles a
# loop of unet wrongly when it vectorises it for AVX-512, and kernels already have the vectors that they need.
PROLOGUE = f"""\
#if defined(__GNUC__)  /* functions on vectors are inlined, and some CPUs do not need all of them */
#pragma GCC diagnostic ignored "-Wpsabi"
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-gcse", "ira-loop-pressure", "no-tree-loop-vectorize")
#endif
#if defined(__GNUC__) && !defined({INLINE})
#define {INLINE} static inline __attribute__((always_inline))
#define {APART} static __attribute__((noinline))
#elif !defined({INLINE})
#define {INLINE} static inline
#define {APART} static
#endif"""
# Lane by lane, GCC would also vectorise the loads of operands, at a cost: an instruction is one function of a header.
_VECTOR_HEADERS = """\
#if defined(__FMA__) || defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif"""
_AVX512, _FMA, _NEON = "defined(__AVX512F__)", "defined(__FMA__)", "defined(__ARM_NEON) && defined(__ARM_FEATURE_FMA)"
_FUSED: dict[tuple[str, int], list[tuple[str, str]]] = {
    ("f32", 16): [(_AVX512, "_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c)")],
    ("f64", 8): [(_AVX512, "_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c)")],
    ("f32", 8): [(_FMA, "_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c)")],
    ("f64", 4): [(_FMA, "_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c)")],
    ("f32", 4): [
        (_FMA, "_mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c)"),
        (_NEON, "vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b)"),
    ],
    ("f64", 2): [
        (_FMA, "_mm_fmadd_pd((__m128d)a, (__m128d)b, (__m128d)c)"),
        (f"defined(__aarch64__) && {_NEON}", "vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b)"),
    ],
}
_HALVES: dict[tuple[Element, Element], Callable[..., Value]] = {(F16, F32): float_of, (F32, F16): half_of}
_F16C = "defined(__F16C__)"
_HALF_INSTRUCTIONS = {
    ("f16", 8): (_F16C, "_mm256_cvtph_ps((__m128i)a)"),
    ("f16", 16): (_AVX512, "_mm512_cvtph_ps((__m256i)a)"),
    ("f32", 8): (_F16C, "_mm256_cvtps_ph((__m256)a, 0)"),
    ("f32", 16): (_AVX512, "_mm512_cvtps_ph((__m512)a, 0)"),
}
# Not copied into callers: GCC would keep the many constants in registers, and spill the sums of a kernel's inner loop.
_LARGE = {*UNARY, *BINARY, "truncdiv", "truncmod", "floordiv", "floormod"}
_PER_LANE = ("fma", "sqrt", "floor", "ceil", "trunc", "rint", "round")
_SIGNS = ("fabs", "copysign")
_COUNTS = {"ctpop": "popcount", "ctlz": "clz", "cttz": "ctz"}


class CLibrary:
    """Definitions by name, in an order in which each comes after those that it uses."""

    def __init__(self) -> None:
        self.definitions: dict[str, str] = {}

    def define(self, name: str, write: Callable[[], str]) -> str:
        """Return the name. `write` returns the text of its definition, unless the library has it."""
        if name not in self.definitions:
            text = write()
            self.definitions[name] = text
        return name

    def type(self, element: Element, lanes: int) -> str:
        """Return the C type of a value."""
        if not lanes:
            return scalar_type(element)
        return self.define(short_name(element, lanes), lambda: typedef(element, lanes))

    def place(self, element: Element, lanes: int, aligned: bool) -> str:
        """Return the type of a vector in memory, at a multiple of its size, or of the size of an element."""
        vector = self.type(element, lanes)
        size = physical(lanes) * element.itemsize
        alignment = size if aligned else element.itemsize
        name = f"{vector}_{'whole' if aligned else 'place'}"
        attributes = f"vector_size({size}), aligned({alignment}), may_alias"
        return self.define(name, lambda: f"typedef {lane_type(element)} {name} __attribute__(({attributes}));")

    def vector_headers(self) -> None:
        """Include the headers of the processor's vector instructions."""
        self.define("the headers of vector instructions", lambda: _VECTOR_HEADERS)

    # -- functions

    def use(self, name: str, element: Element, lanes: int) -> str:
        """Return the name of the function for an operation on values of one type."""
        full = f"{name}_{short_name(element, lanes)}"
        if name in _SPELLED:
            return self.define(full, lambda: _SPELLED[name](self, full, element, lanes))
        if name in MEMORY:
            return self.define(full, lambda: MEMORY[name](self, full, element, lanes))
        return self.operation(name, element, lanes, {})

    def operation(self, name: str, element: Element, lanes: int, numbers: dict[int, float]) -> str:
        """Return the name of an operation of `OPERATIONS` or `REDUCTIONS`.

        `numbers` are the operands that are constants, by position: the function has no parameters for these.
        """
        if name in _SPELLED and (element in (F32, F64) or name not in _PER_LANE + _SIGNS):
            return self.use(name, element, lanes)
        full = f"{name}_{short_name(element, lanes)}" + "".join(f"_{_number_name(x)}" for x in numbers.values())
        if name in REDUCTIONS:
            arity, emit = 1, lambda *xs: reduced(xs[0], REDUCTIONS[name].combine)
        else:
            arity, emit = OPERATIONS[name].arity, OPERATIONS[name].emit
        return self.recorded(full, [(element, lanes)] * arity, emit, numbers, large=name in _LARGE)

    def recorded(
        self,
        full: str,
        shapes: list[tuple[Element, int]],
        emit: Callable[..., Value],
        numbers: dict[int, float] | None = None,
        large: bool = False,
    ) -> str:
        """Return the name of a function that a Python function on `Value`s defines."""
        return self.define(full, lambda: self._record(full, shapes, emit, numbers or {}, large))

    def _record(
        self,
        full: str,
        shapes: list[tuple[Element, int]],
        emit: Callable[..., Value],
        numbers: dict[int, float],
        large: bool,
    ) -> str:
        recorder = Recorder(self)
        operands, parameters = [], []
        for position, (element, lanes) in enumerate(shapes):
            letter = f"a{position}" if len(shapes) > 4 else "abcd"[position]
            value = CValue(recorder, element, lanes, letter)
            if position in numbers:
                value = value.constant(numbers[position])
            else:
                parameters.append(f"{self.type(element, lanes)} {letter}")
            operands.append(value)
        result = own(emit(*operands)).masked()
        head = f"{APART if large else INLINE} {result.type()} {full}({', '.join(parameters)}) {{"
        unused = [
            f"    (void){p.split()[-1]};" for p in parameters if not _mentions(recorder.lines, result, p.split()[-1])
        ]
        return "\n".join([head, *unused, *recorder.lines, f"    return {result.text};", "}"])

    def bits(self, source: Element, to: Element) -> str:
        """Return the name of the function that returns the bits of a scalar as another type of the same width."""
        name = f"bits_of_{source.name}_as_{to.name}"
        into, origin = scalar_type(to), scalar_type(source)
        text = f"{INLINE} {into} {name}({origin} a) {{ {into} b; __builtin_memcpy(&b, &a, sizeof b); return b; }}"
        return self.define(name, lambda: text)

    def cast(self, source: Element, to: Element, lanes: int) -> str:
        """Return the name of the conversion between types."""
        name = f"{short_name(to, lanes)}_of_{short_name(source, lanes)}"
        if (source, to) in _HALVES:
            return self.define(name, lambda: self._half(name, source, to, lanes))
        return self.recorded(name, [(source, lanes)], lambda a: a.cast(to))

    def _half(self, name: str, source: Element, to: Element, lanes: int) -> str:
        """The definition of a conversion from or to float16: an instruction, or integer arithmetic."""
        text = self._record(name, [(source, lanes)], _HALVES[source, to], {}, large=False)
        if (source.name, lanes) not in _HALF_INSTRUCTIONS:
            return text
        self.vector_headers()
        macro, call = _HALF_INSTRUCTIONS[source.name, lanes]
        head, *body = text.splitlines()
        returned = f"    return ({self.type(to, lanes)}){call};"
        return "\n".join([head, f"#if {macro}", returned, "#else", *body[:-1], "#endif", body[-1]])

    def bitcast(self, source: Element, to: Element, lanes: int) -> str:
        """Return the name of the function that returns the bits of a value as another type."""
        name = f"as_{short_name(to, lanes)}_of_{short_name(source, lanes)}"
        return self.recorded(name, [(source, lanes)], lambda a: a.bitcast(to))

    def select(self, element: Element, lanes: int) -> str:
        """Return the name of the function that chooses lanes by a mask."""
        name = f"select_{short_name(element, lanes)}"
        shapes = [(B1, lanes), (element, lanes), (element, lanes)]
        return self.recorded(name, shapes, lambda mask, a, b: mask.select(a, b))

    def shuffle(self, element: Element, lanes: Sequence[int], picks: Sequence[int]) -> str:
        """Return the name of the function that picks lanes out of vectors of so many lanes, one after the other."""
        name = "_".join(map(str, ("shuffle", *lanes, "to", *picks, short_name(element, 0))))

        def emit(*vectors: CValue) -> Value:
            ends = list(accumulate(lanes))
            if len(vectors) <= 2 and len(set(lanes)) == 1 and len(picks) > 1:
                return vectors[0].shuffle(vectors[-1], picks)
            picked = []
            for pick in picks:
                vector = bisect_right(ends, pick)
                picked.append(vectors[vector].lane(pick - (ends[vector] - lanes[vector])))
            if len(picks) == 1:
                return picked[0]
            return CValue(vectors[0].recorder, element, len(picks), "").from_lanes(list(enumerate(picked)), "{0}")

        return self.recorded(name, [(element, n) for n in lanes], emit)

    def dot2(self, lanes: int) -> str:
        """Return the name of `dot2_bf16`."""
        return self.recorded(f"dot2_bf16_{short_name(F32, lanes)}", [(F32, lanes), (I32, lanes), (I32, lanes)], dot2)


def _mentions(lines: list[str], result: CValue, name: str) -> bool:
    words = f"{' '.join(lines)} {result.text}"
    for mark in "()[]{},;-~!&|^+*/":
        words = words.replace(mark, " ")
    return name in words.split()


def _number_name(x: float) -> str:
    """Return a number as a part of a name: 2 or c40000000."""
    return str(int(x)) if x >= 0 and x == int(x) and x < 1e6 else f"c{struct.pack('>d', x).hex()}"


# -- functions that are no operations of kernels, or that C has


def _function(head: str, *lines: str) -> str:
    return "\n".join([f"{INLINE} {head} {{", *(f"    {line}" for line in lines), "}"])


def _all(library: CLibrary, name: str, element: Element, lanes: int) -> str:
    """A number in every lane. A mask's lane comes as 0 or -1."""
    t, lane = library.type(element, lanes), lane_type(element)
    return _function(f"{t} {name}({lane} a)", f"return ({t}){{{', '.join(['a'] * physical(lanes))}}};")


def _any(library: CLibrary, name: str, element: Element, lanes: int) -> str:
    """Whether a lane of a mask is set."""
    reduce = library.use("reduce_or", B1, lanes)
    return _function(f"int {name}({library.type(element, lanes)} a)", f"return {reduce}(a);")


def _every(library: CLibrary, name: str, element: Element, lanes: int) -> str:
    """Whether all lanes of a mask are set."""
    reduce = library.use("reduce_and", B1, lanes)
    return _function(f"int {name}({library.type(element, lanes)} a)", f"return {reduce}(a);")


def _first(library: CLibrary, name: str, element: Element, lanes: int) -> str:
    """The mask of the first n lanes."""
    t = library.type(element, lanes)
    iota = ", ".join(map(str, range(physical(lanes))))
    every = library.use("all", I32, lanes)
    return _function(
        f"{t} {name}(int64_t n)",
        f"const int32_t count = n < 0 ? 0 : n > {lanes} ? {lanes} : (int32_t)n;",
        f"return ({t})(({t}){{{iota}}} < ({t}){every}(count));",
    )


def _ramp(library: CLibrary, name: str, element: Element, lanes: int) -> str:
    """base + stride * lane in each lane."""
    scalar = scalar_type(element)
    recorder = Recorder(library)
    base, stride = (CValue(recorder, element, 0, text).splat(lanes) for text in ("base", "stride"))
    result = own(base + stride * base.constants(range(lanes), element))
    lines = [line.strip() for line in recorder.lines]
    return _function(
        f"{library.type(element, lanes)} {name}({scalar} base, {scalar} stride)", *lines, f"return {result.text};"
    )


def _per_lane(call: str) -> Callable[[CLibrary, str, Element, int], str]:
    def write(library: CLibrary, name: str, element: Element, lanes: int) -> str:
        arity = 3 if call == "fma" else 1
        letters = "abc"[:arity]
        builtin = f"__builtin_{call}{'f' if element is F32 else ''}"
        t = library.type(element, lanes)
        head = f"{t} {name}({', '.join(f'{t} {x}' for x in letters)})"
        if not lanes:
            return _function(head, f"return {builtin}({', '.join(letters)});")
        operands = ", ".join(f"{x}[l]" for x in letters)
        loop = [f"{t} r = {{0}};", f"for (int l = 0; l < {lanes}; ++l) r[l] = {builtin}({operands});", "return r;"]
        if call != "fma" or (element.name, lanes) not in _FUSED:
            return _function(head, *loop)
        library.vector_headers()
        lines = []
        for number, (macro, text) in enumerate(_FUSED[element.name, lanes]):
            lines += [f"#{'el' if number else ''}if {macro}", f"    return ({t}){text};"]
        return "\n".join([f"{INLINE} {head} {{", *lines, "#else", *(f"    {line}" for line in loop), "#endif", "}"])

    return write


def _sign_bits(library: CLibrary, name: str, element: Element, lanes: int) -> str:
    """fabs and copysign."""
    suffix = "f" if element is F32 else ""
    t = library.type(element, lanes)
    copies = name.startswith("copysign")
    head = f"{t} {name}({t} a{f', {t} b' if copies else ''})"
    if not lanes:
        return _function(
            head, f"return __builtin_{'copysign' if copies else 'fabs'}{suffix}(a{', b' if copies else ''});"
        )
    word = ELEMENTS[f"u{element.bits}"]
    u = library.type(word, lanes)
    low = f"{library.use('all', word, lanes)}({literal((1 << (element.bits - 1)) - 1, word)})"
    magnitude = f"(({u})a & {low})"
    return _function(head, f"return ({t})({magnitude}{f' | (({u})b & ~{low})' if copies else ''});")


def _count(call: str) -> Callable[[CLibrary, str, Element, int], str]:
    def write(library: CLibrary, name: str, element: Element, lanes: int) -> str:
        t, bits = library.type(element, lanes), element.bits
        head = f"{t} {name}({t} a)"
        if lanes:
            scalar = library.use(call, element, 0)
            return _function(
                head, f"{t} r = {{0}};", f"for (int l = 0; l < {lanes}; ++l) r[l] = {scalar}(a[l]);", "return r;"
            )
        word = f"(unsigned long long)(uint{bits}_t)a"
        text = f"__builtin_{_COUNTS[call]}ll({word})"
        if call == "ctlz":
            text = f"a == 0 ? {bits} : {text} - {64 - bits}"
        elif call == "cttz":
            text = f"a == 0 ? {bits} : {text}"
        return _function(head, f"return ({t})({text});")

    return write


def _dot4_add(library: CLibrary, name: str, element: Element, lanes: int) -> str:
    """c + the four products of bytes, unsigned ones of a and signed ones of b."""
    t = library.type(element, lanes)
    head = f"{t} {name}({t} a, {t} b, {t} c)"
    if lanes:
        u = library.type(ELEMENTS["u32"], lanes)
        products = [
            f"({t})((({u})a >> {8 * k}) & {library.use('all', ELEMENTS['u32'], lanes)}(255u)) * "
            f"(({t})(({u})b << {24 - 8 * k}) >> 24)"
            for k in range(4)
        ]
        plain = [f"return ({t})(({u})c + ({u})({' + '.join(products)}));"]
        if lanes not in (4, 8, 16):
            return _function(head, *plain)
        macro = "__AVX512VNNI__" if lanes == 16 else "__AVX512VNNI__) && defined(__AVX512VL__"
        builtin = f"__builtin_ia32_vpdpbusd_v{lanes}si(c, a, b)"
        gcc = f"#if defined({macro}) && defined(__GNUC__) && !defined(__clang__)"
        clang = f"#elif defined({macro}) && defined(__clang__)"
        narrow = f"({t})__builtin_ia32_vpdpbusd{32 * lanes}(c, a, b)"
        lines = [gcc, f"    return {builtin};", clang, f"    return {narrow};", "#else", f"    {plain[0]}", "#endif"]
        return "\n".join([f"{INLINE} {head} {{", *lines, "}"])
    products = [f"(int32_t)(((uint32_t)a >> {8 * k}) & 255u) * (int8_t)((uint32_t)b >> {8 * k})" for k in range(4)]
    return _function(head, f"return (int32_t)((uint32_t)c + (uint32_t)({' + '.join(products)}));")


def _dot4(library: CLibrary, name: str, element: Element, lanes: int) -> str:
    t, add = library.type(element, lanes), library.use("dot4_add", element, lanes)
    zero = f"{library.use('all', element, lanes)}(0)" if lanes else "0"
    return _function(f"{t} {name}({t} a, {t} b)", f"return {add}(a, b, {zero});")


_SPELLED: dict[str, Callable[[CLibrary, str, Element, int], str]] = {
    "all": _all,
    "any": _any,
    "every": _every,
    "first": _first,
    "ramp": _ramp,
    **{name: _per_lane(name) for name in _PER_LANE},
    **dict.fromkeys(_SIGNS, _sign_bits),
    **{name: _count(name) for name in _COUNTS},
    "dot4_add": _dot4_add,
    "dot4_u8i8": _dot4,
}
