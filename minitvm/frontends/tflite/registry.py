"""The registry of converters, by the name of the builtin operator.

    @converter("SOFTMAX")
    def softmax(n):
        return n.op("nn.softmax", n.op("multiply", n[0], n.option("Beta")), axis=-1)

A converter takes a `NodeContext` and returns the result, or the list of results, as operands or `Laid` tensors. `bytes`
says how it treats quantised tensors:

    "floats"   not at all: its inputs are dequantised, and its results are quantised (the default)
    "stored"   it moves stored numbers, so a result has the scale of the first input
    "own"      it reads the scales itself
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from .context import NodeContext

Function = Callable[["NodeContext"], Any]
Bytes = Literal["floats", "stored", "own"]


@dataclass(frozen=True, slots=True)
class Converter:
    """The converter of an operator, and how it treats quantised tensors."""

    function: Function
    bytes: Bytes = "floats"


CONVERTERS: dict[str, Converter] = {}

# Refused operators, each with the reason.
REFUSED: dict[str, str] = {}


def converter(*names: str, bytes: Bytes = "floats") -> Callable[[Function], Function]:
    """Return a decorator that registers a converter of the operators `names`."""

    def decorate(function: Function) -> Function:
        CONVERTERS.update(dict.fromkeys(names, Converter(function, bytes)))
        return function

    return decorate


def refuse(reason: str, *names: str) -> None:
    """Register operators that are refused, with a reason that completes the sentence `operator X is not supported:
    ...`.
    """
    REFUSED.update(dict.fromkeys(names, reason))


def converters() -> dict[str, Converter]:
    """Return all converters, by operator."""
    importlib.import_module(f"{__package__}.ops")
    return CONVERTERS


def refusal(name: str) -> str | None:
    """Return the reason why an operator is refused, or None if there is just no converter for it."""
    importlib.import_module(f"{__package__}.ops")
    return REFUSED.get(name)
