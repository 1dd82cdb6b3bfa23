"""Load a file, or a model in memory, as a checked `ModelProto`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import InputError, ModelError, UnsupportedOperator, missing_extra

OLDEST = 7  # of an older opset those operators are taken that have not changed since


def load(model: Any) -> Any:
    """Return the ModelProto. Raises `ModelError` if the file is missing or not an ONNX model.

    Raises `UnsupportedOperator` if the opset is too old.
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
    if version is not None and version < OLDEST:
        changed = sorted({name for name in _standard_operators(model.graph) if _changed(onnx, name, version)})
        if changed:
            raise UnsupportedOperator(
                f"opset {version} is not supported, {OLDEST} is the oldest that is "
                f"(operators that have changed since: {', '.join(changed[:4])})"
            )
    return model


def _standard_operators(graph: Any) -> Iterator[str]:
    """Yield the names of the standard operators in a graph and its subgraphs."""
    for node in graph.node:
        if node.domain in ("", "ai.onnx"):
            yield node.op_type
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _standard_operators(inner)


def _changed(onnx: Any, name: str, version: int) -> bool:
    """Return whether the definition of an operator changed between an opset and `OLDEST`."""
    try:
        old, new = (onnx.defs.get_schema(name, max_inclusive_version=v, domain="") for v in (version, OLDEST))
    except onnx.defs.SchemaError:
        return True
    return bool(old.since_version != new.since_version)


def _read(onnx: Any, path: Path) -> Any:
    if not path.exists():
        raise ModelError(f"{path}: no such file")
    if path.is_dir():
        raise ModelError(f"{path} is a folder, not an ONNX model")
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:  # protobuf's DecodeError, which onnx raises under several names
        raise ModelError(f"{path} is not an ONNX model, or a damaged one ({_first_line(error)})") from error
    if not model.graph.node and not model.graph.output:
        raise ModelError(f"{path} is not an ONNX model: it has no graph")
    try:
        onnx.load_external_data_for_model(model, str(_folder_of_weights(onnx, model, path)))
    except Exception as error:  # one of four kinds, by what is wrong with the file and by onnx's version
        why = _first_line(error)
        copy = f"\n  try:    cp -rL {path.parent} COPY, which copies what links name" if "symbolic link" in why else ""
        raise ModelError(f"{path}: its weights are in a file that cannot be read: {why}{copy}") from error
    return model


def _folder_of_weights(onnx: Any, model: Any, path: Path) -> Path:
    """Return the folder with the files of the weights. Names of files in the model are changed to names in this folder.

    In Hugging Face's cache, a model and its weights are links to files in one folder. This is safe, because a link is
    followed only if it leads to the folder of the model file itself. `onnx` refuses all other links, and paths that
    leave a folder.
    """
    real = path.resolve().parent
    entries = [
        entry
        for tensor in onnx.external_data_helper._get_all_tensors(model)
        if onnx.external_data_helper.uses_external_data(tensor)
        for entry in tensor.external_data
        if entry.key == "location"
    ]
    inside = all(not Path(entry.value).is_absolute() and ".." not in Path(entry.value).parts for entry in entries)
    targets = [(path.parent / entry.value).resolve() for entry in entries] if inside else []
    if not path.is_symlink() or not inside or any(target.parent != real for target in targets):
        return path.parent
    for entry, target in zip(entries, targets, strict=True):
        entry.value = target.name
    return real


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
