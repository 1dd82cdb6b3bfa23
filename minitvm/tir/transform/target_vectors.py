"""Properties of a target's vectors that lowering needs: the lanes of a register, the supported widths, and whether
there are vectors.
"""

from __future__ import annotations

from ...expr import DType
from ...target import Target

DEFAULT_VECTOR_BYTES = 32


def vector_lanes(target: Target | None, dtype: str) -> int:
    """Return how many values of `dtype` fit in one SIMD register of the target. Without a target, AVX2 is assumed."""
    if target is None:
        return max(1, DEFAULT_VECTOR_BYTES // DType(dtype).scalar.bytes)
    return int(target.vector_lanes(DType(dtype).scalar))


def vector_widths(target: Target | None) -> tuple[int, ...]:
    """Return the vector widths that the target's language supports, in lanes; () if it supports any width."""
    return tuple(getattr(target, "vector_widths", ()))


def is_scalar(target: Target | None) -> bool:
    """Return whether the target is a CPU without vectors."""
    return bool(getattr(target, "is_scalar", False))
