"""Lay out buffers of scope "shared.dyn" in the block's dynamic shared memory, whose size is a launch argument."""

from __future__ import annotations

from ...expr import IntImm, find
from ..nodes import Allocate, Buffer, PrimFunc

SCOPE = "shared.dyn"
ALIGNMENT = 1024  # bytes after which the layout of swizzled tiles repeats; the largest vector has 128


def dynamic_storage(kernel: PrimFunc) -> tuple[dict[Buffer, int], int]:
    """Return the offset in bytes of each "shared.dyn" buffer of a kernel, and their total size.

    The buffers do not overlap, because shared bytes would need barriers between their users.
    """
    offsets: dict[Buffer, int] = {}
    end = 0
    for node in find(kernel.body, Allocate):
        if node.buffer.scope == SCOPE and node.buffer not in offsets:
            offsets[node.buffer] = -(-end // ALIGNMENT) * ALIGNMENT
            size = node.buffer.shape[0]
            elements = size.value if isinstance(size, IntImm) else 0  # a verifier refuses sizes that are not constant
            end = offsets[node.buffer] + max(1, elements) * node.buffer.dtype.bytes
    return offsets, end
