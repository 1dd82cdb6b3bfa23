"""The names of an operator in ONNX and PyTorch: plain data in its declaration, which the frontends read."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

_NO_ATTRS: Mapping[str, Any] = MappingProxyType({})


class Onnx(NamedTuple):
    """The ONNX operator with the same meaning as an operator of minitvm, for the same inputs in the same order.

    `attrs` maps each attribute that ONNX also has to its name in ONNX. All other attributes have their default value in
    ONNX. `since` is the first opset in which ONNX's operator has this meaning.
    """

    name: str
    attrs: Mapping[str, str] = _NO_ATTRS
    since: int = 1


class Aten(NamedTuple):
    """The operators of ATen, PyTorch's library, with the same meaning as an operator of minitvm, for the same inputs in
    the same order.

    `names` are separated by blanks. They may have an overload, "mul.Scalar"; a name without one means "name.default".
    `attrs` maps an attribute to its name in ATen, or to the only supported value if ATen has no such argument.

    `operands` says to which dtype PyTorch converts the operands: the dtype of the result ("result"), the dtype to which
    it promotes them ("common"), bool ("bool"), or none ("own"). `of_bools` is the operator with the same meaning for
    bools. If a binary operator has none, PyTorch has the operator only for numbers.
    """

    names: str
    attrs: Mapping[str, Any] = _NO_ATTRS
    operands: Literal["result", "common", "bool", "own"] = "result"
    of_bools: str = ""

    @property
    def full_names(self) -> list[str]:
        """The names, each with an overload."""
        return [name if "." in name else f"{name}.default" for name in self.names.split()]
