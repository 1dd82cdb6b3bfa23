"""`cp.async` in CUDA kernels: copies from global to shared memory that a thread begins, groups and waits for.

PTX ISA, "Data Movement and Conversion Instructions: cp.async". Devices from sm_80 on have them.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

from ...simd.vectors.lanes import ANYTHING, Operation, marker

SHARED_SPACE, GLOBAL_SPACE = 3, 1
_I32, _I64 = ir.IntType(32), ir.IntType(64)
SIZES = (4, 8, 16)


def shared_address(builder: ir.IRBuilder, pointer: ir.Value, index: ir.Value, nbytes: int) -> ir.Value:
    """Return the 32-bit address of element `index` (of `nbytes` bytes) relative to a generic pointer into shared
    memory.

    It is computed in 32 bits, the width of addresses in shared memory. So constants in an index become part of the
    instruction's address at no cost, and nothing is widened.
    """
    kind = ir.PointerType(pointer.type.pointee, SHARED_SPACE)
    start = builder.ptrtoint(builder.addrspacecast(pointer, kind), _I32)
    place = builder.trunc(index, _I32) if index.type.width > 32 else index
    return builder.add(start, builder.mul(place, _I32(nbytes)))


def assembly(builder: ir.IRBuilder, text: str, constraints: str, *args: ir.Value, result: ir.Type | None = None) -> Any:
    """Emit inline PTX that accesses memory, so that no other access is moved across it."""
    signature = ir.FunctionType(result or ir.VoidType(), [a.type for a in args])
    clobbered = ",".join([*([constraints] if constraints else []), "~{memory}"])
    return builder.call(ir.InlineAsm(signature, text, clobbered, side_effect=True), args)


def _literal(ty: types.Type) -> int | None:
    return ty.literal_value if isinstance(ty, types.IntegerLiteral) else None


def _copy_type(
    to: types.Type, at: types.Type, source: types.Type, place: types.Type, lanes: types.Type, *holds: types.Type
) -> types.Type | None:
    if any(not isinstance(condition, types.Boolean) for condition in holds):
        return None
    fits = to == source and isinstance(to, types.CPointer) and _literal(lanes) is not None
    return types.void if fits and isinstance(at, types.Integer) and isinstance(place, types.Integer) else None


def _copy(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
    to, at, source, place, _, *holds = args
    other = builder.gep(source, [place])
    element = context.get_abi_sizeof(to.type.pointee)
    nbytes = sig.args[4].literal_value * element
    if nbytes not in SIZES:
        raise NotImplementedError(f"cp.async of {nbytes} bytes")
    through = "cg" if nbytes == 16 else "ca"  # 16 bytes need not pass through the first cache
    origin = builder.ptrtoint(builder.addrspacecast(other, ir.PointerType(other.type.pointee, GLOBAL_SPACE)), _I64)
    text = f"cp.async.{through}.shared.global [$0], [$1], {nbytes}"
    if holds:  # so many bytes are read, and zeros for the others
        size = builder.select(holds[0], _I32(nbytes), _I32(0))
        assembly(builder, f"{text}, $2;", "r,l,r", shared_address(builder, to, at, element), origin, size)
    else:
        assembly(builder, f"{text};", "r,l", shared_address(builder, to, at, element), origin)
    return context.get_dummy_value()


def _commit(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:  # noqa: ARG001
    assembly(builder, "cp.async.commit_group;", "")
    return context.get_dummy_value()


def _wait(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:  # noqa: ARG001
    assembly(builder, f"cp.async.wait_group {sig.args[0].literal_value};", "")
    return context.get_dummy_value()


def _commit_type() -> types.Type:
    return types.void


def _wait_type(pending: types.Type) -> types.Type | None:
    return types.void if _literal(pending) is not None else None


OPERATIONS = {
    "async_copy": Operation(
        marker("async_copy", "async_copy(S, i, A, j, n): begin to copy n elements, 4, 8 or 16 bytes, to shared S[i]"),
        _copy_type, _copy, (ANYTHING,),
    ),
    "async_copy_if": Operation(
        marker("async_copy_if", "async_copy_if(S, i, A, j, n, c): the same if c holds, else of n zeros"),
        _copy_type, _copy, (ANYTHING,),
    ),
    "async_commit": Operation(
        marker("async_commit", "what was begun since the last one is a group"), _commit_type, _commit, ((),)
    ),
    "async_wait": Operation(
        marker("async_wait", "async_wait(n): until at most n groups are under way"), _wait_type, _wait, (ANYTHING,)
    ),
}  # fmt: skip
