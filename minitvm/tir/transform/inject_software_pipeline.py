"""Turn loops annotated as software pipelines into a prologue, a loop and an epilogue, with several versions of buffers.

In the stages listed in "software_pipeline_async_stages", copies to shared storage are asynchronous: the parts of one
time step start a group of copies, and a part waits for the groups that it needs before it runs.

If a pipeline has three or more stages, the loop runs to the end, and a condition limits the parts of earlier stages to
the steps in which they run. A separate epilogue would have to repeat the last stage as many times as there are stages,
minus one.

A buffer that gets several versions is first shrunk to the region that one iteration uses. `analysis.software_pipelines`
decides whether the order is legal, and refuses illegal annotations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...arith import Analyzer
from ...errors import ScheduleError, report
from ...expr import Expr, IntImm, Node, Range, const, find, map_children, replace, rewrite, substitute, walk
from .. import nodes as tir
from ..analysis.block_regions import buffers_written, regions_read, regions_written
from ..analysis.boxes import hull, touched
from ..analysis.failure import Failure
from ..analysis.software_pipelines import DOUBLE, KEYS, Pipeline, annotated_loops, malformed, opened, plan
from ..analysis.threads import in_step, is_shared, owns
from ..analysis.tree import Tree, fresh_copy
from ..annotations import ALIGNMENTS
from ..conditions import all_of, uses
from ..strides import strides_of_parts
from .asynchronous_stages import PipelineGroups, asynchronous_parts


def inject_software_pipeline(func: tir.PrimFunc) -> tir.PrimFunc:
    """Expand every loop annotated as a pipeline; raise a `ScheduleError` that names the loop if this is not legal.

    before:
        A: T.Buffer((8,), "float32")
        C: T.Buffer((8,), "float32")
        S = T.decl_buffer((8,))
        for i in T.serial(8, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}):
            S[i] = A[i] * 2.0
            C[i] = S[i] + 1.0
    after, simplified:
        S = T.decl_buffer((8,))
        S[0] = A[0] * 2.0
        for i in range(7):
            S[i + 1] = A[i + 1] * 2.0
            C[i] = S[i] + 1.0
        C[7] = S[7] + 1.0
    """
    while True:
        loop = next(annotated_loops(func), None)
        if loop is None:
            return func
        verdict: Pipeline | Failure | None = malformed(loop)
        if verdict is None:
            func, loop = opened(func, loop)
            verdict = plan(func, loop)
        if not isinstance(verdict, Pipeline):
            raise refusal(func, loop, verdict, "software pipeline")
        func = emit(func, verdict)


def refusal(func: tir.PrimFunc, loop: tir.For | None, failure: Failure | None, what: str) -> ScheduleError:
    """Return the error for a loop that cannot be transformed as its annotations request. `what` names the
    transformation.
    """
    from ..script.printer import script

    if failure is None:
        return ScheduleError(f"{what}: not possible in {func.name}")
    text = script(func, mark=dict(failure.spots), context=12)
    headline = f"{what}: the loop over {loop.var.name} in {func.name}" if loop else f"{what} in {func.name}"
    return ScheduleError(report(headline, program=text, wanted=failure.wanted, found=failure.found))


def emit(func: tir.PrimFunc, pipeline: Pipeline) -> tir.PrimFunc:
    """Replace the loop of a pipeline by its time steps, and return the new function."""
    tree = Tree(func)
    loop = pipeline.loop
    versions = {b: _versions(tree, loop, b, count) for b, count in pipeline.versions.items()}
    # Each part is copied several times. Each copy has its own variables, blocks and local buffers.
    begun = asynchronous_parts(pipeline)
    parts = [
        _Part(_with_versions(begun.get(p, part), versions), stage, loop)
        for p, (part, stage) in enumerate(zip(pipeline.parts, pipeline.stages, strict=True))
    ]
    copies = PipelineGroups(pipeline, begun)
    steps = _time_steps(loop, parts, pipeline.in_order, pipeline.depth, copies)
    return func.with_body(_replaced(func.body, loop, tir.Seq(tuple(steps)), versions))


def for_one_iteration(func: tir.PrimFunc, loop: tir.For, buffers: Sequence[tir.Buffer]) -> tir.PrimFunc:
    """Shrink buffers to the region that one iteration of a loop uses.

    This is legal because no buffer passes values between iterations.
    """
    versions = {b: _versions(Tree(func), loop, b, 1) for b in buffers}
    changed = {b: to for b, to in versions.items() if any(start is not None for start in to.starts)}
    if not changed:
        return func
    inside = replace(loop, body=_with_versions(loop.body, changed))
    return func.with_body(_replaced(func.body, loop, inside, changed))


def _replaced(stmt: Any, loop: tir.For, steps: tir.Stmt, versions: Mapping[tir.Buffer, _Versions]) -> Any:
    # Sequences stay nested: the steps are one part of an outer pipeline.
    if not isinstance(stmt, tir.Stmt):
        return stmt
    if stmt is loop:
        return steps
    new = map_children(stmt, lambda child: _replaced(child, loop, steps, versions))
    if isinstance(new, tir.Block) and any(b in versions for b in new.alloc_buffers):
        buffers = tuple(versions[b].buffer if b in versions else b for b in new.alloc_buffers)
        return replace(new, alloc_buffers=buffers)
    return new


_WRITTEN_OUT = 1  # the most steps of an epilogue


# ---- time steps ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    """A statement of the pipeline's body. It is emitted once for each place where it runs."""

    stmt: tir.Stmt
    stage: int
    loop: tir.For

    def at(self, iteration: Expr) -> tir.Stmt:
        """Return the statement for the iteration `iteration`."""
        instance: tir.Stmt = substitute(
            _own_buffers(fresh_copy(self.stmt)), {self.loop.var: Analyzer().simplify(iteration)}
        )
        return instance

    def within_bounds(self, iteration: Expr) -> tir.Stmt:
        """Return the statement for `iteration`, under the condition that this is one of the loop's iterations."""
        return tir.If(all_of([iteration >= self.loop.start, iteration < self.end]), self.at(iteration))

    def before_end(self, iteration: Expr) -> tir.Stmt:
        """Return the statement for `iteration`, under the condition that this iteration is not after the last one."""
        return tir.If(Analyzer().simplify(iteration < self.end), self.at(iteration))

    @property
    def end(self) -> Expr:
        """The value of the loop variable after the last iteration."""
        return Analyzer().simplify(self.loop.start + self.loop.extent)


def _time_steps(
    loop: tir.For, parts: Sequence[_Part], order: Sequence[int], depth: int, copies: PipelineGroups
) -> list[tir.Stmt]:
    """Return all time steps. In each step the parts run in `order`; part p of iteration i runs in step i + stage(p)."""
    kept = {k: v for k, v in loop.annotations.items() if k not in KEYS}
    dtype = loop.var.dtype
    step = loop.var.with_name(loop.var.name)
    if not isinstance(loop.extent, IntImm):
        # It is not known which steps lack some of their parts, so every part has a condition for when it runs.
        every = {p: parts[p].within_bounds(step - const(parts[p].stage, dtype)) for p in order}
        body = tir.Seq(tuple(copies.of_any_step(every)))
        return [replace(loop, var=step, extent=loop.extent + const(depth, dtype), body=body, annotations=kept)]
    count = loop.extent.value
    steps: list[tir.Stmt] = []

    def written_out(first: int, end: int) -> None:
        for now in range(first, end):
            running = {
                p: parts[p].at(loop.start + const(now - parts[p].stage, dtype))
                for p in order
                if 0 <= now - parts[p].stage < count
            }
            steps.extend(copies.of_step(now, running))

    if count <= depth:
        written_out(0, count + depth)
        return steps
    written_out(0, depth)
    if depth > _WRITTEN_OUT:
        every = {
            p: parts[p].before_end(step + const(depth - parts[p].stage, dtype))
            if parts[p].stage < depth
            else parts[p].at(step)
            for p in order
        }
        body = tir.Seq(tuple(copies.of_any_step(every)))
        return [*steps, replace(loop, var=step, body=body, annotations=kept)]
    every = {p: parts[p].at(step + const(depth - parts[p].stage, dtype)) for p in order}
    body = tir.Seq(tuple(copies.of_any_step(every)))
    extent = const(count - depth, dtype)
    steps.append(tir.For(step, loop.start, extent, loop.kind, body, annotations=kept))
    copies.passed(count)
    written_out(count, count + depth)
    return steps


def _own_buffers(stmt: tir.Stmt) -> tir.Stmt:
    """Return a copy of a statement whose blocks allocate new buffers, so that two copies of a part share none."""
    fresh = {b: replace(b) for s in find(stmt, tir.Block) for b in s.alloc_buffers}
    if not fresh:
        return stmt

    def change(node: Node) -> Node | None:
        if isinstance(node, tir.BufferLoad | tir.BufferStore | tir.BufferRegion) and node.buffer in fresh:
            return replace(node, buffer=fresh[node.buffer])
        if isinstance(node, tir.Block) and node.alloc_buffers:
            return replace(node, alloc_buffers=tuple(fresh[b] for b in node.alloc_buffers))
        return None

    renamed: tir.Stmt = rewrite(stmt, change)
    return renamed


# ---- versions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Versions:
    """Several versions of a buffer. Each iteration uses one version, which holds the region that begins at `starts`."""

    buffer: tir.Buffer
    version: Expr | None  # None: there is only one
    starts: tuple[Expr | None, ...]

    def moved(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """Convert the indices of an element in the old buffer to its indices in the new one."""
        own = tuple(i if start is None else i - start for i, start in zip(indices, self.starts, strict=True))
        return own if self.version is None else (self.version.astype(own[0].dtype if own else "int32"), *own)


def _versions(tree: Tree, loop: tir.For, buffer: tir.Buffer, count: int) -> _Versions:
    func, inside = in_step(tree.func, loop) if is_shared(buffer.scope) else (tree.func, loop)
    spans = _one_iteration(tree if inside is loop else Tree(func), inside, buffer)
    shape = tuple(dim if span is None else span.extent for dim, span in zip(buffer.shape, spans, strict=True))
    starts = tuple(None if span is None else span.start for span in spans)
    if count == 1:
        return _Versions(replace(buffer, shape=shape), None, starts)
    strides = strides_of_parts(shape, buffer.strides)
    dtype = shape[0].dtype if shape else "int32"
    versioned = replace(buffer, shape=(const(count, dtype), *shape), strides=strides)
    return _Versions(versioned, (loop.var - loop.start) % const(count, loop.var.dtype), starts)


def _one_iteration(tree: Tree, loop: tir.For, buffer: tir.Buffer) -> list[Range | None]:
    """Return, for each dimension of a buffer, the range that one iteration of the loop uses; None if it may be the full
    dimension.
    """
    whole: list[Range | None] = [None] * buffer.ndim
    in_blocks = {n for b in tree.blocks_in(loop) for n in walk(b.block)}
    touching = [n for n in find(loop, tir.BufferLoad | tir.BufferStore) if n.buffer is buffer]
    if buffer.strides or any(n not in in_blocks for n in touching):
        return whole
    analyzer = Analyzer.inside(*tree.all_loops_above(loop), loop)
    regions = [
        (b, r)
        for b in tree.blocks_in(loop)
        for r in (*regions_read(b.block), *regions_written(b.block))
        if r.buffer is buffer
    ]
    box = hull([touched(tree, b, r, loop, analyzer) for b, r in regions], analyzer)
    # Iterations of a concurrent outer loop use distinct parts of the buffer, and must still do so, unless each has its
    # own buffer.
    apart = [l.var for l in tree.all_loops_above(loop) if l.kind in tir.CONCURRENT and not owns(l, buffer.scope)]
    shrinks = [
        isinstance(r.extent, IntImm)
        and (not isinstance(dim, IntImm) or r.extent.value < dim.value)
        and not uses(r.start, apart)
        for r, dim in zip(box, buffer.shape, strict=True)
    ]
    return [r if small else None for r, small in zip(box, shrinks, strict=True)]


def _with_versions(part: tir.Stmt, versions: Mapping[tir.Buffer, _Versions]) -> tir.Stmt:
    """Rewrite a part of the pipeline's body to access the versions of buffers."""

    doubled = {to.buffer for to in versions.values()}  # regions are rewritten before their block
    numbered = {to.buffer for to in versions.values() if to.version is not None}

    def change(node: Node) -> Node | None:
        if isinstance(node, tir.Block) and not doubled.isdisjoint(buffers_written(node)):
            return replace(node, annotations=_notes(node, numbered))
        if not isinstance(node, tir.BufferLoad | tir.BufferStore | tir.BufferRegion) or node.buffer not in versions:
            return None
        to = versions[node.buffer]
        if not isinstance(node, tir.BufferRegion):
            return replace(node, buffer=to.buffer, indices=to.moved(node.indices))
        starts = to.moved([r.start for r in node.region])
        extents = [const(1, s.dtype) for s in starts[: len(starts) - len(node.region)]]
        extents += [r.extent for r in node.region]
        return tir.BufferRegion(to.buffer, tuple(Range(s, e) for s, e in zip(starts, extents, strict=True)))

    changed: tir.Stmt = rewrite(part, change)
    return changed


def _notes(block: tir.Block, numbered: set[tir.Buffer]) -> dict[str, Any]:
    """Return the annotations for a block after the buffers in `numbered` got versions. In its alignments, the axes of
    these buffers move by one, because the version axis comes first.
    """
    notes = {k: v for k, v in block.annotations.items() if k != DOUBLE}
    if ALIGNMENTS in notes:
        shifts = [int(region.buffer in numbered) for region in regions_written(block)]
        notes[ALIGNMENTS] = [[w, axis + shifts[w], *rest] for w, axis, *rest in notes[ALIGNMENTS] if w < len(shifts)]
    return notes
