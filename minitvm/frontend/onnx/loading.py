"""A file, or a model in memory, as a checked `ModelProto`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ...errors import InputError, ModelError, UnsupportedOperator, missing_extra

OLDEST = 7


def load(model: Any) -> Any:
    """The ModelProto; raises `ModelError` for a file that is missing or no ONNX model, `UnsupportedOperator` for an
    opset that is too old.
    """
    try:
        import onnx
    except ImportError:
        raise missing_extra("onnx", "onnx") from None
    if isinstance(model, str | os.PathLike):
        model = _read(onnx, Path(model))
    if not isinstance(model, onnx.ModelProto):
        raise InputError(f"from_onnx takes an ONNX model or the path of one, found {type(model).__name__}")
    version = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), None)
    if version is not None and version < OLDEST and any(n.domain in ("", "ai.onnx") for n in model.graph.node):
        names = ", ".join(sorted({n.op_type for n in model.graph.node})[:4])
        raise UnsupportedOperator(
            f"opset {version} is not supported, {OLDEST} is the oldest that is (operators: {names})"
        )
    return model


def _read(onnx: Any, path: Path) -> Any:
    if not path.exists():
        raise ModelError(f"{path}: no such file")
    if path.is_dir():
        raise ModelError(f"{path} is a folder, not an ONNX model")
    try:
        model = onnx.load(path)
    except FileNotFoundError as error:
        raise ModelError(f"{path}: its weights are in a file that is missing: {error}") from error
    except Exception as error:  # protobuf's DecodeError, which onnx raises under several names
        raise ModelError(f"{path} is not an ONNX model, or a damaged one ({_first_line(error)})") from error
    if not model.graph.node and not model.graph.output:
        raise ModelError(f"{path} is not an ONNX model: it has no graph")
    return model


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
