"""Runs kernels on a CPU: compiling, caching, loading, the thread team, the program.

The folder has the name of TVM's function `machines.cpu.runtime`; the module can be called like that function.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Folder(ModuleType):
    def __call__(self, index: int = 0) -> Any:
        from ....runtime.tensors import cpu

        return cpu(index)


sys.modules[__name__].__class__ = _Folder
