"""Annotations of loops and blocks for later passes: annotate, unannotate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ....errors import InputError, nearest
from ....expr import FloatImm, IntImm, StringImm, replace
from ...analysis import software_pipelines
from ...analysis.block_regions import regions_written
from ...annotations import ALIGNMENTS, LANES, PREFETCH, alignments_of
from ...nodes import Block, BlockRealize, For
from .. import programs as on
from ..registry import Failure, invariant, primitive, requirement
from ..state import ScheduleState
from ..trace import plain


def _annotated(block_or_loop: BlockRealize | For) -> Block | For:
    return block_or_loop.block if isinstance(block_or_loop, BlockRealize) else block_or_loop


@requirement
def has_annotation(state: ScheduleState, block_or_loop: BlockRealize | For, ann_key: str) -> Failure | None:
    """the loop or block has an annotation with this key"""
    target = _annotated(block_or_loop)
    if ann_key in target.annotations:
        return None
    return Failure(
        {target: "here"},
        f"an annotation {ann_key!r}",
        nearest(ann_key, list(target.annotations)) if target.annotations else "no annotation",
    )


def _no_data(value: Any) -> list[Any]:
    """Return the parts of a value that are not plain data, that is, not strings, numbers, bools, or lists and
    dictionaries of these.
    """
    if isinstance(value, list | tuple):
        return [part for item in value for part in _no_data(item)]
    if isinstance(value, dict):
        strange = [key for key in value if not isinstance(key, str)]
        return [*strange, *(part for item in value.values() for part in _no_data(item))]
    return [] if isinstance(value, str | bool | int | float | IntImm | FloatImm | StringImm) else [value]


@requirement
def note_is_data(state: ScheduleState, block_or_loop: BlockRealize | For, ann_val: Any) -> Failure | None:
    """the value is a string, number (perhaps sampled) or bool, or a list or dictionary of these with string keys"""
    strange = _no_data(ann_val)
    if not strange:
        return None
    fault = f"{strange[0]!r} of type {type(strange[0]).__name__}"
    expected = "strings, numbers, bools, and lists and dictionaries (whose keys are strings) of these"
    return Failure({_annotated(block_or_loop): "here"}, expected, fault)


_COUNTS = (LANES, PREFETCH)
_ON_LOOPS, _ON_BLOCKS = software_pipelines.KEYS, (software_pipelines.DOUBLE,)


@requirement
def note_in_place(state: ScheduleState, block_or_loop: BlockRealize | For, ann_key: str) -> Failure | None:
    """software pipelines are annotated on a loop, and double buffers on the block that fills them"""
    on_loop = isinstance(block_or_loop, For)
    if ann_key not in (_ON_BLOCKS if on_loop else _ON_LOOPS):
        return None
    expected, actual = ("a block", "a loop") if on_loop else ("a loop", "a block")
    return Failure({_annotated(block_or_loop): "here"}, f"{expected} for {ann_key}", actual)


@requirement
def counts(state: ScheduleState, block_or_loop: BlockRealize | For, ann_key: str, ann_val: Any) -> Failure | None:
    """the lanes of "vector_reduction" and the iterations of "prefetch" are positive integers"""
    if ann_key not in _COUNTS or (isinstance(plain(ann_val), int) and plain(ann_val) > 0):
        return None
    return Failure({_annotated(block_or_loop): "here"}, f"a whole number above 0 for {ann_key}", repr(plain(ann_val)))


@requirement
def alignment_fits(
    state: ScheduleState, block_or_loop: BlockRealize | For, ann_key: str, ann_val: Any
) -> Failure | None:
    """a block's "buffer_dim_align" lists [position of a written buffer, axis, positive factor, offset]"""
    if ann_key != ALIGNMENTS:
        return None
    if isinstance(block_or_loop, For):
        return Failure({block_or_loop: "here"}, f"a block for {ann_key}", "a loop")
    block = block_or_loop.block
    try:
        alignments_of(replace(block, annotations={ALIGNMENTS: plain(ann_val)}))
    except InputError as error:
        lines = [line.partition(":")[2].strip() for line in str(error).split("\n")]
        return Failure({block: "here"}, lines[1], lines[2], (lines[3],))
    return None


@invariant
def pipelines_well_formed(state: ScheduleState) -> Failure | None:
    """each loop annotated as a software pipeline is serial, and has a stage and a position in the order (numbers from
    0) for each statement of its body; its asynchronous stages are among these stages. Each block annotated for double
    buffering gives the position of a buffer that it writes, and is in a loop with other statements
    """
    failures = (software_pipelines.ill_formed(tree) for tree in state.schedulable_trees())
    return next((failure for failure in failures if failure is not None), None)


@invariant
def keeps_pipelines(state: ScheduleState) -> Failure | None:
    """in every software pipeline and for every double buffer, each value is still written before it is read, and not
    overwritten in between, in the order of the time steps
    """
    failures = (software_pipelines.broken(tree) for tree in state.schedulable_trees())
    return next((failure for failure in failures if failure is not None), None)


@primitive(requires=[note_in_place, note_is_data, counts, alignment_fits])
def annotate(state: ScheduleState, block_or_loop: BlockRealize | For, ann_key: str, ann_val: Any) -> None:
    """Annotate a loop or block for lowering passes and tuners; the meaning of the program does not change.

    before:
        for i in range(8):
            with T.block("B"): B[vi] = A[vi] * 2.0
    call: `sch.annotate(i, "pragma_auto_unroll_max_step", 16)`
    after:
        for i in T.serial(8, annotations={"pragma_auto_unroll_max_step": 16}):
            with T.block("B"): B[vi] = A[vi] * 2.0

    "software_pipeline_stage" and "software_pipeline_order" list one number for each statement of the loop's body. While
    a statement of stage 0 works on iteration i, a statement of stage s works on iteration i - s, so several iterations
    are in progress at once. The second list gives the order in which the statements run in each such step.
    "double_buffer_scope" on a block gives the position of a buffer that the block writes, and lets the block run one
    iteration ahead. If these annotations would change a value that the program reads, the step is refused. The same
    holds for every later step of the schedule (`keeps_pipelines`). "software_pipeline_async_stages" lists stages with
    copies from global to shared storage that run in the background, as with CUDA's `cp.async`. Such a copy has to be
    complete only when a later stage reads it. If the target cannot do this for a copy, the copy becomes an ordinary
    one. "software_pipeline_spare_versions" is a number of additional versions for each buffer that passes values
    between stages.

    Two more annotations have numbers as values. If "vector_reduction" is n, the innermost loop of a reduction
    accumulates in n lanes. If "prefetch" is n, an innermost loop requests the vectors that it reads in sequence n
    iterations before it uses them.
    """
    target = _annotated(block_or_loop)
    state.replace({target: replace(target, annotations={**target.annotations, ann_key: plain(ann_val)})})


_PASSING_ON = """
with T.block("first"): H[0] = 0.0
for i in range(8):
    with T.block("use"): C[vi] = H[vi]
    with T.block("next"): H[vi + 1] = H[vi] + A[vi]
"""
annotate.refuses(note_in_place, "sch.annotate(i, 'double_buffer_scope', 0)", on.MATMUL)
annotate.refuses(note_is_data, "sch.annotate(i, 'tile', {'i': [4, b'x']})", on.MATMUL)
annotate.refuses(counts, "sch.annotate(i, 'prefetch', 'far')", on.MATMUL)
annotate.refuses(alignment_fits, "sch.annotate('C', 'buffer_dim_align', [[0, 9, 32, 8]])", on.MATMUL)
annotate.refuses(pipelines_well_formed, "sch.annotate(i, 'software_pipeline_stage', [0])", on.LOAD_AND_USE)
annotate.refuses(keeps_pipelines, "sch.annotate(i, 'software_pipeline_stage', [0, 2])", _PASSING_ON)


@primitive(requires=[has_annotation])
def unannotate(state: ScheduleState, block_or_loop: BlockRealize | For, ann_key: str) -> None:
    """Remove an annotation from a loop or block.

    before:
        for i in T.serial(8, annotations={"pragma_auto_unroll_max_step": 16}):
            with T.block("B"): B[vi] = A[vi] * 2.0
    call: `sch.unannotate(i, "pragma_auto_unroll_max_step")`
    after:
        for i in range(8):
            with T.block("B"): B[vi] = A[vi] * 2.0
    """
    target = _annotated(block_or_loop)
    kept = {key: value for key, value in target.annotations.items() if key != ann_key}
    state.replace({target: replace(target, annotations=kept)})


unannotate.refuses(has_annotation, "sch.unannotate(i, 'pragma_note')", on.MATMUL)


@annotate.space
def _annotate_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    for loop in state.tree().loops.values():
        yield loop, "pragma_auto_unroll_max_step", 16
        yield loop, PREFETCH, 3
        yield loop, LANES, 4
        count = len(software_pipelines.inner_parts(loop))
        if count > 1:
            yield loop, software_pipelines.STAGE, [0] * (count - 1) + [1]
            yield loop, software_pipelines.STAGE, list(range(count))
        if software_pipelines.STAGE in loop.annotations:
            yield loop, software_pipelines.ORDER, list(range(count))[::-1]
    for block in state.tree().blocks.values():
        if regions_written(block.block) and software_pipelines.doubled_loop(state.tree(), block) is not None:
            yield block, software_pipelines.DOUBLE, 0


@unannotate.space
def _unannotate_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    for loop in state.tree().loops.values():
        for key in loop.annotations:
            yield loop, key
    for block in state.tree().blocks.values():
        for key in block.block.annotations:
            yield block, key
