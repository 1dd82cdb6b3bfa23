"""Software pipelines: decide whether the statements of a loop may run in stages, and how many versions of each buffer
are needed.

The statements of the loop's body are its *parts*. Part p of iteration i runs in time step i + stage(p), and the parts
of one time step run in the order order(p). For example, a load of stage 0 runs while a computation of stage 1 uses the
data loaded one step earlier. This follows TVM's annotations "software_pipeline_stage" and "software_pipeline_order".

A pipeline is legal if every value is still written before it is read, and not overwritten in between. If no iteration
passes a value to another iteration in a buffer (each reads only values that it wrote itself), the buffer gets as many
*versions* as there are iterations in progress at the same time. For all other buffers, the new order must preserve the
dependences between iterations. "software_pipeline_spare_versions" is the number of additional versions of a buffer that
parts of several stages use. With them, a time step does not overwrite elements that it has just read, so no barrier is
needed in between. "double_buffer_scope" on a block gives the buffer that the block writes two versions, and lets the
block run one iteration ahead of the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replace_failure
from typing import Any

from ...arith.dependence import Access as Point
from ...arith.dependence import Undecided, find_dependence
from ...expr import Expr, IntImm, Node, replace, substitute, walk
from .. import nodes as tir
from ..conditions import is_const
from .block_regions import buffers_written
from .dependences import Access, accesses, point_of
from .effects import exposes
from .failure import Failure
from .threads import in_step, is_shared
from .tree import Tree, statements

STAGE, ORDER, ASYNC = "software_pipeline_stage", "software_pipeline_order", "software_pipeline_async_stages"
SPARE = "software_pipeline_spare_versions"
DOUBLE = "double_buffer_scope"
KEYS = (STAGE, ORDER, ASYNC, SPARE)
MOST_SPARE = 4


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A loop that may be pipelined: its parts, their stages and order, and the number of versions of each private
    buffer.
    """

    loop: tir.For
    parts: tuple[tir.Stmt, ...]
    stages: tuple[int, ...]
    order: tuple[int, ...]
    versions: Mapping[tir.Buffer, int] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """The largest stage, which is one less than the number of time steps that an iteration takes."""
        return max(self.stages, default=0)

    @property
    def in_order(self) -> list[int]:
        """The parts, by number, in the order in which they run within a time step."""
        return sorted(range(len(self.parts)), key=lambda p: self.order[p])


def parts_of(loop: tir.For) -> tuple[tir.Stmt, ...]:
    """Return the statements of a loop's body, each of which has its own stage."""
    return loop.body.stmts if isinstance(loop.body, tir.Seq) else (loop.body,)


def inner_parts(loop: tir.For) -> tuple[tir.Stmt, ...]:
    """Return the parts that a loop has once it is `opened`."""
    inner = _openable(loop)
    return parts_of(loop) if inner is None else inner.block.body.stmts  # type: ignore[attr-defined]


def _openable(loop: tir.For) -> tir.BlockRealize | None:
    """Return the block that is the whole body of a loop, if its statements may be put directly into the loop; otherwise
    None.
    """
    inner = loop.body
    if not isinstance(inner, tir.BlockRealize) or not isinstance(inner.block.body, tir.Seq):
        return None
    plain = inner.block.init is None and not inner.block.match_buffers and is_const(inner.predicate, 1)
    return inner if plain else None


def opened(func: tir.PrimFunc, loop: tir.For) -> tuple[tir.PrimFunc, tir.For]:
    """Unwrap a loop body that is a single block: put the block's statements directly into the loop. Return the new
    function and loop.

    TVM's own programs put pipelines into a block like this. The block's local buffers move to the root block.
    """
    inner = _openable(loop)
    if inner is None:
        return func, loop
    block = inner.block
    values = dict(zip((it.var for it in block.iter_vars), inner.iter_values, strict=True))
    flat = replace(loop, body=substitute(block.body, values))
    tree = Tree(func)
    moved = tree.rebuild({loop: flat})
    root = Tree(moved).root.block
    allocated = replace(root, alloc_buffers=(*root.alloc_buffers, *block.alloc_buffers))
    return Tree(moved).rebuild({root: allocated}), flat


def annotated_loops(func: tir.PrimFunc) -> Iterator[tir.For]:
    """Iterate over the loops of a function that have pipeline annotations, inner loops first."""
    annotated = [
        s for s in statements(func.body) if isinstance(s, tir.For) and any(key in s.annotations for key in KEYS)
    ]
    return reversed(annotated)


def malformed(loop: tir.For) -> Failure | None:
    """Return why the annotations of a loop do not describe a pipeline; None if they do."""
    notes = {key: loop.annotations[key] for key in KEYS if key in loop.annotations}
    if not notes:
        return None
    asynchronous, spare = notes.pop(ASYNC, ()), notes.pop(SPARE, 0)
    stages = notes.get(STAGE, ())
    if type(spare) is not int or not 0 <= spare <= MOST_SPARE:
        return Failure({loop: "here"}, f"{SPARE}: a number from 0 to {MOST_SPARE}", f"{spare!r}")
    if not isinstance(asynchronous, list | tuple) or not all(type(v) is int and v in stages for v in asynchronous):
        expected = f"{ASYNC}: numbers of stages that {STAGE} has"
        return Failure({loop: "here"}, expected, f"{asynchronous!r} with the stages {stages!r}")
    if loop.kind not in (tir.ForKind.SERIAL, tir.ForKind.UNROLLED):
        return Failure({loop: "here"}, "a serial loop, or an unrolled one", f"{loop.var.name} is {loop.kind}")
    count = len(inner_parts(loop))
    for key, values in notes.items():
        valid = isinstance(values, list | tuple) and all(type(v) is int and v >= 0 for v in values)
        if not valid or len(values) != count:
            expected = f"{key}: {count} numbers from 0 on, one for each statement of the body of {loop.var.name}"
            return Failure({loop: f"{count} statements inside"}, expected, f"{values!r}")
        if key == ORDER and len(set(values)) != count:
            return Failure({loop: "here"}, f"{ORDER}: a different number for each statement", f"{values!r}")
    return None


def plan(func: tir.PrimFunc, loop: tir.For) -> Pipeline | Failure:
    """Return the pipeline that a loop's annotations request, or the reason why it would change the meaning of the
    program.

    Without an order, the parts of a time step run in program order; if that is not legal, parts of later stages run
    first. Without stages, all parts have stage 0; an order that is then not legal is assumed to be meant for stages
    that will be added later. The loop must have been `opened`, and must not be `malformed`.
    """
    count = len(parts_of(loop))
    stages = tuple(loop.annotations.get(STAGE, (0,) * count))
    if ORDER in loop.annotations:
        ordered = scheduled(func, loop, stages, tuple(loop.annotations[ORDER]))
        if isinstance(ordered, Pipeline) or STAGE in loop.annotations:
            return ordered
    verdict = scheduled(func, loop, stages, tuple(range(count)))
    if isinstance(verdict, Pipeline):
        return verdict
    later_first = sorted(range(count), key=lambda p: (-stages[p], p))
    other = scheduled(func, loop, stages, tuple(later_first.index(p) for p in range(count)))
    return other if isinstance(other, Pipeline) else verdict


def scheduled(func: tir.PrimFunc, loop: tir.For, stages: tuple[int, ...], order: tuple[int, ...]) -> Pipeline | Failure:
    """Return the pipeline with `stages` and `order`, or the reason why it is not legal.

    Buffers of blocks that are annotated for double buffering get at least two versions.
    """
    as_written, own = loop, _private_buffers(Tree(func), loop)
    func, loop = in_step(func, loop)
    tree = Tree(func)
    parts = parts_of(loop)
    doubled = [b for b in (doubled_buffer(realize.block) for realize in doubled_blocks(tree, loop)) if b is not None]
    by_part = [accesses(tree, part) for part in parts]
    # Check storage that threads own in the loop as written, and storage that they share in the loop of `in_step`.
    private = [b for b in own if not is_shared(b.scope)]
    private += [b for b in (own if loop is as_written else _private_buffers(tree, loop)) if is_shared(b.scope)]
    for buffer in doubled:
        if buffer not in private:
            return Failure(
                {loop: "this loop"},
                f"{buffer.name}, which is to have two versions, written in each iteration before it is read there",
                f"{buffer.name} holds values from one iteration of {loop.var.name} to the next, or is used elsewhere",
            )
    failure = _broken_dependence(tree, loop, by_part, stages, order, private)
    if failure is not None:
        return failure
    versions = {}
    spare = loop.annotations.get(SPARE, 0)
    for buffer in private:
        needed = _versions(buffer, by_part, stages, order)
        if len({stages[p] for p, those in enumerate(by_part) if any(a.buffer is buffer for a in those)}) > 1:
            needed += spare
        versions[buffer] = max(needed, 2) if buffer in doubled else needed
    return Pipeline(as_written, parts_of(as_written), stages, order, versions)


def _versions(
    buffer: tir.Buffer, by_part: Sequence[Sequence[Access]], stages: Sequence[int], order: Sequence[int]
) -> int:
    # Version i % V is free for iteration i + V once iteration i no longer uses it. This holds if (i + stage(p),
    # order(p)) comes before (i + V + stage(q), order(q)) for all parts p and q that use it, one of them for writing.
    least = 1
    for p, mine in enumerate(by_part):
        for q, theirs in enumerate(by_part):
            ours = [a for a in mine if a.buffer is buffer]
            others = [a for a in theirs if a.buffer is buffer]
            if p != q and ours and others and any(a.is_write for a in (*ours, *others)):
                least = max(least, stages[p] - stages[q] + (order[p] > order[q]))
    return least


def _private_buffers(tree: Tree, loop: tir.For) -> list[tir.Buffer]:
    """Return the allocated buffers that only `loop` uses, and in which no iteration reads a value written by another
    iteration.
    """
    by_part = [accesses(tree, part) for part in parts_of(loop)]
    func = tree.func
    allocated = [b for s in statements(func.body) if isinstance(s, tir.Block) for b in s.alloc_buffers]
    written = {a.buffer for part in by_part for a in part if a.is_write}
    local = {b for s in statements(loop) if isinstance(s, tir.Block) for b in s.alloc_buffers}
    candidates = [b for b in allocated if b in written and b not in local and _uses(func.body, b) == _uses(loop, b)]
    around = tree.all_loops_above(loop)
    return [b for b in candidates if not exposes(loop.body, b, around) or not _exposes(tree, loop, b)]


def _exposes(tree: Tree, loop: tir.For, buffer: tir.Buffer) -> bool:
    """Return whether an iteration may read values that another iteration wrote, using the ranges of the outer loops if
    necessary.

    The effect analysis does not know the loops around. Each of their variables v is therefore replaced by v % extent,
    which has the same value and makes its range visible.
    """
    if not exposes(loop.body, buffer):
        return False
    around = [l for l in tree.all_loops_above(loop) if is_const(l.start, 0) and isinstance(l.extent, IntImm)]
    return not around or exposes(substitute(loop.body, {l.var: l.var % l.extent for l in around}), buffer)


def _uses(stmt: Node, buffer: tir.Buffer) -> int:
    return sum(
        isinstance(n, tir.BufferLoad | tir.BufferStore | tir.BufferRegion) and n.buffer is buffer for n in walk(stmt)
    )


def _broken_dependence(
    tree: Tree,
    loop: tir.For,
    by_part: Sequence[Sequence[Access]],
    stages: Sequence[int],
    order: Sequence[int],
    private: Sequence[tir.Buffer],
) -> Failure | None:
    """Return two accesses to one element whose order the pipeline would reverse; None if there are none."""
    outer = [l.var for l in tree.all_loops_above(loop)]
    step: Expr = loop.var
    points: list[Point] = []
    before: dict[Point, tuple[Any, ...]] = {}
    after: dict[Point, tuple[Any, ...]] = {}
    origin: dict[Point, tuple[int, Access]] = {}
    for part, those in enumerate(by_part):
        for access in those:
            # Elements of a private buffer are different in each iteration: the iteration is one more index.
            point = point_of(access, (step,) if access.buffer in private else ())
            points.append(point)
            before[point] = (*outer, step, part)
            after[point] = (*outer, step + stages[part], order[part], step)
            origin[point] = (part, access)
    witness = find_dependence(points, before, after, (), lambda a, b: origin[a][0] == origin[b][0])
    if witness is None:
        return None
    expected = f"each value written before it is read, and kept until then, in the stages {list(stages)}"
    if isinstance(witness, Undecided):
        return Failure({loop: "this loop"}, expected, f"this could not be decided: {witness.reason}")
    ends = [origin[witness.source], origin[witness.sink]]
    spots: dict[Node, str] = {loop: "this loop"}
    for part, access in ends:
        verb = "writes" if access.is_write else "reads"
        spots[access.spot] = f"{verb} {access.buffer.name}, in stage {stages[part]}, order {order[part]}"
    iterations = [dict(at)[loop.var] for at in (witness.source_at, witness.sink_at)]
    buffer = ends[0][1].buffer
    name = f"{buffer.name}[{', '.join(map(str, witness.cell[: buffer.ndim]))}]"
    verbs = ["written" if access.is_write else "read" for _, access in ends]
    fault = (
        f"{name} is {verbs[0]} in iteration {iterations[0]} and {verbs[1]} in iteration {iterations[1]};"
        f" pipelined, the second comes first"
    )
    return Failure(spots, expected, fault)


def ill_formed(tree: Tree) -> Failure | None:
    """Return a `Failure` for the first pipeline or double-buffer annotation that is malformed; None if all are
    well-formed.
    """
    for loop in tree.loops.values():
        failure = malformed(loop)
        if failure is not None:
            return failure
    for realize in tree.blocks.values():
        failure = unusable_double(tree, realize) if DOUBLE in realize.block.annotations else None
        if failure is not None:
            return failure
    return None


def broken(tree: Tree) -> Failure | None:
    """Return a `Failure` for the first pipeline or double buffer that would change the meaning of the program; None if
    there is none.
    """
    loops = [loop for loop in tree.loops.values() if any(key in loop.annotations for key in KEYS)]
    for realize in tree.blocks.values():
        around = doubled_loop(tree, realize) if DOUBLE in realize.block.annotations else None
        if around is not None and around[0] not in loops:
            loops.append(around[0])
    for loop in loops:
        func, flat = opened(tree.func, loop)
        annotated = any(key in loop.annotations for key in KEYS)
        verdict = plan(func, flat) if annotated else double_buffered(func, flat)
        if isinstance(verdict, Pipeline):
            continue
        # Move the spots from the examined copy to the program itself.
        spots = {loop if spot is flat else spot: note for spot, note in verdict.spots.items()}
        shown = {s: note for s, note in spots.items() if not isinstance(s, tir.Stmt) or s in tree.order}
        return replace_failure(verdict, spots=shown)
    return None


# ---- double buffers ------------------------------------------------------------------------------------------------


def doubled_loop(tree: Tree, realize: tir.BlockRealize) -> tuple[tir.For, int] | None:
    """Return (the innermost loop that contains the block and other statements, the number of the part that contains the
    block), or None if there is no such loop.
    """
    for loop in reversed(tree.all_loops_above(realize)):
        parts = inner_parts(loop)
        own = next((k for k, part in enumerate(parts) if tree.inside(realize, part)), None)
        if len(parts) > 1 and own is not None:  # a block that is the whole body contains the parts
            return loop, own
    return None


def doubled_blocks(tree: Tree, loop: tir.For) -> list[tir.BlockRealize]:
    """Return the blocks in a loop that are annotated for double buffering."""
    marked = [b for b in tree.blocks.values() if DOUBLE in b.block.annotations]
    return [b for b in marked if (doubled_loop(tree, b) or (None, 0))[0] is loop]


def doubled_buffer(block: tir.Block) -> tir.Buffer | None:
    """Return the buffer that a block's double-buffer annotation refers to by its position among the writes; None if
    there is no such buffer.
    """
    index = block.annotations.get(DOUBLE)
    if type(index) is not int or not 0 <= index < len(buffers_written(block)):
        return None
    return buffers_written(block)[index]


def unusable_double(tree: Tree, realize: tir.BlockRealize) -> Failure | None:
    """Return why a block cannot fill a double buffer as its annotation requests; None if it can."""
    block = realize.block
    if doubled_buffer(block) is None:
        expected = (
            f"{DOUBLE}: the position of one of the {len(buffers_written(block))} buffers that {block.name} writes"
        )
        return Failure({block: "this block"}, expected, f"{block.annotations.get(DOUBLE)!r}")
    around = doubled_loop(tree, realize)
    if around is not None and around[0].kind != tir.ForKind.SERIAL:
        loop = around[0]
        expected = f"a serial loop around {block.name}, of which one iteration runs ahead"
        return Failure({loop: "this loop", block: "this block"}, expected, f"{loop.var.name} is {loop.kind}")
    if around is None:
        expected = f"a loop around {block.name} that holds other statements beside it, which read what it writes"
        way_out = "compute_at brings the block and its readers together"
        return Failure({block: "this block"}, expected, "no such loop", (way_out,))
    return None


def double_buffered(func: tir.PrimFunc, loop: tir.For) -> Pipeline | Failure:
    """Return the pipeline in which the annotated blocks of a loop run one iteration ahead of the others, or why it is
    not legal.

    If these blocks depend on earlier statements of the same iteration, those run ahead too. The loop must have been
    `opened`.
    """
    tree = Tree(func)
    blocks = doubled_blocks(tree, loop)
    doubled = {k for b in blocks for k, part in enumerate(parts_of(loop)) if tree.inside(b, part)}
    order = tuple(range(len(parts_of(loop))))
    first: Failure | None = None
    for ahead in (doubled, set(range(max(doubled) + 1))):
        verdict = scheduled(func, loop, tuple(int(p not in ahead) for p in order), order)
        if isinstance(verdict, Pipeline):
            return verdict
        first = first or verdict
    assert first is not None  # the loop body ran twice
    return first
