"""The shelf: primitives that stand here so that what is written for TVM runs as it is, one family a file.

No strategy and no lesson of this project calls them. Each is checked like the others; a reader who wants to know how
scheduling works can leave them for later. The shelf may build on `tir/schedule/primitives`; never the other way
round.
"""

from importlib import import_module
from pkgutil import iter_modules

for _family in iter_modules(__path__):
    import_module(f"{__name__}.{_family.name}")
