"""The tensor intrinsics of NVIDIA's GPUs."""

from __future__ import annotations

from .tensor_intrin import tensor_cores, warpgroups


def register_named(name: str) -> None:
    """Register the intrinsic with this name, if it is one of tensor cores."""
    tensor_cores.register_all()
    warpgroups.register_named(name)
