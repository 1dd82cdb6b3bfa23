"""Engines: other people's libraries, which compute parts of a network instead of our kernels.

    minitvm.build("net.onnx", engines="onnxruntime")

A graph pass gives each engine the operators that it supports, in regions of as many operators as possible
(`graph.passes.partition`). A region becomes one step of the program, which calls the engine on our memory. If the
engine is missing or fails, our kernels compute the region. TVM calls this "bring your own codegen" (Chen et al., 2021).

Each package in this folder has an object `ENGINE`. Entry points of the group `minitvm_engines` are engines too, and
so is each `Engine` that you pass to `register`. docs/howto/engine.md shows how to write one.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .choice import Choice, Choices, choose, passes
    from .engine import Engine, Region, Translation, find, names, register
    from .region_calls import prepared
    from .region_json import from_json, to_json

_DEFINED_IN = {
    "Choice": "choice", "Choices": "choice", "choose": "choice", "passes": "choice", "Engine": "engine",
    "Region": "engine", "Translation": "engine", "find": "engine", "names": "engine", "register": "engine",
    "prepared": "region_calls", "from_json": "region_json", "to_json": "region_json",
}  # fmt: skip

__all__ = [
    "Choice", "Choices", "Engine", "Region", "Translation", "choose", "find", "from_json", "names", "passes",
    "prepared", "register", "to_json",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _DEFINED_IN:
        return getattr(importlib.import_module(f"{__name__}.{_DEFINED_IN[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
