"""Passes over modules, and those of lowering under TVM's names: `tir.transform.Simplify()(mod)`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import InputError, nearest
from .nodes import IRModule, PrimFunc
from .pass_context import PassContext

# TVM's name: that of the pass in `transform.pipeline.passes()`, where TVM has one that does the same.
_NAMES = {
    "LowerMatchBuffer": "lower_match_buffers",
    "InjectDoubleBuffer": "inject_double_buffer",
    "InjectSoftwarePipeline": "inject_software_pipeline",
    "LowerInitBlock": "lower_init",
    "ConvertBlocksToOpaque": "drop_blocks",
    "InjectVirtualThread": "inject_virtual_thread",
    "PlanAndUpdateBufferAllocationLocation": "place_allocations",
    "CompactBufferAllocation": "compact_buffers",
    "FlattenBuffer": "flatten_buffers",
    "LoopPartition": "partition_loops",
    "VectorizeLoop": "vectorize",
    "UnrollLoop": "unroll",
    "Simplify": "simplify",
}


@dataclass(frozen=True, slots=True)
class ModulePass:
    """A function from module to module with a name."""

    name: str
    run: Callable[[IRModule], IRModule]

    def __call__(self, module: IRModule) -> IRModule:
        if not isinstance(module, IRModule):
            raise InputError(
                f"{self.name} takes a module\n  found:  {type(module).__name__}\n  try:    tvm.IRModule.from_expr(func)"
            )
        return PassContext.current().run(self.name, self.run, module, optional=True)


def module_pass(function: Any = None, *, opt_level: int = 0, name: str | None = None) -> Any:
    """Decorator: `function(module, context) -> module` (or `function(module)`) as a pass."""
    if function is None:
        return lambda decorated: module_pass(decorated, opt_level=opt_level, name=name)
    several = len(inspect.signature(function).parameters) > 1

    def run(module: IRModule) -> IRModule:
        result: IRModule = function(module, PassContext.current()) if several else function(module)
        return result

    return ModulePass(name or function.__name__, run)


def prim_func_pass(function: Any = None, *, opt_level: int = 0, name: str | None = None) -> Any:
    """Decorator: `function(func, module) -> func` (or `function(func)`) applied to every function of a module."""
    if function is None:
        return lambda decorated: prim_func_pass(decorated, opt_level=opt_level, name=name)
    several = len(inspect.signature(function).parameters) > 1

    def run(module: IRModule) -> IRModule:
        for key, func in module.items():
            module = module.with_function(key, function(func, module) if several else function(func))
        return module

    return ModulePass(name or function.__name__, run)


def names() -> list[str]:
    """TVM's names of the available passes."""
    return sorted(_NAMES)


def named(name: str) -> Callable[[], ModulePass]:
    """The constructor of the pass of that TVM name; raises `AttributeError`, as it serves attributes of modules."""
    if name not in _NAMES:
        raise AttributeError(f"there is no pass {name}: {nearest(name, names())}")

    def make() -> ModulePass:
        lowering: ModulePass = prim_func_pass(_of_lowering(_NAMES[name]), name=f"tir.{name}")
        return lowering

    make.__name__ = name
    return make


def _of_lowering(own: str) -> Callable[[PrimFunc], PrimFunc]:
    from .transform.pipeline import passes

    step = next(p for p in passes() if p.name == own)
    return lambda func: step.run(func, func.attrs.get("target"))
