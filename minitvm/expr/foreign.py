"""TVM's operations that a `Call` may contain but minitvm cannot run: foreign code, pointers, machine instructions.

A program with such calls can be parsed, printed, verified and scheduled; its blocks declare the regions that the calls
read and write. Interpreters and back ends refuse it with an error that names the operation (`refusal`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass

from ..errors import Unsupported
from .dtypes import DType
from .node import Node
from .nodes import Call, StringImm
from .visitor import find

_CODE = "minitvm does not know the meaning of foreign code"
_POINTER = "a pointer hides the elements that are accessed through it"
_INSTRUCTION = "minitvm has no interpreter for the machine of this instruction"
_RUNTIME = "a part of TVM's runtime"
_NO_MEANING = "no interpreter implements it"
_ASSUMPTION = "an assumption must be a separate statement"

# The dtype of a call: given by the first argument of its text, that of its first or second value, or a fixed dtype.
GIVEN, FIRST, SECOND = "given", "first", "second"


@dataclass(frozen=True, slots=True)
class ForeignOp:
    """A foreign operation: its name, the rule for its result dtype, and the reason why it cannot run."""

    name: str
    result: str
    reason: str


def _ops(reason: str, result: str, names: str) -> list[ForeignOp]:
    return [ForeignOp(name, result, reason) for name in names.split()]


_OPS = [
    *_ops(_CODE, GIVEN, "call_extern call_pure_extern call_llvm_intrin call_llvm_pure_intrin call_spirv_pure_glsl450"),
    *_ops(_CODE, "int32", "call_packed call_cpacked call_packed_lowered call_cpacked_lowered tvm_call_packed"
                          " tvm_call_cpacked call_tir"),
    *_ops(_CODE, "uint32", "llvm_lookup_intrinsic_id"),
    *_ops(_POINTER, "handle", "tvm_access_ptr address_of type_annotation tvm_tuple"),
    *_ops(_POINTER, "bool", "isnullptr"),
    *_ops(_INSTRUCTION, "handle", "tvm_load_matrix_sync tvm_mma_sync tvm_bmma_sync tvm_fill_fragment"
                                  " tvm_store_matrix_sync"),
    *_ops(_INSTRUCTION, GIVEN, "ptx_mma ptx_mma_sp ptx_ldmatrix ptx_cp_async_bulk mma_store mma_fill"
                               " vectorlow vectorhigh vectorcombine"),
    *_ops(_INSTRUCTION, "int32", "ptx_cp_async_barrier ptx_init_barrier_thread_count"
                                 " ptx_arrive_barrier ptx_arrive_barrier_expect_tx ptx_wait_barrier create_barriers"
                                 " tvm_global_barrier_kinit dma_copy dma_wait dma_start_group dma_end_group"),
    *_ops(_INSTRUCTION, "handle", "make_filled_simdgroup_matrix simdgroup_load simdgroup_store"
                                  " simdgroup_multiply_accumulate"),
    *_ops(_INSTRUCTION, "int32", "dp4a"),
    *_ops(_RUNTIME, "handle", "tvm_stack_alloca tvm_stack_make_shape tvm_stack_make_array lookup_param"
                              " TVMBackendAllocWorkspace"),
    *_ops(_RUNTIME, "int32", "TVMBackendFreeWorkspace start_profile_intrinsic end_profile_intrinsic"
                             " tvm_throw_last_error tvm_check_return"),
    *_ops(_RUNTIME, GIVEN, "tvm_struct_get"),
    *_ops(_RUNTIME, "int32", "tvm_struct_set"),
    *_ops(_NO_MEANING, FIRST, "clz nextafter ldexp tvm_thread_invariant q_multiply_shift_per_axis"),
    *_ops(_ASSUMPTION, "bool", "assume"),
    *_ops(_NO_MEANING, GIVEN, "undef"),
]  # fmt: skip
FOREIGN: dict[str, ForeignOp] = {row.name: row for row in _OPS}

# Calls whose second argument names what is called.
NAMED_CODE = ("call_extern", "call_pure_extern", "call_llvm_intrin", "call_llvm_pure_intrin", "call_packed",
              "call_cpacked", "tvm_call_packed", "tvm_call_cpacked")  # fmt: skip


def result_dtype(op: ForeignOp, args: Iterable[Node]) -> DType | None:
    """Return the dtype of a call of `op` with the arguments `args`, or None if the call itself states its dtype."""
    values = list(args)
    if op.result == GIVEN:
        return None
    if op.result in (FIRST, SECOND):
        at = 0 if op.result == FIRST else 1
        return values[at].dtype if len(values) > at else None  # type: ignore[attr-defined]
    return DType(op.result)


@functools.lru_cache(64)  # a program is run many times
def first_foreign(program: Node) -> Call | None:
    """Return the first call in a program to an operation that minitvm cannot run, or None."""
    return next((call for call in find(program, Call) if call.op in FOREIGN), None)


def refusal(call: Call) -> str:
    """Return a message that explains why a call cannot run: it names the operation and the foreign code, and gives
    the reason.
    """
    called = call.args[0] if call.args and call.op in NAMED_CODE else None
    name = f'("{called.value}")' if isinstance(called, StringImm) else ""
    return f"T.{call.op}{name} cannot run here: {FOREIGN[call.op].reason}"


def require_runnable(program: Node) -> None:
    """Raise `Unsupported`, naming the operation, if a program contains a foreign call."""
    call = first_foreign(program)
    if call is not None:
        raise Unsupported(f"{refusal(call)}\n  try:    loads, stores and loops that do the same")
