"""TVM's `tvm.relax` for modules of graphs: `relax.build`, `relax.VirtualMachine`, `relax.transform.BindParams`.

ex = relax.build(Module, target="llvm")
vm = relax.VirtualMachine(ex, tvm.cpu())
result = vm["main"](x, w).numpy()
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from ....absent import absent
from ....build import build as _build
from ....errors import InputError, nearest
from ....runtime import GraphModule
from ....runtime.tensors import tensor
from . import transform

__all__ = ["VirtualMachine", "build", "frontend", "transform", "vm"]


def build(
    mod: Any, target: Any = "llvm", params: Mapping[str, Any] | None = None, exec_mode: str = "bytecode",
    **options: Any,
) -> GraphModule:  # fmt: skip
    """Compile the function "main" of a module, and return what `minitvm.build` returns. `params` become constants.

    `exec_mode` is TVM's and has no effect. The other options are those of `minitvm.build`.
    """
    del exec_mode
    compiled: Any = _build
    module: GraphModule = compiled(mod, target or "llvm", **({"params": params} if params else {}), **options)
    return module


class VirtualMachine:
    """Runs a compiled module: `vm["main"](x, w)` returns a `Tensor`, or a list of them for a tuple."""

    def __init__(self, rt_mod: Any, device: Any = None, **_: Any) -> None:
        if not isinstance(rt_mod, GraphModule):
            raise InputError(
                f"a VirtualMachine runs what relax.build returns, found {type(rt_mod).__name__}\n"
                "  try:    relax.VirtualMachine(relax.build(module), tvm.cpu())"
            )
        self.module, self.device = rt_mod, device

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """Return the function "main". Raises `InputError` for another name."""
        names = ["main", self.module.executable.name]
        if name not in names:
            raise InputError(f"the module has no function {name}; {nearest(name, names)}")
        return self._run

    def _run(self, *args: Any) -> Any:
        results = self.module(*args)
        return [tensor(result) for result in results] if isinstance(results, tuple) else tensor(results)


vm = SimpleNamespace(build=build, VirtualMachine=VirtualMachine)


def __getattr__(name: str) -> Any:
    if name == "frontend":
        return importlib.import_module(f"{__name__}.frontend")
    raise absent("minitvm.relax", name, __all__)
