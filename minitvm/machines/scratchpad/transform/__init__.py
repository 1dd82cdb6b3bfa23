"""Lowering for accelerators with scratchpads: from nests of element instructions to the machine's instructions.

    place_scratchpads     move storage into the innermost loop that contains all reads of its values
    fold_nests            move loops around an element's instruction into the instruction
    reuse_registers       let an ALU operation overwrite its first operand
    join_contexts         group the instructions of one module for a virtual thread
    fetch_order           unroll loops around instructions, in the order in which the machine fetches them
    delay_resets          set registers to zero where they are first needed
    insert_tokens         let modules wait for each other; not for machines whose hardware tracks hazards

They work on any instruction whose operands are tiles. The names of the intrinsics tell which ones are transfers,
products or ALU operations (`machines.scratchpad.instruction_set`).
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
