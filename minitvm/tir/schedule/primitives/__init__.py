"""The schedule primitives, with one file for each family. Importing a file registers the primitives that it defines.

This package imports all of them. Strategies and lessons use these primitives. The primitives in
`compat/tvm/schedule/primitives` exist so that programs and schedules written for TVM run unchanged. They are registered
last, so that they come last in lists and on the page of primitives.
"""

from importlib import import_module
from pkgutil import iter_modules

from ....doors import PRIMITIVES

for _family in iter_modules(__path__):
    import_module(f"{__name__}.{_family.name}")
import_module(PRIMITIVES)
