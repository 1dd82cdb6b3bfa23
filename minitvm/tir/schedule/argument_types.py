"""Do the values of a call fit the annotations of the primitive? Asked of calls and of saved traces."""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from typing import Any

from ...expr import Expr, IntImm
from ..nodes import BlockRealize, For
from .handles import BlockRV, LoopRV, handles_in
from .messages import described_value
from .registry import Primitive

_LISTS = (list, tuple, collections.abc.Sequence)
_MAPPINGS = (dict, collections.abc.Mapping)


def misfit(primitive: Primitive, name: str, value: Any) -> str | None:
    """Why a value cannot be passed for a parameter: what it must be, what was found. None if it can."""
    hint = primitive.hints.get(name, Any)
    several = primitive.signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
    wrong = [item for item in (value if several else (value,)) if not fits(item, hint)]
    if not wrong:
        return None
    if not primitive.takes_nodes(name):
        return f"{primitive.name}: {name} must be a {described(hint)}, found {value!r}"
    text = f"{primitive.name}: {name} must be {_handles_wanted(hint)}, found {described_value(wrong[0])}"
    if not isinstance(wrong[0], list | tuple):
        return text
    if several:
        return f"{text}\n  try:    a star in front of the list: sch.{primitive.name}(*{name})"
    return f"{text}\n  try:    one of its items: {primitive.name} takes one {'block' if _is_block(hint) else 'loop'}"


def _is_block(hint: Any) -> bool:
    return BlockRealize in (hint, *typing.get_args(hint)) and For not in typing.get_args(hint)


def _handles_wanted(hint: Any) -> str:
    """A hint that handles stand for, in words: `a block (a BlockRV or its name)`."""
    if hint is For:
        return "a loop (a LoopRV)"
    if hint is BlockRealize:
        return "a block (a BlockRV or its name)"
    inner = typing.get_args(hint)
    if typing.get_origin(hint) in _LISTS:
        return f"a {described(hint)}s"
    return ", or ".join(map(_handles_wanted, inner)) if inner else "None"


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
