"""A region of a buffer that a block says it touches: annotate_buffer_access."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .....arith import Analyzer, regions
from .....errors import MinitvmError
from .....expr import Expr, Range, as_expr, replace
from .....tir.analysis.block_regions import regions_touched
from .....tir.analysis.boxes import Box
from .....tir.conditions import reads_memory
from .....tir.nodes import Block, BlockRealize, BufferRegion
from .....tir.schedule import programs as on
from .....tir.schedule.lambdas import IndexLambda
from .....tir.schedule.registry import Failure, primitive, requirement
from .....tir.schedule.staging import listing
from .....tir.schedule.state import ScheduleState


@requirement
def region_of_block(state: ScheduleState, block: BlockRealize, buffer_index: int, buf_type: str) -> Failure | None:
    """buf_type is "read" or "write", and buffer_index is the position of a region of that kind"""
    if buf_type not in ("read", "write"):
        return Failure({block.block: ""}, 'buf_type "read" or "write"', repr(buf_type))
    regions = _regions(block.block, buf_type)
    if 0 <= buffer_index < len(regions):
        return None
    return Failure(
        {block.block: "this block"}, f"one of its {buf_type}s, which are {listing(regions)}", str(buffer_index)
    )


@requirement
def one_range_a_dimension(
    state: ScheduleState, block: BlockRealize, buffer_index: int, buf_type: str, gen_new_ranges: Callable[..., Any]
) -> Failure | None:
    """gen_new_ranges takes the block's iterators, and returns an index or (begin, end) for each dimension"""
    region = _regions(block.block, buf_type)[buffer_index]
    expected = f"for {len(block.block.iter_vars)} iterators {region.buffer.ndim} indices or pairs (begin, end)"
    try:
        box = _new_box(block.block, gen_new_ranges)
    except (MinitvmError, TypeError, ValueError) as error:
        # Python says "name() takes 1 positional argument": the name of a lambda says nothing.
        message = str(error).split("\n", 1)[0].split("<lambda>() ")[-1]
        return Failure(
            {block.block: "its iterators"}, expected, f"it {message}" if "<lambda>() " in str(error) else message
        )
    return None if len(box) == region.buffer.ndim else Failure({block.block: ""}, expected, f"{len(box)} of them")


@requirement
def holds_the_accesses(
    state: ScheduleState, block: BlockRealize, buffer_index: int, buf_type: str, gen_new_ranges: Callable[..., Any]
) -> Failure | None:
    """the new region contains all elements that the body touches; a write region equals the written elements"""
    region = _regions(block.block, buf_type)[buffer_index]
    touched = regions_touched(block.block)[1 if buf_type == "write" else 0]
    own = next((r.region for r in touched if r.buffer is region.buffer), None)
    box = _new_box(block.block, gen_new_ranges)
    if own is None:
        return None
    analyzer = Analyzer.inside(*block.block.iter_vars)
    if buf_type == "read":
        fits = regions.covers(box, own, analyzer)
    else:
        fits = all(
            analyzer.can_prove_equal(a.start, b.start) and analyzer.can_prove_equal(a.extent, b.extent)
            for a, b in zip(box, own, strict=True)
        )
    if fits:
        return None
    name = region.buffer.name
    word = "a region that holds" if buf_type == "read" else "the region"
    return Failure({block.block: f"touches {_shown(name, own)}"}, f"{word} {_shown(name, own)}", f"{_shown(name, box)}")


def _regions(block: Block, buf_type: str) -> Sequence[BufferRegion]:
    return block.reads if buf_type == "read" else block.writes


def _new_box(block: Block, gen_new_ranges: Callable[..., Any]) -> Box:
    returned = gen_new_ranges(*(it.var for it in block.iter_vars))
    analyzer = Analyzer()
    box: list[Range] = []
    for entry in returned if isinstance(returned, list | tuple) else [returned]:
        begin, end = entry if isinstance(entry, list | tuple) else (entry, as_expr(entry) + 1)
        first: Expr = as_expr(begin)
        box.append(Range(first, analyzer.simplify(as_expr(end) - first)))
    return tuple(box)


def _shown(name: str, box: Box) -> str:
    end = Analyzer().simplify
    return f"{name}[{', '.join(f'{r.start}:{end(r.start + r.extent)}' for r in box)}]"


@requirement
def directly_in_root(state: ScheduleState, block: BlockRealize) -> Failure | None:
    """the block is directly in the root block; otherwise the declaration of an enclosing block would be too small"""
    tree = state.home(block)
    outer = tree.scope(block)
    if outer is tree.root:
        return None
    fault = f"{block.block.name} is in {outer.block.name}"
    return Failure({outer.block: "around it", block.block: "this block"}, "a block of the root block", fault)


@primitive(requires=[region_of_block, directly_in_root, one_range_a_dimension, holds_the_accesses])
def annotate_buffer_access(
    state: ScheduleState, block: BlockRealize, buffer_index: int, buf_type: str, gen_new_ranges: Callable[..., Any]
) -> None:
    """Declare that a block reads or writes a larger region of a buffer than its body accesses.

    before:
        for i, j in T.grid(8, 8):
            with T.block("B"):
                T.reads(A[vi, vj])
                T.writes(B[vi, vj])
                B[vi, vj] = A[vi, vj] * 2.0
    call: `sch.annotate_buffer_access("B", 0, "read", lambda vi, vj: ((vi, vi + 2), vj))`
    after:
        for i, j in T.grid(8, 8):
            with T.block("B"):
                T.reads(A[vi:vi + 2, vj])
                T.writes(B[vi, vj])
                T.block_attr({"explicit_read_region": [0]})
                B[vi, vj] = A[vi, vj] * 2.0

    `compute_at` and other primitives then use this region. TVM trusts the declaration. In minitvm the region must
    contain everything that the body touches, and every element of a written region must be written.
    """
    inner = block.block
    box = _new_box(inner, gen_new_ranges)
    regions = list(_regions(inner, buf_type))
    regions[buffer_index] = BufferRegion(regions[buffer_index].buffer, box)
    key = f"explicit_{buf_type}_region"
    noted = {**inner.annotations, key: sorted({*inner.annotations.get(key, ()), buffer_index})}
    changed = {"reads" if buf_type == "read" else "writes": tuple(regions), "annotations": noted}
    state.replace({inner: replace(inner, **changed)})


annotate_buffer_access.refuses(
    region_of_block, "sch.annotate_buffer_access('B', 1, 'read', lambda vi, vj: (vi, vj))", on.TWO_ROWS
)
annotate_buffer_access.refuses(
    directly_in_root,
    "sch.loop_partition(sch.get_loops('B')[0], [2]); "
    "sch.annotate_buffer_access('B_i0', 0, 'read', lambda vi, vj: ((vi, vi + 2), vj))",
    on.TWO_ROWS,
)
annotate_buffer_access.refuses(
    one_range_a_dimension, "sch.annotate_buffer_access('B', 0, 'read', lambda vi: (vi,))", on.TWO_ROWS
)
annotate_buffer_access.refuses(
    holds_the_accesses,
    "sch.annotate_buffer_access('B', 0, 'read', lambda vi, vj: ((vi, vi + 2), (vj + 1, vj + 3)))",
    on.TWO_ROWS,
)


@annotate_buffer_access.space
def _annotate_buffer_access_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    for block in state.tree().blocks.values():
        for number, region in enumerate(_regions(block.block, "read")):
            ranges = [(r.start, r.start + r.extent) for r in region.region]
            if any(reads_memory(end) for ends in ranges for end in ends):
                continue  # a trace keeps no loads
            if ranges:
                ranges[0] = (ranges[0][0], ranges[0][1] + 1)
            yield block, number, "read", IndexLambda(tuple(it.var for it in block.block.iter_vars), ranges)
