"""Handles: a caller's references to blocks, loops and sampled numbers. They stay valid while the program changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...expr import Expr, Var, find, node, substitute
from ..nodes import Block, BlockId, BlockRealize, For


@dataclass(frozen=True, slots=True)
class BlockRV:
    """A handle to a block, which stays valid as long as rewrites keep the block."""

    key: BlockId


@dataclass(frozen=True, slots=True)
class LoopRV:
    """A handle to a loop, which stays valid as long as rewrites keep the loop."""

    key: Var


@node
class ExprRV(Var):
    """A sampled number. Like any variable, it can be used in expressions and as a factor or annotation."""


@node
class PlaceKey(Var):
    """The key of a `LoopRV` that refers to no loop but to "inline" or "root": `compute_at` then inlines the block, or
    leaves it in place.
    """


@node
class ChosenLoop(Var):
    """The key of a `LoopRV` that was sampled.

    The key is equal only to itself, because a different decision would select a different loop.
    """

    loop: Var | None = None


Handle = BlockRV | LoopRV | ExprRV
INLINE, ROOT = "inline", "root"  # the names of places


@dataclass(frozen=True, slots=True)
class Sampled:
    """The result of a sampling primitive: the sampled numbers (or a single number, loop or place), and the decision
    that leads to them.
    """

    values: Any
    decision: Any


def to_handles(result: Any) -> Any:
    """Replace the nodes and keys in a primitive's result with handles; the structure of lists is kept."""
    if isinstance(result, For):
        return LoopRV(result.var)
    if isinstance(result, Var):
        return LoopRV(result)
    if isinstance(result, BlockRealize):
        return BlockRV(result.block.id)
    if isinstance(result, Block):
        return BlockRV(result.id)
    if isinstance(result, BlockId):
        return BlockRV(result)
    if isinstance(result, list | tuple):
        return [to_handles(item) for item in result]
    return result


def numbers_to_handles(values: Any, numbers: dict[ExprRV, int]) -> Any:
    """Create handles for sampled values and record each number in `numbers`; lists keep their structure."""
    if isinstance(values, list | tuple):
        return [numbers_to_handles(item, numbers) for item in values]
    if isinstance(values, int):
        handle = ExprRV("v")
        numbers[handle] = values
        return handle
    return LoopRV(values if isinstance(values, PlaceKey) else ChosenLoop(values.name, values.dtype, values))


def handles_in(value: Any) -> list[Handle]:
    """Return all handles in `value`, an argument or a result, as a flat list."""
    if isinstance(value, BlockRV | LoopRV):
        return [value]
    if isinstance(value, Expr):
        return list(find(value, ExprRV))
    if isinstance(value, list | tuple):
        return [handle for item in value for handle in handles_in(item)]
    if isinstance(value, Mapping):
        return [handle for item in value.values() for handle in handles_in(item)]
    return []


def map_handles(value: Any, mapping: Mapping[Handle, Any]) -> Any:
    """Replace handles in a value; lists keep their structure. Handles that are not in `mapping` stay the same."""
    if isinstance(value, BlockRV | LoopRV):
        return mapping.get(value, value)
    if isinstance(value, Expr):
        return substitute(value, {h: mapping[h] for h in handles_in(value) if h in mapping})  # type: ignore[misc]
    if isinstance(value, list | tuple):
        return type(value)(map_handles(item, mapping) for item in value)
    if isinstance(value, Mapping):
        return {key: map_handles(item, mapping) for key, item in value.items()}
    return value
