"""The sizes and options of decoders, from the metadata of a file.

`Entries` looks up metadata and refuses what does not fit. The frontends for GGUF files and for folders of Hugging Face
read their own names with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from ...errors import InputError, ModelError, UnsupportedOperator
from ...expr import DType, Expr, SizeVar
from ...free_memory import require_memory
from ...graph.nodes import Dim

# Architectures: their activation, and whether embeddings are multiplied by the root of their width.
ARCHITECTURES = {
    "llama": ("nn.silu", False),
    "mistral": ("nn.silu", False),
    "qwen2": ("nn.silu", False),
    "qwen3": ("nn.silu", False),
    "gemma": ("nn.gelu", True),
}
CACHE_DTYPES = ("float32", "float16")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderConfig:
    """The sizes and the options of a decoder.

    The first `rotated` features of a head are rotated in pairs: neighbours if `interleaved`, or else feature k with
    feature k + rotated / 2. Pair k at position p turns by p * rope_scale * rope_base^(-2k / rotated) / rope_factors[k].
    `activation` is an operator of one input. Embeddings are multiplied by `embedding_scale`.
    """

    depth: int
    width: int
    heads: int
    key_heads: int
    head_width: int
    hidden: int
    vocabulary: int
    context: int
    epsilon: float = 1e-5
    rotated: int = 0
    interleaved: bool = False
    rope_base: float = 10000.0
    rope_scale: float = 1.0
    rope_factors: np.ndarray | None = None
    activation: str = "nn.silu"
    embedding_scale: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderOptions:
    """Options of one program of a decoder.

    It reads `tokens` int32 [batch, length] and `positions` int32 [batch], the place of each row's first token. With a
    number of `slots`, the caches hold that many texts, and `slots` int32 [batch] gives the text of each row; otherwise
    the caches have an entry for each row. New keys and values are rounded to `cache_dtype` when they are written. With
    `bytes`, products with weights in blocks round their data to bytes; otherwise these weights become floats. The
    logits are float32 [batch, vocabulary], those after the last token; with `all_logits`, those after every token,
    [batch, length, vocabulary].
    """

    batch: Dim = 1
    length: Dim = 1
    slots: int | None = None
    bytes: bool = True
    all_logits: bool = False
    cache_dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.cache_dtype not in CACHE_DTYPES:
            raise InputError(f"cache_dtype={self.cache_dtype!r}: wanted {' or '.join(CACHE_DTYPES)}")

    @property
    def texts(self) -> int:
        """The texts that the caches hold; 1 if their number is open."""
        return self.slots or (self.batch if isinstance(self.batch, int) else 1)


class Entries:
    """Metadata by name. `prefix` comes before the names of a model's sizes, and `source` is the place, for errors."""

    def __init__(self, source: str, entries: Mapping[str, Any], prefix: str = "") -> None:
        self.source, self.entries, self.prefix = source, entries, prefix

    def value(self, key: str, kind: type, default: Any = None) -> Any:
        """Return an entry of this type. An entry that is missing or None has the default. Raises `ModelError`."""
        value = self.entries.get(self.prefix + key)
        value = default if value is None else value
        if value is None:
            raise ModelError(f"{self.source}: the metadata have no {self.prefix + key!r}")
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise ModelError(f"{self.source}: the metadata {self.prefix + key!r} are {value!r}, wanted {_KINDS[kind]}")
        return value

    def size(self, key: str, default: int | None = None) -> int:
        """Return a size, at least 1."""
        number = self.value(key, int, default)
        if number < 1:
            raise ModelError(f"{self.source}: wanted {self.prefix}{key} of at least 1, found {number}")
        return int(number)

    def positive(self, key: str, default: float | None = None) -> float:
        """Return a finite number above 0."""
        number = float(self.value(key, float, default))
        if not 0 < number < math.inf:
            raise ModelError(f"{self.source}: wanted a positive {self.prefix}{key}, found {number}")
        return number

    def refuse(self, key: str, what: str) -> NoReturn:
        """Raise `UnsupportedOperator` because of an entry."""
        raise UnsupportedOperator(f"{self.source}: {what} ({self.prefix}{key}) is not supported")

    def config(
        self, architecture: str, context: int | None, trained: int, window: int, options: DecoderOptions, **sizes: Any
    ) -> DecoderConfig:
        """Return the configuration with these sizes.

        The caches have room for texts of `context` tokens (default: `trained`, the tokens of the longest text that the
        model was trained for). `options` has the number of texts, and the dtype of the caches. Attention to a `window`
        of tokens (0: all) is the same as to all of them if the context is not longer. Raises `ModelError` for sizes
        that do not fit together, and `InputError` if there is not enough memory.
        """
        activation, scaled = ARCHITECTURES[architecture]
        whole = isinstance(context, int | np.integer) and not isinstance(context, bool)
        if context is not None and not (whole and 0 < context <= trained):
            raise ModelError(f"{self.source}: wanted a context of 1 to {trained} tokens, found {context!r}")
        places = context or trained
        if 0 < window < places:
            raise UnsupportedOperator(
                f"{self.source}: attention to a window of {window} tokens is not supported\n"
                f"  try:    max_length={window}, for texts that are not longer"
            )
        scale = float(np.float32(math.sqrt(sizes["width"]))) if scaled else 1.0
        config = DecoderConfig(context=places, activation=activation, embedding_scale=scale, **sizes)
        if config.heads % config.key_heads or config.rotated % 2 or config.rotated > config.head_width:
            raise ModelError(
                f"{self.source}: {config.heads} heads, {config.key_heads} heads of keys and {config.rotated} rotated "
                f"features of {config.head_width} do not fit together"
            )
        angles = 3 * 8 * config.rotated  # while they are computed
        texts, size = options.texts, DType(options.cache_dtype).bits // 8
        row = 2 * config.depth * config.key_heads * config.head_width * size
        what = f"caches of {places} tokens" + (f" for each of {texts} texts" if texts > 1 else "")
        require_memory(self.source, what, places * (texts * row + angles))
        return config

    def known_architecture(self, architecture: str) -> str:
        """Return the name of a supported architecture. Raises `UnsupportedOperator` for another one."""
        if architecture not in ARCHITECTURES:
            raise UnsupportedOperator(
                f"{self.source}: the architecture {architecture!r} is not supported\n"
                f"  wanted: one of {', '.join(ARCHITECTURES)}"
            )
        return architecture


_KINDS = {int: "an integer", float: "a number", str: "a text", dict: "a table", bool: "true or false"}


def graph_name(text: str) -> str:
    """Return the name of a model as an identifier."""
    name = "".join(c if c.isalnum() and c.isascii() else "_" for c in text).strip("_").lower()
    return name if name and not name[0].isdigit() else "decoder"


def run_sizes(shapes: Mapping[str, Sequence[Any]], slots: int | None = None) -> tuple[Dim, Dim]:
    """Return the batch and the number of tokens of a run. By default, these are 1 and an open size.

    Raises `InputError` for another input, another number of dimensions, or slots that are not a number from 1.
    """
    if slots is not None and (type(slots) is not int or slots < 1):
        raise InputError(f"wanted a number of slots, at least 1, found {slots!r}")
    unknown = [name for name in shapes if name != "tokens"]
    if unknown:
        raise InputError(f"shapes: {unknown[0]!r} has no open size; wanted {{'tokens': (batch, length)}}")
    shape = shapes.get("tokens", (1, "length"))
    sizes = isinstance(shape, tuple | list) and all(n is None or isinstance(n, int | str | Expr) for n in shape)
    if not sizes or len(shape) != 2:
        raise InputError(f"shapes: tokens has two dimensions (batch, length), found {shape!r}")
    batch, length = (
        size if isinstance(size, int | Expr) else SizeVar(size or name)
        for size, name in zip(shape, ("batch", "length"), strict=True)
    )
    if any(isinstance(size, int) and size < 1 for size in (batch, length)):
        raise InputError(f"shapes: tokens {shape}: wanted sizes of at least 1")
    return batch, length
