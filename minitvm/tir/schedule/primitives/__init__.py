"""The schedule primitives, one family a file. A file that is imported registers what it defines, and all here are.

The spine stands in this folder: what strategies and lessons are written with. `for_tvm` is the shelf: what stands there
lets programs and schedules that are written for TVM run as they are. The spine is registered first, so that lists and
the page of primitives begin with it.
"""

from importlib import import_module
from pkgutil import iter_modules

for _family in sorted(iter_modules(__path__), key=lambda family: family.ispkg):
    import_module(f"{__name__}.{_family.name}")
