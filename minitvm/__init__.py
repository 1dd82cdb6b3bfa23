"""minitvm: a tensor compiler in pure Python, in the shape of TVM.

The public names are imported when they are first used: loading a saved artifact must not import sympy, onnx or the
compiler, and `import minitvm` itself must be fast.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import arith, errors, graph, runtime, script, target, te, tir, topi
    from .build import build, lower
    from .build import build as compile
    from .compat.tvm import ir, nd, relax, testing, transform
    from .compat.tvm.ir import IRModule
    from .errors import MinitvmError as TVMError
    from .frontends.tflite import from_tflite
    from .frontends.torch import from_torch
    from .global_functions import get_global_func, register_func
    from .global_functions import register_func as register_global_func
    from .quantize import quantize
    from .runtime.device.arrays import from_dlpack
    from .runtime.tensors import cpu, device
    from .script import from_source

__version__ = "0.1.0"

# Each public name that is not a submodule, and the module that defines it.
_DEFINED_IN = {
    "IRModule": "minitvm.compat.tvm.ir",
    "TVMError": "minitvm.errors",
    "build": "minitvm.build",
    "compile": "minitvm.build",
    "cpu": "minitvm.runtime.tensors",
    "device": "minitvm.runtime.tensors",
    "from_dlpack": "minitvm.runtime.device.arrays",
    "from_source": "minitvm.script",
    "from_tflite": "minitvm.frontends.tflite",
    "from_torch": "minitvm.frontends.torch",
    "get_global_func": "minitvm.global_functions",
    "lower": "minitvm.build",
    "quantize": "minitvm.quantize",
    "register_func": "minitvm.global_functions",
    "register_global_func": "minitvm.global_functions",
}
# Modules under public names, and where they are; what is beneath a package is found beneath its place.
_PLACES = {
    "minitvm.cli": "minitvm.tools.cli",
    "minitvm.film": "minitvm.tools.film",
    "minitvm.frontend": "minitvm.frontends",
    "minitvm.ir": "minitvm.compat.tvm.ir",
    "minitvm.models": "minitvm.tools.models",
    "minitvm.nd": "minitvm.compat.tvm.nd",
    "minitvm.relax": "minitvm.compat.tvm.relax",
    "minitvm.script.relax": "minitvm.frontends.relax.language",
    "minitvm.profile": "minitvm.tools.profile",
    "minitvm.testing": "minitvm.compat.tvm.testing",
    "minitvm.tir.schedule.testing": "minitvm.compat.tvm.schedule.testing",
    "minitvm.tir.schedule.transform": "minitvm.compat.tvm.schedule.transform",
    "minitvm.tir.stmt_functor": "minitvm.compat.tvm.stmt_functor",
    "minitvm.tir.tensor_intrin.arm_cpu": "minitvm.compat.tvm.tensor_intrin.arm_cpu",
    "minitvm.tir.tensor_intrin.cuda": "minitvm.compat.tvm.tensor_intrin.cuda",
    "minitvm.tir.tensor_intrin.dot_product_common": "minitvm.compat.tvm.tensor_intrin.dot_product_common",
    "minitvm.tir.tensor_intrin.hexagon": "minitvm.compat.tvm.tensor_intrin.hexagon",
    "minitvm.tir.tensor_intrin.rocm": "minitvm.compat.tvm.tensor_intrin.rocm",
    "minitvm.tir.tensor_intrin.x86": "minitvm.compat.tvm.tensor_intrin.x86",
    "minitvm.transform": "minitvm.compat.tvm.transform",
}
# TVM's name, and its name in the module.
_OUR_NAMES = {"TVMError": "MinitvmError", "compile": "build", "register_global_func": "register_func"}

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
    "from_tflite",
    "from_torch",
    "get_global_func",
    "graph",
    "ir",
    "lower",
    "nd",
    "quantize",
    "register_func",
    "register_global_func",
    "relax",
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
    # `from minitvm import expr` comes here before the module is imported.
    if name in __all__ or importlib.machinery.PathFinder.find_spec(f"{__name__}.{name}", __path__):
        return importlib.import_module(f"{__name__}.{name}")
    from .absent import absent

    raise absent(__name__, name, __all__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _renamed(name: str, names: Iterable[tuple[str, str]]) -> str | None:
    """Return a module's name after the first renaming that applies to it or to a package that contains it, or None.

    `names` holds pairs (old name, new name).
    """
    for old, new in names:
        if name == old or name.startswith(f"{old}."):
            return new + name[len(old) :]
    return None


class _Door:
    """A finder and loader for the public names in `_PLACES`. The public name and the real name give the same module
    object.
    """

    def __init__(self, place: str) -> None:
        self.place = place

    @staticmethod
    def find_spec(fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return the spec of the module that a public name refers to, or None if it is not a public name."""
        place = _renamed(fullname, _PLACES.items()) if fullname.startswith(f"{__name__}.") else None
        if place is None or importlib.util.find_spec(place) is None:
            return None
        return ModuleSpec(fullname, _Door(place))  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:  # noqa: ARG002 (importlib's protocol)
        """Import the module under its real name and return it."""
        module = importlib.import_module(self.place)
        self.own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own `__spec__`. Its code has already run."""
        module.__spec__ = self.own_spec


class _Replacements:
    """An import finder, the last one in `sys.meta_path`: for a TVM module that minitvm does not have, it raises an
    error that says what to use instead.
    """

    @staticmethod
    def find_spec(fullname: str, path: Any = None, target: Any = None) -> None:
        """Raise `ModuleNotFoundError` with the replacement, or do nothing for a name that TVM does not have either."""
        if fullname.startswith(f"{__name__}."):
            from .absent import absent_module

            public = _renamed(fullname, ((place, name) for name, place in _PLACES.items()))
            error = absent_module(public or fullname)
            if error is not None:
                raise error


sys.meta_path.insert(0, _Door)  # a class with the method is enough
sys.meta_path.append(_Replacements)


class _Package(ModuleType):
    """This package. Importing a submodule does not hide the public function of the same name.

    For example, `minitvm.build` is a function, and build.py is the module that defines it. Python sets an imported
    submodule as an attribute of its package; this class prevents that for such names. `from minitvm.build import ...`
    is not affected, as it finds the module in `sys.modules`.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name in _DEFINED_IN and isinstance(value, ModuleType):
            return
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
