"""TVM's `tvm.transform`: passes over modules, and sequences of them.

    fuse = transform.Sequential([transform.Simplify(), transform.UnrollLoop()])
    mod = fuse(mod)

The passes are the functions of `tir.transform.pipeline`, under TVM's names; `names()` lists them. `ConvertLayout` is a
pass over graphs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .errors import InputError, nearest
from .tir.nodes import IRModule, PrimFunc

__all__ = ["Pass", "Sequential", "names", "prim_func_pass"]

# TVM's name: ours.
_NAMES = {
    "LowerMatchBuffer": "lower_match_buffers",
    "LowerInitBlock": "lower_init",
    "ConvertBlocksToOpaque": "drop_blocks",
    "PlanAndUpdateBufferAllocationLocation": "place_allocations",
    "CompactBufferAllocation": "compact_buffers",
    "FlattenBuffer": "flatten_buffers",
    "LoopPartition": "partition_loops",
    "VectorizeLoop": "vectorize",
    "UnrollLoop": "unroll",
    "Simplify": "simplify",
}


@dataclass(frozen=True, slots=True)
class Pass:
    """A function from module to module with a name."""

    name: str
    run: Callable[[IRModule], IRModule]

    def __call__(self, module: IRModule) -> IRModule:
        if not isinstance(module, IRModule):
            raise InputError(f"{self.name} takes a module\n  found:  {type(module).__name__}\n"
                             "  try:    tvm.IRModule.from_expr(func)")  # fmt: skip
        return self.run(module)


def prim_func_pass(function: Any = None, *, opt_level: int = 0, name: str | None = None) -> Any:
    """Decorator: `function(func, module) -> func` (or `function(func)`) applied to every function of a module."""
    if function is None:
        return lambda given: prim_func_pass(given, opt_level=opt_level, name=name)
    several = len(inspect.signature(function).parameters) > 1

    def run(module: IRModule) -> IRModule:
        for key, func in module.items():
            module = module.with_function(key, function(func, module) if several else function(func))
        return module

    return Pass(name or function.__name__, run)


class Sequential:
    """Passes one after the other."""

    def __init__(self, passes: Iterable[Pass], name: str = "sequential") -> None:
        self.passes, self.name = tuple(passes), name

    def __call__(self, module: IRModule) -> IRModule:
        for step in self.passes:
            module = step(module)
        return module


def names() -> list[str]:
    """TVM's names of the passes that there are."""
    return sorted(_NAMES)


def _of_pipeline(own: str) -> Callable[[PrimFunc], PrimFunc]:
    from .tir.transform.pipeline import PASSES

    step = next(p for p in PASSES if p.name == own)
    return lambda func: step.run(func, func.attrs.get("target"))


def __getattr__(name: str) -> Any:
    if name == "ConvertLayout":
        from .graph.passes.convert_layout import ConvertLayout

        return ConvertLayout
    if name not in _NAMES:
        raise AttributeError(f"minitvm.transform has no pass {name}: {nearest(name, names())}")

    def make() -> Pass:
        step: Pass = prim_func_pass(_of_pipeline(_NAMES[name]), name=f"tir.{name}")
        return step

    make.__name__ = name
    return make


def __dir__() -> list[str]:
    return sorted([*__all__, *_NAMES, "ConvertLayout"])
