"""Tensor cores in CUDA kernels: `ldmatrix` and `mma.sync`, which all 32 threads of a warp run together.

PTX ISA, "Warp-level matrix load instruction: ldmatrix", "mma.sync.aligned.m16n8k16", "mma.sync.aligned.m16n8k8" and
"cvt.rna.tf32.f32".
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from ...simd.vectors.lanes import ANYTHING, Operation, marker
from .async_copies import assembly, shared_address

_I32, _F32 = ir.IntType(32), ir.FloatType()


def _tuple(context: Any, builder: ir.IRBuilder, sig: Any, result: ir.Value, count: int) -> ir.Value:
    values = [builder.extract_value(result, k) for k in range(count)] if count > 1 else [result]
    return context.make_tuple(builder, sig.return_type, values)


def _words(count: int) -> types.Type:
    return types.UniTuple(types.uint32, count)


def _ldmatrix(count: int, trans: bool) -> Operation:
    name = f"ldmatrix_x{count}{'_trans' if trans else ''}"
    registers = _words(count)

    def typer(pointer: types.Type, index: types.Type) -> types.Type | None:
        return registers if isinstance(pointer, types.CPointer) and isinstance(index, types.Integer) else None

    def emit(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        row = shared_address(builder, args[0], args[1], 2)
        outputs = ", ".join(f"${k}" for k in range(count))
        text = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if trans else ''}.shared.b16 {{{outputs}}}, [${count}];"
        kind = ir.LiteralStructType([_I32] * count) if count > 1 else _I32
        result = assembly(builder, text, ",".join(["=r"] * count + ["r"]), row, result=kind)
        return _tuple(context, builder, sig, result, count)

    doc = f"{name}(S, i): {count} matrices of 8 x 8 elements of 16 bits; lane l names row l % 8 of matrix l // 8"
    return Operation(marker(name, doc), typer, emit, (ANYTHING,))


def _mma(kind: str) -> Operation:
    depth = 8 if kind == "tf32" else 16
    name, sums = f"mma_16x8x{depth}_{kind}", types.UniTuple(types.float32, 4)

    def typer(a: types.Type, b: types.Type, c: types.Type) -> types.Type | None:
        return sums if (a, b, c) == (_words(4), _words(2), sums) else None

    def emit(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        text = (
            f"mma.sync.aligned.m16n8k{depth}.row.col.f32.{kind}.{kind}.f32 "
            "{$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};"
        )
        constraints = ",".join(["=f"] * 4 + ["r"] * 6 + ["f"] * 4)
        kind_of_result = ir.LiteralStructType([_F32] * 4)
        values = [value for held in args for value in cgutils.unpack_tuple(builder, held)]
        signature = ir.FunctionType(kind_of_result, [v.type for v in values])
        result = builder.call(ir.InlineAsm(signature, text, constraints, side_effect=True), values)
        return _tuple(context, builder, sig, result, 4)

    doc = f"{name}(a, b, c): the product of 16 x {depth} and {depth} x 8 of {kind}, added to c; 4, 2 and 4 registers"
    return Operation(marker(name, doc), typer, emit, (ANYTHING,))


def _tf32() -> Operation:
    def typer(value: types.Type) -> types.Type | None:
        return types.uint32 if value == types.float32 else None

    def emit(_context: Any, builder: ir.IRBuilder, _sig: Any, args: Any) -> ir.Value:
        kind = ir.FunctionType(_I32, [_F32])
        return builder.call(ir.InlineAsm(kind, "cvt.rna.tf32.f32 $0, $1;", "=r,f", side_effect=False), [args[0]])

    return Operation(marker("tf32", "tf32(x): the word of x rounded to 10 bits of mantissa"), typer, emit, (ANYTHING,))


OPERATIONS = {
    operation.name: operation
    for operation in (
        *(_ldmatrix(count, trans) for count in (1, 2, 4) for trans in (False, True)), _mma("f16"), _mma("bf16"),
        _mma("tf32"), _tf32(),
    )
}  # fmt: skip
