"""From lowered functions to one `Executable`: steps, barriers, and a place for every value.

slots.py       values before they have a place in memory
linker.py      collects the calls of kernels; then barriers and one arena
functions.py   the executable of one tir function
graphs.py      the executable of an optimized graph
joined.py      concatenations that need no copy
"""

from .functions import host_access, link_function
from .graphs import link_graph
from .linker import Linker
from .steps import Slot, buffer_bytes, constant, tensor_bytes

__all__ = [
    "Linker", "Slot", "buffer_bytes", "constant", "host_access", "link_function", "link_graph", "tensor_bytes",
]  # fmt: skip
