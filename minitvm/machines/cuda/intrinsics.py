"""The tensor intrinsics of GPUs of NVIDIA."""

from __future__ import annotations

from .tensor_intrin import tensor_cores, warpgroups


def register_named(name: str) -> None:
    """Make the intrinsic of this name known, if it is one of tensor cores."""
    tensor_cores.register_all()
    warpgroups.register_named(name)
