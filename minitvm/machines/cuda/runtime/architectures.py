"""Architectures of CUDA devices by name, and the rules of compute capabilities: which code runs on which device."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ....errors import TargetError

DEFAULT_ARCH = "sm_80"
_ARCH = re.compile(r"sm_(\d+)(\d)([af]?)")


def compute_capability(arch: str) -> tuple[int, int] | tuple[int, int, str]:
    """Return the numbers of an architecture: `sm_90a` gives (9, 0, "a"). Raises `TargetError` for any other text."""
    match = _ARCH.fullmatch(arch)
    if match is None:
        raise TargetError(f"{arch!r} is no architecture of CUDA\n  try:    sm_75, sm_80, sm_86, sm_89, sm_90, sm_90a")
    major, minor = int(match[1]), int(match[2])
    return (major, minor, match[3]) if match[3] else (major, minor)


def runs_on(arch: str, device: str) -> bool:
    """Return whether a cubin for `arch` runs on a device of the architecture `device`.

    Machine code runs on devices of the same generation with the same or a higher number. Code for the specific `sm_90a`
    runs only on sm_90, and family-specific code (`f`) runs where plain code does.
    """
    code, here = compute_capability(arch), compute_capability(device)
    if arch.endswith("a"):
        return code[:2] == here[:2]
    return code[0] == here[0] and code[1] <= here[1]


def best_for(device: str, archs: Iterable[str]) -> str | None:
    """Return the most specific of the architectures whose cubins run on a device, or None."""
    fitting = [arch for arch in archs if runs_on(arch, device)]
    return max(fitting, key=lambda arch: (compute_capability(arch)[:2], arch), default=None)


def compiled_for(target: str, device: str) -> str:
    """Return the architecture for which a device compiles kernels that were generated for `target` ("": any
    architecture).

    Raises `TargetError` if the kernels may use features that the device does not have.
    """
    if not target:
        return device
    wanted, here = compute_capability(target), compute_capability(device)
    specific = target[-1] in "af"
    if wanted[:2] > here[:2] or (specific and not runs_on(target, device)):
        raise TargetError(
            f"the kernels were generated for {target}, which {device} does not run\n"
            f"  try:    --target 'cuda -arch={device}'"
        )
    return target if specific else device
