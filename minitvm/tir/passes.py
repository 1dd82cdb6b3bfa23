"""Passes over modules, and the lowering passes under TVM's names: `tir.transform.Simplify()(mod)`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from ..errors import InputError, nearest
from .nodes import IRModule, PrimFunc

# --- TVM's `PassContext`: which instruments watch the passes that run inside it.
#
#     with transform.PassContext(opt_level=3, instruments=[ir.instrument.PrintAfterAll()]):
#         tvm.build(func)
#
# An instrument is an object with any of the methods `enter_pass_ctx()`, `exit_pass_ctx()`, `should_run(module, info)`,
# `run_before_pass(module, info)` and `run_after_pass(module, info)`. Passes of lowering are always run; what is called
# by itself (`tir.transform.Simplify()(module)`) an instrument can turn down.


M = TypeVar("M")
_CURRENT: ContextVar[tuple[PassContext, ...]] = ContextVar("pass_context", default=())


@dataclass(frozen=True, slots=True)
class PassInfo:
    """Describes a running pass to instruments.

    `required` lists the passes that the pass depends on. It is a field of TVM's class and is always empty here.
    """

    name: str
    opt_level: int = 0
    required: tuple[str, ...] = ()


class PassContext:
    """The settings of the passes that run inside a `with` block.

    `opt_level` is TVM's number and has no effect here. The passes named in `disabled_pass` do nothing if they are
    called directly. Raises `InputError` if pass options (`config`) are given, because there are none.
    """

    def __init__(self, opt_level: int = 2, required_pass: Iterable[str] | None = None,
                 disabled_pass: Iterable[str] | None = None, instruments: Iterable[Any] | None = None,
                 config: Mapping[str, Any] | None = None) -> None:  # fmt: skip
        if config:
            raise InputError(f"passes have no option {next(iter(config))!r} here\n  try:    PassContext without config")
        self.opt_level = opt_level
        self.required_pass = tuple(required_pass or ())
        self.disabled_pass = tuple(disabled_pass or ())
        self.instruments = tuple(instruments or ())

    @staticmethod
    def current() -> PassContext:
        """Return the context of the innermost `with` block, or a context without instruments outside of any."""
        stack = _CURRENT.get()
        return stack[-1] if stack else PassContext()

    def __enter__(self) -> PassContext:
        _CURRENT.set((*_CURRENT.get(), self))
        self._tell("enter_pass_ctx")
        return self

    def __exit__(self, *error: Any) -> None:
        self._tell("exit_pass_ctx")
        _CURRENT.set(_CURRENT.get()[:-1])

    def run(self, name: str, apply: Callable[[M], M], program: M, shown: Callable[[M], Any] = lambda program: program,
            optional: bool = False) -> M:  # fmt: skip
        """Run `apply(program)`, and call every instrument before and after it. `shown` converts the program to a module
        for the instruments. An `optional` pass is skipped, and the program returned unchanged, if the pass is disabled
        or an instrument declines it.
        """
        if not self.instruments and not self.disabled_pass:
            return apply(program)
        info = PassInfo(name)
        short = name.rpartition(".")[2]
        if optional and (name in self.disabled_pass or short in self.disabled_pass):
            return program
        if optional and not self._all_agree(shown(program), info):
            return program
        self._tell("run_before_pass", shown(program), info)
        result = apply(program)
        self._tell("run_after_pass", shown(result), info)
        return result

    def _all_agree(self, module: Any, info: PassInfo) -> bool:
        asked = [getattr(instrument, "should_run", None) for instrument in self.instruments]
        return all(ask(module, info) for ask in asked if ask is not None)

    def _tell(self, event: str, *arguments: Any) -> None:
        for instrument in self.instruments:
            method = getattr(instrument, event, None)
            if method is not None:
                method(*arguments)


# TVM's name -> the name of the pass in `transform.pipeline.passes()` that does the same.
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
    """A named function that maps a module to a module."""

    name: str
    run: Callable[[IRModule], IRModule]

    def __call__(self, module: IRModule) -> IRModule:
        if not isinstance(module, IRModule):
            raise InputError(
                f"{self.name} takes a module\n  found:  {type(module).__name__}\n  try:    tvm.IRModule.from_expr(func)"
            )
        return PassContext.current().run(self.name, self.run, module, optional=True)


def module_pass(function: Any = None, *, opt_level: int = 0, name: str | None = None) -> Any:
    """Decorator: turn `function(module, context) -> module` (or `function(module)`) into a pass."""
    if function is None:
        return lambda decorated: module_pass(decorated, opt_level=opt_level, name=name)
    several = len(inspect.signature(function).parameters) > 1

    def run(module: IRModule) -> IRModule:
        result: IRModule = function(module, PassContext.current()) if several else function(module)
        return result

    return ModulePass(name or function.__name__, run)


def prim_func_pass(function: Any = None, *, opt_level: int = 0, name: str | None = None) -> Any:
    """Decorator: turn `function(func, module) -> func` (or `function(func)`) into a pass that is applied to all
    functions.
    """
    if function is None:
        return lambda decorated: prim_func_pass(decorated, opt_level=opt_level, name=name)
    several = len(inspect.signature(function).parameters) > 1

    def run(module: IRModule) -> IRModule:
        for key, func in module.items():
            module = module.with_function(key, function(func, module) if several else function(func))
        return module

    return ModulePass(name or function.__name__, run)


def names() -> list[str]:
    """Return the TVM names of the available passes."""
    return sorted(_NAMES)


def named(name: str) -> Callable[[], ModulePass]:
    """Return the constructor of the pass with this TVM name. Raises `AttributeError` for other names, because modules
    use it for their attributes.
    """
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
