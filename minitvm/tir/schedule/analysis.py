"""Functions of TVM's `tir.schedule.analysis`: queries about blocks, suggested layouts, and mappings to intrinsics.

The kinds of blocks are defined in `tir.analysis.block_kinds`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ..analysis.block_kinds import Scope

if TYPE_CHECKING:
    from .handles import BlockRV
    from .schedule import Schedule

# Functions of TVM's module of this name that are defined elsewhere, in layers above the modules that import this one.
_ELSEWHERE = {
    "suggest_index_map": "suggestion", "get_tensorize_loop_mapping": "intrinsics",
    "get_auto_tensorize_mapping_info": "intrinsics", "TensorizeInfo": "intrinsics",
    "AutoTensorizeMappingInfo": "intrinsics",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _ELSEWHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_ELSEWHERE[name]}", __package__), name)


def is_output_block(sch: Schedule, block: BlockRV | str) -> bool:
    """Return whether a block writes a buffer that the enclosing block does not allocate (TVM's function of
    this name).
    """
    handle = sch.get_block(block) if isinstance(block, str) else block
    realize = sch.state.block(sch.get(handle).id)
    assert realize is not None  # the handle was just resolved
    return Scope.around(sch.state.home(realize), realize).is_output(realize)


def has_block(sch: Schedule, block_name: str) -> bool:
    """Return whether any function of the module has a block called `block_name` (TVM's function of this name)."""
    trees = sch.state.schedulable_trees()
    return any(realize.block.name == block_name for tree in trees for realize in tree.blocks.values())
