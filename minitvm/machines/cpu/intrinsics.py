"""The tensor intrinsics of CPUs."""

from __future__ import annotations

from ..simd import tile_intrinsics as tiles
from . import dot_products as cpu


def register_named(name: str) -> None:
    """Make the intrinsic of this name known, if it is one of a CPU."""
    cpu.register_all()
    tiles.register_named(name)
