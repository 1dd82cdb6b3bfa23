"""The annotations of loops and blocks that lowering uses. Pipeline annotations are in `analysis.software_pipelines`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..errors import InputError, nearest
from ..expr import IntImm
from .analysis.block_regions import regions_written
from .nodes import Block

LANES = "vector_reduction"  # an innermost reduction loop: accumulate in this many lanes
PREFETCH = "prefetch"  # an innermost loop: request the data that it streams this many iterations ahead
IN_STEP = "in_step"  # a block with loops inside: all iterations take the same steps, so they may be lanes of vectors
SKIP_ZEROS = "skip_zeros"  # a loop of a sum: leave out iterations that read only padding
ALIGNMENTS = "buffer_dim_align"  # a block: [[index of the write, axis, factor, offset], ...]; an allocation: the rest

_WANTED = "a list of [position of a written buffer, axis, factor above 0, offset]"


def alignments_of(block: Block) -> list[tuple[int, int, int, int]]:
    """Return the entries of a block's alignment annotation, each as (index of the write, axis, factor, offset).

    Raises `InputError` if the annotation is not a list of such entries, or if an entry does not fit the buffers that
    the block writes.
    """
    entries = block.annotations.get(ALIGNMENTS, ())
    if not isinstance(entries, list | tuple):
        raise _misfit(block, entries)
    return [_entry(block, entry) for entry in entries]


def _entry(block: Block, entry: Any) -> tuple[int, int, int, int]:
    numbers = [_number(item) for item in entry] if isinstance(entry, list | tuple) else []
    if len(numbers) != 4:
        raise _misfit(block, entry)
    write, axis, factor, offset = numbers
    if write is None or axis is None or factor is None or offset is None or factor < 1:
        raise _misfit(block, entry)
    written = regions_written(block)
    if not 0 <= write < len(written) or not 0 <= axis < written[write].buffer.ndim:
        raise _misfit(block, entry)
    return write, axis, factor, offset


def _number(item: Any) -> int | None:
    value = item.value if isinstance(item, IntImm) else item
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _misfit(block: Block, value: Any) -> InputError:
    written = ", ".join(f"{r.buffer.name} of {r.buffer.ndim} dimensions" for r in regions_written(block)) or "nothing"
    return InputError(
        f"block {block.name}: annotation {ALIGNMENTS!r}\n  wanted: {_WANTED}; the block writes {written}\n"
        f"  found:  {value!r}\n  try:    storage_align({block.name!r}, 0, 0, 32, 8)"
    )


# --- The scopes of storage and the axes of threads, by TVM's names. The parser and the schedule primitives both use
# this list, so they accept the same names.


# A scope is one of these, optionally with a dot and a part or layout ("shared.dyn", "wmma.matrix_a").
SCOPES = (
    "global", "shared", "local", "warp", "warpgroup",
    "wmma", "m16n8k8", "metal", "texture", "amx", "vtcm", "acc", "inp", "wgt", "out",
)  # fmt: skip
SWIZZLED = "shared.dyn.swizzled"  # lines of 128 bytes, whose pieces are placed as `transform.swizzle_shared` says
_SCOPE = re.compile(rf"^({'|'.join(SCOPES)})\b[\w.]*$")

# "vthread" alone is an axis of virtual threads as well.
THREAD_AXES = (*(f"{grid}.{axis}" for grid in ("blockIdx", "threadIdx", "vthread") for axis in "xyz"), "vthread")

# The scopes that an error lists if no name is near.
COMMON_SCOPES = "global, shared, local, warp, or a scope of an accelerator"


def is_scope(name: object) -> bool:
    """Return whether a name is a valid storage scope."""
    return isinstance(name, str) and _SCOPE.match(name) is not None


def is_within(scope: str, described: str) -> bool:
    """Return whether a scope equals the scope that an instruction describes or is a part of it. For example,
    "shared.dyn" is a part of "shared".

    Instructions distinguish between memories, but not between the ways in which memory is allocated.
    """
    return scope == described or (scope.startswith(f"{described}.") and scope != SWIZZLED)


def is_thread_axis(name: object) -> bool:
    """Return whether this is the name of an axis that a loop can be bound to."""
    return name in THREAD_AXES


def suggestion(name: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return a "did you mean" suggestion for a misspelled name, or () if none of `names` is similar."""
    hint = nearest(name, names)
    return (hint,) if hint.startswith("did you mean") else ()
