"""Further TVM primitives, included so that TVM scripts run unchanged. There is one file per family.

No strategy or lesson in this project uses them, but they are tested like the others. If you want to learn how
scheduling works, you can skip them. Their files may import `tir/schedule/primitives`, but that folder may not import
them.
"""

from importlib import import_module
from pkgutil import iter_modules

for _family in iter_modules(__path__):
    import_module(f"{__name__}.{_family.name}")
