"""Descriptions of the machines that programs are compiled for.

They are data only: the import does not probe the machine.
"""

from .host import detect_cpu
from .isas import Isa
from .machines import CPU, GPU, KINDS, Cache, Kind, find_kind, register_kind

from . import models  # isort: skip (it registers the kinds cpu, cuda and opencl)
from .target import Target

__all__ = [
    "CPU", "GPU", "KINDS", "Cache", "Isa", "Kind", "Target", "detect_cpu", "find_kind", "models", "register_kind",
]  # fmt: skip
