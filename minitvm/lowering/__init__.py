"""From fused operators to kernels: each distinct function is scheduled, lowered and written as source, once.

units.py      the fused operators of a graph; equal ones share a function
function.py   one function: schedule, kernels, sources
lowered.py    the result, with the facts that linking needs
cache.py      results on disk
verified.py   results that this process has lowered and verified, with MINITVM_VERIFY=1
many.py       all functions of a graph: from the cache, else in other processes, else here
placement.py  which functions run on the host, because the target refuses them
"""

from .function import lower_function, schedule_function, to_kernels, with_a_schedule
from .lowered import LoweredFunc, LoweredKernel
from .many import lower_functions
from .placement import Placement, host_of, lower_placed, place
from .units import SharedFunction, Unit, to_units

__all__ = [
    "LoweredFunc", "LoweredKernel", "Placement", "SharedFunction", "Unit", "host_of", "lower_function",
    "lower_functions", "lower_placed", "place", "schedule_function", "to_kernels", "to_units",
    "with_a_schedule",
]  # fmt: skip
