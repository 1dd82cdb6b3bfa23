"""The passes that lower a function, in order: reading this list is reading the compiler."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from ...backend import lookup
from ...expr.foreign import require_runnable
from ...target import Target
from ..assumptions import left_out
from ..meanings import written_out
from ..nodes import IRModule, PrimFunc
from ..pass_context import PassContext
from ..verifier import verify_if_asked
from .align_storage import align_storage
from .bind_threads import bind_threads
from .compact_buffers import compact_buffers
from .dense_parameters import dense_parameters
from .drop_blocks import drop_blocks
from .flatten_buffers import flatten_buffers
from .growth import within_budget
from .hoist_conditions import hoist_conditions
from .inject_double_buffer import inject_double_buffer
from .inject_prefetch import inject_prefetch
from .inject_software_pipeline import inject_software_pipeline
from .inject_virtual_thread import inject_virtual_thread
from .insert_barriers import insert_barriers
from .join_parallel_loops import join_parallel_loops
from .keep_roles import keep_roles
from .lower_init import lower_init
from .lower_match_buffers import lower_match_buffers
from .lower_thread_allreduce import lower_thread_allreduce
from .lower_thread_reductions import lower_thread_reductions
from .parallel_loops import fuse_parallel_loops
from .partition_loops import partition_loops
from .place_allocations import place_allocations
from .promote_accumulators import promote_accumulators
from .reuse_workspaces import reuse_workspaces
from .separate_allocations import separate_allocations
from .share_indices import share_indices
from .share_loads import share_loads
from .share_values import share_values
from .shorten_loops import shorten_loops
from .shrink_shared import shrink_shared
from .simplify import simplify
from .skip_zeros import skip_zeros
from .split_host import split_host
from .strided_loads import strided_loads
from .strided_stores import strided_stores
from .swizzle_shared import swizzle_shared
from .transpose_tiles import transpose_tiles
from .unmask_registers import unmask_registers
from .unroll import unroll
from .unswitch_repeats import unswitch_repeats
from .unswitch_tiles import unswitch_tiles
from .vector_reductions import vectorize_reductions
from .vectorize import vectorize

PassCallback = Callable[[str, PrimFunc, Any], None]


@dataclass(frozen=True, slots=True)
class Pass:
    """One step of lowering: a function from `PrimFunc` and target to `PrimFunc`, and what it means in a line."""

    name: str
    run: Callable[[PrimFunc, Any], PrimFunc]
    meaning: str


def _plain(function: Callable[[PrimFunc], PrimFunc], meaning: str) -> Pass:
    return Pass(function.__name__, lambda func, target: function(func), meaning)


PASSES: tuple[Pass, ...] = (
    _plain(dense_parameters, "parameters are dense arrays, whatever strides their types give them"),
    _plain(lower_match_buffers, "accesses through views become accesses of the buffer viewed"),
    _plain(inject_double_buffer, "blocks that fill double buffers are to run an iteration ahead: as a pipeline"),
    _plain(inject_software_pipeline, "annotated loops run in stages, on several versions of their buffers"),
    _plain(lower_thread_reductions, "threads that reduce have partial results, which they combine"),
    _plain(shrink_shared, "storage that threads share shrinks to what one iteration of their loop uses"),
    _plain(lower_init, "a block's init runs where its reduction iterators stand at their start"),
    _plain(drop_blocks, "iterators and lets become their values, predicates conditions, local buffers allocations"),
    Pass("lower_thread_allreduce", lower_thread_allreduce, "threads combine values by shuffles, or by a shared tree"),
    _plain(bind_threads, "a loop that binds an axis again is its thread; what all threads would do alike, one does"),
    _plain(inject_virtual_thread, "the statements of virtual threads are interleaved"),
    _plain(simplify, "indices in linear form, decided branches and loops of one iteration gone"),
    _plain(skip_zeros, "noted loops of a sum run only where they read something but padding"),
    _plain(fuse_parallel_loops, "one parallel loop a kernel, outermost"),
    _plain(join_parallel_loops, "parallel loops that touch different elements are one, so that no thread waits"),
    _plain(separate_allocations, "what an iteration of a concurrent loop allocates is its own, wherever it is placed"),
    _plain(insert_barriers, "threads wait where one may touch shared storage that another one touched before"),
    _plain(hoist_conditions, "inits move before their reduction loops, invariant conditions around loops"),
    _plain(reuse_workspaces, "workspaces of an open size that a serial loop fills anew shrink to an iteration's part"),
    _plain(place_allocations, "allocations move to the smallest nest that holds all accesses, small ones to the stack"),
    _plain(compact_buffers, "allocations shrink to the region that is used"),
    _plain(align_storage, "allocations get the strides that a schedule asked for"),
    _plain(swizzle_shared, "pieces of the lines of swizzled tiles change places, so that columns lie in all banks"),
    _plain(flatten_buffers, "buffers get one dimension"),
    _plain(unswitch_repeats, "operands of open sizes that may be repeated get a version of the nest without that"),
    _plain(partition_loops, "iterations that need their conditions are peeled off the others"),
    _plain(unswitch_tiles, "tiles that may stick out of a symbolic extent get versions without conditions"),
    _plain(vectorize_reductions, "annotated reduction loops accumulate in several lanes"),
    _plain(transpose_tiles, "copies that turn a tile around become shuffles of vectors"),
    Pass("vectorize", vectorize, "vectorised loops become vector statements, or plain loops where they cannot"),
    _plain(share_values, "what an expression computes many times, for it was inlined at many places, is computed once"),
    _plain(unroll, "unrolled loops become sequences"),
    Pass("simplify_again", lambda func, target: simplify(func), "constants of unrolled iterations folded"),
    _plain(shorten_loops, "loops of which a condition takes a part run over that part"),
    _plain(promote_accumulators, "an element that a loop reduces into stays in a register while it runs"),
    _plain(unmask_registers, "lanes of accumulators that nobody reads need no masks"),
    _plain(strided_stores, "stores that fill one another's gaps become one of neighbours"),
    _plain(share_loads, "what a straight run of statements loads twice is loaded once"),
    _plain(strided_loads, "loads of every second element become loads of vectors and shuffles"),
    _plain(inject_prefetch, "loops that stream through memory ask for it ahead of time"),
    _plain(share_indices, "accesses at constant distances share a base address"),
)


def _applied(step: Pass, target: Any, limited: bool, func: PrimFunc) -> PrimFunc:
    if not limited:
        return step.run(func, target)
    return within_budget(step.name, func, lambda func: step.run(func, target))


def lower(
    func: PrimFunc,
    target: Any = None,
    name: str | None = None,
    callback: PassCallback | None = None,
    without: Collection[str] = (),
    limited: bool = False,
) -> IRModule:
    """Lower a level-3 function to an `IRModule` of one host function `name` and its kernels, by the target's passes.

    `callback(pass name, before, after)` sees every step; after the last one, "split_host", it gets the module.
    Passes named in `without` are left out: those that make kernels faster, not legal, may be.
    With MINITVM_VERIFY=1 the rules of level 3 are checked on `func` and those of the kernel level on the result.
    With `limited` each pass has a budget for the code that it adds, and `TooMuchCode` is raised if it spends more.
    A nest of loops bound to a GPU's grid is a kernel; back ends without such a grid refuse it. Raises `Unsupported`
    for a function that calls foreign code, and for a reduction over threads of a form that no pass takes.
    """
    target = Target(target) if isinstance(target, str) else target
    func = left_out(written_out(func))
    require_runnable(func)
    verify_if_asked("scheduling", func)
    context = PassContext.current()
    whole = func
    for step in lookup(target, "passes") or PASSES:
        if step.name in without:
            continue
        before = func
        func = context.run(step.name, functools.partial(_applied, step, target, limited), func, IRModule.from_expr)
        if callback is not None:
            callback(step.name, before, func)
    module = keep_roles(whole, split_host(func, name or func.name), name or func.name)
    if callback is not None:
        callback("split_host", func, module)
    if not without:  # what passes left out would have done is missing
        verify_if_asked("lowering", module, level="kernel")
    return module
