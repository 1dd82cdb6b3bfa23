"""Runs that are held against effects: each iteration of each loop, and each loop as a whole, in the interpreter."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minitvm.arith import Analyzer
from minitvm.events import Access, Listener, Loop
from minitvm.expr import IntImm, Range, Var, as_expr, children, free_vars, substitute, walk
from minitvm.expr import replace as with_fields
from minitvm.reference import tir
from minitvm.script import from_source
from minitvm.tir.analysis.block_regions import regions_touched
from minitvm.tir.analysis.effects import effects, exposes
from minitvm.tir.analysis.kernel_access import elements_surely_read
from minitvm.tir.analysis.surely import reaches_all, reads_before_writing
from minitvm.tir.analysis.touches import Touch, stretch
from minitvm.tir.conditions import reads_memory
from minitvm.tir.nodes import (
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    If,
    LetStmt,
    PrimFunc,
    Seq,
    Stmt,
)
from tests.tir.transform.block_programs import block_program
from tests.tir.transform.kernel_programs import kernel_arguments, kernel_program

Element = tuple[str, int]
DATA = Var("data", "int32")  # stands for what only a run tells: a let of memory, the strides that a view takes


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
    stack: list[tuple[str, Frame, list[tuple[int, Frame]]]] = field(default_factory=lambda: [("", Frame(), [])])

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

    def run_ends(self) -> None:
        """The whole function is a statement, too."""
        ((name, whole, _),) = self.stack
        self.ended(name, False, {}, whole)

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
            views = [m.buffer for m in node.block.match_buffers]
            around |= {e: None for v in views for e in (*v.strides, v.elem_offset) if isinstance(e, Var)}
        elif isinstance(node, LetStmt):
            around = {**around, node.var: node.value}
        for child in children(node):
            if isinstance(child, Stmt):
                go(child, around)

    go(func.body, {})
    return found


def elements(box: Sequence[Range], buffer: Buffer, values: Mapping[Var, Any]) -> set[Element] | None:
    """The elements of a box inside of its buffer; None where only a run tells."""
    analyzer = Analyzer()
    sides = []
    if any(isinstance(e, Var) for e in (*buffer.strides, buffer.elem_offset)):
        return None  # a view that takes any
    explicit = [int(substitute(as_expr(e), values)) for e in buffer.strides]
    strides = explicit or np.cumprod([1, *[int(substitute(as_expr(d), values)) for d in buffer.shape[:0:-1]]])[::-1]
    strides = strides[: len(buffer.shape)]
    first = int(substitute(as_expr(buffer.elem_offset), values))
    for r, dim in zip(box, buffer.shape, strict=True):
        ends = [analyzer.simplify(substitute(e, values)) for e in (r.start, r.extent, dim)]
        if not all(isinstance(e, IntImm) for e in ends):
            free = {v for e in ends for v in free_vars(e)}
            assert free == {DATA}, f"{', '.join(map(str, ends))} in a box of {buffer.name}"
            return None
        start, extent, size = (e.value for e in ends)
        sides.append(range(max(start, 0), min(start + extent, size)))
    return {(buffer.name, first + int(np.dot(p, strides))) for p in itertools.product(*sides)}


@dataclass
class Tally:
    """How much a run has shown."""

    frames: int = 0
    blocks: int = 0  # runs of blocks beside the regions that they declare
    whole: int = 0  # elements of regions of blocks that were said to be touched, all of them
    ends: int = 0  # of the boxes of loops, said to be reached
    certain: int = 0  # elements that were said to be touched surely
    covered: int = 0  # reads that were said to be of what the frame wrote itself


def _reached(touch: Touch, r: Range | None) -> list[Range]:
    """The first and the last place in one dimension of what is surely touched, where it is known."""
    always = touch.sure and not touch.conditions and not touch.opaque
    runs = all(isinstance(l.extent, IntImm) and l.extent.value > 0 for l in touch.loops)
    found = stretch(r, touch.loops) if always and runs and r is not None else None
    if found is None or r is None:
        return []
    first = Analyzer().to_expr(found[0], r.start.dtype)
    return [Range(place, as_expr(1).astype(r.start.dtype)) for place in (first, first + (found[1] - 1))]


def declares_all(
    block: Block, frame: Frame, at: Mapping[Var, Any], seen: set[str], asked: set[str], where: str
) -> None:
    """A run of a block touches what it would declare, and what it accumulates into; `asked` are read around it."""
    reads, writes = regions_touched(block)
    accumulated = writes if block.init is not None else ()
    for kind, declared, other in (("reads", (*reads, *accumulated), asked), ("writes", writes, set())):
        boxes = [elements(r.region, r.buffer, at) for r in declared]
        anywhere = {r.buffer.name for r, b in zip(declared, boxes, strict=True) if b is None}
        may = set().union(*(b for b in boxes if b is not None))
        extra = {e for e in getattr(frame, kind) - may if e[0] in seen - anywhere - other}
        assert not extra, f"{block.name} {kind} {sorted(extra)[:5]}, not in what it declares: {where}"


def touches_all(block: Block, frame: Frame, at: Mapping[Var, Any], seen: set[str], where: str) -> int:
    """A run of a block touches all of the regions of which that is said; how many elements those are."""
    reads, writes = regions_touched(block)
    said = [
        *(("reads", r) for r in reads if reaches_all(block, r, write=False)),
        *(("writes", r) for r in writes if reaches_all(block, r, write=True)),
        *(("exposed", r) for r in (*reads, *writes) if reads_before_writing(block, r)),
    ]
    count = 0
    for kind, region in said:
        inside = elements(region.region, region.buffer, at) if region.buffer.name in seen else None
        missed = (inside or set()) - getattr(frame, kind)
        assert not missed, f"{block.name}: {sorted(missed)[:5]} of {region.buffer.name} not in {kind}: {where}"
        count += len(inside or ())
    return count


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
        stmt, around = loops[name] if name else (func.body, {})
        loop = stmt.body if iteration and isinstance(stmt, For) else stmt
        known = effects(loop)
        at = {**sizes, **{loops[n][0].var: v for n, v in values.items()}}
        at = {v: as_expr(n).astype(v.dtype) for v, n in at.items()}
        for var, value in around.items():
            at[var] = DATA.astype(var.dtype) if value is None or reads_memory(value) else substitute(value, at)
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
                for d, r in enumerate(touch.ranges):
                    for end in _reached(touch, r):
                        side = elements((*touch.box()[:d], end, *touch.box()[d + 1 :]), touch.buffer, at)
                        assert side is None or side & getattr(frame, kind), f"{kind} {end} of {touch.node}: {where}"
                        tally.ends += 1
        if iteration and isinstance(loop, BlockRealize):
            values_of = dict(zip((it.var for it in loop.block.iter_vars), loop.iter_values, strict=True))
            asked = {
                n.buffer.name for e in (*loop.iter_values, loop.predicate) for n in walk(e) if hasattr(n, "buffer")
            }
            inside = {**at, **{v: substitute(value, at) for v, value in values_of.items()}}
            if not any(reads_memory(value) for value in values_of.values()):
                declares_all(loop.block, frame, inside, outside(loop), asked, where)
                tally.blocks += 1
                if Analyzer().can_prove(substitute(loop.predicate, at)):
                    tally.whole += touches_all(loop.block, frame, inside, outside(loop), where)
        said = {t.buffer.name for t in known.exposed}
        for buffer in {t.buffer for t in (*known.reads, *known.writes) if t.buffer.name in outside(loop)}:
            numbers = f"of {buffer.name}: {where}"
            read, written = (sum(e[0] == buffer.name for e in part) for part in (frame.reads, frame.writes))
            assert elements_surely_read(loop).get(buffer, 0) <= read, numbers
            counts = [t.elements_at_most() for t in known.writes if t.buffer is buffer]
            assert None in counts or written <= sum(filter(None, counts)), numbers
            assert exposes(loop, buffer) == any(t.buffer is buffer for t in known.exposed), (
                f"{buffer.name} alone: {where}"
            )
        tally.covered += sum(1 for e in frame.reads if e[0] not in said and e[0] in outside(loop))

    inner: dict[Stmt, set[str]] = {}

    def outside(loop: Stmt) -> set[str]:
        """The buffers that exist outside of a statement."""
        if loop not in inner:
            own = {b.name for n in walk(loop) if isinstance(n, Block) for b in n.alloc_buffers}
            blocks = [n for n in walk(func.body) if isinstance(n, Block) and any(part is loop for part in walk(n))]
            viewed = {m.source.buffer.name for n in blocks for m in n.match_buffers}  # there they have another name
            inner[loop] = {b.name for b in all_buffers} - own - viewed
        return inner[loop]

    all_buffers = [*func.buffers, *(b for n in walk(func.body) if isinstance(n, Block) for b in n.alloc_buffers)]
    inout = [p.name for p in func.buffers] if updated else ()
    watch = Watch(ended)
    tir.run(func, *args, mode="slow", inout=inout, listeners=[watch])
    watch.run_ends()


def effects_hold(seed: int, tally: Tally | None = None) -> None:
    """The program of blocks of a seed touches what its effects say."""
    drawn = block_program(seed)
    if drawn is not None:
        func, args, _ = drawn
        follow(func, [np.array(a) for a in args], tally or Tally(), True)


def kernel_effects_hold(seed: int) -> None:
    """The kernel of a seed touches what its effects say."""
    follow(kernel_program(seed), kernel_arguments(seed), Tally(), True)


def first_loop(body: str, signature: str = 'A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")') -> For:
    """The loop around a program in which S is storage of 64 elements, and Z of one."""
    text = "\n".join("    " + line for line in body.splitlines())
    storage = "    S = T.alloc_buffer((64,), 'float32')\n    Z = T.alloc_buffer((), 'float32')"
    func = from_source(f"@T.prim_func\ndef main({signature}):\n{storage}\n{text}")
    return next(n for n in walk(func.body) if isinstance(n, For))


ALONE = {
    "a tile filled and read": (
        """
for i in range(8):
    for j in range(8):
        S[i * 8 + j] = A[i * 8 + j]
    for j in range(8):
        B[i * 8 + j] = S[i * 8 + 7 - j]
""",
        True,
    ),
    "a tile of which one element is missing": (
        """
for i in range(8):
    for j in range(7):
        S[i * 8 + j] = A[i * 8 + j]
    for j in range(8):
        B[i * 8 + j] = S[i * 8 + 7 - j]
""",
        False,
    ),
    "a tile at an edge that is filled and read": (
        """
for i in range(3):
    for j in range(8):
        if i < 2:
            S[j] = A[i * 8 + j]
    for j in range(8):
        if i < 2:
            B[i * 8 + j] = S[7 - j]
""",
        True,
    ),
    "a tile at an edge that is read further than it is filled": (
        """
for i in range(3):
    for j in range(8):
        if i < 1:
            S[j] = A[i * 8 + j]
    for j in range(8):
        if i < 2:
            B[i * 8 + j] = S[7 - j]
""",
        False,
    ),
    "a tile of which other elements are filled than are read": (
        """
for i in range(3):
    for j in range(8):
        if i + j < 2:
            S[j] = A[i * 8 + j]
    for j in range(8):
        if i + j < 2:
            B[i * 8 + j] = S[7 - j]
""",
        False,
    ),
    "a sum that starts in its first step": (
        """
for i in range(8):
    for k, j in T.grid(3, 8):
        if k == 0:
            S[j] = T.float32(0)
        S[j] = S[j] + A[j]
    B[i] = S[3]
""",
        True,
    ),
    "a sum that starts in its second step": (
        """
for i in range(8):
    for k, j in T.grid(3, 8):
        if k == 1:
            S[j] = T.float32(0)
        S[j] = S[j] + A[j]
    B[i] = S[3]
""",
        False,
    ),
    "a sum over two loops that starts where both do": (
        """
for i in range(8):
    for k0, j, k1 in T.grid(3, 8, 2):
        if k0 * 2 + k1 == 0:
            S[j] = T.float32(0)
        S[j] = S[j] + A[j]
    B[i] = S[3]
""",
        True,
    ),
    "a sum whose steps run in any order": (
        """
for i in range(8):
    for k in T.parallel(3):
        if k == 0:
            S[i] = T.float32(0)
        S[i] = S[i] + A[i]
    B[i] = S[i]
""",
        False,
    ),
    "a ragged last tile": (
        """
for i in range(10):
    for j in range(7):
        if i * 7 + j < 64:
            S[i * 7 + j] = A[i * 7 + j]
    for j in range(7):
        if i * 7 + j < 64:
            B[i * 7 + j] = S[i * 7 + j]
""",
        True,
    ),
    "a condition that leaves out the last element": (
        """
for i in range(10):
    for j in range(7):
        if i * 7 + j < 63:
            S[i * 7 + j] = A[i * 7 + j]
    for j in range(7):
        if i * 7 + j < 64:
            B[i * 7 + j] = S[i * 7 + j]
""",
        False,
    ),
    "a row that is read before it starts": (
        """
for i in range(8):
    for k, j in T.grid(3, 8):
        if k == 0:
            S[j] = T.float32(0)
        B[j] = S[7 - j]
""",
        False,
    ),
    "a while that may not run": (
        """
for i in range(8):
    while B[i] > T.float32(1):
        S[i] = A[i]
        B[i] = T.float32(0)
    B[i] = S[i]
""",
        False,
    ),
    "a tile filled through a view": (
        """
for i in range(8):
    with T.block("fill"):
        vi = T.axis.spatial(8, i)
        V = T.match_buffer(S[vi * 8 : vi * 8 + 8], (8,), "float32")
        for j in range(8):
            V[j] = A[vi * 8 + j]
    for j in range(8):
        B[i * 8 + j] = S[i * 8 + j]
""",
        True,
    ),
    "both branches fill it": (
        """
for i in range(8):
    for j in range(8):
        if A[j] < T.float32(0):
            S[j] = T.float32(0)
        else:
            S[j] = A[j]
        B[i * 8 + j] = S[j]
""",
        True,
    ),
    "a cell that is set under a condition": (
        """
for i in range(8):
    if A[i] < T.float32(0):
        Z[()] = A[i]
    B[i] = Z[()]
""",
        False,
    ),
    "a place that only data tells": (
        """
for i in range(8):
    S[T.Cast("int32", A[i])] = A[i]
    B[i] = S[T.Cast("int32", A[i])]
""",
        False,
    ),
}


def exposure_holds(what: str) -> None:
    """Whether an iteration may find what another one has left in S or Z is as it is written down."""
    body, alone = ALONE[what]
    loop = first_loop(body)
    storage = next(t.buffer for t in effects(loop).writes if t.buffer.name in "SZ")
    assert exposes(loop.body, storage) is not alone, what


COUNTS = {
    "for i in range(8):\n    for j in range(4):\n        S[i * 8 + j] = A[j]": 32,
    "for i in range(8):\n    for j in range(4):\n        S[j] = A[i]": 4,
    "for i in range(8):\n    for j in range(i * 4, i * 4 + 4):\n        S[j] = A[j]": 32,
    "for i in range(8):\n    for j in range(4):\n        S[T.Cast('int32', A[i])] = A[j]": 32,
    "for i in range(8):\n    for j in range(i):\n        S[j] = A[j]": None,
}


SURELY_READ = {
    "for i in range(32):\n    B[0] = S[(i // 4 * 4 + i % 4) * 2 // 2]": 32,
    "for i in range(8):\n    for k in range(3):\n        if k + k // 2 < 1:\n            B[0] = S[i]": 8,
    "for i in range(8):\n    for k in range(1, 3):\n        if k < 1:\n            B[0] = S[i]": 0,
    "for i in range(8):\n    for k in range(i, 9):\n        if k < 3:\n            B[0] = S[k]": 0,
    "for i in range(66):\n    if i < 64:\n        B[0] = S[i]": 64,
    "for i in range(8):\n    B[i] = S[2 * i]": 0,
    "for i in range(8):\n    if A[i] > T.float32(0):\n        B[i] = S[i]": 0,
}


def count_holds(body: str) -> None:
    """A loop writes as many elements of S, or surely reads as many, as is written down."""
    loop = first_loop(body)
    if body in SURELY_READ:
        storage = next(t.buffer for t in effects(loop).reads if t.buffer.name == "S")
        assert elements_surely_read(loop).get(storage, 0) == SURELY_READ[body], body
        return
    counts = [t.elements_at_most() for t in effects(loop).writes if t.buffer.name == "S"]
    assert counts == [COUNTS[body]], body


_CALLED = "T.reads(S[0:4])\nT.writes(S[0:4])\nT.evaluate(T.call_extern('int32', 'update', S.access_ptr('rw')))"
# What a block does: which of "reads", "writes", "first" it surely does to all that it declares of S, "first" being that
# it reads each element before it writes it.
WHOLE = {
    "for j in range(4):\n    S[j] = S[j] + B[vi]": {"reads", "writes", "first"},
    "for j in range(4):\n    B[j] = S[j]\n    S[3 - j] = B[j]": {"reads", "writes"},
    "for t, j in T.grid(2, 4):\n    B[j] = S[j]\n    S[j] = B[j] + A[t]": {"reads", "writes", "first"},
    "for t in range(2):\n    for j in range(4):\n        B[j] = S[j]\n"
    "    for j in range(4):\n        S[j + t] = B[j]": {"reads", "writes"},
    "for j in range(4):\n    S[j] = B[j]\nfor j in range(4):\n    B[j] = S[j]": {"reads", "writes"},
    "S[0] = A[0]\nS[1] = A[1]\nS[3] = A[3]\nS[2] = A[2]": {"writes"},
    "S[0] = A[0]\nS[1] = A[1]\nS[3] = A[3]": set(),
    "S[vi] = A[0]\nfor j in range(2):\n    S[vi + 1 + j] = A[j]": {"writes"},
    "if A[vi] > T.float32(0):\n    S[vi] = A[0]\nelse:\n    S[vi] = A[1]": {"writes"},
    "if A[vi] > T.float32(0):\n    S[vi] = A[0]": set(),
    "for j in range(4):\n    with T.block('inner'):\n        vj = T.axis.spatial(4, j)\n"
    "        B[vj] = S[vj]\n        S[vj] = A[vj]": {"reads", "writes", "first"},
    "for j in range(4):\n    B[j] = S[j]\nfor j in range(4):\n    S[3 - j] = A[j]": {"reads", "writes", "first"},
    "S[()] = B[vi] + S[()]": {"reads", "writes", "first"},
    "S[()] = A[vi]\nB[vi] = S[()]": {"reads", "writes"},
    _CALLED: {"reads", "writes", "first"},
    f"{_CALLED}\nfor j in range(4):\n    S[j] = A[j]": {"reads", "writes"},
    f"{_CALLED}\nfor j in range(4):\n    B[j] = S[j]": {"reads", "writes", "first"},
}


def whole_holds(body: str) -> None:
    """A block surely does to all of S what is written down, and a run agrees."""
    text = "\n".join("            " + line for line in body.splitlines())
    shape = "()" if "S[()]" in body else "(64,)"
    params = f'A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), S: T.Buffer({shape}, "float32")'
    func = from_source(
        f"@T.prim_func\ndef main({params}):\n    for i in range(3):\n        with T.block('block'):\n"
        f"            vi = T.axis.opaque(3, i)\n{text}"
    )
    block = next(n for n in walk(func.body) if isinstance(n, Block) and n.name == "block")
    reads, writes = ([r for r in regions if r.buffer.name == "S"] for regions in regions_touched(block))
    done = {"reads" for r in reads if reaches_all(block, r, write=False)}
    done |= {"writes" for r in writes if reaches_all(block, r, write=True)}
    done |= {"first" for r in reads if reads_before_writing(block, r)}
    assert done == WHOLE[body], (body, done)
    if "call_extern" not in body:
        arrays = [np.arange(64, dtype="float32") - k for k in (30, 0, 0)]
        follow(func, [*arrays[:2], arrays[2] if shape == "(64,)" else np.array(3, "float32")], Tally(), True)


def _twice(under_condition: bool, what: str) -> list[Stmt]:
    """Statements of which one load, or one store, of S[0] is in two places, as after a let has been inlined."""
    s, a, b = (Buffer(name, (64,), "float32") for name in "SAB")
    load, store = s[0], BufferStore(s, a[0], (as_expr(0),))
    parts = {
        "a load": [BufferStore(b, load, (as_expr(0),)), store, BufferStore(b, load, (as_expr(1),))],
        "a store": [store, BufferStore(b, load, (as_expr(0),)), store],
    }[what]
    return [If(a[1] > 0.0, parts[0]) if under_condition else parts[0], *parts[1:]]


TWICE = [(under, what) for what in ("a load", "a store") for under in (False, True)]


def twice_holds(under_condition: bool, what: str) -> None:
    """Of a load in two places the last one counts, of a store the first: S[0] is surely read before it is written only
    where nothing else may have run before."""
    s_first = what == "a load" and not under_condition
    body = Seq(tuple(_twice(under_condition, what)))
    buffer = next(n.buffer for n in walk(body) if isinstance(n, BufferStore) and n.buffer.name == "S")
    region = BufferRegion(buffer, (Range(as_expr(0), as_expr(1)),))
    block = Block(iter_vars=(), reads=(region,), writes=(region,), name="block", body=body)
    claimed = reads_before_writing(block, region)
    assert not claimed or s_first, "S[0] may be written before it is read"


def accumulated_holds(written: str, read: str, same: bool) -> None:
    """A sum that starts from an init does not declare to read what it adds to; other elements it does."""
    func = from_source(f"""
@T.prim_func
def main(S: T.Buffer((8,), "int32"), P: T.Buffer((8,), "int32"), Q: T.Buffer((8,), "int32")):
    for i, k in T.grid(8, 4):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[{written}] = 0
            S[{written}] = S[{read}] + vk
""")
    block = next(n for n in walk(func.body) if isinstance(n, Block) and n.name == "S")
    assert ("S" in [r.buffer.name for r in regions_touched(block)[0]]) is not same
