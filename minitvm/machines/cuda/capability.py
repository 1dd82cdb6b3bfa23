"""What a CUDA target's architecture has, by its number."""

from __future__ import annotations

import re
from typing import Any

DEFAULT = 80


def capability(target: Any) -> int:
    """80 for `cuda -arch=sm_80` and for a target that names no architecture, 90 for `sm_90` and `sm_90a`."""
    match = re.match(r"sm_(\d+)", getattr(target, "arch", "") or "")
    return int(match[1]) if match else DEFAULT


def has_warpgroups(target: Any) -> bool:
    """Whether four warps together multiply tiles in shared storage: `wgmma`, which sm_90a alone has."""
    return getattr(target, "arch", "") == "sm_90a"


def has_asynchronous_copies(target: Any) -> bool:
    """Whether threads begin copies to shared storage and wait for them later: `cp.async`, from sm_80 on."""
    return target is None or target.copies_asynchronously
