"""Calls of primitives as values: match arguments with parameters, substitute sampled numbers, and run calls."""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...arith import simplify
from ...errors import ScheduleError, nearest
from ...expr import Expr, FloatImm, IntImm, StringImm, Var, const, substitute
from ..nodes import BlockRealize, For
from .handles import INLINE, BlockRV, ExprRV, Handle, LoopRV, PlaceKey, handles_in
from .lambdas import counted
from .messages import described_value, foreign
from .registry import PRIMITIVES, Primitive
from .state import ScheduleState
from .trace import plain

if TYPE_CHECKING:
    from .schedule import Schedule


# --- Do the values of a call fit the annotations of the primitive? This is checked for calls and for saved traces.


_LISTS = (list, tuple, collections.abc.Sequence)
_MAPPINGS = (dict, collections.abc.Mapping)


def misfit(primitive: Primitive, name: str, value: Any) -> str | None:
    """Return why `value` cannot be passed for the parameter `name` (what was expected and what was found), or None if
    it can.
    """
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
        return f"{text}\n  try:    put a star before the list: sch.{primitive.name}(*{name})"
    return f"{text}\n  try:    one of its items: {primitive.name} takes one {'block' if _is_block(hint) else 'loop'}"


def _is_block(hint: Any) -> bool:
    return BlockRealize in (hint, *typing.get_args(hint)) and For not in typing.get_args(hint)


def _handles_wanted(hint: Any) -> str:
    """Describe in words which handles a type hint accepts, for example `a block (a BlockRV or its name)`."""
    if hint is For:
        return "a loop (a LoopRV)"
    if hint is BlockRealize:
        return "a block (a BlockRV or its name)"
    inner = typing.get_args(hint)
    if typing.get_origin(hint) in _LISTS:
        return f"a {described(hint)}s"
    return ", or ".join(map(_handles_wanted, inner)) if inner else "None"


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value may be passed for a parameter annotated with `hint`.

    A handle fits the type of its node, and a sampled number fits int.
    """
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
    """Describe a type hint in words, for example `list of (int | None)`."""
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


# The primitives that run when a block is computed at the place "inline".
_INLINED = {"compute_at": "compute_inline", "reverse_compute_at": "reverse_compute_inline"}


@dataclass(frozen=True, slots=True)
class PrimitiveCall:
    """A legal call of a primitive on a schedule. Tests draw such calls at random, and tuners try them."""

    primitive: Primitive
    arguments: Mapping[str, Any]
    text: str  # `split(i, [None, 4])`

    def __repr__(self) -> str:
        return self.text

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002 (IPython's protocol)
        """Show the call in Hypothesis and IPython as source text rather than as its fields."""
        printer.text(self.text)


def bind(primitive: Primitive, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by name, with defaults filled in; raise `ScheduleError` if they do not fit the
    primitive.
    """
    try:
        bound = primitive.signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ScheduleError(f"{primitive.name}: {error}; it takes {primitive.call_signature()}") from None
    bound.apply_defaults()
    return dict(bound.arguments)


def complete(primitive: Primitive, arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the arguments in the primitive's order, with defaults for those that are missing.

    Raises `ScheduleError` if a required argument is missing, or if the primitive has no parameter with the name of an
    argument.
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
    """Convert an argument to a form that a trace can store: NumPy scalars become Python numbers, expressions are
    folded, and functions are wrapped by `counted`.
    """
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Expr) and not isinstance(value, Var | IntImm | FloatImm | StringImm):
        return simplify(value)
    if isinstance(value, list | tuple):
        return type(value)(map(normal, value))
    if isinstance(value, dict):
        return {key: normal(item) for key, item in value.items()}
    return counted(value)


def run(primitive: Primitive, state: ScheduleState, nodes: Mapping[str, Any]) -> Any:
    """Run a primitive on a state.

    If the call passes "inline" instead of a loop, `compute_at` becomes `compute_inline`; "root" does nothing, as in
    TVM.
    """
    place = next((value for value in nodes.values() if isinstance(value, PlaceKey)), None)
    if place is None:
        return primitive.run(state, nodes)
    if primitive.name not in _INLINED:
        takers = " and ".join(_INLINED)
        raise ScheduleError(f"{primitive.name}: the place {place.name!r} is no loop; only {takers} take it")
    if place.name == INLINE:
        return PRIMITIVES[_INLINED[primitive.name]].run(state, {"block": nodes["block"]})
    return None


def with_numbers(value: Any, numbers: Mapping[ExprRV, int]) -> Any:
    """Replace the sampled numbers in a value by their actual values; lists and dictionaries keep their structure."""
    if isinstance(value, list | tuple):
        return type(value)(with_numbers(item, numbers) for item in value)
    if isinstance(value, dict):
        return {key: with_numbers(item, numbers) for key, item in value.items()}
    used = handles_in(value) if isinstance(value, Expr) else []
    if not used:
        return value
    unknown = next((handle for handle in used if handle not in numbers), None)
    if unknown is not None:
        raise ScheduleError(foreign(unknown))
    known: dict[Var, Expr] = {h: const(numbers[h], h.dtype) for h in used if isinstance(h, ExprRV)}
    return plain(simplify(substitute(value, known)))


def introduce(sch: Schedule, handle: Handle) -> None:
    """Record in the trace how to find a block or loop whose handle did not come from a query, so that the trace can be
    replayed.

    For example, the handles that `space` returns do not come from a query.
    """
    if isinstance(handle, ExprRV):
        return
    state = sch.state
    node = state.block(handle.key) if isinstance(handle, BlockRV) else state.loop(handle.key)
    if node is None:
        return  # the call itself will raise the error
    tree = state.home(node)
    if isinstance(node, For):
        inside = tree.blocks_in(node)
        if inside:
            sch.call("get_loops", {"block": BlockRV(inside[0].block.id)})
        return
    func = next(name for name, f in state.mod.items() if f is tree.func)
    if sum(b.block.name == node.block.name for b in tree.blocks.values()) == 1:
        sch.call("get_block", {"name": node.block.name, "func_name": func})
    else:
        sch.call("get_child_blocks", {"block_or_loop": BlockRV(tree.scope(node).block.id)})
