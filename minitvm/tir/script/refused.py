"""Names of TVM's language that minitvm does not support, each with the reason and a replacement.

The list in docs/tvm.md is generated from this table.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RefusedName:
    """The reason why a name is not supported, and what to use instead."""

    reason: str
    instead: tuple[str, ...] = ()


_SCALABLE = RefusedName("vectors have a constant number of lanes", ("a vectorised loop of constant extent",))
_ATTRIBUTE = RefusedName(
    "there are no attribute statements",
    ("annotations= of a loop", "T.block_attr({...}) in a block", 'T.thread_binding(extent, thread="threadIdx.x")'),
)
_FLAT = RefusedName(
    "accesses name a buffer and its indices, not an address", ("A[i] and A[i] = value", "T.match_buffer of a region")
)
_QUARTER = RefusedName(
    "the dtypes are bool, int8 to int64, uint8 to uint64, bfloat16, and float16 to float64", ('"float16"',)
)
_CALLS_FUNCTIONS = RefusedName("a function returns nothing: it writes to its buffers", ("a parameter for the result",))
_FLATTENED = RefusedName(
    "a buffer has one shape; lowering makes it flat", ("the shape in T.Buffer, or T.match_buffer of a handle",)
)
_REALIZE = RefusedName(
    "there is no statement for the region in which a buffer exists", ("T.alloc_buffer in the block that uses it",)
)

REFUSED: dict[str, RefusedName] = {
    "vscale": _SCALABLE,
    "get_active_lane_mask": _SCALABLE,
    "get_vscale_expr": _SCALABLE,
    "iter_var": _ATTRIBUTE,
    "reduce": RefusedName(
        "a reduction over threads is a statement", ("T.tvm_thread_allreduce", "a block with T.init()")
    ),
    "load": _FLAT,
    "store": _FLAT,
    "preflattened_buffer": _FLATTENED,
    "realize": _REALIZE,
    "float8_e4m3fn": _QUARTER,
    "float8_e5m2": _QUARTER,
    "ret": _CALLS_FUNCTIONS,
    "thread_return": _CALLS_FUNCTIONS,
    "Bind": RefusedName("a name is bound by a typed assignment", ("x: T.int32 = value",)),
}


def explained(name: str) -> str:
    """Return the error text for a name that is not supported."""
    row = REFUSED[name]
    return f"T.{name} is not supported: {row.reason}"
