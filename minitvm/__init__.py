"""minitvm: a tensor compiler in pure Python, in the shape of TVM.

The public names are imported when they are first used: loading a saved artifact must not pull in sympy, onnx or the
compiler, and `import minitvm` itself costs nothing.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import errors, graph, ir, runtime, script, target, te, tir, topi, transform
    from .build import build, lower
    from .ir import IRModule
    from .script import from_source

__version__ = "0.1.0"

# Each public name that is not a submodule, and the module that defines it.
_DEFINED_IN = {
    "IRModule": "minitvm.ir",
    "build": "minitvm.build",
    "from_source": "minitvm.script",
    "lower": "minitvm.build",
}

__all__ = [
    "IRModule",
    "build",
    "errors",
    "from_source",
    "graph",
    "ir",
    "lower",
    "runtime",
    "script",
    "target",
    "te",
    "tir",
    "topi",
    "transform",
]


def __getattr__(name: str) -> Any:
    if name in _DEFINED_IN:
        value = getattr(importlib.import_module(_DEFINED_IN[name]), name)
        globals()[name] = value
        return value
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """This package: a submodule never hides a public function of the same name.

    `minitvm.build` is a function and build.py the module that defines it. After importing a submodule Python sets it
    as an attribute of its package; for such a name that is left undone. `from minitvm.build import ...` is not
    affected, as it finds the module in `sys.modules`.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name in _DEFINED_IN and isinstance(value, ModuleType):
            return
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
