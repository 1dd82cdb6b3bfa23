"""Count the work of a kernel-level function without running it: arithmetic, and the memory that it touches.

`count(kernel)` returns the exact numbers that the kernel interpreter's listeners would count, but takes only
milliseconds: counts are multiplied by loop extents, and conditions are evaluated only for the loops that they depend
on.

`formulas(kernel)` returns the same numbers as closed formulas in the kernel's symbolic sizes.

    walk.py        the one walk over statements and expressions
    count.py       numbers: for given sizes
    domain.py      the iterations of a statement, as listed points
    intervals.py   the elements that a set of accesses touches
    formulas.py    formulas: for all sizes
    iterations.py  the iterations of a statement, as points under conditions
    images.py      the number of elements that a set of accesses touches
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
