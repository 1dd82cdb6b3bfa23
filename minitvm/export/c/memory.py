"""Functions of C kernels that read and write the lanes of vectors, and tiles of matrix units.

A vector whose number of lanes is a power of two is one access. A part of a vector, and elements that are no neighbours,
are accessed by one of the processor's instructions (`memory_instructions`), or lane by lane. No function touches an
element that its mask leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...machines.simd.vectors.lanes import B1, ELEMENTS, F32, I32, MAX_LANES, Element
from . import memory_instructions as instructions
from .memory_instructions import Selected, branched
from .types import is_half, literal, memory_type, physical, scalar_type

_U8 = ELEMENTS["u8"]
_WORDS = 16  # words of a row of a tile


def function(head: str, *lines: str) -> str:
    """Return the definition of a function that is copied into its callers."""
    return "\n".join([f"KERNEL_INLINE {head} {{", *(f"    {line}" for line in lines), "}"])


def element(pointer: str, index: str, kind: Element) -> str:
    """Return the text of an element in memory as a scalar."""
    return f"({pointer}[{index}] != 0)" if kind is B1 else f"{pointer}[{index}]"


def _lane(pointer: str, index: str, kind: Element) -> str:
    """The text of an element in memory as a lane."""
    return f"-{element(pointer, index, kind)}" if kind is B1 else f"{pointer}[{index}]"


def _zero(kind: Element) -> str:
    return "0" if kind is B1 or is_half(kind) else literal(0, kind)


def _load(aligned: bool) -> Callable[..., str]:
    def write(library: Any, name: str, kind: Element, lanes: int) -> str:
        t = library.type(kind, lanes)
        head = f"{t} {name}(const {memory_type(kind)} *p)"
        if lanes != physical(lanes):
            lane_by_lane = [
                f"{t} r = {{0}};",
                f"for (int l = 0; l < {lanes}; ++l) r[l] = {_lane('p', 'l', kind)};",
                "return r;",
            ]
            return branched(library, head, instructions.load(library, kind, Selected("all", lanes)), lane_by_lane)
        if kind is B1:
            place = library.place(_U8, lanes, aligned)
            mask = f"__builtin_convertvector(*(const {place} *)p != 0, {t})"
            return function(head, f"return {mask};")
        return function(head, f"return *(const {library.place(kind, lanes, aligned)} *)p;")

    return write


def _store(aligned: bool) -> Callable[..., str]:
    def write(library: Any, name: str, kind: Element, lanes: int) -> str:
        t = library.type(kind, lanes)
        head = f"void {name}({memory_type(kind)} *p, {t} v)"
        if lanes != physical(lanes):
            return branched(
                library, head, instructions.store(library, kind, Selected("all", lanes)), _pieces(library, kind, lanes)
            )
        if kind is B1:
            place = library.place(_U8, lanes, aligned)
            return function(head, f"*({place} *)p = __builtin_convertvector(-v, {library.type(_U8, lanes)});")
        return function(head, f"*({library.place(kind, lanes, aligned)} *)p = v;")

    return write


def _pieces(library: Any, kind: Element, lanes: int) -> list[str]:
    """The lines that store a vector in pieces whose number of lanes is a power of two, and the last lanes one by one.

    GCC would copy lanes that are stored in a loop from the stack.
    """
    lines, start = [], 0
    while start < lanes:
        size = 1 << ((lanes - start).bit_length() - 1)
        if kind is B1 or size == 1 or size * kind.itemsize < 8:
            break
        place = library.place(kind, size, False)
        picks = ", ".join(map(str, range(start, start + size)))
        lines.append(f"*({place} *)(p + {start}) = __builtin_shufflevector(v, v, {picks});")
        start += size
    if start < lanes:
        lines.append(f"for (int l = {start}; l < {lanes}; ++l) p[l] = {_bytes('v[l]', kind)};")
    return lines


def _bytes(lane: str, kind: Element) -> str:
    """A lane as an element of memory."""
    return f"(uint8_t)-{lane}" if kind is B1 else lane


def _load_masked(library: Any, name: str, kind: Element, lanes: int) -> str:
    t, mask = library.type(kind, lanes), library.type(B1, lanes)
    lines = [
        f"if ({library.use('every', B1, lanes)}(m)) return {library.use('load', kind, lanes)}(p);",
        f"{t} r = {{0}};",
        f"for (int l = 0; l < {lanes}; ++l) r[l] = m[l] ? {_lane('p', 'l', kind)} : {_zero(kind)};",
        "return r;",
    ]
    head = f"{t} {name}(const {memory_type(kind)} *p, {mask} m)"
    return branched(library, head, instructions.load(library, kind, Selected("mask", lanes)), lines)


def _store_masked(library: Any, name: str, kind: Element, lanes: int) -> str:
    t, mask = library.type(kind, lanes), library.type(B1, lanes)
    lines = [
        f"if ({library.use('every', B1, lanes)}(m)) {library.use('store', kind, lanes)}(p, v);",
        f"else for (int l = 0; l < {lanes}; ++l) if (m[l]) p[l] = {_bytes('v[l]', kind)};",
    ]
    head = f"void {name}({memory_type(kind)} *p, {t} v, {mask} m)"
    return branched(library, head, instructions.store(library, kind, Selected("mask", lanes)), lines)


def _load_first(library: Any, name: str, kind: Element, lanes: int) -> str:
    """The first n lanes, and zeros."""
    t = library.type(kind, lanes)
    lines = [
        f"if (n >= {lanes}) return {library.use('load', kind, lanes)}(p);",
        f"{t} r = {{0}};",
        f"for (int l = 0; l < {lanes} && l < n; ++l) r[l] = {_lane('p', 'l', kind)};",
        "return r;",
    ]
    head = f"{t} {name}(const {memory_type(kind)} *p, int64_t n)"
    return branched(library, head, instructions.load(library, kind, Selected("first", lanes)), lines)


def _store_first(library: Any, name: str, kind: Element, lanes: int) -> str:
    t = library.type(kind, lanes)
    lines = [
        f"if (n >= {lanes}) {library.use('store', kind, lanes)}(p, v);",
        f"else for (int l = 0; l < {lanes} && l < n; ++l) p[l] = {_bytes('v[l]', kind)};",
    ]
    head = f"void {name}({memory_type(kind)} *p, {t} v, int64_t n)"
    return branched(library, head, instructions.store(library, kind, Selected("first", lanes)), lines)


def _gather(index: str, masked: bool) -> Callable[..., str]:
    """Elements at the places of a vector, or a stride apart."""

    def write(library: Any, name: str, kind: Element, lanes: int) -> str:
        t = library.type(kind, lanes)
        places, at = _places(library, index, lanes)
        mask = f", {library.type(B1, lanes)} m" if masked else ""
        lane = _lane("p", at, kind)
        value = f"m[l] ? {lane} : {_zero(kind)}" if masked else lane
        whole = library.use(f"gather_{index}", kind, lanes) if masked else ""
        every = library.use("every", B1, lanes) if masked else ""
        lines = [
            *([f"if ({every}(m)) return {whole}(p, {places.split()[-1]});"] if masked else []), f"{t} r = {{0}};",
            f"for (int l = 0; l < {lanes}; ++l) r[l] = {value};", "return r;",
        ]  # fmt: skip
        head = f"{t} {name}(const {memory_type(kind)} *p, {places}{mask})"
        branches = instructions.gather(library, kind, Selected("mask" if masked else "all", lanes))
        if index == "i32":
            return branched(library, head, branches, lines)
        if index == "strided" and branches:
            by_places = library.use(f"gather{'_masked' if masked else ''}_i32", kind, lanes)
            access = f"return {by_places}(p, {_ramp(library, lanes)}{', m' if masked else ''});"
            lines = [*_if_near(branches, access), *lines]
        return function(head, *lines)

    return write


def _scatter(index: str, masked: bool) -> Callable[..., str]:
    """In the order of the lanes."""

    def write(library: Any, name: str, kind: Element, lanes: int) -> str:
        places, at = _places(library, index, lanes)
        mask = f", {library.type(B1, lanes)} m" if masked else ""
        condition = "if (m[l]) " if masked else ""
        head = f"void {name}({memory_type(kind)} *p, {library.type(kind, lanes)} v, {places}{mask})"
        lines = [f"for (int l = 0; l < {lanes}; ++l) {condition}p[{at}] = {_bytes('v[l]', kind)};"]
        # Without a mask, processors are as fast lane by lane.
        branches = instructions.scatter(library, kind, Selected("mask", lanes)) if masked else []
        if index == "i32":
            return branched(library, head, branches, lines)
        if index == "strided" and branches:
            by_places = library.use("scatter_masked_i32", kind, lanes)
            access = f"{{ {by_places}(p, v, {_ramp(library, lanes)}, m); return; }}"
            lines = [*_if_near(branches, access), *lines]
        return function(head, *lines)

    return write


def _ramp(library: Any, lanes: int) -> str:
    """The places of elements a stride apart, as int32."""
    return f"{library.use('ramp', I32, lanes)}(0, (int32_t)stride)"


def _if_near(branches: Sequence[tuple[str, str]], access: str) -> list[str]:
    """The lines that access elements a stride apart by an instruction, if there is one and their places are int32."""
    most = ((1 << 31) - 1) // MAX_LANES
    conditions = " || ".join(f"({condition})" for condition, _ in branches)
    return [f"#if {conditions}", f"if (-{most} <= stride && stride <= {most}) {access}", "#endif"]


def _places(library: Any, index: str, lanes: int) -> tuple[str, str]:
    """The parameter that says where elements are, and the place of a lane."""
    if index == "strided":
        return "int64_t stride", "l * stride"
    return f"{library.type(ELEMENTS[index], lanes)} i", "i[l]"


def _lookup(library: Any, name: str, kind: Element, lanes: int) -> str:
    t, places = library.type(kind, lanes), library.type(_U8, lanes)
    return function(
        f"{t} {name}(const {memory_type(kind)} *p, {places} i)", f"{t} r = {{0}};",
        f"for (int l = 0; l < {lanes}; ++l) r[l] = p[i[l]];", "return r;",
    )  # fmt: skip


def _load_words(library: Any, name: str, kind: Element, lanes: int) -> str:
    """Words of four bytes."""
    t = library.type(I32, lanes)
    return function(
        f"{t} {name}(const void *p)", f"{t} r;", "__builtin_memcpy(&r, p, sizeof r);", "return r;",
    )  # fmt: skip


# -- tiles of sixteen rows of sixteen words (machines.simd.vectors.tiles, tile_products)


def _tile_zero(library: Any, name: str, kind: Element, lanes: int) -> str:
    return function(f"void {name}({memory_type(kind)} *t, int rows)",
                    f"for (int m = 0; m < rows * {_WORDS}; ++m) t[m] = 0;")  # fmt: skip


def _tile_load(library: Any, name: str, kind: Element, lanes: int) -> str:
    words = f"{_WORDS} * sizeof *t"
    return function(
        f"void {name}({memory_type(kind)} *t, const void *p, int64_t step, int rows)",
        f"for (int m = 0; m < rows; ++m) __builtin_memcpy(t + {_WORDS} * m, (const char *)p + 4 * step * m, {words});",
    )


def _tile_store(library: Any, name: str, kind: Element, lanes: int) -> str:
    words = f"{_WORDS} * sizeof *t"
    return function(
        f"void {name}(void *p, int64_t step, const {memory_type(kind)} *t, int rows)",
        f"for (int m = 0; m < rows; ++m) __builtin_memcpy((char *)p + 4 * step * m, t + {_WORDS} * m, {words});",
    )


def _tile_dot(library: Any, name: str, kind: Element, lanes: int) -> str:
    """t += the product of two tiles of words: of bytes (int32 sums), or of two bfloat16 (float32 sums)."""
    vector = library.type(kind, _WORDS)
    load, store = library.use("load", kind, _WORDS), library.use("store", kind, _WORDS)
    words, every = library.use("load", I32, _WORDS), library.use("all", I32, _WORDS)
    operands = f"{every}(a[{_WORDS} * m + k]), {words}(b + {_WORDS} * k)"
    if kind is F32:
        added = f"{library.dot2(_WORDS)}(sum, {operands})"
    else:
        added = f"{library.use('dot4_add', I32, _WORDS)}({operands}, sum)"
    return function(
        f"void {name}({scalar_type(kind)} *t, const int32_t *a, const int32_t *b, int rows)",
        "for (int m = 0; m < rows; ++m) {",
        f"    {vector} sum = {load}(t + {_WORDS} * m);",
        f"    for (int k = 0; k < {_WORDS}; ++k) sum = {added};",
        f"    {store}(t + {_WORDS} * m, sum);",
        "}",
    )


def _tile_dot_i8(library: Any, name: str, kind: Element, lanes: int) -> str:
    """C[m, n] += A[m, 4 k + b] * B[k, 4 n + b], of signed bytes, for sixteen rows."""
    return function(
        f"void {name}(const int8_t *a, int64_t row_a, const int8_t *b, int64_t row_b, int32_t *c, int64_t row_c)",
        f"for (int m = 0; m < {_WORDS}; ++m)",
        f"    for (int n = 0; n < {_WORDS}; ++n) {{",
        "        uint32_t sum = (uint32_t)c[m * row_c + n];",
        f"        for (int k = 0; k < {4 * _WORDS}; ++k)",
        "            sum += (uint32_t)(a[m * row_a + k] * b[k / 4 * row_b + 4 * n + k % 4]);",
        "        c[m * row_c + n] = (int32_t)sum;",
        "    }",
    )


_INDICES = ("strided", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
MEMORY: dict[str, Callable[..., str]] = {
    "load": _load(aligned=False),
    "load_whole": _load(aligned=True),
    "store": _store(aligned=False),
    "store_whole": _store(aligned=True),
    "load_masked": _load_masked,
    "store_masked": _store_masked,
    "load_first": _load_first,
    "store_first": _store_first,
    **{f"gather_{i}": _gather(i, masked=False) for i in _INDICES},
    **{f"gather_masked_{i}": _gather(i, masked=True) for i in _INDICES},
    **{f"scatter_{i}": _scatter(i, masked=False) for i in _INDICES},
    **{f"scatter_masked_{i}": _scatter(i, masked=True) for i in _INDICES},
    "lookup": _lookup,
    "load_words": _load_words,
    "tile_zero": _tile_zero,
    "tile_load": _tile_load,
    "tile_store": _tile_store,
    "tile_dot": _tile_dot,
    "tile_dot_i8": _tile_dot_i8,
}
