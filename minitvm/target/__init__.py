"""Descriptions of machines: what a program is compiled for. Data only; importing this probes nothing."""

from .host import detect_cpu
from .kinds import CPU, GPU, KINDS, Accelerator, Cache, Kind, register_kind
from .target import Target

__all__ = ["CPU", "GPU", "KINDS", "Accelerator", "Cache", "Kind", "Target", "detect_cpu", "register_kind"]
