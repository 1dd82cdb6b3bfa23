"""The peer: LiteRT's interpreter with its reference kernels."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from ai_edge_litert.interpreter import Interpreter, OpResolverType


def _interpreter(model: Path | bytes, keep_all: bool, optimised: bool) -> Any:
    """LiteRT's interpreter with its reference kernels, or, if these lack an operator, its optimised ones.

    Both round as the documents of TFLite say; XNNPACK, which is not used here, rounds differently.
    """
    source = {"model_content": model} if isinstance(model, bytes) else {"model_path": str(model)}
    kinds = (OpResolverType.BUILTIN_REF, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    for kind in kinds[optimised:]:
        try:
            return Interpreter(
                **source, num_threads=1, experimental_op_resolver_type=kind, experimental_preserve_all_tensors=keep_all
            )
        except ValueError as error:
            if kind is kinds[-1] or "Registration failed" not in str(error):
                raise
    raise AssertionError


class Peer:
    """A model in LiteRT. Its variables keep their values from run to run."""

    def __init__(
        self,
        model: Path | bytes,
        shapes: Sequence[Sequence[int]] | None = None,
        keep_all: bool = False,
        optimised: bool = False,
    ) -> None:
        self._interpreter = _interpreter(model, keep_all, optimised)
        self.inputs = self._interpreter.get_input_details()
        for detail, shape in zip(self.inputs, shapes or (), strict=False):
            self._interpreter.resize_tensor_input(detail["index"], list(shape))
        self._interpreter.allocate_tensors()
        self.outputs = self._interpreter.get_output_details()

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        for detail, array in zip(self.inputs, arrays, strict=True):
            self._interpreter.set_tensor(detail["index"], array)
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(detail["index"]) for detail in self.outputs]

    def tensor(self, index: int) -> np.ndarray:
        """The contents of a tensor after a run, for a peer with `keep_all`."""
        return self._interpreter.get_tensor(index)

    def drawn(self, seed: int) -> list[np.ndarray]:
        """Arrays for the inputs: normal floats, or integers of the whole range."""
        generator = np.random.default_rng(seed)
        arrays = []
        for detail in self._interpreter.get_input_details():
            dtype, shape = np.dtype(detail["dtype"]), tuple(detail["shape"])
            if dtype.kind == "f":
                arrays.append(generator.standard_normal(shape).astype(dtype))
            else:
                limits = np.iinfo(dtype)
                arrays.append(generator.integers(limits.min, limits.max, shape, dtype, endpoint=True))
        return arrays
