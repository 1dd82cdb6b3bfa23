"""What a kernel-level function does, counted without running it: arithmetic, and the memory that it touches.

`count(kernel)` gives the exact numbers that the kernel interpreter's listeners would count, in milliseconds: loops are
multiplied out, conditions decided on the iterations that they depend on.

`formulas(kernel)` gives the same as closed formulas in the kernel's symbolic sizes.

    walk.py        the one walk over statements and expressions
    count.py       numbers: for given sizes
    domain.py      how often a statement runs, and where: points that are listed
    intervals.py   which elements a set of accesses touches
    formulas.py    formulas: for all sizes
    iterations.py  how often a statement runs: points under conditions
    images.py      how many elements a set of accesses touches
    hottest.py     the loops in which a kernel spends its time
"""

from .count import Work, count, count_statement, footprint
from .formulas import LoopFormula, Rates, WorkFormulas, formulas, sizes_of
from .hottest import HottestNest, hottest

__all__ = [
    "HottestNest",
    "LoopFormula",
    "Rates",
    "Work",
    "WorkFormulas",
    "count",
    "count_statement",
    "footprint",
    "formulas",
    "hottest",
    "sizes_of",
]  # fmt: skip
