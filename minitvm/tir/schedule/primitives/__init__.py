"""The schedule primitives, one family per file. Importing a file registers the primitives that it defines.

This package imports all of them. Strategies and lessons use these primitives. Those in `compat/tvm/schedule/primitives`
exist so that programs and schedules written for TVM run unchanged. They are registered last, so that lists and the page
of primitives end with them.
"""

from importlib import import_module
from pkgutil import iter_modules

from ....doors import PRIMITIVES

for _family in iter_modules(__path__):
    import_module(f"{__name__}.{_family.name}")
import_module(PRIMITIVES)
