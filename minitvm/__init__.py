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
    from . import arith, errors, graph, ir, nd, runtime, script, target, te, testing, tir, topi, transform
    from .build import build, lower
    from .build import build as compile
    from .errors import MinitvmError as TVMError
    from .frontend.torch import from_torch
    from .ir import IRModule
    from .quantization import quantize
    from .runtime.device.arrays import from_dlpack
    from .runtime.tensors import cpu, device
    from .script import from_source

__version__ = "0.1.0"

# Each public name that is not a submodule, and the module that defines it.
_DEFINED_IN = {
    "IRModule": "minitvm.ir",
    "TVMError": "minitvm.errors",
    "build": "minitvm.build",
    "compile": "minitvm.build",
    "cpu": "minitvm.runtime.tensors",
    "device": "minitvm.runtime.tensors",
    "from_dlpack": "minitvm.runtime.device.arrays",
    "from_source": "minitvm.script",
    "from_torch": "minitvm.frontend.torch",
    "lower": "minitvm.build",
    "quantize": "minitvm.quantization",
}
_OUR_NAMES = {"TVMError": "MinitvmError", "compile": "build"}  # TVM's name, and its name in the module

__all__ = [
    "IRModule",
    "TVMError",
    "arith",
    "build",
    "compile",
    "cpu",
    "device",
    "errors",
    "from_dlpack",
    "from_source",
    "from_torch",
    "graph",
    "ir",
    "lower",
    "nd",
    "quantize",
    "runtime",
    "script",
    "target",
    "te",
    "testing",
    "tir",
    "topi",
    "transform",
]


def __getattr__(name: str) -> Any:
    if name in _DEFINED_IN:
        value = getattr(importlib.import_module(_DEFINED_IN[name]), _OUR_NAMES.get(name, name))
        globals()[name] = value
        return value
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    from .absent import absent

    raise absent(__name__, name, __all__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Replacements:
    """A finder behind all others: an import of a module of TVM's that is not here says what takes its place."""

    @staticmethod
    def find_spec(fullname: str, path: Any = None, target: Any = None) -> None:
        """Raises `ModuleNotFoundError` with the replacement; does nothing for a name that TVM does not have either."""
        if fullname.startswith(f"{__name__}."):
            from .absent import absent_module

            error = absent_module(fullname)
            if error is not None:
                raise error


sys.meta_path.append(_Replacements)  # a class with the method is enough


class _Package(ModuleType):
    """This package: a submodule never hides a public function of the same name.

    `minitvm.build` is a function and build.py the module that defines it. After importing a submodule, Python sets it
    as an attribute of its package; for such names this class prevents it. `from minitvm.build import ...` is not
    affected, as it finds the module in `sys.modules`.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name in _DEFINED_IN and isinstance(value, ModuleType):
            return
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
