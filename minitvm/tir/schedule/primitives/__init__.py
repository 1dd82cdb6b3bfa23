"""The schedule primitives, one family a file. A file that is imported registers what it defines, and all here are."""

from importlib import import_module
from pkgutil import iter_modules

for _family in iter_modules(__path__):
    import_module(f"{__name__}.{_family.name}")
