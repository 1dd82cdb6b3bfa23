"""A call of a primitive as a value, and how its arguments get their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arith import simplify
from ...errors import ScheduleError, nearest
from ...expr import Expr, FloatImm, IntImm, StringImm, Var
from .lambdas import counted
from .registry import Primitive


@dataclass(frozen=True, slots=True)
class Call:
    """A legal call of a primitive on a schedule: drawn by tests, tried by tuners."""

    primitive: Primitive
    arguments: Mapping[str, Any]
    text: str  # `split(i, [None, 4])`

    def __repr__(self) -> str:
        return self.text

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002 (IPython's protocol)
        """How Hypothesis and IPython show it: the call as it is written, not its parts."""
        printer.text(self.text)


def bind(primitive: Primitive, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, defaults filled in; raises `ScheduleError` where they do not fit."""
    try:
        bound = primitive.signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ScheduleError(f"{primitive.name}: {error}; it takes {primitive.call_signature()}") from None
    bound.apply_defaults()
    return dict(bound.arguments)


def complete(primitive: Primitive, arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Arguments that are given by name, in the primitive's order, and its defaults for those that are left out.

    Raises `ScheduleError` if one is missing, or unknown to the primitive.
    """
    parameters = primitive.signature.parameters
    unknown = next((name for name in arguments if name not in parameters), None)
    if unknown is not None:
        raise ScheduleError(f"{primitive.name} has no parameter {unknown!r}; {nearest(unknown, list(parameters))}")
    for name, parameter in parameters.items():
        several = parameter.kind is parameter.VAR_POSITIONAL
        if name not in arguments and parameter.default is parameter.empty and not several:
            raise ScheduleError(f"{primitive.name}: {name} is not given; it takes {primitive.call_signature()}")
        yield name, arguments.get(name, () if several else parameter.default)


def normal(value: Any) -> Any:
    """An argument as a trace can keep it: NumPy's scalars as Python's, expressions folded, functions `counted`."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Expr) and not isinstance(value, Var | IntImm | FloatImm | StringImm):
        return simplify(value)
    if isinstance(value, list | tuple):
        return type(value)(map(normal, value))
    if isinstance(value, dict):
        return {key: normal(item) for key, item in value.items()}
    return counted(value)
