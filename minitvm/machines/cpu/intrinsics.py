"""The tensor intrinsics of CPUs."""

from __future__ import annotations

from ...tir.tensor_intrin import cpu, tiles


def register_named(name: str) -> None:
    """Make the intrinsic of this name known, if it is one of a CPU."""
    cpu.register_all()
    tiles.register_named(name)
