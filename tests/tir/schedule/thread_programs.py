"""Random programs, and schedules of the usual form for a GPU: tiles for blocks and threads, staged in shared and local
storage, copied together."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from minitvm import te
from minitvm.errors import ScheduleError
from minitvm.script import from_source
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import Schedule

Draw = Callable[[st.SearchStrategy[Any]], Any]


def product(draw: Draw) -> PrimFunc:
    """A matrix product, maybe with a scale and a bias after it."""
    m, n, k = (draw(st.integers(1, 9)) for _ in range(3))
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    if draw(st.booleans()):
        return te.create_prim_func([a, b, c])
    bias = te.placeholder((n,), name="bias")
    return te.create_prim_func([a, b, bias, te.compute((m, n), lambda i, j: c[i, j] * 2.0 + bias[j], name="D")])


def stencil(draw: Draw) -> PrimFunc:
    """Sums over a window: tiles of neighbours read a halo in common."""
    n, window, stride = draw(st.integers(1, 12)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    rows = draw(st.integers(1, 5))
    a = te.placeholder((rows, n * stride + window), name="A")
    w = te.placeholder((window,), name="W")
    r = te.reduce_axis((0, window), name="r")
    return te.create_prim_func(
        [a, w, te.compute((rows, n), lambda i, j: te.sum(a[i, j * stride + r] * w[r], axis=r), name="C")]
    )


def transposed(draw: Draw) -> PrimFunc:
    """A matrix turned around: what a thread writes another one has read."""
    m, n = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    a = te.placeholder((m, n), name="A")
    return te.create_prim_func([a, te.compute((n, m), lambda i, j: a[j, i] + 1.0, name="C")])


def scratch_of_threads(draw: Draw) -> PrimFunc:
    """Threads that use the same few elements again and again: each thread its own, or together those of all."""
    threads, turns, size = draw(st.integers(2, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    if draw(st.booleans()):
        scope, room, loop, own, other, place = "shared", threads, "if True:", "t", f"{threads - 1} - t", "t"
        columns, outer = threads, "blockIdx.x"
    else:
        scope, room, loop, own, other = "local", size, f"for j in range({size}):", "j", f"{size - 1} - j"
        place, columns, outer = f"t * {size} + j", threads * size, draw(st.sampled_from(("blockIdx.x", "vthread")))
    shape = f"T.Buffer((2, {turns}, {columns}), 'float32')"
    return from_source(f"""
@T.prim_func
def main(A: {shape}, B: {shape}):
    S = T.alloc_buffer(({room},), scope="{scope}")
    for b in T.thread_binding(2, thread="{outer}"):
        for t in T.thread_binding({threads}, thread="threadIdx.x"):
            for k in range({turns}):
                {loop}
                    S[{own}] = A[b, k, {place}] * T.float32(2)
                {loop}
                    B[b, k, {place}] = S[{other}]
""")


KINDS = (("threadIdx.y", "threadIdx.x"), ("threadIdx.x", "vthread"), ("vthread", "threadIdx.x"))
FAMILIES = (product, stencil, transposed)


def scheduled_for_gpu(draw: Draw) -> tuple[PrimFunc, Schedule]:
    """A random program and a schedule of it; steps that are refused are left out."""
    func = draw(st.sampled_from(FAMILIES))(draw)
    sch = Schedule(func)
    schedule_for_gpu(sch, draw)
    return func, sch


def schedule_for_gpu(sch: Schedule, draw: Draw) -> None:
    """Tile the block C (and D after it) for blocks and threads, stage what it reads and writes."""

    def step(function: Callable[[], Any]) -> Any:
        with contextlib.suppress(ScheduleError):
            return function()

    block = sch.get_block("C")
    iterators = [it.kind for it in sch.get(block).iter_vars]
    loops = sch.get_loops(block)
    outer, threads, inner, reduced = [], [], [], []
    for loop, kind in zip(loops, iterators, strict=True):
        if kind == "R":
            reduced += sch.split(loop, [None, draw(st.integers(1, 3))])
            continue
        parts = sch.split(loop, [None, draw(st.integers(1, 4)), draw(st.integers(1, 2))])
        for group, part in zip((outer, threads, inner), parts, strict=True):
            group.append(part)
    # With the reduction innermost, what one tile of a thread has fetched is fetched again for the next.
    serial = [*reduced, *inner] if draw(st.booleans()) else [*inner, *reduced]
    sch.reorder(*outer, *threads, *serial)
    axes = ("blockIdx.y", "blockIdx.x", *draw(st.sampled_from(KINDS)))
    bound = list(zip((*outer, *threads), axes, strict=True))
    first = draw(st.sampled_from((len(bound), len(bound), 2, 0)))  # the others when everything is in its place
    for loop, axis in bound[:first]:
        step(lambda loop=loop, axis=axis: sch.bind(loop, axis))
    places = [outer[-1], threads[-1], *serial]
    if draw(st.booleans()):
        scope = draw(st.sampled_from(("local", "shared")))
        written = step(lambda: sch.cache_write(block, 0, scope))
        if written is not None:
            step(lambda: sch.reverse_compute_at(written, draw(st.sampled_from((threads[-1], outer[-1])))))
    for index in range(len(sch.get(block).reads)):
        stage(sch, draw, step, block, index, places)
    if reduced and draw(st.booleans()):
        step(lambda: sch.decompose_reduction(block, draw(st.sampled_from(reduced))))
    for loop, axis in bound[first:]:
        step(lambda loop=loop, axis=axis: sch.bind(loop, axis))


def stage(sch: Schedule, draw: Draw, step: Any, block: Any, index: int, places: list[Any]) -> None:
    """Copy an input to faster storage, by all threads together where they share it; maybe to registers after that."""
    for scope in draw(st.sampled_from(((), ("shared",), ("local",), ("shared", "local"), ("shared", "shared")))):
        copy = step(lambda scope=scope: sch.cache_read(block, index, scope))
        if copy is None or step(lambda copy=copy: sch.compute_at(copy, draw(st.sampled_from(places))) or True) is None:
            continue
        if scope != "shared" or not draw(st.booleans()):
            continue
        own = step(lambda copy=copy: sch.fuse(*own_loops(sch, copy)))
        if own is None:
            continue
        bound = [sch.get(l) for l in sch.get_loops(copy)]
        axes = [(l.thread, int(l.extent)) for l in bound if str(l.thread).startswith("threadIdx")]
        parts = step(lambda own=own, axes=axes: sch.split(own, [None, *(extent for _, extent in axes)]))
        for part, (axis, _) in zip((parts or [])[1:], axes, strict=False):
            step(lambda part=part, axis=axis: sch.bind(part, axis))


def own_loops(sch: Schedule, copy: Any) -> list[Any]:
    """The loops of a copy alone: those that compute_at has made for it."""
    return [l for l in sch.get_loops(copy) if sch.get(l).loop_var.name.startswith("ax")]
