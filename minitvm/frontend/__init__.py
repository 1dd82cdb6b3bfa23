"""From the world to a graph: models of other frameworks, one package a format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .onnx import from_onnx

__all__ = ["from_onnx"]


def __getattr__(name: str) -> Any:
    if name == "from_onnx":
        from .onnx import from_onnx

        return from_onnx
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
