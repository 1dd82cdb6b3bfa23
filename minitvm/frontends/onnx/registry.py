"""The registry of converters, by operator and opset version.

    @converter("Softmax", since=13)
    def softmax(n):
        return n.op("nn.softmax", n[0], axis=n.attr("axis", -1))

An operator whose declaration has a name in ONNX (`topi.registry.register`, `onnx=`) needs no converter: its inputs are
the node's, and its attributes the ones that the declaration lists.

A converter takes a `NodeContext` and returns the operand, or the sequence of operands, for the node's outputs. If there
are several, the one with the greatest `since` up to the model's opset is used. A node with an attribute that the
converter does not read is refused.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...topi import registry as operators

if TYPE_CHECKING:
    from .context import NodeContext

Converter = Callable[["NodeContext"], Any]

CONVERTERS: dict[tuple[str, str], list[tuple[int, Converter]]] = {}

RANDOM = "it is random"

# Refused operators, each with the reason.
REFUSED: dict[str, str] = {}


def converter(name: str, *, since: int = 1, domain: str = "") -> Callable[[Converter], Converter]:
    """Return a decorator that registers a converter of the operator `name` from opset `since` on."""

    def decorate(function: Converter) -> Converter:
        versions = CONVERTERS.setdefault((domain, name), [])
        versions.append((since, function))
        versions.sort(key=lambda item: -item[0])
        return function

    return decorate


def refuse(reason: str, *names: str) -> None:
    """Register operators that are refused, with a reason that completes the sentence `operator X is not supported:
    ...`.
    """
    REFUSED.update(dict.fromkeys(names, reason))


def find(domain: str, name: str, version: int) -> Converter | None:
    """Return the converter of an operator in an opset, or None. It is a registered one, or the operator's
    declaration.
    """
    importlib.import_module(f"{__package__}.ops")
    domain = "" if domain == "ai.onnx" else domain
    written = next((item for item in CONVERTERS.get((domain, name), []) if item[0] <= version), None)
    operator = None if domain else operators.named("onnx", name)
    if operator is None or operator.onnx is None or operator.onnx.since > version:
        return written and written[1]
    if written is not None and written[0] >= operator.onnx.since:
        return written[1]
    return functools.partial(_declared, operator)


def _declared(operator: operators.Operator, n: NodeContext) -> Any:
    """Convert a node to the operator with the same meaning."""
    from .ops import reduction

    assert operator.onnx is not None
    if operator.is_reduction:
        return reduction.reduced(n, operator.name)
    attrs = {ours: _attribute(n, theirs, operator.attrs[ours]) for ours, theirs in operator.onnx.attrs.items()}
    return n.op(operator.name, *n.present, **attrs)


def _attribute(n: NodeContext, name: str, default: Any) -> Any:
    """Return an attribute of a node, or the default of our operator if it is left out."""
    value = n.attr(name) if default is operators.REQUIRED else n.attr(name, default)
    return bool(value) if isinstance(default, bool) else value
