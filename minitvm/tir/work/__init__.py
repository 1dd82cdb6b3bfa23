"""What a kernel-level function does, counted without running it: arithmetic, and the memory that it touches.

`count(kernel)` gives the exact numbers that the kernel interpreter's listeners would count, in milliseconds: loops are
multiplied out, conditions decided on the iterations that they depend on.

    count.py      the walk over statements and expressions
    hottest.py    the loops in which a kernel spends its time
    domain.py     how often a statement runs, and where
    intervals.py  which elements a set of accesses touches
"""

from .count import Work, count, count_statement, footprint
from .hottest import Nest, hottest

__all__ = ["Nest", "Work", "count", "count_statement", "footprint", "hottest"]
