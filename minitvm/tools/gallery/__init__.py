"""The error gallery of the package's own schedule primitives: one bad call a requirement, on a small program.

`minitvm explain PRIMITIVE --errors` shows how each is refused; a test pins the texts. A bad call
that a few lines of TVMScript show stands beside its primitive, registered with `refuses` as in files from outside. Here
stand, one file a family, those that are made on programs that several of them share, or that te makes: primitives may
not know te.
"""

from importlib import import_module
from pkgutil import iter_modules

from .case import CASES, cases, refusals

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["CASES", "cases", "refusals"]
