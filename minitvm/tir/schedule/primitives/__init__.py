"""The schedule primitives, one family a file. A file that is imported registers what it defines, and all here are.

Strategies and lessons are written with these. The shelf, `compat/tvm/schedule/primitives`, lets programs and schedules
that are written for TVM run as they are. It is registered last, so that lists and the page of primitives end with it.
"""

from importlib import import_module
from pkgutil import iter_modules

from ....doors import PRIMITIVES

for _family in iter_modules(__path__):
    import_module(f"{__name__}.{_family.name}")
import_module(PRIMITIVES)
