"""tensorize: replace a subtree by a hardware instruction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ....arith import Analyzer, regions
from ....errors import InputError
from ....expr import REDUCE, Expr, IntImm, Range, Var, const, find, replace, substitute, walk
from ... import nodes as tir
from ...analysis.block_regions import buffers_written, regions_written
from ...annotations import ALIGNMENTS, alignments_of
from ...strides import row_major
from ...tensor_intrin import TensorIntrin
from .. import programs as on
from ..intrinsics import renamed_inside
from ..matching import Matcher, Mismatch
from ..moving import box_text
from ..registry import Failure, Refused, holds_inside, primitive, requirement
from ..state import ScheduleState
from ..views import with_buffers
from .blockize import blockize


def _intrinsic(tensor_intrin: str | TensorIntrin) -> TensorIntrin:
    if isinstance(tensor_intrin, TensorIntrin):
        return tensor_intrin
    intrinsic = TensorIntrin.get(tensor_intrin)
    assert intrinsic is not None  # a missing intrinsic raises an error
    return intrinsic


@requirement
def known_intrinsic(
    state: ScheduleState, block_or_loop: tir.BlockRealize | tir.For, tensor_intrin: str | TensorIntrin
) -> Failure | None:
    """a tensor intrinsic with this name is registered"""
    try:
        _intrinsic(tensor_intrin)
    except InputError as error:
        return Failure({block_or_loop: "to be tensorized"}, "the name of a tensor intrinsic", str(error))
    return None


becomes_block = holds_inside(
    "becomes_block", "if you pass a loop, its subtree can become a block: all requirements of blockize hold"
)
same_structure = holds_inside(
    "same_structure",
    """the block has the structure that the intrinsic describes

    Each buffer of the description represents a box of one of the program's buffers, and each variable represents a
    value. Loops, blocks, stores and loads correspond to each other in order. Indices are equal if you count from the
    beginning of the box. The operands of +, *, min and max may be exchanged. Loops and iterators with one iteration are
    ignored.
    """,
)
box_is_declared = holds_inside(
    "box_is_declared", "the boxes that the intrinsic touches are inside the regions that the block declares"
)
layout_fits = holds_inside(
    "layout_fits",
    "if the implementation declares a stride as a number, the program's buffer has this stride; strides that it "
    "declares with the same variable are equal",
)
separate_buffers = holds_inside(
    "separate_buffers",
    "if the intrinsic writes a buffer, none of its other buffers stands for the same buffer of the program",
)
whole_reduction = holds_inside(
    "whole_reduction",
    "if the implementation initialises the reduction, no loop around the block continues the reduction",
)


@primitive(
    past="was replaced by an intrinsic in",
    requires=[
        known_intrinsic, becomes_block, same_structure, box_is_declared, layout_fits, separate_buffers, whole_reduction,
    ],
)  # fmt: skip
def tensorize(
    state: ScheduleState,
    block_or_loop: tir.BlockRealize | tir.For,
    tensor_intrin: str | TensorIntrin,
    preserve_unit_iters: bool = True,
) -> None:
    """Replace the computation of a block or loop by an intrinsic that computes the same values.

    before:
        for i, j in T.grid(2, 2):
            with T.block("C_o"):
                vi_o, vj_o = T.axis.remap("SS", [i, j])
                for i_1, j_1 in T.grid(4, 4):
                    with T.block("C"):
                        vi, vj = T.axis.remap("SS", [i_1, j_1])
                        C[vi_o * 4 + vi, vj_o * 4 + vj] = 0.0
    call: `sch.tensorize("C_o", "fill_4x4_f32")`
    after:
        for i, j in T.grid(2, 2):
            with T.block("C_o"):
                vi_o, vj_o = T.axis.remap("SS", [i, j])
                row = T.int32()
                C_1 = T.match_buffer(C[vi_o * 4:vi_o * 4 + 4, vj_o * 4:vj_o * 4 + 4], (4, 4), strides=(row, 1))
                for i_1 in T.unroll(4):
                    for j_1 in T.vectorized(4):
                        with T.block("fill"):
                            vi, vj = T.axis.remap("SS", [i_1, j_1])
                            C_1[vi, vj] = 0.0

    A loop is first turned into a block, as `blockize` does. The init of a reduction does not change, unless the
    description has an init too. See `tir.TensorIntrin`.
    """
    intrin = _intrinsic(tensor_intrin)
    realize = _as_block(state, block_or_loop, preserve_unit_iters)
    tree = state.home(realize)
    analyzer = Analyzer()
    for outer in [realize, *tree.above(realize)]:
        if isinstance(outer, tir.For):
            analyzer.bind(outer)
        elif isinstance(outer, tir.BlockRealize):
            for it in outer.block.iter_vars:
                analyzer.bind(it)
    matcher = Matcher(analyzer, intrin.desc.params)
    _compare(matcher, realize.block, intrin)
    _check_buffers(matcher, realize, intrin)
    if intrin.pattern.init is not None and tir.root_block(intrin.impl).init is None:
        _check_reduction(realize, analyzer)
    implemented = _implemented(matcher, realize.block, intrin)
    state.replace({realize.block: implemented})


_TILE_OF_ONES = """
with T.block("root"):
    T.reads()
    T.writes(C[0:4, 0:4])
    for i, j in T.grid(4, 4):
        with T.block("fill"): C[vi, vj] = 1.0
"""
_PACKED_ONES = """
def packed(c: T.handle):
    C = T.match_buffer(c, (4, 4), strides=[4, 1])
    with T.block("root"):
        T.reads()
        T.writes(C[0:4, 0:4])
        for k in range(16):
            with T.block("fill"): C[vk // 4, vk % 4] = 1.0
"""


def _packed_rows() -> TensorIntrin:
    """Return an intrinsic that fills a 4 x 4 tile whose rows are contiguous in memory."""
    from ..examples import program_of  # it imports all primitives

    return TensorIntrin("packed_rows", program_of(_TILE_OF_ONES), program_of(_PACKED_ONES))


_WRITTEN_OUT_SUM = """
with T.block("root"):
    T.reads(A[0:4])
    T.writes(C[0])
    C[0] = (A[0] + A[1]) + (A[2] + A[3])
"""


def _row_sum() -> TensorIntrin:
    """Return an intrinsic that sums four numbers and includes the initial value of the sum."""
    from ..examples import program_of  # it imports all primitives

    return TensorIntrin("row_sum", program_of(on.SUM_OF_FOUR), program_of(_WRITTEN_OUT_SUM))


_TILES_OF_ONES = """
for i_0, j_0, i_1, j_1 in T.grid(2, 2, 4, 4):
    with T.block("A"):
        vi = T.axis.spatial(8, i_0 * 4 + i_1)
        vj = T.axis.spatial(8, j_0 * 4 + j_1)
        A[vi, vj] = 1.0
"""
_ADDED_TO_ITSELF = """
for i, j, k in T.grid(4, 4, 4):
    with T.block("A"): A[vi, vj] = A[vi, vj] + A[vi, vk] * B[vk, vj]
"""
_SAYS_LESS = """
A: T.Buffer((4, 4))
n: T.int32
with T.block("tile"):
    T.reads(C[0:4, 0:4], A[0:4, 0:n], B[0:4, 0:4])
    T.writes(C[0:4, 0:4])
    for i, j, k in T.grid(4, 4, 4):
        with T.block("C"): C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
tensorize.refuses(known_intrinsic, "sch.tensorize(i, 'matmul_4x4x4')", on.MATMUL)
tensorize.refuses(becomes_block, "sch.tensorize(i_1, 'fill_4x4_f32')", on.TAIL)
tensorize.refuses(same_structure, "sch.tensorize(i, 'matmul_4x4x4_f32')", on.SCALED)
tensorize.refuses(box_is_declared, "sch.tensorize('tile', 'matmul_4x4x4_f32')", _SAYS_LESS)
tensorize.refuses(layout_fits, "sch.tensorize(i_1, _packed_rows())", _TILES_OF_ONES)
tensorize.refuses(separate_buffers, "sch.tensorize(i, 'matmul_4x4x4_f32')", _ADDED_TO_ITSELF)
tensorize.refuses(whole_reduction, "sch.tensorize(k_1, _row_sum())", on.ROW_SUMS)


def _as_block(state: ScheduleState, target: tir.BlockRealize | tir.For, preserve_unit_iters: bool) -> tir.BlockRealize:
    if isinstance(target, tir.BlockRealize):
        return target
    try:
        realize: tir.BlockRealize = blockize.perform(
            state, {"target": target, "preserve_unit_iters": preserve_unit_iters}
        )
    except Refused as broken:
        failure = broken.failure
        fault = f"{broken.requirement.name} does not hold: {failure.found}"
        raise becomes_block.refuse(Failure(failure.spots, failure.wanted, fault, failure.tries)) from None
    return realize


def _compare(matcher: Matcher, block: tir.Block, intrin: TensorIntrin) -> None:
    pattern = intrin.pattern
    try:
        if pattern.init is not None:
            if block.init is None:
                raise Mismatch(block, pattern, "a block with an init", "no init")
            matcher.stmt(block.init, pattern.init)
        if block.alloc_buffers or block.match_buffers:
            raise Mismatch(block, pattern, "a block without buffers of its own", "buffers or views")
        matcher.stmt(block.body, pattern.body)
    except Mismatch as at:
        raise same_structure.refuse(
            Failure(
                {at.node: "here they part"}, f"{at.wanted}, as {intrin.name} describes{_context(intrin, at)}", at.found
            )
        ) from None


def _context(intrin: TensorIntrin, at: Mismatch) -> str:
    """Return the text of the description with the mismatch marked, to be shown next to the program; "" if the mismatch
    is not in its body.
    """
    from ...script.printer import script

    inside = any(node is at.pattern for node in walk(intrin.desc.body))
    text: str = script(intrin.desc.body, mark={at.pattern: "here"} if inside else None, context=3 if inside else None)
    return "\n" + text.rstrip("\n") if inside else ""


def _boxes(matcher: Matcher) -> dict[tir.Buffer, tir.BufferRegion]:
    """Return the program's region for each buffer of the description."""
    boxes: dict[tir.Buffer, tir.BufferRegion] = {}
    for buffer, (mine, begins) in matcher.buffers.items():
        lead = mine.ndim - buffer.ndim
        dtype = [d.dtype for d in mine.shape]
        front = tuple(Range(b, const(1, t)) for b, t in zip(begins[:lead], dtype, strict=False))
        dims = [matcher.mapped(d) or d for d in buffer.shape]
        box = tuple(Range(b, d.astype(t)) for b, d, t in zip(begins[lead:], dims, dtype[lead:], strict=True))
        boxes[buffer] = tir.BufferRegion(mine, (*front, *box))
    return boxes


def _check_buffers(matcher: Matcher, realize: tir.BlockRealize, intrin: TensorIntrin) -> None:
    block, analyzer = realize.block, matcher.analyzer
    boxes = _boxes(matcher)
    for operand in intrin.desc.buffers:
        if operand not in boxes:
            raise same_structure.refuse(
                Failure(
                    {block: "this block"}, f"an access for every buffer of {intrin.name}", f"none of {operand.name}"
                )
            )
    written = {n.buffer for n in find(intrin.desc.body, tir.BufferStore)}
    reads, writes = block.reads, block.writes  # nothing else shows what an instruction touches through its views
    for buffer, box in boxes.items():
        declared = [r for r in (*reads, *writes) if r.buffer is box.buffer]
        for sides, needed in ((writes, buffer in written), (reads, buffer not in written)):
            mine = [r for r in sides if r.buffer is box.buffer]
            if needed and not any(regions.covers(r.region, box.region, analyzer) for r in mine):
                shown = ", ".join(box_text(r.buffer, r.region) for r in declared) or "no part of it"
                raise box_is_declared.refuse(
                    Failure({block: "this block"}, f"{box_text(box.buffer, box.region)} declared", shown)
                )
        for other, theirs in boxes.items():
            if other is not buffer and theirs.buffer is box.buffer and (buffer in written or other in written):
                raise separate_buffers.refuse(
                    Failure(
                        {block: "this block"},
                        f"different buffers for {buffer.name} and {other.name}",
                        f"both are {box.buffer.name}",
                    )
                )
    strides: dict[Var, Expr] = {}
    for described, implemented in zip(intrin.desc.params, intrin.impl.params, strict=True):
        if isinstance(described, tir.Buffer) and isinstance(implemented, tir.Buffer):
            _check_strides(block, boxes[described].buffer, implemented, intrin, analyzer, strides)
        elif isinstance(described, Var) and described not in matcher.vars:
            raise same_structure.refuse(
                Failure({block: "this block"}, f"a value for {described.name} of {intrin.name}", "none")
            )


def _check_strides(
    block: tir.Block,
    mine: tir.Buffer,
    view: tir.Buffer,
    intrin: TensorIntrin,
    analyzer: Analyzer,
    numbers: dict[Var, Expr],
) -> None:
    """Check that the declared strides are those of the buffer, and that strides declared by the same variable are
    equal.

    `numbers` has the values of such variables found so far.
    """
    actual = list(mine.strides) or row_major(mine.shape)
    lead = mine.ndim - view.ndim
    for d, (declared, stride) in enumerate(zip(view.strides, actual[lead:], strict=False)):
        one = numbers.setdefault(declared, analyzer.simplify(stride)) if isinstance(declared, Var) else declared
        if isinstance(declared, IntImm | Var) and not analyzer.can_prove_equal(stride, one):
            name = f"{declared} = {one}" if isinstance(declared, Var) else str(declared)
            text = f"a stride of {name} in dimension {d} of {view.name} of {intrin.name}"
            fault = f"{mine.name} has {analyzer.simplify(stride)}"
            raise layout_fits.refuse(Failure({block: "this block"}, text, fault))


def _check_reduction(realize: tir.BlockRealize, analyzer: Analyzer) -> None:
    for it, value in zip(realize.block.iter_vars, realize.iter_values, strict=False):
        if it.kind == REDUCE and not analyzer.can_prove(it.dom.extent <= 1):
            raise whole_reduction.refuse(
                Failure(
                    {realize.block: "this block"},
                    "a reduction that is whole inside the block",
                    f"{it.var.name} = {value} takes {it.dom.extent} values",
                    ("an implementation with an init, T.init() in its root block",),
                )
            )


def _implemented(matcher: Matcher, block: tir.Block, intrin: TensorIntrin) -> tir.Block:
    impl = renamed_inside(intrin.impl)
    root = tir.root_block(impl)
    boxes = _boxes(matcher)
    scalars: dict[Var, Expr] = {}
    placed: dict[
        tir.Buffer, tir.Buffer
    ] = {}  # views have the scope of the buffer that they view; it may be more specific than the described one
    views: list[tir.MatchBufferRegion] = []
    for described, parameter in zip(intrin.desc.params, impl.params, strict=True):
        if isinstance(described, tir.Buffer) and isinstance(parameter, tir.Buffer):
            placed[parameter] = replace(parameter, scope=boxes[described].buffer.scope)
            views.append(tir.MatchBufferRegion(placed[parameter], boxes[described]))
        elif isinstance(described, Var) and isinstance(parameter, Var):
            scalars[parameter] = matcher.vars.get(described, described)
    init = block.init
    if intrin.pattern.init is not None:
        init = None if root.init is None else with_buffers(substitute(root.init, scalars), placed)
    return replace(
        block,
        init=init,
        body=with_buffers(substitute(root.body, scalars), placed),
        alloc_buffers=(*block.alloc_buffers, *root.alloc_buffers),
        match_buffers=(*block.match_buffers, *views),
        annotations={**block.annotations, **_alignments(block), **root.annotations},
    )


def _alignments(block: tir.Block) -> dict[str, Any]:
    """Return the alignments that the replaced blocks requested for their buffers, as an annotation for the enclosing
    block.
    """
    position = {region.buffer: number for number, region in enumerate(regions_written(block))}
    entries = {
        (position[buffers_written(inner)[write]], *rest)
        for inner in walk(block)
        if isinstance(inner, tir.Block)
        for write, *rest in alignments_of(inner)
        if buffers_written(inner)[write] in position
    }
    return {ALIGNMENTS: [list(entry) for entry in sorted(entries)]} if entries else {}


def _loop_extents(stmt: tir.Stmt) -> list[int | None]:
    """Return the extents of the directly nested loops of `stmt`, from outside inward, without extents of 1. A symbolic
    extent is None.
    """
    extents: list[int | None] = []
    while isinstance(stmt, tir.For):
        extent = stmt.extent.value if isinstance(stmt.extent, IntImm) else None
        extents += [] if extent == 1 else [extent]
        stmt = stmt.body
    return extents


@tensorize.space
def _tensorize_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    TensorIntrin.get("", allow_missing=True)  # this registers those of the package
    tree = state.tree()
    for name, intrin in TensorIntrin.KNOWN.items():
        extents = _loop_extents(intrin.pattern.body)
        for loop in tree.loops.values():
            if _loop_extents(loop) == extents:
                yield loop, name
        for block in tree.blocks.values():
            if block is not tree.root and isinstance(block.block.body, tir.For):
                if _loop_extents(block.block.body) == extents:
                    yield block, name
