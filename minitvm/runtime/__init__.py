"""Run executables: compile kernels to machine code, manage the team of threads, and provide the objects that users
call.

Importing this package imports neither the compiler nor Numba. A program whose kernels are in the cache runs without
Numba.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ..absent import absent

if TYPE_CHECKING:
    from .artifact.load import load
    from .artifact.load import load as load_module
    from .device.arrays import DeviceArray, from_dlpack
    from .externals import register_engine
    from .function import Function, Functions
    from .module import GraphModule
    from .tensors import Device, Tensor, cpu, device, empty, tensor

_DEFINED_IN = {
    "DeviceArray": ".device.arrays", "from_dlpack": ".device.arrays", "Function": ".function",
    "Functions": ".function", "GraphModule": ".module", "load": ".artifact.load",
    "register_engine": ".externals", "Device": ".tensors", "Tensor": ".tensors", "cpu": ".tensors",
    "device": ".tensors", "empty": ".tensors", "tensor": ".tensors",
}  # fmt: skip
_TVM_NAMES = {"load_module": "load", "NDArray": "Tensor"}  # TVM's name -> ours
__all__ = [
    "Device", "DeviceArray", "Function", "Functions", "GraphModule", "Tensor", "cpu", "device", "empty",
    "from_dlpack", "load", "load_module",
    "register_engine", "tensor",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    name = _TVM_NAMES.get(name, name)
    if name not in _DEFINED_IN:
        raise absent(__name__, name, __all__)
    value = getattr(importlib.import_module(_DEFINED_IN[name], __name__), name)
    globals()[name] = value
    return value
