"""Effects beside runs: what a statement touches lies in its boxes, and what it surely touches is touched.

Each iteration of each loop, and each loop as a whole, of random programs is followed through the interpreter.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.arith import Analyzer
from minitvm.events import Access, Listener, Loop
from minitvm.expr import IntImm, Range, Var, as_expr, children, substitute, walk
from minitvm.expr import replace as with_fields
from minitvm.reference import random_inputs, tir
from minitvm.reference.strategies.programs import prim_funcs
from minitvm.tir.analysis.effects import Touch, effects
from minitvm.tir.nodes import Block, BlockRealize, Buffer, For, ForKind, LetStmt, PrimFunc, Stmt
from tests.tir.transform.block_programs import block_program
from tests.tir.transform.kernel_programs import kernel_arguments, kernel_program

Element = tuple[str, int]
COUNT = 25


@dataclass
class Frame:
    """One run of a statement: what it read, wrote, and read before it had written it."""

    reads: set[Element] = field(default_factory=set)
    writes: set[Element] = field(default_factory=set)
    exposed: set[Element] = field(default_factory=set)


@dataclass
class Watch(Listener):
    """Frames of each loop and each iteration, checked when they end."""

    ended: Callable[[str, bool, dict[str, int], Frame], None]
    stack: list[tuple[str, Frame, list[tuple[int, Frame]]]] = field(default_factory=list)

    def _open(self) -> list[Frame]:
        return [frame for _, whole, now in self.stack for frame in (whole, *(f for _, f in now))]

    def load(self, access: Access) -> None:
        element = (access.buffer, access.offset)
        for frame in self._open():
            frame.reads.add(element)
            if element not in frame.writes:
                frame.exposed.add(element)

    def store(self, access: Access) -> None:
        for frame in self._open():
            frame.writes.add((access.buffer, access.offset))

    def values(self) -> dict[str, int]:
        return {name: now[0][0] for name, _, now in self.stack if now}

    def loop_enter(self, loop: Loop) -> None:
        self.stack.append((loop.var, Frame(), []))

    def loop_iteration(self, loop: Loop, value: int) -> None:
        self._end_iteration()
        self.stack[-1][2].append((value, Frame()))

    def _end_iteration(self) -> None:
        name, _, now = self.stack[-1]
        if now:
            self.ended(name, True, self.values(), now[0][1])
            now.clear()

    def loop_exit(self, loop: Loop) -> None:
        self._end_iteration()
        name, whole, _ = self.stack.pop()
        self.ended(name, False, self.values(), whole)


def with_own_names(func: PrimFunc) -> PrimFunc:
    """The function with a name of its own for each loop, in the order of the text."""
    count = itertools.count()

    def go(node: Any) -> Any:
        if isinstance(node, For):
            var = node.var.with_name(f"loop{next(count)}")
            kind = ForKind.SERIAL if node.kind in (ForKind.VECTORIZED, ForKind.UNROLLED) else node.kind
            return with_fields(node, var=var, kind=kind, body=substitute(go(node.body), {node.var: var}))
        if isinstance(node, Block):
            init = None if node.init is None else go(node.init)
            return with_fields(node, init=init, body=go(node.body))
        if isinstance(node, Stmt):
            changes = {}
            for name in node._children:
                value = getattr(node, name)
                if isinstance(value, Stmt):
                    changes[name] = go(value)
                elif isinstance(value, tuple) and value and isinstance(value[0], Stmt):
                    changes[name] = tuple(map(go, value))
            return with_fields(node, **changes) if changes else node
        return node

    return func.with_body(go(func.body))


def loops_of(func: PrimFunc) -> dict[str, tuple[For, dict[Var, Any]]]:
    """Each loop by name, with the values of the iterators and lets around it, outermost first."""
    found: dict[str, tuple[For, dict[Var, Any]]] = {}

    def go(node: Any, around: dict[Var, Any]) -> None:
        if isinstance(node, For):
            found[node.var.name] = (node, around)
        elif isinstance(node, BlockRealize):
            around = {**around, **dict(zip((it.var for it in node.block.iter_vars), node.iter_values, strict=True))}
        elif isinstance(node, LetStmt):
            around = {**around, node.var: node.value}
        for child in children(node):
            if isinstance(child, Stmt):
                go(child, around)

    go(func.body, {})
    return found


def elements(box: Sequence[Range], buffer: Buffer, values: Mapping[Var, Any]) -> set[Element] | None:
    """The elements of a box inside of its buffer; None where an end is no number."""
    analyzer = Analyzer()
    sides = []
    if any(isinstance(e, Var) for e in (*buffer.strides, buffer.elem_offset)):
        return None  # a view that takes any
    explicit = [int(substitute(as_expr(e), values)) for e in buffer.strides]
    strides = explicit or np.cumprod([1, *[int(substitute(as_expr(d), values)) for d in buffer.shape[:0:-1]]])[::-1]
    first = int(substitute(as_expr(buffer.elem_offset), values))
    for r, dim in zip(box, buffer.shape, strict=True):
        ends = [analyzer.simplify(substitute(e, values)) for e in (r.start, r.extent, dim)]
        if not all(isinstance(e, IntImm) for e in ends):
            return None
        start, extent, size = (e.value for e in ends)
        sides.append(range(max(start, 0), min(start + extent, size)))
    return {(buffer.name, first + int(np.dot(p, strides))) for p in itertools.product(*sides)}


@dataclass
class Tally:
    """How much a run has shown."""

    frames: int = 0
    certain: int = 0  # elements that were said to be touched surely
    covered: int = 0  # reads that were said to be of what the frame wrote itself


def follow(func: PrimFunc, args: Sequence[Any], tally: Tally, updated: bool = False) -> None:
    """Run a function, and hold every loop and iteration against its effects."""
    func = with_own_names(func)
    loops = loops_of(func)
    sizes: dict[Var, Any] = {}
    for param, arg in zip(func.params, args, strict=True):
        if isinstance(param, Var):
            sizes[param] = int(arg)
        else:
            for d, n in zip(param.shape, arg.shape, strict=True):
                if isinstance(d, Var):
                    sizes[d] = int(n)

    def ended(name: str, iteration: bool, values: dict[str, int], frame: Frame) -> None:
        loop, around = loops[name]
        known = effects(loop.body if iteration else loop)
        at = {**sizes, **{loops[n][0].var: v for n, v in values.items()}}
        at = {v: as_expr(n).astype(v.dtype) for v, n in at.items()}
        for var, value in around.items():
            at[var] = substitute(value, at)
        tally.frames += 1
        where = f"{'one iteration of ' if iteration else ''}{name} at {values}\n{func}"
        for kind in ("reads", "writes", "exposed"):
            touches: tuple[Touch, ...] = getattr(known, kind)
            boxes = [elements(t.box(), t.buffer, at) for t in touches]
            anywhere = {t.buffer.name for t, b in zip(touches, boxes, strict=True) if b is None}  # data tells
            may = set().union(*(b for b in boxes if b is not None))
            local = {t.buffer.name for t in touches}
            extra = {e for e in getattr(frame, kind) - may if e[0] in outside(loop) - anywhere}
            assert not extra, f"{kind} {sorted(extra)[:5]}, not in the boxes of {local}: {where}"
        for kind in ("reads", "writes"):
            for touch in getattr(known, kind):
                box = touch.certain()
                must = None if box is None else elements(box, touch.buffer, at)
                if must is None or touch.buffer.name not in outside(loop):
                    continue
                tally.certain += len(must)
                missed = must - getattr(frame, kind)
                assert not missed, f"surely {kind} {sorted(missed)[:5]} by {touch.node}, which it does not: {where}"
        said = {t.buffer.name for t in known.exposed}
        tally.covered += sum(1 for e in frame.reads if e[0] not in said and e[0] in outside(loop))

    inner: dict[For, set[str]] = {}

    def outside(loop: For) -> set[str]:
        """The buffers that exist outside of a loop."""
        if loop not in inner:
            own = {b.name for n in walk(loop) if isinstance(n, Block) for b in n.alloc_buffers}
            blocks = [n for n in walk(func.body) if isinstance(n, Block) and any(part is loop for part in walk(n))]
            viewed = {m.source.buffer.name for n in blocks for m in n.match_buffers}  # there they have another name
            inner[loop] = {b.name for b in all_buffers} - own - viewed
        return inner[loop]

    all_buffers = [*func.buffers, *(b for n in walk(func.body) if isinstance(n, Block) for b in n.alloc_buffers)]
    inout = [p.name for p in func.buffers] if updated else ()
    tir.run(func, *args, mode="slow", inout=inout, listeners=[Watch(ended)])


@settings(max_examples=30)
@given(st.data())
def test_random_programs_touch_what_their_effects_say(data: Any) -> None:
    func = data.draw(prim_funcs())
    follow(func, random_inputs(func, 0), Tally())


def test_programs_of_blocks_touch_what_their_effects_say() -> None:
    tally = Tally()
    for seed in range(COUNT):
        drawn = block_program(seed)
        if drawn is not None:
            func, args, _ = drawn
            follow(func, [np.array(a) for a in args], tally, True)
    assert tally.frames > 2000 and tally.certain > 8000 and tally.covered > 200, tally


@pytest.mark.parametrize("seed", range(12))
def test_kernels_touch_what_their_effects_say(seed: int) -> None:
    follow(kernel_program(seed), kernel_arguments(seed), Tally(), True)
