"""Do the values of a call fit the annotations of the primitive? Asked of calls and of saved traces."""

from __future__ import annotations

import collections.abc
import types
import typing
from typing import Any

from ...expr import Expr, IntImm
from ..nodes import BlockRealize, For
from .handles import BlockRV, LoopRV, handles_in

_LISTS = (list, tuple, collections.abc.Sequence)
_MAPPINGS = (dict, collections.abc.Mapping)


def fits(value: Any, hint: Any) -> bool:
    """Whether a value may be handed over where `hint` is annotated. A handle fits its node, a sampled number an int."""
    if hint is Any or hint is object:
        return True
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, part) for part in typing.get_args(hint))
    if hint is None or hint is types.NoneType:
        return value is None
    if origin in _LISTS:
        items = [part for part in typing.get_args(hint) if part is not ...]
        if not isinstance(value, list | tuple):
            return False
        if origin is tuple and len(items) > 1:
            return len(value) == len(items) and all(map(fits, value, items))
        return all(fits(item, items[0]) for item in value)
    if origin in _MAPPINGS or hint in _MAPPINGS:
        return isinstance(value, collections.abc.Mapping)
    if origin is collections.abc.Callable or hint is collections.abc.Callable:
        return callable(value)
    return _fits_plain(value, hint)


def _fits_plain(value: Any, hint: Any) -> bool:
    if hint is For:
        return isinstance(value, LoopRV | For)
    if hint is BlockRealize:
        return isinstance(value, BlockRV | BlockRealize | str)
    if hint is bool:
        return isinstance(value, bool) or (isinstance(value, int | IntImm) and int(value) in (0, 1))
    if hint is int:
        number = isinstance(value, int | IntImm) or (isinstance(value, Expr) and bool(handles_in(value)))
        return number and not isinstance(value, bool)
    if hint is float:
        return isinstance(value, float | int | Expr) and not isinstance(value, bool)
    if isinstance(hint, type) and issubclass(hint, Expr):
        return isinstance(value, int | float | Expr)
    return isinstance(value, hint) if isinstance(hint, type) else True


def described(hint: Any) -> str:
    """A hint in words: `list of (int | None)`."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(described(part) for part in inner)
    if origin in _LISTS:
        items = described(inner[0])
        return f"list of ({items})" if "|" in items else f"list of {items}"
    if origin is collections.abc.Callable:
        return "function"
    if hint is types.NoneType:
        return "None"
    names: dict[Any, str] = {For: "loop", BlockRealize: "block", Expr: "expression"}
    return str(names.get(hint) or getattr(hint, "__name__", hint))
