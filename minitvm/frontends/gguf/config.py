"""The sizes and options of a decoder, from the metadata of a GGUF file."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...errors import ModelError, UnsupportedOperator, nearest
from ...free_memory import require_memory
from ..common.decoder import DecoderConfig
from .file import GgufFile

# Architectures, and what differs from Llama: whether rotated pairs are neighbours, the activation, and whether
# embeddings are multiplied by the root of their width.
ARCHITECTURES = {
    "llama": (True, "nn.silu", False),
    "mistral": (True, "nn.silu", False),
    "qwen2": (False, "nn.silu", False),
    "qwen3": (False, "nn.silu", False),
    "gemma": (False, "nn.gelu", True),
}


def config_of(file: GgufFile, context: int | None = None) -> DecoderConfig:
    """Return the configuration of the model in a file, with caches for `context` tokens (default: all that it was
    trained for).

    Raises `UnsupportedOperator` for another architecture, or an option that changes the meaning and is not supported.
    Raises `ModelError` for missing or impossible metadata.
    """
    return _Metadata(file).config(context)


class _Metadata:
    """Looks up metadata, and refuses what does not fit."""

    def __init__(self, file: GgufFile) -> None:
        self.file = file
        self.architecture = self.value("general.architecture", str)
        if self.architecture not in ARCHITECTURES:
            raise UnsupportedOperator(
                f"{file.path}: the architecture {self.architecture!r} is not supported\n"
                f"  wanted: one of {', '.join(ARCHITECTURES)}; {nearest(self.architecture, list(ARCHITECTURES))}"
            )

    def config(self, context: int | None) -> DecoderConfig:
        interleaved, activation, scaled = ARCHITECTURES[self.architecture]
        self.refuse_other_kinds()
        heads, width = self.size("attention.head_count"), self.size("embedding_length")
        head_width = self.size("attention.key_length", width // heads)
        if self.size("attention.value_length", head_width) != head_width:
            self.refuse("attention.value_length", "values of another width than the keys")
        most = self.size("context_length")
        if context is not None and not 0 < context <= most:
            raise ModelError(f"{self.file.path}: wanted a context of 1 to {most} tokens, found {context}")
        key_heads = self.size("attention.head_count_kv", heads)
        rotated = self.size("rope.dimension_count", head_width)
        if heads % key_heads or rotated % 2 or rotated > head_width:
            raise ModelError(
                f"{self.file.path}: {heads} heads, {key_heads} heads of keys and {rotated} rotated features of "
                f"{head_width} do not fit together"
            )
        depth, places = self.size("block_count"), context or most
        angles = 3 * 8 * rotated  # while they are computed
        nbytes = places * (2 * depth * key_heads * head_width * 4 + angles)
        require_memory(str(self.file.path), f"caches of {places} tokens", nbytes)
        return DecoderConfig(
            depth=depth, width=width, heads=heads, key_heads=key_heads, head_width=head_width,
            hidden=self.size("feed_forward_length"), vocabulary=self.vocabulary(), context=places,
            epsilon=self.positive("attention.layer_norm_rms_epsilon"), rotated=rotated,
            interleaved=interleaved, rope_base=self.positive("rope.freq_base", 10000.0),
            rope_scale=self.rope_scale(), rope_factors=self.rope_factors(rotated), activation=activation,
            embedding_scale=float(np.float32(math.sqrt(width))) if scaled else 1.0,
        )  # fmt: skip

    def refuse_other_kinds(self) -> None:
        """Refuse options of the supported architectures that change the meaning."""
        if self.own("expert_count", int, 0):
            self.refuse("expert_count", "a mixture of experts")
        if self.own("attention.sliding_window", int, 0) and self.architecture != "mistral":
            self.refuse("attention.sliding_window", "attention to a window")

    def refuse(self, key: str, what: str) -> None:
        raise UnsupportedOperator(f"{self.file.path}: {what} ({self.architecture}.{key}) is not supported")

    def rope_scale(self) -> float:
        kind = self.own("rope.scaling.type", str, "none")
        if kind not in ("none", "linear"):
            self.refuse("rope.scaling.type", f"positions scaled as {kind!r}")
        return 1.0 if kind == "none" else 1.0 / self.positive("rope.scaling.factor", 1.0)

    def rope_factors(self, rotated: int) -> np.ndarray | None:
        """Return the divisors of the angles' steps, which Llama 3 has as a tensor."""
        tensor = self.file.tensors.get("rope_freqs.weight")
        if tensor is None:
            return None
        if tensor.format.dtype != "float32" or tensor.shape != (rotated // 2,):
            raise ModelError(f"{self.file.path}: wanted float32 [{rotated // 2}] in 'rope_freqs.weight'")
        return tensor.data.reshape(-1).view("<f4").astype(np.float64)

    def vocabulary(self) -> int:
        """Return the number of tokens, which is the number of rows of the embedding."""
        tensor = self.file.tensors.get("token_embd.weight")
        if tensor is None or len(tensor.shape) != 2:
            raise ModelError(f"{self.file.path}: the model has no matrix 'token_embd.weight'")
        return tensor.shape[0]

    def size(self, key: str, default: int | None = None) -> int:
        """Return a size, at least 1."""
        number = self.own(key, int, default)
        if number < 1:
            raise ModelError(f"{self.file.path}: wanted {self.architecture}.{key} of at least 1, found {number}")
        return int(number)

    def positive(self, key: str, default: float | None = None) -> float:
        """Return a finite number above 0."""
        number = float(self.own(key, float, default))
        if not 0 < number < math.inf:
            raise ModelError(f"{self.file.path}: wanted a positive {self.architecture}.{key}, found {number}")
        return number

    def own(self, key: str, kind: type, default: Any = None) -> Any:
        return self.value(f"{self.architecture}.{key}", kind, default)

    def value(self, key: str, kind: type, default: Any = None) -> Any:
        value = self.file.metadata.get(key, default)
        if value is None:
            raise ModelError(f"{self.file.path}: the metadata have no {key!r}")
        if type(value) is not kind:
            raise ModelError(f"{self.file.path}: the metadata {key!r} are {value!r}, wanted {_NAMES[kind]}")
        return value


_NAMES = {int: "an integer", float: "a number", str: "a text"}
