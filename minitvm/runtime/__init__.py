"""Running executables: kernels to object code to functions, the thread team, and the objects that people call.

Importing this imports neither the compiler nor Numba; a program whose kernels are in the cache runs without Numba.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .artifact.load import load
    from .externals import register_engine
    from .function import Function
    from .module import GraphModule

_DEFINED_IN = {
    "Function": ".function", "GraphModule": ".module", "load": ".artifact.load", "register_engine": ".externals",
}  # fmt: skip
__all__ = ["Function", "GraphModule", "load", "register_engine"]


def __getattr__(name: str) -> Any:
    if name not in _DEFINED_IN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_DEFINED_IN[name], __name__), name)
    globals()[name] = value
    return value
