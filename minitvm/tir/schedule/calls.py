"""A call of a primitive as a value, and how its arguments get their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import ScheduleError
from .registry import Primitive


@dataclass(frozen=True, slots=True)
class Call:
    """A legal call of a primitive on a schedule: drawn by tests, tried by tuners."""

    primitive: Primitive
    arguments: Mapping[str, Any]
    text: str  # `split(i, [None, 4])`

    def __repr__(self) -> str:
        return self.text

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
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
