"""A network of ncnn: its text (ncnn's .param), and the constants that are its weights, in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

_TAG = b"\0\0\0\0"  # before weights in float32


@dataclass(frozen=True, slots=True)
class NcnnNetwork:
    """`weights` are the names of constants, each with whether a tag comes before it. `inputs` and `outputs` are the
    names of values in ncnn, each with its shape there.

    If `light`, ncnn frees a value when its reader has run.
    """

    text: str
    weights: tuple[tuple[str, bool], ...]
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    outputs: tuple[tuple[str, tuple[int, ...]], ...]
    light: bool

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def of_json(body: Mapping[str, Any]) -> NcnnNetwork:
        inputs, outputs = (tuple((name, tuple(shape)) for name, shape in body[key]) for key in ("inputs", "outputs"))
        weights = tuple((name, bool(tag)) for name, tag in body["weights"])
        return NcnnNetwork(body["text"], weights, inputs, outputs, bool(body["light"]))

    def bytes(self, constants: Mapping[str, np.ndarray]) -> list[Any]:
        """Return the contents of ncnn's file of weights (.bin), in pieces."""
        pieces: list[Any] = []
        for name, tag in self.weights:
            pieces += [_TAG] * tag
            pieces.append(np.ascontiguousarray(constants[name], np.float32).reshape(-1).view(np.uint8).data)
        return pieces
