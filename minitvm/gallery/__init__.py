"""The error gallery of the package's own schedule primitives: one bad call a requirement, on a small program.

`minitvm explain PRIMITIVE --errors` shows how each is refused; a test pins the texts. One file a family. They stand
apart from the primitives, which may not know te, nor need the programs to run. (A primitive from outside brings its
own, with `refuses`; minitvm.tir.schedule.gallery reads those.)
"""

from importlib import import_module
from pkgutil import iter_modules

from .case import CASES, refusals

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["CASES", "refusals"]
