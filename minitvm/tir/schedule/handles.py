"""Handles: what a caller holds of a block or a loop while the program around it changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...expr import Var
from ..nodes import Block, BlockId, BlockRealize, For


@dataclass(frozen=True, slots=True)
class BlockRV:
    """A block, through all rewrites that keep it."""

    key: BlockId


@dataclass(frozen=True, slots=True)
class LoopRV:
    """A loop, through all rewrites that keep it."""

    key: Var


def to_handles(result: Any) -> Any:
    """The result of a primitive with nodes and keys as handles, in lists as they were."""
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


def handles_in(value: Any) -> list[BlockRV | LoopRV]:
    """The handles in an argument or result, lists flattened."""
    if isinstance(value, BlockRV | LoopRV):
        return [value]
    if isinstance(value, list | tuple):
        return [handle for item in value for handle in handles_in(item)]
    return []


def map_handles(value: Any, mapping: dict[BlockRV | LoopRV, Any]) -> Any:
    """A value with its handles replaced, in lists as they were; a handle that is not in `mapping` stays."""
    if isinstance(value, BlockRV | LoopRV):
        return mapping.get(value, value)
    if isinstance(value, list | tuple):
        return type(value)(map_handles(item, mapping) for item in value)
    return value
