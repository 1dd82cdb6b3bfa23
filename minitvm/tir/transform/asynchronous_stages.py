"""Asynchronous copies in software pipelines: which copies become asynchronous, and where the parts wait for them.

    for i in range(n):              # software_pipeline_stage [0, 1], software_pipeline_async_stages [0]
        load: S[...] = A[i]         # S: shared
        use: C[i] = S[...]

becomes, for 0 < i < n - 1,

    load: async S[(i + 1) % 2, ...] = A[i + 1]
    commit a group
    wait until at most 1 group is under way
    use: C[i] = S[i % 2, ...]

Each time step that starts copies commits one group. A part of stage s starts the copies of iteration i in time step i +
s, so a part that needs them waits until only the groups of later time steps are in progress. If the copies were started
at least two steps earlier, the wait is the first statement of the time step. Other copies continue in the meantime, and
the barrier after the wait also ensures that the copies of this step do not overwrite elements that the previous step is
still reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...expr import find, map_children
from ..analysis.software_pipelines import ASYNC, Pipeline
from ..analysis.threads import is_shared
from ..async_copies import commit_group, wait_group
from ..nodes import Async, Buffer, BufferLoad, BufferStore, Stmt, copied_load


def asynchronous_parts(pipeline: Pipeline) -> dict[int, Stmt]:
    """Return the parts whose copies become asynchronous, by number. In the returned statements, these copies are only
    started.

    A copy becomes asynchronous if its stage is listed in the annotation, a later part reads its destination, no other
    part writes its destination, and the loop does not write its source.
    """
    stages = pipeline.loop.annotations.get(ASYNC, ())
    begun: dict[int, Stmt] = {}
    stored = [_stored(part) for part in pipeline.parts]
    for number, part in enumerate(pipeline.parts):
        if pipeline.stages[number] not in stages:
            continue
        others = set().union(*(s for k, s in enumerate(stored) if k != number))
        loaded = _loaded(part)

        def copied(store: BufferStore, others: set[Buffer] = others, loaded: set[Buffer] = loaded) -> bool:
            source = copied_load(store.value)
            return (
                source is not None
                and source.predicate is None
                and store.predicate is None
                and is_shared(store.buffer.scope)
                and source.buffer.scope == "global"
                and not any(source.buffer in written for written in stored)
                and store.buffer not in others | loaded
            )

        copies = {n for n in find(part, BufferStore) if copied(n)}
        single = {s.buffer for s in copies} - {n.buffer for n in find(part, BufferStore) if n not in copies}
        copies = {s for s in copies if s.buffer in single and _is_read(pipeline, number, s.buffer)}
        if copies:
            begun[number] = _begun(part, copies)
    return begun


class PipelineGroups:
    """Tracks the groups of copies in a pipeline: which groups each part needs, and where commits and waits are
    inserted.
    """

    def __init__(self, pipeline: Pipeline, begun: Mapping[int, Stmt]) -> None:
        self.stages, self.depth, self.begun = pipeline.stages, pipeline.depth, begun
        self.groups: list[int] = []  # the time steps, among those written so far, that committed a group
        brought = {p: {n.body.buffer for n in find(part, Async)} for p, part in begun.items()}
        self.needs = {
            p: [q for q, buffers in brought.items() if q != p and buffers & _touched(part)]
            for p, part in enumerate(pipeline.parts)
        }

    def of_step(self, now: int, running: Mapping[int, Stmt]) -> Iterator[Stmt]:
        """Yield the statements of time step `now` outside of the steady state: the parts that run in it (`running`), in
        order, with commits and waits.
        """
        last = [p for p in running if p in self.begun][-1:]
        begun = {p: [now - self.stages[p] + self.stages[q] for q in self.needs[p]] for p in running}
        needed = {p: max(steps) for p, steps in begun.items() if steps}
        early = {p: step for p, step in needed.items() if step < now - 1}
        if early:
            yield wait_group(sum(step > max(early.values()) for step in self.groups))
        for p, stmt in running.items():
            if p in needed and p not in early:
                yield wait_group(sum(step > needed[p] for step in self.groups))
            yield stmt
            if [p] == last:
                yield commit_group()
                self.groups.append(now)

    def of_any_step(self, every: Mapping[int, Stmt]) -> Iterator[Stmt]:
        """Yield the statements of a steady-state time step. All parts run (`every` maps their numbers to their
        statements), and every earlier step that starts copies has committed its group.
        """
        kept, first = self.groups, min((self.stages[p] for p in self.begun), default=0)
        self.groups = list(range(first, self.depth))
        yield from self.of_step(self.depth, every)
        self.groups = kept

    def passed(self, count: int) -> None:
        """Record that the steady state has run up to time step `count`, and that each of its steps has committed a
        group.
        """
        if self.begun:
            self.groups = list(range(min(self.stages[p] for p in self.begun), count))


def _is_read(pipeline: Pipeline, number: int, buffer: Buffer) -> bool:
    """Return whether a part that runs later reads a buffer: a part of a later stage, or a later part of the
    same stage.
    """
    own = (pipeline.stages[number], pipeline.order[number])
    return any(
        (pipeline.stages[p], pipeline.order[p]) > own and buffer in _loaded(part)
        for p, part in enumerate(pipeline.parts)
    )


def _stored(part: Stmt) -> set[Buffer]:
    return {n.buffer for n in find(part, BufferStore)}


def _loaded(part: Stmt) -> set[Buffer]:
    return {n.buffer for n in find(part, BufferLoad)}


def _touched(part: Stmt) -> set[Buffer]:
    return _stored(part) | _loaded(part)


def _begun(node: Any, copies: set[BufferStore]) -> Any:
    if isinstance(node, BufferStore):
        return Async(node) if node in copies else node
    return map_children(node, lambda child: _begun(child, copies))
