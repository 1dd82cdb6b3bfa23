"""The features of a CUDA target's architecture, derived from its number."""

from __future__ import annotations

from ...target import Target
from ...target.target import DEFAULT_CAPABILITY


def capability(target: Target | None) -> int:
    """Return the number of an architecture: 90 for `sm_90` and `sm_90a`, and 80 for a target without an
    architecture.
    """
    return DEFAULT_CAPABILITY if target is None else int(target.capability)


def has_warpgroups(target: Target | None) -> bool:
    """Return whether four warps together can multiply tiles in shared storage (`wgmma`), which only sm_90a supports."""
    return getattr(target, "arch", "") == "sm_90a"


def has_asynchronous_copies(target: Target | None) -> bool:
    """Return whether threads can begin copies to shared storage and wait for them later (`cp.async`), from sm_80 on."""
    return target is None or target.copies_asynchronously
