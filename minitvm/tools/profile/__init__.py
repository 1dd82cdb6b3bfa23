"""The time of each operator of a program, and its share of the machine's bounds.

    peak_rates.py    the peak rates of this machine, measured by the kernels of microbenchmarks.py
    measure.py    time stamps of a run, combined with the work of its kernels
    reuse.py      from which level of memory each byte comes
    report.py     the result: `Profile` and its `Row`s
    table.py roofline.py trace_events.py    the result as text, as a picture, as a timeline for Perfetto

The model is the roofline (Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for
multicore architectures", 2009) with a roof for each level of memory.
"""

from .measure import profile
from .peak_rates import Level, Machine, known, machine
from .report import Profile, Row

__all__ = ["Level", "Machine", "Profile", "Row", "known", "machine", "profile"]
