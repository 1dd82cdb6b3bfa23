"""The questions that lowering asks a target, about its vectors. Functions, so that any description will do."""

from __future__ import annotations

from ...expr import DType
from ...target import Target

DEFAULT_VECTOR_BYTES = 32


def vector_lanes(target: Target | None, dtype: str) -> int:
    """How many values of a dtype fit one SIMD register; without a target, as on AVX2."""
    if target is None:
        return max(1, DEFAULT_VECTOR_BYTES // DType(dtype).scalar.bytes)
    return int(target.vector_lanes(DType(dtype).scalar))


def vector_widths(target: Target | None) -> tuple[int, ...]:
    """The numbers of lanes that vectors of the target's language can have; () where they may have any."""
    return tuple(getattr(target, "vector_widths", ()))
