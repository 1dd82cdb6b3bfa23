"""The rules for modules: a call must fit the kernel that it names."""

from __future__ import annotations

from collections.abc import Callable

from ...expr import Node, walk
from ..nodes import Buffer, For, ForKind, IRModule, KernelCall
from .rule import Broken


def _calls_fit(module: IRModule) -> Broken:
    for func in module.functions.values():
        for call in walk(func.body):
            if not isinstance(call, KernelCall):
                continue
            kernel = module.functions.get(call.kernel)
            if kernel is None:
                yield call, f"the module has no function {call.kernel}"
            elif len(kernel.params) != len(call.args):
                yield call, f"{len(call.args)} arguments for {len(kernel.params)} parameters"
            else:
                yield from ((call, text) for text in map(_misfit, call.args, kernel.params) if text)
                outermost = isinstance(kernel.body, For) and kernel.body.kind is ForKind.PARALLEL
                if call.parallel and not outermost:
                    yield call, f"parallel, but the outermost loop of {call.kernel} is not"


def _misfit(argument: Node, parameter: Node) -> str:
    if isinstance(argument, Buffer) != isinstance(parameter, Buffer) or argument.dtype != parameter.dtype:  # type: ignore[attr-defined]
        return f"{_named(argument)} is handed over as {_named(parameter)}"
    return ""


def _named(item: Node) -> str:
    kind = "buffer" if isinstance(item, Buffer) else "scalar"
    return f"the {item.dtype} {kind} {getattr(item, 'name', item)}"  # type: ignore[attr-defined]


_FIT = "a call names a function of the module and hands over what its parameters are"
MODULE_RULES: dict[str, tuple[str, Callable[[IRModule], Broken]]] = {"calls_fit_their_kernels": (_FIT, _calls_fit)}
