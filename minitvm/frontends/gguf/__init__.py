"""Language models in GGUF files, the format of llama.cpp.

    graph = minitvm.frontends.from_gguf("model.gguf")
    module = minitvm.build("model.gguf", shapes={"tokens": (1, 1)}, max_length=2048)
    logits = module(tokens=[[1]], positions=[0])             # arrays of int32

Weights stay in the integers of a few bits in which they are stored. The caches of keys and values are states of the
module: each run writes those of its tokens, at the positions that it is given.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ...graph.nodes import Graph
from ...importing import Frontend
from ...store import FileState
from .file import GgufFile, read_gguf

__all__ = ["FRONTEND", "GgufFile", "from_gguf", "read_gguf"]


def from_gguf(
    model: str | os.PathLike[str] | GgufFile,
    *,
    shapes: Mapping[str, Sequence[Any]] | None = None,
    max_length: int | None = None,
    slots: int | None = None,
    bytes: bool = True,
    all_logits: bool = False,
    cache_dtype: str = "float32",
) -> Graph:
    """Return the graph of the model in a GGUF file (llama, mistral, qwen2, qwen3, gemma).

    `model` is the path of a file, or what `read_gguf` returned; graphs of one such object share their weights.

    The inputs are `tokens` int32 [batch, length], and `positions` int32 [batch], the place of each row's first token in
    its text. The output is float32 [batch, vocabulary], the logits after the last token; with `all_logits`, those
    after each token, [batch, length, vocabulary]. The states `cache_0_key`, `cache_0_value`, ... are [batch, heads of
    keys, context, width of a head], float32 or, with `cache_dtype="float16"`, rounded to float16.

    `shapes={"tokens": (batch, length)}` sets the sizes; by default, the batch is 1 and the length is open. `max_length`
    is the context for which the caches have memory; by default, it is the model's own. Row b of a batch uses entry b of
    the caches. With a number of `slots`, the caches have that many entries instead, and the input `slots` int32 [batch]
    gives the entry of each row, so the batch may be open. Weights of 4 or 8 bits are multiplied in integers, for which
    the data are rounded to bytes, as in llama.cpp. With `bytes=False`, these weights become floats.

    Raises `ModelError` if the file is missing or damaged, and `UnsupportedOperator` for another architecture or format
    of numbers.
    """
    from .importer import import_file

    file = model if isinstance(model, GgufFile) else read_gguf(model)
    return import_file(
        file, shapes or {}, max_length, slots=slots, bytes=bytes, all_logits=all_logits, cache_dtype=cache_dtype
    )


def _sources(model: str | os.PathLike[str] | GgufFile) -> tuple[FileState, ...]:
    """Return the state of the file, or () if it does not decide the graph alone: the metadata were changed."""
    if isinstance(model, GgufFile):
        return (model.state,) if model.is_as_read() else ()
    return (FileState.of(model),)


_OPTIONS = frozenset({"shapes", "max_length", "cache_dtype", "slots"})
FRONTEND = Frontend("a GGUF model", "GgufFile", ".gguf", from_gguf, _OPTIONS, _sources)
