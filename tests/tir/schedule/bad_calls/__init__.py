"""One bad call a requirement: a small program, and a call that the requirement refuses. One file a family."""

from importlib import import_module
from pkgutil import iter_modules

from .case import CASES

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["CASES"]
