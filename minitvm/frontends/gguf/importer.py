"""Convert the model in a GGUF file to a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import ModelError
from ...expr import DType
from ...graph.nodes import Graph
from ..common.block_weights import BlockWeights
from ..common.decoder import DecoderWeights, Weight, decoder
from ..common.decoder_config import DecoderOptions, graph_name, run_sizes
from .config import config_of
from .file import GgufFile, StoredTensor

# Endings of the names of tables for positions: the configuration has the first one, and the other one is computed.
_TABLES = ("rope_freqs.weight", "attn_rot_embd.weight")


def import_file(
    file: GgufFile, shapes: Mapping[str, Sequence[Any]], max_length: int | None, *, slots: int | None, bytes: bool,
    all_logits: bool, cache_dtype: str,
) -> Graph:  # fmt: skip
    """Return the graph of a file; see `from_gguf`."""
    batch, length = run_sizes(shapes, slots)
    options = DecoderOptions(
        batch=batch, length=length, slots=slots, bytes=bytes, all_logits=all_logits, cache_dtype=cache_dtype
    )
    config = config_of(file, max_length, options)
    kind = "bytes" if bytes else "floats"
    if kind not in file.weights:
        names = [name for name in file.tensors if not name.endswith(_TABLES)]
        file.weights[kind] = DecoderWeights(str(file.path), names, lambda name: _weight(file, file.tensors[name]))
    text = str(file.metadata.get("general.basename") or file.metadata.get("general.name") or "")
    graph = decoder(graph_name(text), config, file.weights[kind], options)
    file.release()
    return graph


def _weight(file: GgufFile, tensor: StoredTensor) -> Weight:
    file.release()  # so that only one matrix is in memory twice
    if tensor.format.unpack is None:
        array: np.ndarray = tensor.data.view(DType(tensor.format.dtype).numpy).reshape(tensor.shape)
        return array
    if len(tensor.shape) != 2:
        raise ModelError(f"{file.path}: the tensor {tensor.name!r} of {tensor.format.name} has not two dimensions")
    weights: BlockWeights = tensor.format.unpack(tensor.data)
    return weights
