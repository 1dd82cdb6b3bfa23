"""Operations that the executor needs beyond `simd`: atomics, waiting, a clock, and calls of kernels by address.

All atomics are on int64 and sequentially consistent: they are few, and this keeps the proof in `executor` simple.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import types

from ...simd.vectors.lanes import ANYTHING, Operation, declare, marker
from .machine_instructions import accept

_INT64 = ir.IntType(64)
_ORDER = "seq_cst"
_WORD_POINTER = types.CPointer(types.int64)


def _native(name: str, result: types.Type, *params: types.Type) -> Callable[[Any], Any]:
    """Register `emit(builder, *llvm values)` as a function of kernel source."""

    def typer(*args: types.Type) -> types.Type | None:
        fits = len(args) == len(params) and all(
            isinstance(a, types.Integer) if p is types.int64 else a == p for a, p in zip(args, params, strict=False)
        )
        return result if fits else None

    def decorate(emit: Callable[..., Any]) -> Any:
        def adapter(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> Any:
            wide = [context.cast(builder, a, ty, p) for a, ty, p in zip(args, sig.args, params, strict=True)]
            value = emit(builder, *wide)
            return context.get_dummy_value() if value is None else value

        name_in_source = marker(name, emit.__doc__)
        accept(Operation(name_in_source, typer, adapter, (ANYTHING,)))
        return name_in_source

    return decorate


@_native("atomic_load", types.int64, _WORD_POINTER, types.int64)
def atomic_load(builder: ir.IRBuilder, words: ir.Value, i: ir.Value) -> ir.Value:
    """words[i]"""
    return builder.load_atomic(builder.gep(words, [i]), _ORDER, 8)


@_native("atomic_store", types.void, _WORD_POINTER, types.int64, types.int64)
def atomic_store(builder: ir.IRBuilder, words: ir.Value, i: ir.Value, x: ir.Value) -> None:
    """words[i] = x"""
    builder.store_atomic(x, builder.gep(words, [i]), _ORDER, 8)


@_native("atomic_add", types.int64, _WORD_POINTER, types.int64, types.int64)
def atomic_add(builder: ir.IRBuilder, words: ir.Value, i: ir.Value, x: ir.Value) -> ir.Value:
    """words[i] += x; returns the old value"""
    return builder.atomic_rmw("add", builder.gep(words, [i]), x, _ORDER)


@_native("atomic_swap_if", types.int64, _WORD_POINTER, types.int64, types.int64, types.int64)
def atomic_swap_if(builder: ir.IRBuilder, words: ir.Value, i: ir.Value, old: ir.Value, new: ir.Value) -> ir.Value:
    """If words[i] == old then words[i] = new; returns 1 if it did, else 0"""
    pair = builder.cmpxchg(builder.gep(words, [i]), old, new, _ORDER, _ORDER)
    return builder.zext(builder.extract_value(pair, 1), _INT64)


@_native("pause", types.void)
def pause(builder: ir.IRBuilder) -> None:
    """Tell the core that this is a waiting loop"""
    triple = builder.module.triple
    text = "pause" if triple.startswith(("x86", "i686")) else "yield" if triple.startswith(("aarch64", "arm64")) else ""
    builder.asm(ir.FunctionType(ir.VoidType(), []), text, "~{memory}", [], side_effect=True)


@_native("yield_core", types.void)
def yield_core(builder: ir.IRBuilder) -> None:
    """Let another thread of the machine run (POSIX sched_yield)"""
    builder.call(declare(builder, "sched_yield", ir.FunctionType(ir.IntType(32), [])), [])


_BYTES = ir.IntType(8).as_pointer()


@_native("lock_acquire", types.void, types.int64)
def lock_acquire(builder: ir.IRBuilder, lock: ir.Value) -> None:
    """Acquire a lock of Python's C library, and wait until it is free. Other threads of Python keep running
    meanwhile.
    """
    word = ir.IntType(32)
    function = declare(builder, "PyThread_acquire_lock", ir.FunctionType(word, [_BYTES, word]))
    builder.call(function, [builder.inttoptr(lock, _BYTES), ir.Constant(word, 1)])


@_native("lock_release", types.void, types.int64)
def lock_release(builder: ir.IRBuilder, lock: ir.Value) -> None:
    """Release a lock of Python's C library, which wakes the thread that waits for it"""
    function = declare(builder, "PyThread_release_lock", ir.FunctionType(ir.VoidType(), [_BYTES]))
    builder.call(function, [builder.inttoptr(lock, _BYTES)])


@_native("call_address", types.void, types.int64, types.int64, types.int64, types.int64)
def call_address(builder: ir.IRBuilder, address: ir.Value, args: ir.Value, thread: ir.Value, threads: ir.Value) -> None:
    """Call the kernel at `address`, its argument table at `args`"""
    signature = ir.FunctionType(ir.VoidType(), [_INT64.as_pointer(), _INT64, _INT64])
    function = builder.inttoptr(address, signature.as_pointer())
    builder.call(function, [builder.inttoptr(args, _INT64.as_pointer()), thread, threads])


@_native("copy_bytes", types.void, types.int64, types.int64, types.int64)
def copy_bytes(builder: ir.IRBuilder, dst: ir.Value, src: ir.Value, count: ir.Value) -> None:
    """memcpy"""
    function_type = ir.FunctionType(ir.VoidType(), [_BYTES, _BYTES, _INT64, ir.IntType(1)])
    function = declare(builder, "llvm.memcpy.p0.p0.i64", function_type)
    args = [builder.inttoptr(dst, _BYTES), builder.inttoptr(src, _BYTES), count, ir.Constant(ir.IntType(1), 0)]
    builder.call(function, args)


@_native("clock_ns", types.int64, types.int64)
def clock_ns(builder: ir.IRBuilder, clock: ir.Value) -> ir.Value:
    """Nanoseconds of a POSIX clock (clock_gettime)"""
    word = ir.IntType(32)
    with builder.goto_entry_block():
        time = builder.alloca(ir.LiteralStructType([_INT64, _INT64]))  # struct timespec of a 64-bit system
    function = declare(builder, "clock_gettime", ir.FunctionType(word, [word, _INT64.as_pointer()]))
    seconds = builder.bitcast(time, _INT64.as_pointer())
    builder.call(function, [builder.trunc(clock, word), seconds])
    rest = builder.load(builder.gep(seconds, [ir.Constant(_INT64, 1)]))
    return builder.add(builder.mul(builder.load(seconds), ir.Constant(_INT64, 10**9)), rest)
