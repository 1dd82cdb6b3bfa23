"""Register the operations of kernel source (`vectors.lanes`) with the part of Numba that compiles for CPUs."""

from __future__ import annotations

from collections.abc import Iterable

from llvmlite import ir
from numba.core import types
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import builtin_registry

from ...simd.vectors import byte_tables, dot2, dot4, tile_products, tiles
from ...simd.vectors.lanes import F32, I32, Operation, Value, declare, on_machine
from .compiled_for import ISA
from .loader import cpu_description

_ROW = 64  # bytes of a vector of AVX-512


def accept(operation: Operation) -> None:
    """Let kernels for CPUs call an operation."""
    if operation.typer is not None:
        builtin_registry.register_global(operation.marker, types.Function(operation.template))
    for pattern in operation.patterns:
        lower_builtin(operation.marker, *pattern)(operation.emit)


def dot4_add(a: Value, b: Value, c: Value) -> Value | None:
    """Emit VNNI's `vpdpbusd`, or return None if this CPU does not have it for this number of words."""
    if not has_vnni(a.lanes):
        return None
    vector = ir.VectorType(I32.llvm, a.lanes)
    function = declare(a.builder, f"llvm.x86.avx512.vpdpbusd.{32 * a.lanes}", ir.FunctionType(vector, [vector] * 3))
    return a.wrap(a.builder.call(function, [c.llvm, a.llvm, b.llvm]))


def tile_dot(builder: ir.IRBuilder, a: tile_products.Tile, b: tile_products.Tile, c: tile_products.Tile) -> bool:
    """Emit AMX's `tdpbssd` with the loads and the store of its tiles, or return False if this CPU does not have it.

    LLVM chooses the tile registers, and configures them in functions that use them.
    """
    if not {"amx-tile", "amx-int8"} <= _features():
        return False
    machine, rows = _Amx(), tile_products.ROWS
    sums, left, right = (machine.load(builder, rows, *place) for place in (c, a, b))
    machine.store(builder, rows, *c, machine.dot(builder, "i8i8", rows, sums, left, right))
    return True


class _Tile(ir.Type):
    """LLVM's type x86_amx, a tile register, which llvmlite does not have."""

    def __str__(self) -> str:
        return "x86_amx"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Tile)

    def __hash__(self) -> int:
        return hash(_Tile)


class _Amx:
    """AMX's tile registers. LLVM variables hold a tile as a vector of words, which is converted to a tile for
    instructions.
    """

    _SHORT, _WIDE = ir.IntType(16), ir.IntType(64)
    _BYTES = ir.Constant(_SHORT, 4 * tiles.WORDS)

    def zero(self, builder: ir.IRBuilder, rows: int) -> ir.Value:
        name = "llvm.x86.tilezero.internal"
        function = declare(builder, name, ir.FunctionType(_Tile(), [self._SHORT] * 2))
        return self._as_words(builder, builder.call(function, self._size(rows)))

    def load(self, builder: ir.IRBuilder, rows: int, at: ir.Value, step: ir.Value) -> ir.Value:
        memory = [self._SHORT, self._SHORT, at.type, self._WIDE]
        function = declare(builder, "llvm.x86.tileloadd64.internal", ir.FunctionType(_Tile(), memory))
        return self._as_words(builder, builder.call(function, [*self._size(rows), at, step]))

    def dot(self, builder: ir.IRBuilder, kind: str, rows: int, c: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        types = [*[self._SHORT] * 3, *[_Tile()] * 3]
        name = {"i8i8": "tdpbssd", "u8i8": "tdpbusd", "bf16": "tdpbf16ps"}[kind]
        function = declare(builder, f"llvm.x86.{name}.internal", ir.FunctionType(_Tile(), types))
        sizes = [*self._size(rows), self._BYTES]
        operands = [self._as_tile(builder, words) for words in (c, a, b)]
        return self._as_words(builder, builder.call(function, [*sizes, *operands]))

    def store(self, builder: ir.IRBuilder, rows: int, at: ir.Value, step: ir.Value, tile: ir.Value) -> None:
        types = [self._SHORT, self._SHORT, at.type, self._WIDE, _Tile()]
        function = declare(builder, "llvm.x86.tilestored64.internal", ir.FunctionType(ir.VoidType(), types))
        builder.call(function, [*self._size(rows), at, step, self._as_tile(builder, tile)])

    def _size(self, rows: int) -> list[ir.Value]:
        return [ir.Constant(self._SHORT, rows), self._BYTES]

    @staticmethod
    def _as_tile(builder: ir.IRBuilder, words: ir.Value) -> ir.Value:
        name = "llvm.x86.cast.vector.to.tile.v256i32"
        return builder.call(declare(builder, name, ir.FunctionType(_Tile(), [words.type])), [words])

    @staticmethod
    def _as_words(builder: ir.IRBuilder, tile: ir.Value) -> ir.Value:
        name, words = "llvm.x86.cast.tile.to.vector.v256i32", ir.VectorType(I32.llvm, tiles.ROWS * tiles.WORDS)
        return builder.call(declare(builder, name, ir.FunctionType(words, [_Tile()])), [tile])


def amx() -> _Amx | None:
    """Return the tile registers of the CPU that kernels are compiled for, or None if it does not have them."""
    return _Amx() if {"amx-tile", "amx-int8", "amx-bf16"} <= _features() else None


def dot2_bf16(c: Value, a: Value, b: Value) -> Value | None:
    """Emit `vdpbf16ps` of AVX-512 BF16, or return None if this CPU does not have it for this number of words."""
    if not has_bf16(a.lanes):
        return None
    sums, pairs = ir.VectorType(F32.llvm, a.lanes), ir.VectorType(_Brain(), 2 * a.lanes)
    name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * a.lanes}"
    function = declare(a.builder, name, ir.FunctionType(sums, [sums, pairs, pairs]))
    return c.wrap(a.builder.call(function, [c.llvm, *(a.builder.bitcast(w.llvm, pairs) for w in (a, b))]))


def byte_lookup(builder: ir.IRBuilder, table: ir.Value, places: Value) -> Value | None:
    """Emit `vpermi2b` of AVX-512 VBMI for each half of the table, or return None if this CPU does not have it."""
    if not has_vbmi():
        return None
    vector, rows = ir.VectorType(ir.IntType(8), _ROW), byte_tables.ENTRIES // _ROW
    at = builder.bitcast(table, vector.as_pointer())
    first, second, third, fourth = (
        builder.load(builder.gep(at, [ir.Constant(ir.IntType(32), row)]), align=1) for row in range(rows)
    )
    index = builder.shuffle_vector(places.llvm, places.llvm, _lanes(k % places.lanes for k in range(_ROW)))
    name = "llvm.x86.avx512.vpermi2var.qi.512"
    function = declare(builder, name, ir.FunctionType(vector, [vector] * 3))
    low, high = builder.call(function, [first, index, second]), builder.call(function, [third, index, fourth])
    upper = builder.icmp_signed("<", index, ir.Constant(vector, [0] * _ROW))
    chosen = builder.select(upper, high, low)
    return places.wrap(builder.shuffle_vector(chosen, chosen, _lanes(range(places.lanes))))


def _lanes(numbers: Iterable[int]) -> ir.Constant:
    picks = list(numbers)
    return ir.Constant(ir.VectorType(ir.IntType(32), len(picks)), picks)


class _Brain(ir.Type):
    """LLVM's type bfloat, which llvmlite does not have."""

    def __str__(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Brain)

    def __hash__(self) -> int:
        return hash(_Brain)


def has_bf16(lanes: int) -> bool:
    """Return whether the CPU that kernels are compiled for multiplies bfloat16 in vectors of this many words."""
    features = _features()
    return "avx512bf16" in features and (lanes == 16 or (lanes in (4, 8) and "avx512vl" in features))


def _features() -> set[str]:
    """The features of the CPU for which the kernel at work is compiled."""
    return {name[1:] for name in cpu_description(ISA.get())[1].split(",") if name.startswith("+")}


def has_vbmi() -> bool:
    """Return whether the CPU that kernels are compiled for permutes the bytes of two vectors."""
    return {"avx512vbmi", "avx512bw"} <= _features()


def has_vnni(lanes: int) -> bool:
    """Return whether the CPU that kernels are compiled for multiplies bytes in vectors of this many words."""
    features = _features()
    narrow = "avxvnni" in features or {"avx512vnni", "avx512vl"} <= features
    return (lanes == 16 and "avx512vnni" in features) or (lanes in (4, 8) and narrow)


dot4.INSTRUCTIONS["x86_64"] = dot4_add
byte_tables.INSTRUCTIONS["x86_64"] = byte_lookup
dot2.INSTRUCTIONS["x86_64"] = dot2_bf16
tile_products.INSTRUCTIONS["x86_64"] = tile_dot
tiles.MACHINES["x86_64"] = amx
on_machine(accept)
