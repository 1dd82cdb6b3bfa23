"""Importers of other frameworks' models, one package per format, and the exporter to ONNX."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .gguf import from_gguf, read_gguf
    from .huggingface import from_huggingface, read_huggingface
    from .huggingface.importer import HuggingFaceFolder
    from .onnx import from_onnx
    from .onnx.export.to_onnx import to_onnx
    from .tflite import from_tflite, read_tflite
    from .torch import from_torch

_DEFINED_IN = {
    "HuggingFaceFolder": "huggingface.importer", "from_gguf": "gguf", "from_huggingface": "huggingface",
    "from_onnx": "onnx", "from_tflite": "tflite", "from_torch": "torch",
    "read_gguf": "gguf", "read_huggingface": "huggingface", "read_tflite": "tflite", "to_onnx": "onnx.export.to_onnx",
}  # fmt: skip

__all__ = [
    "HuggingFaceFolder", "from_gguf", "from_huggingface", "from_onnx", "from_tflite", "from_torch", "onnx", "read_gguf",
    "read_huggingface", "read_tflite", "relax", "to_onnx",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _DEFINED_IN:
        return getattr(importlib.import_module(f"{__name__}.{_DEFINED_IN[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
