"""The passes that lower a function, in order. If you have read this list, you know how the compiler lowers programs.

The list contains the passes that every machine needs. A machine adds its own passes after some of these; see
`machines/cpu/passes.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ...backend import find, own
from ...errors import InternalError, nearest
from ...expr.foreign import require_runnable
from ...target import Target
from ..assumptions import left_out
from ..meanings import written_out
from ..nodes import IRModule, PrimFunc
from ..passes import PassContext
from ..verifier import verify_if_asked
from .align_storage import align_storage
from .compact_buffers import compact_buffers
from .dense_parameters import dense_parameters
from .drop_blocks import drop_blocks
from .flatten_buffers import flatten_buffers
from .growth import within_budget
from .hoist_conditions import hoist_conditions
from .inject_double_buffer import inject_double_buffer
from .inject_software_pipeline import inject_software_pipeline
from .inject_virtual_thread import inject_virtual_thread
from .join_parallel_loops import join_parallel_loops
from .keep_roles import keep_roles
from .lower_init import lower_init
from .lower_match_buffers import lower_match_buffers
from .parallel_loops import fuse_parallel_loops
from .place_allocations import place_allocations
from .promote_accumulators import promote_accumulators
from .reuse_workspaces import reuse_workspaces
from .separate_allocations import separate_allocations
from .share_indices import share_indices
from .share_loads import share_loads
from .share_values import share_values
from .shorten_loops import shorten_loops
from .simplify import simplify
from .split_host import split_host
from .unroll import unroll
from .unswitch_repeats import unswitch_repeats
from .vectorize import vectorize

PassCallback = Callable[[str, PrimFunc, Any], None]
Additions: TypeAlias = Mapping[str, Sequence["Pass"]]  # by the name of the pass that they follow


@dataclass(frozen=True, slots=True)
class Pass:
    """One step of lowering: a function that maps a `PrimFunc` and a target to a `PrimFunc`, with a one-line
    description.
    """

    name: str
    run: Callable[[PrimFunc, Any], PrimFunc]
    meaning: str


def plain(function: Callable[[PrimFunc], PrimFunc], meaning: str) -> Pass:
    """Return a pass that does not use the target. It has the same name as its function."""
    run = functools.wraps(function)(lambda func, target: function(func))  # with its docstring
    return Pass(function.__name__, run, meaning)


PASSES: tuple[Pass, ...] = (
    plain(dense_parameters, "parameters become dense arrays, even if their types declare strides"),
    plain(lower_match_buffers, "accesses through views become accesses to the viewed buffers"),
    plain(inject_double_buffer, "loops with double buffers are annotated as pipelines"),
    plain(inject_software_pipeline, "annotated loops run in stages, with several versions of their buffers"),
    plain(lower_init, "inits become statements that run before the first step of their reduction"),
    plain(drop_blocks, "iterators become their values, predicates conditions, and local buffers allocations"),
    plain(inject_virtual_thread, "the statements of virtual threads are interleaved"),
    plain(simplify, "indices become linear; decided branches and loops of one iteration disappear"),
    Pass("fuse_parallel_loops", fuse_parallel_loops, "each kernel has only one parallel loop, the outermost"),
    plain(join_parallel_loops, "parallel loops that touch different elements become one loop"),
    plain(separate_allocations, "each iteration of a concurrent loop gets its own part of the storage"),
    plain(hoist_conditions, "inits move before their reduction loops, and invariant conditions around loops"),
    plain(reuse_workspaces, "workspaces of unknown size shrink to the part that one iteration uses"),
    plain(place_allocations, "allocations move into the smallest nest with all accesses, or onto the stack"),
    plain(compact_buffers, "allocations shrink to the region that is used"),
    plain(align_storage, "allocations get the strides that a schedule requested"),
    plain(flatten_buffers, "buffers become one-dimensional"),
    plain(unswitch_repeats, "nests with operands that may be repeated get a version without repetition"),
    Pass("vectorize", vectorize, "vectorised loops become vector statements, or serial loops if that is impossible"),
    plain(share_values, "values that an expression computes several times are computed once"),
    plain(unroll, "unrolled loops become sequences of statements"),
    replace(plain(simplify, "constants of unrolled iterations are folded"), name="simplify_again"),
    plain(shorten_loops, "loops run only over the iterations that a condition selects"),
    plain(promote_accumulators, "elements that a loop reduces into are kept in registers while it runs"),
    plain(share_loads, "values that consecutive stores load several times are loaded once"),
    plain(share_indices, "accesses at constant distances share a base address"),
)


def passes(target: Target | None = None) -> tuple[Pass, ...]:
    """Return the passes for a target, in order.

    The target's back end adds passes to the neutral ones, or has its own list. Without a back end, the passes that any
    machine adds are all included: each pass ignores programs that are not for its machine.
    """
    backend = find(target)
    if backend is None:
        return extended(*(adds for one in own() if isinstance(adds := one.part("passes"), Mapping)))
    listed = backend.part("passes")
    if listed is None:
        return PASSES
    return extended(listed) if isinstance(listed, Mapping) else tuple(listed)


def extended(*additions: Additions) -> tuple[Pass, ...]:
    """Return the neutral passes, each followed by the passes that machines add after it.

    A pass that two machines add runs only once. Raises `InternalError` if a pass is to be added after something that is
    not a neutral pass.
    """
    places = {step.name: {step.name: step} for step in PASSES}
    for place, steps in (item for adds in additions for item in adds.items()):
        if place not in places:
            raise InternalError(f"passes are added behind {place!r}; {nearest(place, list(places))}")
        for step in steps:
            places[place].setdefault(step.name, step)
    return tuple(step for steps in places.values() for step in steps.values())


def _applied(step: Pass, target: Target | None, limited: bool, func: PrimFunc) -> PrimFunc:
    if not limited:
        return step.run(func, target)
    return within_budget(step.name, func, lambda func: step.run(func, target))


def lower(
    func: PrimFunc,
    target: Target | None = None,
    name: str | None = None,
    callback: PassCallback | None = None,
    without: Collection[str] = (),
    limited: bool = False,
) -> IRModule:
    """Lower a loop program with the target's passes; return an `IRModule` of one host function `name` and its kernels.

    `callback(pass name, before, after)` is called after every step; for the last step, "split_host", `after` is the
    module. The passes named in `without` are skipped, which is only allowed for passes that make kernels faster, not
    for those that make them legal. With MINITVM_VERIFY=1, `func` is checked by the rules of loop programs, and the
    result by those of lowered programs. With `limited`, each pass has a budget for the code that it adds, and
    `TooMuchCode` is raised if a pass exceeds it. A nest of loops bound to a GPU's grid becomes a kernel; back ends
    without such a grid refuse it. Raises `Unsupported` for a function that calls foreign code, and for a reduction over
    threads in a form that no pass handles.
    """
    target = Target(target) if isinstance(target, str) else target
    func = left_out(written_out(func))
    require_runnable(func)
    verify_if_asked("scheduling", func)
    context = PassContext.current()
    whole = func
    for step in passes(target):
        if step.name in without:
            continue
        before = func
        func = context.run(step.name, functools.partial(_applied, step, target, limited), func, IRModule.from_expr)
        if callback is not None:
            callback(step.name, before, func)
    module = keep_roles(whole, split_host(func, name or func.name), name or func.name)
    if callback is not None:
        callback("split_host", func, module)
    if not without:  # without the effects of skipped passes, later rules may not hold
        verify_if_asked("lowering", module, level="kernel")
    return module
