"""Questions of lowering to a target about its vectors. They are functions, so that any description can be used."""

from __future__ import annotations

from ...expr import DType
from ...target import Target

DEFAULT_VECTOR_BYTES = 32


def vector_lanes(target: Target | None, dtype: str) -> int:
    """The number of values of a dtype in one SIMD register; without a target, the number for AVX2."""
    if target is None:
        return max(1, DEFAULT_VECTOR_BYTES // DType(dtype).scalar.bytes)
    return int(target.vector_lanes(DType(dtype).scalar))


def vector_widths(target: Target | None) -> tuple[int, ...]:
    """The numbers of lanes that vectors of the target's language can have; () if any number is allowed."""
    return tuple(getattr(target, "vector_widths", ()))
