"""The sizes and options of a decoder, from the metadata of a GGUF file."""

from __future__ import annotations

import numpy as np

from ...errors import ModelError
from ..common.decoder_config import DecoderConfig, DecoderOptions, Entries
from .file import GgufFile

# Of these, the rotated pairs of features are neighbours. The others rotate a feature of the first half with its partner
# in the second half.
_NEIGHBOURS = ("llama", "mistral")


def config_of(file: GgufFile, context: int | None, options: DecoderOptions) -> DecoderConfig:
    """Return the configuration of the model in a file, with caches for texts of `context` tokens (default: all that it
    was trained for).

    Raises `UnsupportedOperator` for another architecture, or an option that changes the meaning and is not supported.
    Raises `ModelError` for missing or impossible metadata.
    """
    source = str(file.path)
    general = Entries(source, file.metadata)
    architecture = general.known_architecture(general.value("general.architecture", str))
    entries = Entries(source, file.metadata, f"{architecture}.")
    if entries.value("expert_count", int, 0):
        entries.refuse("expert_count", "a mixture of experts")
    heads, width = entries.size("attention.head_count"), entries.size("embedding_length")
    head_width = entries.size("attention.key_length", width // heads)
    if entries.size("attention.value_length", head_width) != head_width:
        entries.refuse("attention.value_length", "values of another width than the keys")
    rotated = entries.size("rope.dimension_count", head_width)
    return entries.config(
        architecture, context, entries.size("context_length"), entries.value("attention.sliding_window", int, 0),
        options,
        depth=entries.size("block_count"), width=width, heads=heads,
        key_heads=entries.size("attention.head_count_kv", heads), head_width=head_width,
        hidden=entries.size("feed_forward_length"), vocabulary=_vocabulary(file),
        epsilon=entries.positive("attention.layer_norm_rms_epsilon"), rotated=rotated,
        interleaved=architecture in _NEIGHBOURS, rope_base=entries.positive("rope.freq_base", 10000.0),
        rope_scale=_rope_scale(entries), rope_factors=_rope_factors(file, rotated),
    )  # fmt: skip


def _rope_scale(entries: Entries) -> float:
    """Return the factor of all positions. A file without a type scales linearly, and old files have another name of
    the divisor (llama.cpp's rules).
    """
    kind = entries.value("rope.scaling.type", str, "linear")
    if kind not in ("none", "linear"):
        entries.refuse("rope.scaling.type", f"positions scaled as {kind!r}")
    divisor = entries.positive("rope.scaling.factor", entries.positive("rope.scale_linear", 1.0))
    return 1.0 if kind == "none" else 1.0 / divisor


def _rope_factors(file: GgufFile, rotated: int) -> np.ndarray | None:
    """Return the divisors of the angles' steps, which Llama 3 has as a tensor."""
    tensor = file.tensors.get("rope_freqs.weight")
    if tensor is None:
        return None
    if tensor.format.dtype != "float32" or tensor.shape != (rotated // 2,):
        raise ModelError(f"{file.path}: wanted float32 [{rotated // 2}] in 'rope_freqs.weight'")
    factors: np.ndarray = tensor.data.reshape(-1).view("<f4").astype(np.float64)
    return factors


def _vocabulary(file: GgufFile) -> int:
    """Return the number of tokens, which is the number of rows of the embedding."""
    tensor = file.tensors.get("token_embd.weight")
    if tensor is None or len(tensor.shape) != 2:
        raise ModelError(f"{file.path}: the model has no matrix 'token_embd.weight'")
    return tensor.shape[0]
