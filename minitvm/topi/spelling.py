"""How ONNX and PyTorch write an operator: plain data that stands in its declaration, and that the frontends read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Onnx:
    """The operator of ONNX that means the same, for the same inputs in the same order.

    `attrs` has, for each attribute that ONNX has too, its name there. All other attributes have their default value in
    ONNX. `since` is the first opset in which ONNX's operator means this.
    """

    name: str
    attrs: Mapping[str, str] = field(default_factory=dict)
    since: int = 1


@dataclass(frozen=True, slots=True)
class Aten:
    """The operators of ATen, PyTorch's library, that mean the same, for the same inputs in the same order.

    `names` are separated by blanks. They may have an overload, "mul.Scalar"; a name without one is "name.default".
    `attrs` has the name of an attribute in ATen, or the value that it has where ATen has no such argument.

    PyTorch converts the `operands` to one dtype: that of the result ("result"), the one that it promotes them to
    ("common"), bool, or none ("own"). `of_bools` is the operator that means the same of truth values. If a binary
    operator has none, PyTorch has the operator only for numbers.
    """

    names: str
    attrs: Mapping[str, Any] = field(default_factory=dict)
    operands: Literal["result", "common", "bool", "own"] = "result"
    of_bools: str = ""

    @property
    def full_names(self) -> list[str]:
        """The names, each with its overload."""
        return [name if "." in name else f"{name}.default" for name in self.names.split()]
