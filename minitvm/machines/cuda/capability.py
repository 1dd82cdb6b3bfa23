"""What a CUDA target's architecture has, by its number."""

from __future__ import annotations

from ...target import Target
from ...target.target import DEFAULT_CAPABILITY


def capability(target: Target | None) -> int:
    """80 for `cuda -arch=sm_80` and for a target that names no architecture, 90 for `sm_90` and `sm_90a`."""
    return DEFAULT_CAPABILITY if target is None else int(target.capability)


def has_warpgroups(target: Target | None) -> bool:
    """Whether four warps together multiply tiles in shared storage: `wgmma`, which sm_90a alone has."""
    return getattr(target, "arch", "") == "sm_90a"


def has_asynchronous_copies(target: Target | None) -> bool:
    """Whether threads begin copies to shared storage and wait for them later: `cp.async`, from sm_80 on."""
    return target is None or target.copies_asynchronously
