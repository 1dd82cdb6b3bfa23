"""Shuffles in CUDA kernels: `warp_shuffle_down(mask, value, by, width)` and similar functions, for values of every
dtype.

NVVM has `shfl.sync` for words of 32 bits. A longer value consists of two words, and a shorter one is the low end of a
word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types

from ...simd.vectors.lanes import ANYTHING, Operation, marker, shape_of

_WORD = ir.IntType(32)
# NVVM's number of each mode, and the lane of a section at which it stops.
MODES = {"warp_shuffle": (0, 31), "warp_shuffle_up": (1, 0), "warp_shuffle_down": (2, 31), "warp_shuffle_xor": (3, 31)}


def operations(accept: Callable[[Operation], None]) -> dict[str, Any]:
    """Return the operations by their names in kernel source, after calling `accept` for each."""
    names = {name: _shuffle(name, *mode) for name, mode in MODES.items()}
    names["warp_active"] = Operation(
        marker("warp_active", "the mask of the lanes that are here at once"), lambda: types.uint32, _emit_active, ((),)
    )
    for operation in names.values():
        accept(operation)
    return {name: operation.marker for name, operation in names.items()}


def _shuffle(name: str, mode: int, stop: int) -> Operation:
    def typer(mask: types.Type, value: types.Type, by: types.Type, width: types.Type) -> types.Type | None:
        shape = shape_of(value)
        fits = shape is not None and shape[1] == 0 and isinstance(width, types.IntegerLiteral)
        whole = isinstance(types.unliteral(mask), types.Integer) and isinstance(types.unliteral(by), types.Integer)
        return types.unliteral(value) if fits and whole else None

    def emit(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:  # noqa: ARG001
        mask, value, by, _ = args
        section = (32 - sig.args[3].literal_value) << 8 | stop
        words = [_to_word(builder, mask), ir.Constant(_WORD, mode), _to_word(builder, by), ir.Constant(_WORD, section)]

        def one(word: ir.Value) -> ir.Value:
            result = ir.LiteralStructType((_WORD, ir.IntType(1)))
            function_type = ir.FunctionType(result, [_WORD] * 5)
            function = builder.module.globals.get("llvm.nvvm.shfl.sync.i32")
            if function is None:
                function = ir.Function(builder.module, function_type, "llvm.nvvm.shfl.sync.i32")
            moved = builder.call(function, (words[0], words[1], word, words[2], words[3]))
            return builder.extract_value(moved, 0)

        shape = shape_of(sig.args[1])
        assert shape is not None  # the typer asked
        element = shape[0]
        bits = ir.IntType(element.bits)
        whole = value if isinstance(value.type, ir.IntType) else builder.bitcast(value, bits)
        if element.bits <= 32:
            moved = one(_to_word(builder, whole))
            moved = moved if element.bits == 32 else builder.trunc(moved, bits)
        else:
            low, high = builder.trunc(whole, _WORD), builder.trunc(builder.lshr(whole, ir.Constant(bits, 32)), _WORD)
            parts = [builder.zext(one(part), bits) for part in (low, high)]
            moved = builder.or_(parts[0], builder.shl(parts[1], ir.Constant(bits, 32)))
        return moved if moved.type == value.type else builder.bitcast(moved, value.type)

    return Operation(marker(name, f"{name}(mask, value, by, width): another lane's value"), typer, emit, (ANYTHING,))


def _to_word(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    if value.type.width == 32:
        return value
    return builder.trunc(value, _WORD) if value.type.width > 32 else builder.zext(value, _WORD)


def _emit_active(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:  # noqa: ARG001
    return builder.call(ir.InlineAsm(ir.FunctionType(_WORD, []), "activemask.b32 $0;", "=r", side_effect=True), [])
