"""Lowering for accelerators with scratchpads: nests of element instructions become the machine's instructions.

    place_scratchpads     storage moves into the innermost loop outside of which nobody reads it
    fold_nests            loops around an element's instruction become the instruction's
    reuse_registers       an ALU operation writes where its first operand lay
    join_contexts         what one module does for a virtual thread stands together
    fetch_order           loops around instructions are written out: what the machine fetches, in order
    delay_resets          registers are set to zero where they are first needed
    insert_tokens         modules wait for one another; machines whose hardware tracks hazards leave this out

They work on any instruction whose operands are tiles; which ones are transfers, products or ALU operations is read off
the names of the intrinsics (`machines.scratchpad.instruction_set`).
"""

from .delay_resets import delay_resets
from .fetch_order import fetch_order
from .fold_nests import fold_nests
from .insert_tokens import insert_tokens
from .join_contexts import join_contexts
from .place_scratchpads import place_scratchpads
from .reuse_registers import reuse_registers

__all__ = [
    "delay_resets",
    "fetch_order",
    "fold_nests",
    "insert_tokens",
    "join_contexts",
    "place_scratchpads",
    "reuse_registers",
]
