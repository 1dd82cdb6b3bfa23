"""Descriptions of the machines that programs are compiled for.

They are data only: the import does not probe the machine.
"""

from .host import detect_cpu
from .machines import CPU, GPU, KINDS, Cache, Kind, find_kind, register_kind
from .target import Target

__all__ = [
    "CPU", "GPU", "KINDS", "Cache", "Kind", "Target", "detect_cpu", "find_kind",
    "register_kind",
]  # fmt: skip
