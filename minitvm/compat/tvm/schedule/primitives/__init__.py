"""More primitives of TVM, so that scripts for TVM run unchanged. Each family is in one file.

No strategy and no lesson of this project uses them, but they are checked like the others. If you want to learn how
scheduling works, you can skip them. They may use `tir/schedule/primitives`, but not the other way round.
"""

from importlib import import_module
from pkgutil import iter_modules

for _family in iter_modules(__path__):
    import_module(f"{__name__}.{_family.name}")
