"""What lowering asks of a target: how wide its vectors are. One function, so that any description of a machine will do."""

from __future__ import annotations

from typing import Any

from ...expr import DType

DEFAULT_VECTOR_BYTES = 32


def vector_bytes(target: Any) -> int:
    """The width of the target's SIMD registers in bytes; 32 (AVX2) where the target does not say."""
    for holder in (target, getattr(target, "machine", None)):
        found = getattr(holder, "vector_bytes", None)
        if isinstance(found, int) and found > 0:
            return found
    bits = getattr(target, "vector_bits", None)
    return bits // 8 if isinstance(bits, int) and bits > 0 else DEFAULT_VECTOR_BYTES


def vector_lanes(target: Any, dtype: str) -> int:
    """How many values of a dtype fit one register."""
    return max(1, vector_bytes(target) // DType(dtype).scalar.bytes)
