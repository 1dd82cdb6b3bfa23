"""Set how the iterations of a loop run: parallel, vectorize, unroll, bind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ....expr import IntImm, replace
from ...analysis.dependences import accesses
from ...analysis.threads import why_not_again
from ...annotations import THREAD_AXES, is_thread_axis, suggestion
from ...nodes import For, ForKind
from .. import programs as on
from .. import requirements as req
from ..registry import Failure, primitive, requirement
from ..state import ScheduleState
from .annotate import pipelines_well_formed


@requirement
def changeable_kind(state: ScheduleState, loop: For) -> Failure | None:
    """the loop is not bound to a thread axis, or the program below it accesses only buffers in global storage

    A loop has only one kind, so the new kind replaces the old one. Each thread has its own "local" storage, and the
    threads of a block share "shared" storage. An access that is legal for threads may therefore be illegal for another
    kind.
    """
    if loop.kind != ForKind.THREAD:
        return None
    for access in accesses(state.home(loop), loop):
        buffer = access.buffer
        if not buffer.scope.startswith("global"):
            return Failure(
                {loop: "here", access.spot: f"{buffer.scope} storage"},
                "a loop that is bound to no thread axis, or global storage below it",
                f"{loop.var.name} is bound to {loop.thread}, and {buffer.name} is in {buffer.scope} storage",
                ("undo() the step that bound it",),
            )
    return None


@requirement
def serial_loop(state: ScheduleState, loop: For) -> Failure | None:
    """the loop is serial, because a loop has only one kind"""
    if loop.kind == ForKind.SERIAL:
        return None
    kind = f"bound to {loop.thread}" if loop.kind == ForKind.THREAD else str(loop.kind)
    return Failure(
        {loop: "here"}, "a serial loop", f"{loop.var.name} is {kind} already", ("undo() the step that made it so",)
    )


@requirement
def constant_extent(state: ScheduleState, loop: For) -> Failure | None:
    """the extent is a constant, because it becomes the number of lanes"""
    if isinstance(loop.extent, IntImm):
        return None
    return Failure(
        {loop: f"{loop.extent} iterations"},
        "a constant extent",
        f"{loop.var.name} runs {loop.extent} times",
        (f"split({loop.var.name}, [None, 8]) and take the inner loop",),
    )


@requirement
def thread_axis(state: ScheduleState, loop: For, thread_axis: str) -> Failure | None:
    """the axis is blockIdx.x|y|z, threadIdx.x|y|z, vthread or vthread.x|y|z"""
    if is_thread_axis(thread_axis):
        return None
    expected = "blockIdx.x, .y, .z, threadIdx.x, .y, .z or vthread"
    return Failure({loop: ""}, expected, repr(thread_axis), suggestion(thread_axis, THREAD_AXES))


@requirement
def axis_not_taken(state: ScheduleState, loop: For, thread_axis: str) -> Failure | None:
    """no loop around this one, or inside it, is bound to the same axis, unless the threads divide the iterations of the
    inner loop among themselves

    Threads of threadIdx can divide an inner loop in this way (cooperative fetching) if the loop has as many iterations
    as there are threads, all threads run the same iterations, and these write only "shared" storage.
    """
    tree = state.home(loop)
    for other in tree.loops.values():
        nested = tree.inside(loop, other) or tree.inside(other, loop)
        if other is loop or not nested or other.thread != thread_axis or thread_axis.startswith("vthread"):
            continue
        fault = f"{thread_axis} is taken by {other.var.name}"
        if thread_axis.startswith("threadIdx"):
            reason = why_not_again(other, loop) if tree.inside(loop, other) else why_not_again(loop, other)
            if reason is None:
                continue
            fault += f"; {reason}"
        return Failure(
            {loop: "this loop", other: f"is bound to {thread_axis}"}, "an axis that is free in this nest", fault
        )
    return None


@requirement
def blocks_around_threads(state: ScheduleState, loop: For, thread_axis: str) -> Failure | None:
    """in a nest, loops bound to blockIdx are outside loops bound to threadIdx, because a block consists of threads"""
    tree = state.home(loop)
    for other in tree.loops.values():
        block, thread = (loop, other) if thread_axis.startswith("blockIdx") else (other, loop)
        axes = {loop: thread_axis, other: str(other.thread)}
        if axes[block].startswith("blockIdx") and axes[thread].startswith("threadIdx") and tree.inside(block, thread):
            return Failure(
                {thread: axes[thread], block: axes[block]},
                "blocks of threads around their threads",
                f"{block.var.name} is inside {thread.var.name}",
                (f"reorder({block.var.name}, {thread.var.name})",),
            )
    return None


_CONCURRENT = (
    changeable_kind,
    req.structured_below,
    req.only_spatial,
    req.quasi_affine_bindings,
    req.no_races,
)


@primitive(aka={"Halide": "parallel", "Exo": "parallelize_loop"}, requires=_CONCURRENT)
def parallel(state: ScheduleState, loop: For) -> None:
    """Run the iterations of a loop in parallel on a team of threads.

    before:
        for i in range(8):
            with T.block("B"): B[vi] = A[vi] * 2.0
    call: `sch.parallel(i)`
    after:
        for i in T.parallel(8):
            with T.block("B"): B[vi] = A[vi] * 2.0
    """
    state.replace({loop: replace(loop, kind=ForKind.PARALLEL, thread=None)})


_TO_THREADS = (
    "sch.reverse_compute_at(sch.cache_write('C', 0, 'local'), i); sch.bind(sch.get_loops('C')[0], 'threadIdx.x'); "
)
_SQUARES = """
for i in range(8):
    with T.block("A"):
        vi = T.axis.spatial(64, i * i)
        A[vi] = 1.0
"""
_ONE_CELL = """
for i in range(8):
    with T.block("B"): B[0] = A[vi]
"""
_RUNNING_SUM = """
for i in range(7):
    with T.block("A"): A[vi + 1] = A[vi + 1] + A[vi]
"""
parallel.refuses(changeable_kind, _TO_THREADS + "sch.parallel(sch.get_loops('C')[0])", on.MATMUL)
parallel.refuses(req.structured_below, "sch.parallel(i)", _RUNNING_SUM)
parallel.refuses(req.only_spatial, "sch.parallel(k)", on.MATMUL)
parallel.refuses(req.quasi_affine_bindings, "sch.parallel(i)", _SQUARES)
parallel.refuses(req.no_races, "sch.parallel(i)", _ONE_CELL)


@primitive(aka={"Halide": "vectorize"}, requires=(*_CONCURRENT, constant_extent))
def vectorize(state: ScheduleState, loop: For) -> None:
    """Run the iterations of a loop as the lanes of vector instructions.

    before:
        for i in range(8):
            with T.block("B"): B[vi] = A[vi] * 2.0
    call: `sch.vectorize(i)`
    after:
        for i in T.vectorized(8):
            with T.block("B"): B[vi] = A[vi] * 2.0
    """
    state.replace({loop: replace(loop, kind=ForKind.VECTORIZED, thread=None)})


vectorize.refuses(changeable_kind, _TO_THREADS + "sch.vectorize(sch.get_loops('C')[0])", on.MATMUL)
vectorize.refuses(req.structured_below, "sch.vectorize(i)", _RUNNING_SUM)
vectorize.refuses(req.only_spatial, "sch.vectorize(k)", on.MATMUL)
vectorize.refuses(req.quasi_affine_bindings, "sch.vectorize(i)", _SQUARES)
vectorize.refuses(req.no_races, "sch.vectorize(i)", _ONE_CELL)
vectorize.refuses(constant_extent, "sch.vectorize(i)", on.SYMBOLIC_MATMUL)


@primitive(aka={"Halide": "unroll", "Exo": "unroll_loop"}, requires=[changeable_kind])
def unroll(state: ScheduleState, loop: For) -> None:
    """Write out the iterations of a loop one after another.

    before:
        for i in range(8):
            with T.block("B"): B[vi] = A[vi] * 2.0
    call: `sch.unroll(i)`
    after:
        for i in T.unroll(8):
            with T.block("B"): B[vi] = A[vi] * 2.0
    """
    state.replace({loop: replace(loop, kind=ForKind.UNROLLED, thread=None)})


unroll.refuses(changeable_kind, _TO_THREADS + "sch.unroll(sch.get_loops('C')[0])", on.MATMUL)
unroll.refuses(
    pipelines_well_formed,
    "sch.annotate('load', 'double_buffer_scope', 0); sch.unroll(sch.get_loops('use')[0])",
    on.LOAD_AND_USE,
)


@primitive(
    aka={"Halide": "gpu_blocks"},
    requires=[
        changeable_kind, thread_axis, axis_not_taken, blocks_around_threads, req.structured_below, req.only_spatial,
        req.quasi_affine_bindings, req.no_races,
    ],
)  # fmt: skip
def bind(state: ScheduleState, loop: For, thread_axis: str) -> None:
    """Bind a loop to an axis of the GPU's grid ("blockIdx.x"), of its blocks ("threadIdx.x"), or to virtual threads.

    before:
        for i in range(8):
            with T.block("B"): B[vi] = A[vi] * 2.0
    call: `sch.bind(i, "threadIdx.x")`
    after:
        for i in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("B"): B[vi] = A[vi] * 2.0

    You may bind a reduction loop to threadIdx. Its threads then compute one result together, and no later step may
    introduce a race between them (`threads_add_up`). Its iterations have the same meaning as those of a serial loop. On
    a GPU, each thread computes a partial result, and the threads then combine them (`lower_thread_reductions`).
    """
    state.replace({loop: replace(loop, kind=ForKind.THREAD, thread=thread_axis)})


bind.refuses(changeable_kind, _TO_THREADS + "sch.bind(sch.get_loops('C')[0], 'threadIdx.x')", on.MATMUL)
bind.refuses(thread_axis, "sch.bind(i, 'threadIdx.w')", on.MATMUL)
bind.refuses(axis_not_taken, "sch.bind(i, 'threadIdx.x'); sch.bind(sch.get_loops('C')[1], 'threadIdx.x')", on.MATMUL)
bind.refuses(
    blocks_around_threads, "sch.bind(i, 'threadIdx.x'); sch.bind(sch.get_loops('C')[1], 'blockIdx.x')", on.MATMUL
)
bind.refuses(req.structured_below, "sch.bind(i, 'threadIdx.x')", _RUNNING_SUM)
bind.refuses(req.only_spatial, "sch.bind(k, 'blockIdx.x')", on.MATMUL)
bind.refuses(req.quasi_affine_bindings, "sch.bind(i, 'threadIdx.x')", _SQUARES)
bind.refuses(req.no_races, "sch.bind(i, 'threadIdx.x')", _ONE_CELL)


def _each_loop(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    return ((loop,) for loop in state.tree().loops.values())


def _each_axis(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    return ((loop, axis) for loop in state.tree().loops.values() for axis in ("blockIdx.x", "threadIdx.x"))


_Space = Callable[[ScheduleState], Iterable[tuple[Any, ...]]]
_spaces: list[tuple[Any, _Space]] = [
    (parallel, _each_loop),
    (vectorize, _each_loop),
    (unroll, _each_loop),
    (bind, _each_axis),
]
for _made, _calls in _spaces:
    _made.space(_calls)
