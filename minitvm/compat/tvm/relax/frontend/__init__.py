"""TVM's `tvm.relax.frontend`: importers of models."""

from __future__ import annotations

import importlib
from typing import Any

from .....absent import absent

__all__ = ["onnx", "torch"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise absent("minitvm.relax.frontend", name, __all__)
