"""The registry of converters, by ATen operator.

    @converter("gelu.default")
    def gelu(n):
        return n.op("nn.gelu", n["self"], approximate=n.attr("approximate"))

An operator whose declaration has names in ATen (`topi.registry.register`, `aten=`) needs no converter: `declared` reads
the arguments according to the declaration.

A converter takes a `TorchNodeContext` and returns the operand, or the sequence of operands, for the node's results. An
operator with a converter is not decomposed. A node with an argument that the converter does not read is refused.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...topi import registry as operators

if TYPE_CHECKING:
    from .context import TorchNodeContext

Converter = Callable[["TorchNodeContext"], Any]

# By operator and overload, `add.Tensor`; all are of the namespace aten.
CONVERTERS: dict[str, Converter] = {}

# Refused operators, with their overloads or for all of them, each with the reason.
REFUSED: dict[str, str] = {}


def converter(*names: str) -> Callable[[Converter], Converter]:
    """Return a decorator that registers a converter of operators."""

    def decorate(function: Converter) -> Converter:
        CONVERTERS.update(dict.fromkeys(names, function))
        return function

    return decorate


def refuse(reason: str, *names: str) -> None:
    """Register operators that are refused, with or without overloads, and a reason that completes `X is not supported:
    ...`.
    """
    REFUSED.update(dict.fromkeys(names, reason))


def find(target: str) -> Converter | None:
    """Return the converter of an operator such as `aten.add.Tensor`, or None if there is none."""
    importlib.import_module(f"{__package__}.ops")
    name = target.removeprefix("aten.")
    operator = operators.named("aten", name)
    return CONVERTERS.get(name, _declared(operator) if operator is not None else None)


def converters() -> dict[str, Converter]:
    """Return all converters, by operator and overload."""
    importlib.import_module(f"{__package__}.ops")
    declared = {name: _declared(operator) for name, operator in operators.all_named("aten").items()}
    return {**declared, **CONVERTERS}


def _declared(operator: operators.Operator) -> Converter:
    from .ops import declared

    return functools.update_wrapper(functools.partial(declared.convert, operator), operator.compute)


def refusal(target: str) -> str | None:
    """Return the reason why an operator is refused, or None if there is just no converter for it."""
    importlib.import_module(f"{__package__}.ops")
    if target == "with_effects":
        return "it is an effect, such as a check of values, which a graph does not have"
    namespace, _, name = target.partition(".")
    return REFUSED.get(name, REFUSED.get(name.split(".")[0])) if namespace == "aten" else None
