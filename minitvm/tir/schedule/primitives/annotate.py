"""Notes on loops and blocks for later passes: annotate, unannotate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ....errors import nearest
from ....expr import replace
from ...nodes import Block, BlockRealize, For
from ..registry import Failure, primitive, requirement
from ..state import ScheduleState
from ..trace import plain


def _annotated(block_or_loop: BlockRealize | For) -> Block | For:
    return block_or_loop.block if isinstance(block_or_loop, BlockRealize) else block_or_loop


@requirement
def has_annotation(state: ScheduleState, block_or_loop: BlockRealize | For, ann_key: str) -> Failure | None:
    """the loop or block carries an annotation of that key"""
    target = _annotated(block_or_loop)
    if ann_key in target.annotations:
        return None
    return Failure(
        {target: "here"},
        f"an annotation {ann_key!r}",
        nearest(ann_key, list(target.annotations)) if target.annotations else "no annotation",
    )


@primitive()
def annotate(state: ScheduleState, block_or_loop: BlockRealize | For, ann_key: str, ann_val: Any) -> None:
    """Put a note on a loop or block, for lowering passes and tuners; the meaning of the program stays.

    call: `sch.annotate(k, "pragma_auto_unroll_max_step", 16)`
    """
    target = _annotated(block_or_loop)
    state.replace({target: replace(target, annotations={**target.annotations, ann_key: plain(ann_val)})})


@primitive(requires=[has_annotation])
def unannotate(state: ScheduleState, block_or_loop: BlockRealize | For, ann_key: str) -> None:
    """Take a note off a loop or block.

    call: `sch.unannotate(k, "pragma_auto_unroll_max_step")`
    """
    target = _annotated(block_or_loop)
    kept = {key: value for key, value in target.annotations.items() if key != ann_key}
    state.replace({target: replace(target, annotations=kept)})


@annotate.space
def _annotate_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    for loop in state.tree().loops.values():
        yield loop, "pragma_auto_unroll_max_step", 16


@unannotate.space
def _unannotate_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    for loop in state.tree().loops.values():
        for key in loop.annotations:
            yield loop, key
