"""The tensor intrinsics of CPUs, by their names.

`tensor_intrinsics.py` and `simd/tile_intrinsics.py` describe them, `codegen/byte_instructions.py` and
`codegen/tiles.py` spell them in kernels, and `runtime/operations.py` has the machine instructions.
"""

from __future__ import annotations

from ..simd import tile_intrinsics
from . import tensor_intrinsics


def register_named(name: str) -> None:
    """Make the intrinsic of this name known, if it is one of a CPU."""
    tensor_intrinsics.register_all()
    tile_intrinsics.register_named(name)
