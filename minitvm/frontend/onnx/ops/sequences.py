"""Sequences of tensors whose number is known while importing: lists that leave nothing in the graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....errors import ModelError
from ...operand import Operand, OperandSequence
from ..context import NodeContext
from ..registry import converter


def _elements(n: NodeContext) -> list[Operand]:
    sequence = n[0]
    if not isinstance(sequence, OperandSequence):
        raise ModelError(f"{n.where}: wanted a sequence, found {sequence}")
    return list(sequence.elements)


def _place(n: NodeContext, operand: Operand, length: int) -> int:
    """A place among `length` ones, counted from the front."""
    place = int(n.scalar(operand, "the position in the sequence"))
    if not -length <= place < length:
        raise ModelError(f"{n.where}: position {place} in a sequence with {length} places")
    return place % length


@converter("SequenceEmpty", since=11)
def sequence_empty(n: NodeContext) -> Any:
    n.ignore("dtype")
    return OperandSequence(())


@converter("SequenceConstruct", since=11)
def sequence_construct(n: NodeContext) -> Any:
    return OperandSequence(n.present)


@converter("SequenceInsert", since=11)
def sequence_insert(n: NodeContext) -> Any:
    elements, at = _elements(n), n.optional(2)
    elements.insert(len(elements) if at is None else _place(n, at, len(elements) + 1), n[1])
    return OperandSequence(elements)


@converter("SequenceErase", since=11)
def sequence_erase(n: NodeContext) -> Any:
    elements, at = _elements(n), n.optional(1)
    elements.pop(-1 if at is None else _place(n, at, len(elements)))
    return OperandSequence(elements)


@converter("SequenceAt", since=11)
def sequence_at(n: NodeContext) -> Any:
    elements = _elements(n)
    return elements[_place(n, n[1], len(elements))]


@converter("SequenceLength", since=11)
def sequence_length(n: NodeContext) -> Any:
    return Operand.known(np.array(len(_elements(n)), np.int64))


@converter("SplitToSequence", since=11)
def split_to_sequence(n: NodeContext) -> Any:
    """Parts of the sizes of a list, of one size (the last may be smaller), or entries, which may lose the axis."""
    x, split = n[0], n.optional(1)
    axis = n.attr("axis", 0) % x.ndim
    keep = n.attr("keepdims", 1)
    if split is not None and split.ndim == 1:
        sizes = n.dims(split, "the sizes of the parts")
    else:
        size = 1 if split is None else int(n.scalar(split, "the size of the parts"))
        extent = n.size(x, axis)
        sizes = tuple(min(size, extent - first) for first in range(0, extent, size))
    parts: list[Operand] = []
    begin: Any = 0
    for width in sizes:
        parts.append(n.part(x, axis, begin, begin + width))
        begin = begin + width
    if split is None and not keep:
        parts = [n.op("squeeze", part, axis=(axis,)) for part in parts]
    return OperandSequence(parts)


@converter("ConcatFromSequence", since=11)
def concat_from_sequence(n: NodeContext) -> Any:
    return n.op("stack" if n.attr("new_axis", 0) else "concatenate", *_elements(n), axis=n.attr("axis"))
