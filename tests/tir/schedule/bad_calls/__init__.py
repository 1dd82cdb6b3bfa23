"""One bad call a requirement: a small program, and a call that the requirement refuses. One file a family.

(A primitive from outside brings its own, with `refuses`; minitvm.tir.schedule.gallery reads those.)
"""

from importlib import import_module
from pkgutil import iter_modules

from .case import CASES

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["CASES"]
