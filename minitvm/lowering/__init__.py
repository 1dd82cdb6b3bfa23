"""From fused operators to kernels: each distinct function is scheduled, lowered and written as source, once.

units.py      the fused operators of a graph; equal ones share a function
function.py   one function: schedule, kernels, sources
lowered.py    the result, with the facts that linking needs
cache.py      results on disk
many.py       all functions of a graph: from the cache, else in other processes, else here
"""

from .function import lower_function, schedule_function, to_kernels
from .lowered import LoweredFunc, LoweredKernel
from .many import lower_functions
from .units import SharedFunction, Unit, to_units

__all__ = [
    "LoweredFunc", "LoweredKernel", "SharedFunction", "Unit", "lower_function", "lower_functions",
    "schedule_function", "to_kernels", "to_units",
]  # fmt: skip
