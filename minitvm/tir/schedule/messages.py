"""The texts of schedule errors: names of handles, calls as they were written, and programs with marked spots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...expr import Expr, Node, const, walk
from ..analysis.tree import Tree
from ..nodes import BlockId, Seq, Stmt
from .handles import BlockRV, ExprRV, Handle, LoopRV, map_handles
from .registry import Primitive
from .state import ScheduleState
from .trace import plain


def name_of(state: ScheduleState, handle: Handle) -> str:
    """Return the name of the block or loop that a handle refers to."""
    if isinstance(handle, ExprRV):
        return handle.name
    if isinstance(handle, LoopRV):
        return handle.key.name
    realize = state.block(handle.key)
    return realize.block.name if realize else "?"


def foreign(handle: Handle) -> str:
    """Return the error text for a handle that does not belong to the schedule."""
    if isinstance(handle, ExprRV):
        return "the sampled number is not part of this schedule"
    if isinstance(handle, LoopRV):
        return f"loop {handle.key.name} is not part of this schedule's module"
    return "the block is not part of this schedule's module"


def described_value(value: Any) -> str:
    """Describe a value of the wrong kind in words."""
    if isinstance(value, LoopRV):
        return f"the loop {value.key.name}"
    if isinstance(value, BlockRV | BlockId):
        return "a block"
    if isinstance(value, list | tuple) and value and all(isinstance(item, BlockRV | LoopRV) for item in value):
        what = "loop" if isinstance(value[0], LoopRV) else "block"
        return f"a list of {len(value)} {what}{'s' if len(value) > 1 else ''}"
    return repr(value)


def arguments_text(
    state: ScheduleState, primitive: Primitive, arguments: Mapping[str, Any], numbers: Mapping[ExprRV, int]
) -> str:
    """Return the arguments of a call as they were written, with names for handles and values for sampled numbers."""
    values: dict[Handle, Any] = {h: const(n) for h, n in numbers.items()}
    arguments = map_handles(dict(arguments), values) if numbers else arguments
    shown: list[str] = []
    for name, parameter in primitive.signature.parameters.items():
        if name not in arguments:  # left out of the call
            continue
        value = arguments[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            shown.extend(_argument_text(state, item) for item in value)
        elif parameter.default is parameter.empty:
            shown.append(_argument_text(state, value))
        elif isinstance(value, Expr) or value != parameter.default:
            shown.append(f"{name}={_argument_text(state, value)}")
    return ", ".join(shown)


def _argument_text(state: ScheduleState, value: Any) -> str:
    if isinstance(value, BlockRV | LoopRV):
        return name_of(state, value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_argument_text(state, item) for item in value)}]"
    return str(value) if isinstance(value, Expr) else _literal(value)


def _literal(value: Any) -> str:
    """Return a value as Python text. An index function is shown by its results if possible, and by its name
    otherwise.
    """
    try:
        return repr(plain(value))
    except Exception:  # from the caller's own function; it must not hide the error that this text is for
        return getattr(value, "__name__", repr(value))


def marked_program(states: Sequence[ScheduleState], spots: Mapping[Node, str]) -> str:
    """Return the text of the smallest nest that contains all spots, with the spots marked.

    The first of `states` that contains all spots is printed: the program before the step, or the program that the
    refused step had already changed.
    """
    from ..script.printer import script

    for state in states:
        for tree in state.trees.values():
            if all(s in tree.order for s in spots if isinstance(s, Stmt)):
                return script(_nest_around(tree, spots), mark=dict(spots))
    return script(states[0].mod)


def _nest_around(tree: Tree, spots: Mapping[Node, str]) -> Node:
    body = tree.root.block.body
    for stmt in body.stmts if isinstance(body, Seq) else (body,):
        inside = set(walk(stmt))
        if all(spot in inside for spot in spots):
            return stmt
    return tree.func
