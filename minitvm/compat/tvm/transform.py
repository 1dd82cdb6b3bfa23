"""TVM's `tvm.transform`: passes over modules, and sequences of them.

    fuse = transform.Sequential([tir.transform.Simplify(), tir.transform.UnrollLoop()])
    mod = fuse(mod)

The passes of lowering are here too under TVM's names; `names()` lists them. `ConvertLayout` is a pass over graphs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...tir.nodes import IRModule
from ...tir.passes import ModulePass, PassContext, PassInfo, module_pass, named, names, prim_func_pass

__all__ = [
    "ModulePass", "Pass", "PassContext", "PassInfo", "PrintIR", "Sequential", "module_pass", "names", "prim_func_pass",
]  # fmt: skip

Pass = ModulePass


class Sequential:
    """Passes one after the other."""

    def __init__(self, passes: Iterable[ModulePass], opt_level: int = 0, name: str = "sequential") -> None:
        self.passes, self.opt_level, self.name = tuple(passes), opt_level, name

    def __call__(self, module: IRModule) -> IRModule:
        for step in self.passes:
            module = step(module)
        return module


def PrintIR(header: str = "") -> ModulePass:
    """A pass that prints the module and leaves it as it is."""

    def show(module: IRModule) -> IRModule:
        print(f"# {header}\n{module.script()}\n" if header else f"{module.script()}\n")
        return module

    return ModulePass("PrintIR", show)


def __getattr__(name: str) -> Any:
    if name == "ConvertLayout":
        from .convert_layout import ConvertLayout

        return ConvertLayout
    return named(name)


def __dir__() -> list[str]:
    return sorted([*__all__, *names(), "ConvertLayout"])
