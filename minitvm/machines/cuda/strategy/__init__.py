"""Schedules that only CUDA machines have: tiles of warps and warpgroups on tensor cores.

`rules` is a part of the back end: these rules first, then the rules for all GPUs.
"""

from . import warpgroups, tensor_cores  # isort: skip  (the order of registration is the order in which rules are tried)

from ...gpu.strategy import rules  # isort: skip

__all__ = ["rules", "tensor_cores", "warpgroups"]
