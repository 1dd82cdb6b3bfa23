"""Language models in folders as Hugging Face publishes them: config.json and files .safetensors.

    graph = minitvm.frontends.from_huggingface("Llama-3.2-1B/")
    module = minitvm.build("Llama-3.2-1B/config.json", shapes={"tokens": (1, 1)}, max_length=2048)

The graph is that of a GGUF file of the same model, with weights in float32. Inputs, outputs and states are described at
`from_gguf`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...graph.nodes import Graph
from ...importing import Frontend

if TYPE_CHECKING:
    from .importer import HuggingFaceFolder

__all__ = ["FRONTEND", "from_huggingface", "read_huggingface"]


def read_huggingface(folder: str | os.PathLike[str]) -> HuggingFaceFolder:
    """Return the configuration and the weights of the model in a folder, or of its config.json.

    Raises `ModelError` if a file is missing or damaged, and `UnsupportedOperator` for another architecture.
    """
    from .importer import read_folder

    return read_folder(folder)


def from_huggingface(
    folder: str | os.PathLike[str] | HuggingFaceFolder,
    *,
    shapes: Mapping[str, Sequence[Any]] | None = None,
    max_length: int | None = None,
    slots: int | None = None,
    all_logits: bool = False,
    cache_dtype: str = "float32",
) -> Graph:
    """Return the graph of the model in a folder, or of its config.json (llama, mistral, qwen2, qwen3, gemma).

    `folder` may also be what `read_huggingface` returned; graphs of one such object share their weights. The options
    are those of `from_gguf`. Raises `ModelError` if a file is missing or damaged, and `UnsupportedOperator` for another
    architecture, or an option that changes the meaning and is not supported.
    """
    from .importer import import_folder, read_folder

    model = read_folder(folder) if isinstance(folder, str | os.PathLike) else folder
    return import_folder(model, shapes or {}, max_length, slots=slots, all_logits=all_logits, cache_dtype=cache_dtype)


_OPTIONS = frozenset({"shapes", "max_length", "cache_dtype", "slots"})
FRONTEND = Frontend("a folder of Hugging Face", "HuggingFaceFolder", "config.json", from_huggingface, _OPTIONS)
