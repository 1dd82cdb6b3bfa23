"""From lowered functions to one `Executable`: steps, barriers, and a place for every value.

steps.py         values without a place in memory yet, the steps that use them, and barriers
linker.py        collects the calls of kernels, then adds barriers and plans one arena
plan_memory.py   the memory planner: values that do not live at the same time share bytes
functions.py     the executable of one tir function
graphs.py        the executable of an optimized graph
levels.py        the graphs of a program: the optimized graph and, nested in it, the bodies of its loops
in_place.py      operators that update a value in place, and concatenations that need no copy
copies.py        steps between two memories
bounds.py        bounds that the elements of an input must keep when a program runs
"""

from .functions import host_access, link_function
from .graphs import link_graph
from .linker import Linker
from .steps import Slot, buffer_bytes, constant, tensor_bytes

__all__ = [
    "Linker", "Slot", "buffer_bytes", "constant", "host_access", "link_function", "link_graph", "tensor_bytes",
]  # fmt: skip
