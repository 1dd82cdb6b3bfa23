"""The converters by operator and opset version.

    @converter("Softmax", since=13)
    def softmax(n):
        return n.op("nn.softmax", n[0], axis=n.attr("axis", -1))

A converter takes a `NodeContext` and returns the operand, or the sequence of operands, for the node's outputs. Of
several converters, the one with the greatest `since` up to the model's opset is used. An attribute that is present and
that the converter does not read is refused.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .context import NodeContext

Converter = Callable[["NodeContext"], Any]

CONVERTERS: dict[tuple[str, str], list[tuple[int, Converter]]] = {}

RANDOM = "it is random"

# Operators that are refused, each with the reason.
REFUSED: dict[str, str] = {}


def converter(name: str, *, since: int = 1, domain: str = "") -> Callable[[Converter], Converter]:
    """Register a converter of the operator `name` from opset `since` on."""

    def decorate(function: Converter) -> Converter:
        versions = CONVERTERS.setdefault((domain, name), [])
        versions.append((since, function))
        versions.sort(key=lambda item: -item[0])
        return function

    return decorate


def refuse(reason: str, *names: str) -> None:
    """Refuse operators, by names, for a reason that completes the sentence `operator X is not supported: ...`."""
    REFUSED.update(dict.fromkeys(names, reason))


def find(domain: str, name: str, version: int) -> Converter | None:
    """The converter of an operator in an opset, or None."""
    importlib.import_module(f"{__package__}.ops")
    for since, function in CONVERTERS.get(("" if domain == "ai.onnx" else domain, name), []):
        if since <= version:
            return function
    return None
