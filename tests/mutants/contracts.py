"""Workloads beside random legal schedules: what is refused, what traces, queries, samples and storage promise.

`refusals(name)`   the bad calls that a primitive must refuse: one that it takes is judged like any other call
`traces(...)`      schedules replayed from their traces, as JSON and as Python
`flows()`          producers, consumers and outputs beside what the interpreter sees the blocks read and write
`samples(...)`     sampled decisions used, replayed, and beside what each sampling primitive promises
`storage(...)`     where the elements of an allocation lie, beside the strides that a schedule asked for
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from minitvm.compat.tvm.ir import IRModule
from minitvm.compat.tvm.schedule.testing import verify_trace_roundtrip
from minitvm.errors import InternalError, MinitvmError, ScheduleError, VerificationError
from minitvm.events import Access, Listener
from minitvm.expr import IntImm, SizeVar, free_vars, structural_equal, walk
from minitvm.reference import random_inputs
from minitvm.reference import tir as tir_reference
from minitvm.tir.nodes import Allocate, Block, BlockRealize, PrimFunc
from minitvm.tir.schedule import PRIMITIVES, Schedule
from minitvm.tir.schedule.examples import prepared

from .oracle import Noticed, Trial, Workload, directed, drawn
from .workloads import PREPARATION, Draw, Family, any_steps, lowers, random_blocks, step

ALL_MODES = ("exact", "field", "shadow", "order")


# ---- what must be refused --------------------------------------------------------------------------------------------


def refusals(name: str) -> Workload:
    """All bad calls of a primitive. One that goes through must at least mean the same."""

    def cases() -> Sequence[Any]:
        return PRIMITIVES[name].bad_calls

    def body(trial: Trial, bad: Any) -> None:
        sch, call = prepared(PRIMITIVES[name], bad)
        before = sch.mod
        try:
            call()
        except VerificationError:
            raise  # it was not refused, and made something that no program may be
        except MinitvmError:
            return
        compare_modules(trial, before, sch.mod)

    return directed(f"bad calls of {name}", cases, body)


def compare_modules(trial: Trial, before: IRModule, after: IRModule) -> None:
    """The functions that differ, as loops and as kernels."""
    for name, func in before.items():
        if after[name] is not func and isinstance(func.body, BlockRealize):
            trial.same(func, after[name], level="tir", modes=ALL_MODES)
            module = lowers(after[name])
            if module is not None:
                trial.same(func, module, level="kernel")


# ---- traces ----------------------------------------------------------------------------------------------------------


def traces(*names: str, of: Family = random_blocks, most: int = 4, examples: int = 60,
           last: Sequence[str] = ()) -> Workload:  # fmt: skip
    """Schedules of those primitives: each trace, replayed from JSON and from Python, makes the same program."""
    chosen = names or PREPARATION

    def body(trial: Trial, draw: Draw) -> None:
        func = of(draw)
        sch = Schedule(func)
        any_steps(sch, draw, chosen, most)
        for name in last:
            step(sch, draw, name)
        trial.same(func, sch.func, level="tir")
        replay(sch, func)

    return drawn(f"traces of {', '.join(dict.fromkeys([*chosen, *last]))} on {of.__name__}", body, examples)


def replay(sch: Schedule, func: PrimFunc) -> None:
    """The trace, replayed; `Noticed` where it does not make the same program."""
    try:
        verify_trace_roundtrip(sch, func)
    except (InternalError, MinitvmError) as error:
        raise Noticed("trace", f"{error}\n{sch.trace}") from error


# ---- queries ---------------------------------------------------------------------------------------------------------


class _Flow(Listener):
    """Which block's values each block read, and what was written last."""

    def __init__(self) -> None:
        self.now = ""
        self.wrote: dict[tuple[str, int], str] = {}
        self.buffers: dict[str, set[str]] = {}
        self.edges: Counter[tuple[str, str]] = Counter()

    def block(self, name: str) -> None:
        self.now = name
        if name != "root":
            self.buffers.setdefault(name, set())

    def load(self, access: Access) -> None:
        source = self.wrote.get((access.buffer, access.offset))
        if source is not None and source != self.now:
            self.edges[source, self.now] += 1

    def store(self, access: Access) -> None:
        self.wrote[access.buffer, access.offset] = self.now
        self.buffers[self.now].add(access.buffer)


def flows(of: Family = random_blocks, examples: int = 150) -> Workload:
    """What a schedule says of its blocks, beside what they are seen to do."""

    def body(trial: Trial, draw: Draw) -> None:
        func = of(draw)
        sch = Schedule(func)
        any_steps(sch, draw, ("split", "fuse", "reorder", "annotate"), 2)
        seen = _Flow()
        tir_reference.run(sch.func, *random_inputs(func), listeners=[seen])
        trial.compared += 1
        if any(isinstance(n, Block) for b in walk(func.body) if isinstance(b, Block) and b.name != "root"
               for n in walk(b.body)):  # fmt: skip
            return  # blocks in blocks have flows of their own
        blocks = {sch.get(b).name: b for b in sch.get_child_blocks("root")}
        expect(list(blocks) == list(seen.buffers), "get_child_blocks", list(seen.buffers), list(blocks))
        _compare_edges(sch, blocks, seen)
        params = {p.name for p in func.buffers}
        outputs = [name for name, buffers in seen.buffers.items() if buffers & params]
        found = [sch.get(b).name for b in sch.get_output_blocks("root")]
        expect(found == outputs, "get_output_blocks", outputs, found)
        for name, block in blocks.items():
            expect(sch.get(sch.get_block(name)) is sch.get(block), "get_block", name, sch.get(sch.get_block(name)).name)
            _check_loops(sch, block)

    return drawn(f"flows between the blocks of {of.__name__}", body, examples)


def _compare_edges(sch: Schedule, blocks: dict[str, Any], seen: _Flow) -> None:
    """Every flow of values is a producer's and a consumer's, the two mirror each other, both in program order."""
    order = list(blocks)
    for kind, other, edges in (
        ("get_producers", "get_consumers", {(reader, source) for source, reader in seen.edges}),
        ("get_consumers", "get_producers", set(seen.edges)),
    ):
        told = {name: [sch.get(b).name for b in getattr(sch, kind)(block)] for name, block in blocks.items()}
        for name, found in told.items():
            wanted = {end for start, end in edges if start == name}
            expect(wanted <= set(found), f"{kind}({name})", wanted, found)
            expect(found == sorted(found, key=order.index), f"the order of {kind}({name})", order, found)
            for end in found:
                back = [sch.get(b).name for b in getattr(sch, other)(blocks[end])]
                expect(name in back, f"{other}({end})", name, back)


def _check_loops(sch: Schedule, block: Any) -> None:
    """The loops stand inside each other, the block in the innermost, and bind all of its iterators."""
    loops = [sch.get(loop) for loop in sch.get_loops(block)]
    realize = next(n for n in walk(sch.func.body) if isinstance(n, BlockRealize) and n.block is sch.get(block))
    nested = all(any(n is inner for n in walk(outer)) for outer, inner in pairwise([*loops, realize]))
    used = {v for value in realize.iter_values for v in free_vars(value) if not isinstance(v, SizeVar)}
    expect(nested and used <= {loop.var for loop in loops}, "get_loops", [v.name for v in used], loops)


def expect(holds: bool, what: str, wanted: Any, found: Any) -> None:
    """`Noticed` where something promised does not hold."""
    if not holds:
        raise Noticed("promise", f"{what}: wanted {wanted}, found {found}")


# ---- sampling --------------------------------------------------------------------------------------------------------


def samples(kind: str, examples: int = 60) -> Workload:
    """Programs scheduled with sampled decisions: what is promised of each holds, and traces replay the decisions."""
    examples = 3 * examples if kind == "sample_compute_location" else examples
    return drawn(f"samples of {kind}", lambda trial, draw: _SAMPLED[kind](trial, draw), examples)


def _tile(trial: Trial, draw: Draw, partitioned: bool) -> None:
    func, sch = _seeded(draw)
    block = draw(st.sampled_from(sch.get_child_blocks("root")))
    loops = sch.get_loops(block)
    if not loops:
        return
    loop = draw(st.sampled_from(loops))
    extent = sch.get(loop).extent
    if not isinstance(extent, IntImm):
        return
    n = draw(st.integers(1, 4))
    if partitioned:
        inner = draw(st.sampled_from([d for d in range(1, extent.value + 1) if extent.value % d == 0]))
        position = draw(st.integers(0, n - 1))
        factors = sch.sample_partitioned_tile(loop, n, position, inner)
        promised = math.prod(sch.get(f) for f in factors[position:]) % inner == 0
        expect(promised, f"the inner part a multiple of {inner}", position, [sch.get(f) for f in factors])
    else:
        most = draw(st.sampled_from([-1, 1, 2, 4, 16]))
        if n == 1:
            most = -1
        factors = sch.sample_perfect_tile(loop, n, most)
        expect(most == -1 or sch.get(factors[-1]) <= most, "the innermost factor", most, sch.get(factors[-1]))
    values = [sch.get(f) for f in factors]
    expect(len(values) == n and math.prod(values) == extent.value, f"{n} factors of {extent}", extent, values)
    sch.split(loop, factors)
    trial.same(func, sch.func, level="tir")
    replay(sch, func)


def _seeded(draw: Draw) -> tuple[PrimFunc, Schedule]:
    func = random_blocks(draw)
    return func, Schedule(func, seed=draw(st.integers(0, 1 << 20)))


def _category(trial: Trial, draw: Draw) -> None:
    func, sch = _seeded(draw)
    weights = draw(st.lists(st.sampled_from([0, 0, 1, 3]), min_size=2, max_size=4).filter(any))
    candidates = draw(st.permutations([4, 16, 64, 256]))[: len(weights)]
    share = [w / sum(weights) for w in weights]
    count = 60
    counts = Counter(sch.get(sch.sample_categorical(candidates, share)) for _ in range(count))
    for candidate, p in zip(candidates, share):
        # Eight deviations: the draws are fixed, and no honest choice is that far off.
        off = 8 * math.sqrt(count * p * (1 - p))
        expect(abs(counts[candidate] - count * p) <= off, f"{candidate} chosen", count * p, counts)
    block = draw(st.sampled_from(sch.get_child_blocks("root")))
    sch.annotate(block, "pragma_auto_unroll_max_step", sch.sample_categorical(candidates, share))
    trial.same(func, sch.func, level="tir")
    replay(sch, func)


def _location(trial: Trial, draw: Draw) -> None:
    func, sch = _seeded(draw)
    any_steps(sch, draw, ("split", "reorder"), 2)
    before = sch.func
    blocks = sch.get_child_blocks("root")
    block = draw(st.sampled_from([b for b in blocks if sch.get_consumers(b)] or blocks))
    place = sch.sample_compute_location(block)
    try:
        sch.compute_at(block, place)
    except ScheduleError as error:
        raise Noticed("promise", f"only legal places are drawn: {error}") from error
    trial.same(before, sch.func, level="tir")
    replay(sch, func)
    decisions = [inst.decision for inst in sch.trace if inst.primitive.name == "sample_compute_location"]
    expect(len(decisions) == 1, "one decision", 1, decisions)
    expect((decisions[0] == -1) == (before is sch.func or structural_equal(before, sch.func)), "-1 stays", decisions,
           sch.func.script())  # fmt: skip


def _postproc(trial: Trial, draw: Draw) -> None:
    """Everything after the mark goes, everything before it stays."""
    func, sch = _seeded(draw)
    any_steps(sch, draw, ("split", "fuse", "reorder", "vectorize"), 2)
    before = sch.func
    sch.enter_postproc()
    expect(structural_equal(before, sch.func), "a mark changes nothing", before.script(), sch.func.script())
    any_steps(sch, draw, ("unroll", "parallel", "annotate"), 2)
    trial.same(func, sch.func, level="tir")
    replay(sch, func)
    again = Schedule(func)
    sch.trace.apply_to_schedule(again, remove_postproc=True)
    expect(structural_equal(before, again.func), "without what follows the mark", before.script(), again.func.script())


_SAMPLED: dict[str, Callable[[Trial, Draw], None]] = {
    "sample_perfect_tile": lambda trial, draw: _tile(trial, draw, False),
    "sample_partitioned_tile": lambda trial, draw: _tile(trial, draw, True),
    "sample_categorical": _category,
    "sample_compute_location": _location,
    "enter_postproc": _postproc,
}


# ---- storage ---------------------------------------------------------------------------------------------------------


def storage(of: Family = random_blocks, examples: int = 300) -> Workload:
    """Programs whose allocations are to be aligned: the strides are what was asked for, and the values are the same."""
    from minitvm.tir.transform.pipeline import passes

    steps = passes()
    names = [p.name for p in steps]

    def body(trial: Trial, draw: Draw) -> None:
        func = of(draw)
        sch = Schedule(func)
        any_steps(sch, draw, ("split", "compute_at", "cache_read", "cache_write"), 2)
        wanted: dict[str, dict[int, tuple[int, int]]] = {}
        for _ in range(draw(st.integers(1, 3))):
            call = sch.draw(lambda n: draw(st.integers(0, n - 1)), "storage_align")
            if call is None:
                return
            sch.apply(call)
            given = call.arguments
            buffer = sch.get(given["block"]).writes[given["buffer_index"]].buffer
            axis = given["axis"] % buffer.ndim
            wanted.setdefault(buffer.name, {})[axis] = (given["factor"], given["offset"])
        trial.same(func, sch.func, level="tir")
        made: Any = sch.func
        for one in steps[: names.index("flatten_buffers")]:
            made = one.run(made, None)
        for node in walk(made.body):
            if isinstance(node, Allocate) and node.buffer.name in wanted:
                _check_strides(node.buffer, wanted[node.buffer.name])
        trial.same(func, lowers(sch.func), level="kernel")

    return drawn(f"aligned storage of {of.__name__}", body, examples)


def _check_strides(buffer: Any, wanted: dict[int, tuple[int, int]]) -> None:
    sizes = [d.value for d in buffer.shape if isinstance(d, IntImm)]
    strides = [s.value for s in buffer.strides]
    if len(sizes) != buffer.ndim:
        return
    dense = [math.prod(sizes[d + 1 :]) for d in range(buffer.ndim)]
    for axis, (factor, offset) in wanted.items():
        stride = (strides or dense)[axis]
        aligned = stride % factor == offset % factor
        expect(aligned, f"stride {axis} of {buffer.name}", f"{offset} modulo {factor}", strides)
    for d in range(buffer.ndim - 1):
        least = (strides or dense)[d + 1] * sizes[d + 1]
        expect((strides or dense)[d] >= least, f"rows of {buffer.name} apart", least, strides)
