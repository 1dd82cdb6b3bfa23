"""Where a language model comes from: a GGUF file, or a folder of Hugging Face."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import ModelError
from .folder import FolderTokenizer, template_of
from .tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class ModelSource:
    """The parts of a stored model. `template` formats conversations, and is None if the model has none.

    `lengths` are the numbers of tokens to which the model is limited. `model` is built by `minitvm.build`; all programs
    of one source share their weights.
    """

    name: str
    tokenizer: Tokenizer
    template: Any
    lengths: tuple[int, ...]
    model: Any


def open_model(path: str | os.PathLike[str]) -> ModelSource:
    """Return the parts of the model in a GGUF file, or in a folder (or its config.json).

    Raises `ModelError` if files are missing or damaged, and `UnsupportedOperator` for another kind of model.
    """
    place = Path(path)
    if place.name == "config.json" or (place / "config.json").is_file():
        return _of_folder(place)
    if place.is_dir():
        raise ModelError(f"{place} is a folder that contains no config.json\n  try:    the path of a GGUF file in it")
    return _of_file(place)


def _of_file(path: Path) -> ModelSource:
    from ...frontends import read_gguf

    file = read_gguf(path)
    entries = file.metadata
    prefix = entries.get("general.architecture")
    return ModelSource(
        name=str(entries.get("general.name", "") or path.name),
        tokenizer=Tokenizer(entries),
        template=entries.get("tokenizer.chat_template"),
        lengths=_lengths(entries.get(f"{prefix}.context_length"), entries.get(f"{prefix}.attention.sliding_window")),
        model=file,
    )


def _of_folder(path: Path) -> ModelSource:
    from ...frontends import read_huggingface

    folder = read_huggingface(path)
    config = folder.config
    window = config.get("sliding_window") if config.get("use_sliding_window", True) is True else None
    return ModelSource(
        name=folder.path.resolve().name,
        tokenizer=FolderTokenizer(folder),
        template=template_of(folder),
        lengths=_lengths(config.get("max_position_embeddings"), window),
        model=folder,
    )


def _lengths(*entries: Any) -> tuple[int, ...]:
    """Return the positive integers; the importer refuses another type."""
    return tuple(entry for entry in entries if type(entry) is int and entry > 0)
