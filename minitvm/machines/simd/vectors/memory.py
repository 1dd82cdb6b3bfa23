"""Pointers, loads and stores of kernel source, and operations that move lanes.

Element indices are int64 and are not checked; they count elements from the pointer. No access assumes more alignment
than that of one element.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import types

from . import lanes as vectors_lane
from . import masked
from .element_operations import bring, common_type, maximum, minimum

STACK_ALIGNMENT = 64
_I32 = ir.IntType(32)

MARKERS: dict[str, Any] = {}


def operation(name: str, typer: Callable[..., types.Type | None], doc: str) -> Callable[[Any], Any]:
    """Return a decorator that registers `emit(builder, sig, *llvm values)` under `name`. The typer gets Numba types."""

    def decorate(emit: Callable[..., Any]) -> Any:
        def adapter(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> Any:
            result = emit(builder, sig, *args)
            return context.get_dummy_value() if result is None else result

        MARKERS[name] = vectors_lane.register(vectors_lane.marker(name, doc), typer, adapter)
        return emit

    return decorate


def _pointee(ty: types.Type) -> vectors_lane.Element | None:
    shape = vectors_lane.shape_of(ty.dtype) if isinstance(ty, types.CPointer) else None
    return None if shape is None or shape[1] else shape[0]


def _literal(ty: types.Type) -> int | None:
    return ty.literal_value if isinstance(ty, types.IntegerLiteral) else None


def _is_index(ty: types.Type) -> bool:
    return isinstance(ty, types.Integer)


def _mask_lanes(ty: types.Type) -> int | None:
    return ty.lanes if isinstance(ty, vectors_lane.VectorType) and ty.element is vectors_lane.B1 else None


# -- pointers


def _define_pointers(element: vectors_lane.Element) -> None:
    pointer = types.CPointer(element.numba)

    def typer(address: types.Type) -> types.Type | None:
        return pointer if _is_index(address) else None

    @operation(f"pointer_{element.name}", typer, f"an int64 address as a pointer to {element.dtype}")
    def pointer_of(builder: ir.IRBuilder, sig: Any, address: ir.Value) -> ir.Value:
        return builder.inttoptr(address, element.memory.as_pointer())

    def stack_typer(size: types.Type) -> types.Type | None:
        return pointer if _literal(size) is not None else None

    @operation(f"stack_{element.name}", stack_typer, f"a {element.dtype} array of a literal size on the stack")
    def stack(builder: ir.IRBuilder, sig: Any, size: ir.Value) -> ir.Value:
        array = ir.ArrayType(element.memory, _literal(sig.args[0]))
        # Not cgutils.alloca_once: it stores a zero array, for which LLVM needs minutes if the array is large.
        with builder.goto_entry_block():
            room = builder.alloca(array)
        room.align = STACK_ALIGNMENT
        return builder.bitcast(room, element.memory.as_pointer())


for _e in vectors_lane.ELEMENTS.values():
    _define_pointers(_e)


_BOOL_POINTER = types.CPointer(types.boolean)


def _load_bool(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    byte = builder.load(builder.gep(args[0], [args[1]]))
    return builder.icmp_unsigned("!=", byte, ir.Constant(byte.type, 0))


def _store_bool(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    pointer, index, value = args
    builder.store(builder.zext(value, ir.IntType(8)), builder.gep(pointer, [index]))
    return context.get_dummy_value()


# Numba's own element access moves raw memory, which for a bool is a byte where the value is a bit.
vectors_lane.register(operator.getitem, None, _load_bool, [(_BOOL_POINTER, types.Integer)])
vectors_lane.register(operator.setitem, None, _store_bool, [(_BOOL_POINTER, types.Integer, types.Any)])


def _define_scalar(element: vectors_lane.Element) -> None:
    def typer(word: types.Type) -> types.Type | None:
        return element.numba if word == types.int64 else None

    @operation(f"scalar_{element.name}", typer, f"a {element.dtype} argument out of its word of the argument table")
    def scalar(builder: ir.IRBuilder, sig: Any, word: ir.Value) -> ir.Value:
        value = vectors_lane.Value(builder, vectors_lane.I64, 0, word)
        if element.kind != "f":
            return value.cast(element).llvm
        return value.cast(vectors_lane.ELEMENTS[f"i{element.bits}"]).bitcast(element).llvm


for _e in vectors_lane.ELEMENTS.values():
    _define_scalar(_e)


# -- loads and stores


def _address(builder: ir.IRBuilder, pointer: ir.Value, index: ir.Value, ty: ir.Type) -> ir.Value:
    return builder.bitcast(builder.gep(pointer, [index]), ty.as_pointer())


def _to_memory(v: vectors_lane.Value) -> vectors_lane.Value:
    return v.cast(vectors_lane.ELEMENTS["u8"]) if v.element is vectors_lane.B1 else v.bitcast(_stored(v.element))


def _from_memory(v: vectors_lane.Value, element: vectors_lane.Element) -> vectors_lane.Value:
    return v != 0 if element is vectors_lane.B1 else v.bitcast(element)


def _stored(element: vectors_lane.Element) -> vectors_lane.Element:
    """Return the element type in memory: bools are stored as bytes, and bfloat16 as its bits."""
    return (
        vectors_lane.ELEMENTS["u8"]
        if element is vectors_lane.B1
        else vectors_lane.ELEMENTS["u16"]
        if element is vectors_lane.BF16
        else element
    )


def _index64(builder: ir.IRBuilder, ty: types.Type, index: ir.Value) -> ir.Value:
    return vectors_lane.value_of(builder, ty, index).cast(vectors_lane.I64).llvm


def _load_type(pointer: types.Type, index: types.Type, lanes: types.Type, *more: types.Type) -> types.Type | None:
    element, n = _pointee(pointer), _literal(lanes)
    if element is None or n is None or n < 1 or more or not _is_index(index):
        return None
    return vectors_lane.VectorType(element, n)


@operation("load", _load_type, "load(A, i, lanes): A[i : i + lanes]")
def load(builder: ir.IRBuilder, sig: Any, pointer: ir.Value, index: ir.Value, lanes: ir.Value) -> ir.Value:
    return _load(builder, sig, pointer, index, aligned=1)


@operation("load_whole", _load_type, "load_whole(A, i, lanes): as load, of an address that its size divides")
def load_whole(builder: ir.IRBuilder, sig: Any, pointer: ir.Value, index: ir.Value, lanes: ir.Value) -> ir.Value:
    return _load(builder, sig, pointer, index, aligned=sig.return_type.lanes)


def _load(builder: ir.IRBuilder, sig: Any, pointer: ir.Value, index: ir.Value, aligned: int) -> ir.Value:
    """Load a vector from an address that is a multiple of the size of `aligned` elements."""
    element, n = sig.return_type.element, sig.return_type.lanes
    stored = _stored(element)
    vector = ir.VectorType(stored.llvm, n)
    at = _address(builder, pointer, _index64(builder, sig.args[1], index), vector)
    return _from_memory(
        vectors_lane.Value(builder, stored, n, builder.load(at, align=stored.itemsize * aligned)), element
    ).llvm


def _words_type(pointer: types.Type, index: types.Type, words: types.Type) -> types.Type | None:
    element, n = _pointee(pointer), _literal(words)
    bytes_only = element is not None and element.bits == 8 and element is not vectors_lane.B1
    return vectors_lane.VectorType(vectors_lane.ELEMENTS["i32"], n) if bytes_only and n and _is_index(index) else None


@operation("load_words", _words_type, "load_words(A, i, n): n words of four of A's bytes, as int32, from A[i] on")
def load_words(builder: ir.IRBuilder, sig: Any, pointer: ir.Value, index: ir.Value, words: ir.Value) -> ir.Value:
    vector = ir.VectorType(_I32, sig.return_type.lanes)
    at = _address(builder, pointer, _index64(builder, sig.args[1], index), vector)
    return builder.load(at, align=1)


def _store_type(pointer: types.Type, index: types.Type, v: types.Type) -> types.Type | None:
    element = _pointee(pointer)
    fits = isinstance(v, vectors_lane.VectorType) and v.element is element and _is_index(index)
    return types.void if fits else None


@operation("store", _store_type, "store(A, i, v): A[i : i + lanes] = v")
def store(builder: ir.IRBuilder, sig: Any, pointer: ir.Value, index: ir.Value, v: ir.Value) -> None:
    _store(builder, sig, pointer, index, v, aligned=1)


@operation("store_whole", _store_type, "store_whole(A, i, v): as store, to an address that v's size divides")
def store_whole(builder: ir.IRBuilder, sig: Any, pointer: ir.Value, index: ir.Value, v: ir.Value) -> None:
    _store(builder, sig, pointer, index, v, aligned=sig.args[2].lanes)


def _store(builder: ir.IRBuilder, sig: Any, pointer: ir.Value, index: ir.Value, v: ir.Value, aligned: int) -> None:
    value = _to_memory(vectors_lane.value_of(builder, sig.args[2], v))
    at = _address(builder, pointer, _index64(builder, sig.args[1], index), value.llvm.type)
    builder.store(value.llvm, at, align=value.element.itemsize * aligned)


def _prefetch_type(pointer: types.Type, index: types.Type) -> types.Type | None:
    return types.void if _pointee(pointer) is not None and _is_index(index) else None


@operation("prefetch", _prefetch_type, "prefetch(A, i): A[i]'s cache line will be read; a hint, any address will do")
def prefetch(builder: ir.IRBuilder, sig: Any, pointer: ir.Value, index: ir.Value) -> None:
    # Into the L1 cache. A request to bring into L2 what is there already costs more than a miss would: on Ice Lake a
    # product whose panel stays in L2 ran at 168 GFLOP/s with such requests and at 196 with these, or with none.
    byte = ir.IntType(8).as_pointer()
    at = builder.bitcast(builder.gep(pointer, [_index64(builder, sig.args[1], index)]), byte)
    read, to_l1, data = (ir.Constant(_I32, n) for n in (0, 3, 1))
    function = vectors_lane.declare(
        builder, "llvm.prefetch.p0i8", ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
    )
    builder.call(function, [at, read, to_l1, data])


def _masked_load_type(pointer: types.Type, index: types.Type, mask: types.Type, *other: types.Type) -> Any:
    element, n = _pointee(pointer), _mask_lanes(mask)
    if element is None or n is None or len(other) > 1 or not _is_index(index):
        return None
    if other and vectors_lane.shape_of(other[0]) not in ((element, 0), (element, n)):
        return None
    return vectors_lane.VectorType(element, n)


def _passthrough(
    builder: ir.IRBuilder, sig: Any, at: int, args: Sequence[ir.Value], stored: vectors_lane.Element
) -> vectors_lane.Value:
    """Return the value of masked-out lanes: the argument at position `at` if there is one, or zero."""
    element, n = sig.return_type.element, sig.return_type.lanes
    if len(args) > at:
        return _to_memory(bring(builder, sig.args[at], args[at], (element, n)))
    return vectors_lane.Value(builder, stored, n, args[0]).constant(0)


@operation("load_masked", _masked_load_type, "load_masked(A, i, mask[, other]): unmasked lanes are not touched")
def load_masked(builder: ir.IRBuilder, sig: Any, *args: ir.Value) -> ir.Value:
    element, n = sig.return_type.element, sig.return_type.lanes
    stored = _stored(element)
    vector = ir.VectorType(stored.llvm, n)
    at = _address(builder, args[0], _index64(builder, sig.args[1], args[1]), vector)
    other = _passthrough(builder, sig, 3, args, stored)
    return _from_memory(masked.load(builder, at, args[2], other), element).llvm


def _masked_store_type(pointer: types.Type, index: types.Type, v: types.Type, mask: types.Type) -> Any:
    fits = _store_type(pointer, index, v) is not None and _mask_lanes(mask) == getattr(v, "lanes", None)
    return types.void if fits else None


@operation("store_masked", _masked_store_type, "store_masked(A, i, v, mask): unmasked lanes are not touched")
def store_masked(
    builder: ir.IRBuilder, sig: Any, pointer: ir.Value, index: ir.Value, v: ir.Value, mask: ir.Value
) -> None:
    value = _to_memory(vectors_lane.value_of(builder, sig.args[2], v))
    at = _address(builder, pointer, _index64(builder, sig.args[1], index), value.llvm.type)
    masked.store(builder, value, at, mask)


def _is_index_vector(ty: types.Type) -> bool:
    return isinstance(ty, vectors_lane.VectorType) and ty.element.kind in "iu"


def _gather_type(pointer: types.Type, index: types.Type, *more: types.Type) -> types.Type | None:
    element = _pointee(pointer)
    if element is None or not _is_index_vector(index) or len(more) > 2:
        return None
    if more and _mask_lanes(more[0]) != index.lanes:
        return None
    if len(more) == 2 and vectors_lane.shape_of(more[1]) not in ((element, 0), (element, index.lanes)):
        return None
    return vectors_lane.VectorType(element, index.lanes)


@operation("gather", _gather_type, "gather(A, indices[, mask[, other]]): A[indices[l]] in lane l")
def gather(builder: ir.IRBuilder, sig: Any, *args: ir.Value) -> ir.Value:
    element = sig.return_type.element
    stored = _stored(element)
    index = vectors_lane.value_of(builder, sig.args[1], args[1])
    other = _passthrough(builder, sig, 3, args, stored)
    read = masked.gather(builder, args[0], index.cast(vectors_lane.I64), args[2] if len(args) > 2 else None, other)
    return _from_memory(read, element).llvm


def _scatter_type(pointer: types.Type, index: types.Type, v: types.Type, *mask: types.Type) -> types.Type | None:
    element = _pointee(pointer)
    if element is None or not isinstance(v, vectors_lane.VectorType) or v.element is not element or len(mask) > 1:
        return None
    if not _is_index_vector(index) or index.lanes != v.lanes or (mask and _mask_lanes(mask[0]) != v.lanes):
        return None
    return types.void


@operation("scatter", _scatter_type, "scatter(A, indices, v[, mask]): A[indices[l]] = v[l], in order of lanes")
def scatter(builder: ir.IRBuilder, sig: Any, *args: ir.Value) -> None:
    index = vectors_lane.value_of(builder, sig.args[1], args[1])
    value = _to_memory(vectors_lane.value_of(builder, sig.args[2], args[2]))
    masked.scatter(builder, value, args[0], index.cast(vectors_lane.I64), args[3] if len(args) > 3 else None)


# -- making vectors


def _ramp_type(base: types.Type, stride: types.Type, lanes: types.Type) -> types.Type | None:
    shape, n = vectors_lane.shape_of(base), _literal(lanes)
    if shape is None or shape[1] or n is None or n < 1 or not isinstance(stride, types.Integer | types.Float):
        return None
    return vectors_lane.VectorType(shape[0], n)


@operation("ramp", _ramp_type, "ramp(base, stride, lanes): base + l * stride in lane l, in the dtype of base")
def ramp(builder: ir.IRBuilder, sig: Any, base: ir.Value, stride: ir.Value, lanes: ir.Value) -> ir.Value:
    element, n = sig.return_type.element, sig.return_type.lanes
    start = bring(builder, sig.args[0], base, (element, n))
    step = bring(builder, sig.args[1], stride, (element, n))
    iota = start.constants(list(range(n)), element)
    return (start + step * iota).llvm


def _broadcast_type(x: types.Type, lanes: types.Type) -> types.Type | None:
    shape, n = vectors_lane.shape_of(x), _literal(lanes)
    return None if shape is None or shape[1] or n is None or n < 1 else vectors_lane.VectorType(shape[0], n)


@operation("broadcast", _broadcast_type, "broadcast(x, lanes): x in every lane")
def broadcast(builder: ir.IRBuilder, sig: Any, x: ir.Value, lanes: ir.Value) -> ir.Value:
    return vectors_lane.value_of(builder, sig.args[0], x).splat(sig.return_type.lanes).llvm


def _first_type(n: types.Type, lanes: types.Type) -> types.Type | None:
    count = _literal(lanes)
    return vectors_lane.VectorType(vectors_lane.B1, count) if _is_index(n) and count else None


@operation("first", _first_type, "first(n, lanes): the mask of the first n lanes (n below 0 is 0)")
def first(builder: ir.IRBuilder, sig: Any, n: ir.Value, lanes: ir.Value) -> ir.Value:
    # Clamp in 64 bits, compare in 32: an AVX-512 machine compares 16 int32 in one instruction.
    wide = vectors_lane.value_of(builder, sig.args[0], n).cast(vectors_lane.I64)
    count = minimum(maximum(wide, wide.constant(0)), wide.constant(sig.return_type.lanes)).cast(vectors_lane.I32)
    vector = count.splat(sig.return_type.lanes)
    return (vector.constants(list(range(vector.lanes)), vectors_lane.I32) < vector).llvm


def cast_marker(element: vectors_lane.Element, lanes: int) -> Any:
    """Return the conversion that is named after its result type: `f32(x)`, `f32x16(x)`. It broadcasts a scalar to a
    vector.
    """
    name = f"{element.name}x{lanes}" if lanes else element.name
    result = vectors_lane.numba_type(element, lanes)

    def typer(x: types.Type) -> types.Type | None:
        shape = vectors_lane.shape_of(x)
        return None if shape is None or shape[1] not in (0, lanes) else result

    def emit(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        return bring(builder, sig.args[0], args[0], (element, lanes)).llvm

    return vectors_lane.register(vectors_lane.marker(name, f"convert to {result}"), typer, emit)


def _bitcast_marker(element: vectors_lane.Element) -> None:
    def typer(x: types.Type) -> types.Type | None:
        shape = vectors_lane.shape_of(x)
        if shape is None or shape[0].bits != element.bits:
            return None
        return vectors_lane.numba_type(element, shape[1])

    @operation(f"as_{element.name}", typer, f"the same bits as {element.dtype}")
    def reinterpret(builder: ir.IRBuilder, sig: Any, x: ir.Value) -> ir.Value:
        return vectors_lane.value_of(builder, sig.args[0], x).bitcast(element).llvm


for _e in vectors_lane.ELEMENTS.values():
    if _e is not vectors_lane.B1:
        _bitcast_marker(_e)


# -- choosing and moving lanes


def _select_type(mask: types.Type, a: types.Type, b: types.Type) -> types.Type | None:
    shape = vectors_lane.shape_of(mask)
    to = common_type((a, b))
    if shape is None or shape[0] is not vectors_lane.B1 or to is None:
        return None
    lanes = to[1] or shape[1]
    return vectors_lane.numba_type(to[0], lanes) if shape[1] in (0, lanes) else None


@operation("select", _select_type, "select(mask, a, b): a where mask, else b")
def select(builder: ir.IRBuilder, sig: Any, mask: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
    to = vectors_lane.shape_of(sig.return_type)
    assert to is not None
    operands = bring(builder, sig.args[1], a, to), bring(builder, sig.args[2], b, to)
    return vectors_lane.value_of(builder, sig.args[0], mask).select(*operands).llvm


def _shuffle_type(a: types.Type, b: types.Type, *lanes: types.Type) -> types.Type | None:
    if not isinstance(a, vectors_lane.VectorType) or a != b or not lanes:
        return None
    picks = [_literal(lane) for lane in lanes]
    inside = all(p is not None and 0 <= p < 2 * a.lanes for p in picks)
    return vectors_lane.VectorType(a.element, len(picks)) if inside else None


@operation("shuffle", _shuffle_type, "shuffle(a, b, l0, l1, ...): lanes l0, l1, ... (literals) of a followed by b")
def shuffle(builder: ir.IRBuilder, sig: Any, a: ir.Value, b: ir.Value, *lanes: ir.Value) -> ir.Value:
    picks = [_literal(ty) or 0 for ty in sig.args[2:]]
    return (
        vectors_lane.value_of(builder, sig.args[0], a)
        .shuffle(vectors_lane.value_of(builder, sig.args[1], b), picks)
        .llvm
    )


def _concat_type(*vectors: types.Type) -> types.Type | None:
    if not vectors or not all(isinstance(v, vectors_lane.VectorType) and v == vectors[0] for v in vectors):
        return None
    return vectors_lane.VectorType(vectors[0].element, vectors[0].lanes * len(vectors))


@operation("concat", _concat_type, "concat(a, b, ...): the lanes of all, in order")
def concat(builder: ir.IRBuilder, sig: Any, *vectors: ir.Value) -> ir.Value:
    values = [vectors_lane.value_of(builder, ty, v) for ty, v in zip(sig.args, vectors, strict=False)]
    total = values[0]
    for part in values[1:]:
        n = total.lanes
        # Both sides of a shuffle have one length: the part is widened first; its surplus lanes are never picked.
        widened = part.shuffle(None, [min(i, part.lanes - 1) for i in range(n)])
        total = total.shuffle(widened, list(range(n + part.lanes)))
    return total.llvm


def _slice_type(v: types.Type, start: types.Type, lanes: types.Type) -> types.Type | None:
    at, n = _literal(start), _literal(lanes)
    if not isinstance(v, vectors_lane.VectorType) or at is None or n is None or not 0 <= at < at + n <= v.lanes:
        return None
    return vectors_lane.VectorType(v.element, n)


@operation("lanes", _slice_type, "lanes(v, start, n): n lanes from start on (literals)")
def lanes(builder: ir.IRBuilder, sig: Any, v: ir.Value, start: ir.Value, n: ir.Value) -> ir.Value:
    at = _literal(sig.args[1]) or 0
    return vectors_lane.value_of(builder, sig.args[0], v).shuffle(None, range(at, at + sig.return_type.lanes)).llvm


def _extract_type(v: types.Type, i: types.Type) -> types.Type | None:
    return v.element.numba if isinstance(v, vectors_lane.VectorType) and _is_index(i) else None


def _emit_extract(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
    return vectors_lane.value_of(builder, sig.args[0], args[0]).lane(args[1]).llvm


MARKERS["extract"] = vectors_lane.register(
    vectors_lane.marker("extract", "extract(v, i): lane i; also v[i]"), _extract_type, _emit_extract
)
vectors_lane.register(operator.getitem, _extract_type, _emit_extract, [(vectors_lane.VectorType, types.Integer)])


def _insert_type(v: types.Type, i: types.Type, x: types.Type) -> types.Type | None:
    fits = isinstance(v, vectors_lane.VectorType) and _is_index(i) and vectors_lane.shape_of(x) == (v.element, 0)
    return v if fits else None


@operation("insert", _insert_type, "insert(v, i, x): v with x in lane i")
def insert(builder: ir.IRBuilder, sig: Any, v: ir.Value, i: ir.Value, x: ir.Value) -> ir.Value:
    return (
        vectors_lane.value_of(builder, sig.args[0], v).with_lane(i, vectors_lane.value_of(builder, sig.args[2], x)).llvm
    )


# -- reducing a vector


def reduced(
    v: vectors_lane.Value, combine: Callable[[vectors_lane.Value, vectors_lane.Value], vectors_lane.Value]
) -> vectors_lane.Value:
    """Combine the halves of a vector, in log2(lanes) steps. The order of association is the same on every machine."""
    while v.lanes > 1:
        low = v.lanes // 2
        high = v.lanes - low  # an odd vector keeps its middle lane for the next step
        top = v.shuffle(None, range(high, v.lanes))
        bottom = v.shuffle(None, range(low))
        folded = combine(bottom, top)
        if high == low:
            v = folded
            continue
        wide = folded.shuffle(None, [min(i, low - 1) for i in range(v.lanes)])
        v = wide.shuffle(v, [*range(low), v.lanes + low])
    return v.lane(0)


@dataclass(frozen=True, slots=True)
class LaneReduction:
    """How a reduction combines two vectors, and the element kinds that it accepts."""

    combine: Callable[[vectors_lane.Value, vectors_lane.Value], vectors_lane.Value]
    kinds: str
    doc: str


REDUCTIONS = {
    "reduce_add": LaneReduction(lambda a, b: a + b, "fiu", "sum of the lanes, pairwise"),
    "reduce_mul": LaneReduction(lambda a, b: a * b, "fiu", "product of the lanes, pairwise"),
    "reduce_max": LaneReduction(maximum, "fiub", "greatest lane; NaN wins"),
    "reduce_min": LaneReduction(minimum, "fiub", "least lane; NaN wins"),
    "reduce_and": LaneReduction(lambda a, b: a & b, "iub", "all lanes, bitwise"),
    "reduce_or": LaneReduction(lambda a, b: a | b, "iub", "any lane, bitwise"),
}


def _define_reduction(name: str, reduction: LaneReduction) -> None:
    def typer(v: types.Type) -> types.Type | None:
        fits = isinstance(v, vectors_lane.VectorType) and v.element.kind in reduction.kinds
        return v.element.numba if fits else None

    @operation(name, typer, reduction.doc)
    def reduce(builder: ir.IRBuilder, sig: Any, v: ir.Value) -> ir.Value:
        return reduced(vectors_lane.value_of(builder, sig.args[0], v), reduction.combine).llvm


for _name, _reduction in REDUCTIONS.items():
    _define_reduction(_name, _reduction)
