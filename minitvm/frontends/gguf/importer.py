"""Convert the model in a GGUF file to a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import InputError, ModelError
from ...expr import DType, Expr, SizeVar
from ...graph.nodes import Dim, Graph
from ..common.block_weights import BlockWeights
from ..common.decoder import DecoderOptions, DecoderWeights, Weight, decoder
from .config import config_of
from .file import GgufFile, StoredTensor


def import_file(
    file: GgufFile, shapes: Mapping[str, Sequence[Any]], max_length: int | None, *, bytes: bool, all_logits: bool
) -> Graph:
    """Return the graph of a file; see `from_gguf`."""
    config = config_of(file, max_length)
    batch, length = _sizes(shapes)
    options = DecoderOptions(batch=batch, length=length, bytes=bytes, all_logits=all_logits)
    kind = "bytes" if bytes else "floats"
    if kind not in file.weights:
        file.weights[kind] = DecoderWeights(
            str(file.path), file.tensors, lambda name: _weight(file, file.tensors[name])
        )
    return decoder(_name(file), config, file.weights[kind], options)


def _weight(file: GgufFile, tensor: StoredTensor) -> Weight:
    if tensor.format.unpack is None:
        array: np.ndarray = tensor.data.view(DType(tensor.format.dtype).numpy).reshape(tensor.shape)
        return array
    if len(tensor.shape) != 2:
        raise ModelError(f"{file.path}: the tensor {tensor.name!r} of {tensor.format.name} has not two dimensions")
    weights: BlockWeights = tensor.format.unpack(tensor.data)
    return weights


def _sizes(shapes: Mapping[str, Sequence[Any]]) -> tuple[Dim, Dim]:
    """Return the batch and the number of tokens of a run. By default, these are 1 and an open size."""
    unknown = [name for name in shapes if name != "tokens"]
    if unknown:
        raise InputError(f"shapes: {unknown[0]!r} has no open size; wanted {{'tokens': (batch, length)}}")
    shape = tuple(shapes.get("tokens", (1, "length")))
    if len(shape) != 2:
        raise InputError(f"shapes: tokens has two dimensions (batch, length), found {shape}")
    names = ("batch", "length")
    sizes = [
        size if isinstance(size, int | Expr) else SizeVar(size or name) for size, name in zip(shape, names, strict=True)
    ]
    for size in sizes:
        if isinstance(size, int) and size < 1:
            raise InputError(f"shapes: tokens {shape}: wanted sizes of at least 1")
    return sizes[0], sizes[1]


def _name(file: GgufFile) -> str:
    text = str(file.metadata.get("general.basename") or file.metadata.get("general.name") or "decoder")
    name = "".join(c if c.isalnum() and c.isascii() else "_" for c in text).strip("_").lower()
    return name if name and not name[0].isdigit() else "decoder"
