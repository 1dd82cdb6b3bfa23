"""The operators of level 1 by family; importing this package registers all of them.

Operators for the layouts of machines are parts of their back ends, and registered when one is asked for.
"""

from . import caches, counted, elementwise, layouts, loops, nn, recurrent, reduce, transform
