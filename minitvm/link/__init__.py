"""From lowered functions to one `Executable`: steps, barriers, and a place for every value.

steps.py         values before they have a place in memory, steps over them, and barriers
linker.py        collects the calls of kernels; then barriers and one arena
plan_memory.py   the memory planner: values that do not live at the same time share bytes
functions.py     the executable of one tir function
graphs.py        the executable of an optimized graph
levels.py        the graphs of a program, one inside of the other: the bodies of its loops
in_place.py      operators that change a value where it lies, and concatenations that need no copy
copies.py        steps between two memories
bounds.py        guards: what must hold of open sizes when a program runs
"""

from .functions import host_access, link_function
from .graphs import link_graph
from .linker import Linker
from .steps import Slot, buffer_bytes, constant, tensor_bytes

__all__ = [
    "Linker", "Slot", "buffer_bytes", "constant", "host_access", "link_function", "link_graph", "tensor_bytes",
]  # fmt: skip
