"""TVM's `relax.frontend.onnx.from_onnx`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .....errors import InputError
from .....frontends import from_onnx as _from_onnx
from .....frontends.relax import RelaxModule

__all__ = ["from_onnx"]


def from_onnx(
    model: Any, shape_dict: Mapping[str, Sequence[Any]] | None = None, dtype_dict: Any = None,
    opset: int | None = None, keep_params_in_input: bool = False, sanitize_input_names: bool = True,
) -> RelaxModule:  # fmt: skip
    """Return the module of an ONNX model. `shape_dict` fixes open dimensions. The weights are constants.

    Raises `InputError` for `keep_params_in_input` and `dtype_dict`, which minitvm does not have.
    """
    del opset, sanitize_input_names  # the model names its opset
    if keep_params_in_input or dtype_dict not in (None, "float32"):
        raise InputError(
            "from_onnx: weights are constants, and the model decides the dtypes\n  try:    from_onnx(model)"
        )
    return RelaxModule("Module", {"main": _from_onnx(model, shapes=shape_dict)})
