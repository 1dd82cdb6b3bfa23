"""The time of each operator of a program, and its share of the machine's bounds.

    machine.py    the peak rates of this machine, measured by the kernels of microbenchmarks.py
    measure.py    time stamps of a run, combined with the work of its kernels
    reuse.py      from which level of memory each byte comes
    report.py     the result: `Profile` and its `Row`s
    table.py roofline.py trace.py    the result as text, as a picture, as a timeline for Perfetto

The model is the roofline (Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for
multicore architectures", 2009) with a roof for each level of memory.
"""

from .machine import Level, Machine, known, machine
from .measure import profile
from .report import Profile, Row

__all__ = ["Level", "Machine", "Profile", "Row", "known", "machine", "profile"]
