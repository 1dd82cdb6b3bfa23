"""Find blocks and loops. These primitives are steps of the trace that do not change the program."""

from __future__ import annotations

from ....errors import ScheduleError
from ...analysis.block_kinds import Scope
from ...nodes import BlockRealize, For
from ..registry import primitive
from ..state import ScheduleState


@primitive(query=True, aka={"TVM": "get_sblock"})
def get_block(state: ScheduleState, name: str, func_name: str | None = None) -> BlockRealize:
    """Return the block called `name` in the function `func_name` or, by default, in the function that you work on."""
    return state.block_named(name, func_name)


@primitive(query=True)
def get_loops(state: ScheduleState, block: BlockRealize) -> list[For]:
    """Return the loops around a block, up to the block that contains it, outermost first."""
    return state.home(block).loops_above(block)


@primitive(query=True)
def get_child_blocks(state: ScheduleState, block_or_loop: BlockRealize | For) -> list[BlockRealize]:
    """Return the outermost blocks inside a block or loop, in program order."""
    return state.home(block_or_loop).blocks_in(block_or_loop)


@primitive(query=True)
def get_producers(state: ScheduleState, block: BlockRealize) -> list[BlockRealize]:
    """Return the blocks in the same scope that write buffers read by this block, in program order."""
    return Scope.around(state.home(block), block).producers(block)


@primitive(query=True)
def get_consumers(state: ScheduleState, block: BlockRealize) -> list[BlockRealize]:
    """Return the blocks in the same scope that read buffers written by this block, in program order."""
    return Scope.around(state.home(block), block).consumers(block)


@primitive(query=True)
def get_output_blocks(state: ScheduleState, scope_block: BlockRealize) -> list[BlockRealize]:
    """Return the blocks of a scope that write a buffer not allocated in the scope; it is an error if there are none."""
    tree = state.home(scope_block)
    scope = Scope(tree, scope_block)
    outputs = [block for block in scope.blocks if scope.is_output(block)]
    if not outputs:
        raise ScheduleError(f"block {scope_block.block.name} has no output block")
    return outputs
