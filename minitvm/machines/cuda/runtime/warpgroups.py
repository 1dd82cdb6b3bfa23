"""Products of a warpgroup in CUDA kernels: `wgmma.mma_async`, which 128 threads run together (sm_90a).

Both operands are in shared storage, in lines of 128 bytes with the 128-byte swizzle. Lines run along the steps in the
first operand, and along the columns in the second one, or along the steps (`_nt`). A *descriptor*, a word of 64 bits,
gives the start and the layout of an operand. The sums are registers: a tuple of float32 in each thread.

    wgmma_fence()
    sums = wgmma_64x128x16_f16(sums, A, i, B, j, apart)
    wgmma_commit()
    wgmma_wait(0)

PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions", "Matrix Descriptor Format".
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

from ...simd.vectors.lanes import ANYTHING, Operation, marker
from .async_copies import assembly, shared_address

THREADS, ROWS, DEPTH = 128, 64, 16  # of one instruction
COLUMNS = range(8, 257, 8)
KINDS = ("f16", "bf16")
_F32, _I32, _I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_SWIZZLE_128 = 1 << 62
_UNIT = 16  # bytes: addresses and offsets of descriptors are counted in it
_LINES = 1024  # bytes of 8 lines, after which the swizzle repeats


def _literal(ty: types.Type) -> int | None:
    return ty.literal_value if isinstance(ty, types.IntegerLiteral) else None


def _descriptor(builder: ir.IRBuilder, pointer: ir.Value, index: ir.Value, apart: int) -> ir.Value:
    """Return the descriptor of an operand that begins at an element of shared storage. Its slabs are `apart` bytes
    apart.
    """
    address = shared_address(builder, pointer, index, 2)
    start = builder.and_(builder.lshr(address, _I32(4)), _I32(0x3FFF))
    fixed = (apart // _UNIT) << 16 | (_LINES // _UNIT) << 32 | _SWIZZLE_128
    return builder.or_(builder.zext(start, _I64), ir.Constant(_I64, fixed))


def _wgmma(columns: int, kind: str, turned: bool) -> Operation:
    count = ROWS * columns // THREADS
    sums_type = types.UniTuple(types.float32, count)
    name = f"wgmma_{ROWS}x{columns}x{DEPTH}_{kind}{'_nt' if turned else ''}"

    def typer(
        sums: types.Type, a: types.Type, i: types.Type, b: types.Type, j: types.Type, apart: types.Type
    ) -> types.Type | None:
        places = all(isinstance(p, types.CPointer) for p in (a, b)) and all(
            isinstance(k, types.Integer) for k in (i, j)
        )
        return sums_type if sums == sums_type and places and _literal(apart) is not None else None

    def emit(_context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        sums = [builder.extract_value(args[0], k) for k in range(count)]
        # Lines along the steps: an instruction stays in its slab, and the field is not looked at.
        apart = _UNIT if turned else sig.args[5].literal_value
        words = [_descriptor(builder, args[1], args[2], _UNIT), _descriptor(builder, args[3], args[4], apart)]
        held = ", ".join(f"${k}" for k in range(count))
        text = (
            "{ .reg .pred p; setp.eq.b32 p, 0, 0; "
            f"wgmma.mma_async.sync.aligned.m{ROWS}n{columns}k{DEPTH}.f32.{kind}.{kind} "
            f"{{{held}}}, ${count}, ${count + 1}, p, 1, 1, 0, {0 if turned else 1}; }}"
        )
        constraints = ",".join([*["=f"] * count, "l", "l", *map(str, range(count))])
        result = assembly(builder, text, constraints, *words, *sums, result=ir.LiteralStructType([_F32] * count))
        value: ir.Value = ir.Constant(args[0].type, ir.Undefined)
        for k in range(count):
            value = builder.insert_value(value, builder.extract_value(result, k), k)
        return value

    doc = (
        f"{name}(sums, A, i, B, j, apart): begin to add the product of {ROWS} x {DEPTH} and {DEPTH} x {columns} "
        f"of {kind}; slabs of 64 columns of B are `apart` bytes apart"
    )
    return Operation(marker(name, doc), typer, emit, (ANYTHING,))


def _plain(name: str, text: str, doc: str) -> Operation:
    def emit(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:  # noqa: ARG001
        assembly(builder, text, "")
        return context.get_dummy_value()

    return Operation(marker(name, doc), lambda: types.void, emit, ((),))


def _wait() -> Operation:
    def typer(pending: types.Type) -> types.Type | None:
        return types.void if _literal(pending) is not None else None

    def emit(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:  # noqa: ARG001
        assembly(builder, f"wgmma.wait_group.sync.aligned {sig.args[0].literal_value};", "")
        return context.get_dummy_value()

    return Operation(marker("wgmma_wait", "wgmma_wait(n): until at most n groups run"), typer, emit, (ANYTHING,))


def _store() -> Operation:
    def typer(
        sums: types.Type, pointer: types.Type, index: types.Type, row: types.Type, thread: types.Type, lanes: types.Type
    ) -> types.Type | None:
        floats = (
            isinstance(sums, types.UniTuple) and sums.dtype == types.float32 and pointer == types.CPointer(sums.dtype)
        )
        whole = all(isinstance(types.unliteral(i), types.Integer) for i in (index, row, thread))
        return types.void if floats and whole and _literal(lanes) in (1, 2) else None

    def emit(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        held, pointer, *places, _ = args
        lanes, count = sig.args[5].literal_value, sig.args[0].count
        start, row, thread = (_to_i64(builder, place) for place in places)
        warp, lane = builder.lshr(thread, _I64(5)), builder.and_(thread, _I64(31))
        first = builder.add(builder.mul(warp, _I64(16)), builder.lshr(lane, _I64(2)))
        column = builder.mul(builder.and_(lane, _I64(3)), _I64(2))
        upper = builder.add(start, builder.add(builder.mul(first, row), column))
        lower = builder.add(upper, builder.mul(row, _I64(8)))
        sums = _after(builder, [builder.extract_value(held, k) for k in range(count)])
        pair = ir.VectorType(_F32, 2)
        for k in range(0, count, lanes):
            place = builder.add(lower if k % 4 >= 2 else upper, _I64(k // 4 * 8 + k % 2))
            address = builder.gep(pointer, [place])
            if lanes == 1:
                builder.store(sums[k], address)
                continue
            value = ir.Constant(pair, ir.Undefined)
            for j in (0, 1):
                value = builder.insert_element(value, sums[k + j], _I32(j))
            builder.store(value, builder.bitcast(address, pair.as_pointer()), align=8)
        return context.get_dummy_value()

    doc = (
        "wgmma_store(sums, C, i, row, thread, lanes): a warpgroup's sums to rows that are `row` elements apart; with 2 "
        "lanes, i and row are even"
    )
    return Operation(marker("wgmma_store", doc), typer, emit, (ANYTHING,))


def _after(builder: ir.IRBuilder, sums: list[ir.Value]) -> list[ir.Value]:
    """Return the same sums as values that the compiler cannot use before the wait that was emitted before."""
    constraints = ",".join([*["=f"] * len(sums), *map(str, range(len(sums)))])
    result = assembly(builder, "", constraints, *sums, result=ir.LiteralStructType([_F32] * len(sums)))
    return [builder.extract_value(result, k) for k in range(len(sums))]


def _to_i64(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    return builder.sext(value, _I64) if value.type.width < 64 else value


def _zeros() -> list[Operation]:
    def zeros(columns: int) -> Operation:
        count = ROWS * columns // THREADS
        held = types.UniTuple(types.float32, count)

        def emit(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:  # noqa: ARG001
            return context.make_tuple(builder, sig.return_type, [ir.Constant(_F32, 0.0)] * count)

        doc = f"{count} sums of a thread, all 0"
        return Operation(marker(f"wgmma_zeros_{ROWS}x{columns}", doc), lambda: held, emit, ((),))

    return [zeros(columns) for columns in COLUMNS]


OPERATIONS = {
    operation.name: operation
    for operation in (
        *(_wgmma(columns, kind, turned) for columns in COLUMNS for kind in KINDS
          for turned in (False, True)),
        _plain("wgmma_fence", "wgmma.fence.sync.aligned;", "what was written to sums is before products"),
        _plain("wgmma_commit", "wgmma.commit_group.sync.aligned;", "products begun since the last one are a group"),
        _plain("proxy_fence", "fence.proxy.async.shared::cta;", "products see what the thread wrote to shared storage"),
        _wait(), _store(), *_zeros(),
    )
}  # fmt: skip
