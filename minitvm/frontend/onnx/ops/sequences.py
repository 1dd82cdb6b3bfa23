"""Sequences of tensors: lists that leave nothing in the graph, or entries of a tensor if their number is open."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ....errors import ModelError
from ....expr import GT, LE, Expr, as_expr, match
from ....graph.nodes import Dim
from ....topi.shapes import same, simple
from ...operand import (
    GrowingSequence,
    JoinedSequence,
    Operand,
    OperandSequence,
    PartsSequence,
    SequenceOperand,
    StackedSequence,
)
from ..context import NodeContext
from ..registry import converter


def _sequence(n: NodeContext) -> SequenceOperand:
    """The first input; raises for what is no sequence, and for one that the loop around the node extends."""
    sequence = n[0]
    if isinstance(sequence, GrowingSequence):
        n.refuse("a sequence that a loop of open length extends can be read behind the loop only")
    if not isinstance(sequence, SequenceOperand):
        raise ModelError(f"{n.where}: wanted a sequence, found {sequence}")
    return sequence


def _is_fixed(place: Operand | None) -> bool:
    return place is None or (place.is_known and not place.is_symbolic)


def _segments(sequence: SequenceOperand) -> list[SequenceOperand]:
    return list(sequence.segments) if isinstance(sequence, JoinedSequence) else [sequence]


def _joined(segments: Iterable[SequenceOperand]) -> SequenceOperand:
    """Lists one behind the other, as few as possible."""
    fewer: list[SequenceOperand] = []
    for segment in segments:
        last = fewer[-1] if fewer else None
        if isinstance(segment, OperandSequence) and isinstance(last, OperandSequence):
            fewer[-1] = OperandSequence([*last.elements, *segment.elements])
        elif not isinstance(segment, OperandSequence) or segment.elements:
            fewer.append(segment)
    return fewer[0] if len(fewer) == 1 else JoinedSequence(fewer) if fewer else OperandSequence(())


def _alike(operands: Sequence[Operand]) -> bool:
    """Whether tensors have one shape at all sizes."""
    first = operands[0].shape
    return all(len(o.shape) == len(first) and all(map(same, o.shape, first)) for o in operands[1:])


def stacked(n: NodeContext, sequence: SequenceOperand) -> Operand:
    """The elements along a new first axis; they must have one shape."""
    if isinstance(sequence, StackedSequence):
        return sequence.stack
    if isinstance(sequence, PartsSequence):
        return _stacked_parts(n, sequence)
    if isinstance(sequence, JoinedSequence):
        rows: Operand = n.op("concatenate", *(stacked(n, segment) for segment in sequence.segments), axis=0)
        return rows
    if not isinstance(sequence, OperandSequence) or not sequence.elements:
        n.refuse(f"{sequence} is taken apart or put together in a way that needs elements of one shape")
    stack: Operand = n.op("stack", *sequence.elements, axis=0)
    return stack


def _stacked_parts(n: NodeContext, sequence: PartsSequence) -> Operand:
    """Parts of one size: a run is refused where the last one is smaller."""
    whole, axis, size = sequence.whole, sequence.axis, sequence.size
    count = length_of(n, sequence)
    entries = n.reshape(whole, (*whole.shape[:axis], count, size, *whole.shape[axis + 1 :]))
    moved: Operand = n.op("transpose", entries, axes=(axis, *(a for a in range(entries.ndim) if a != axis)))
    return moved


def length_of(n: NodeContext, sequence: SequenceOperand) -> Dim:
    """The number of elements."""
    if isinstance(sequence, JoinedSequence):
        return simple(functools.reduce(operator.add, [length_of(n, segment) for segment in sequence.segments]))
    if isinstance(sequence, PartsSequence):
        return simple((sequence.whole.shape[sequence.axis] + (sequence.size - 1)) // sequence.size)
    return len(sequence.elements) if isinstance(sequence, OperandSequence) else stacked(n, sequence).shape[0]


def element_at(n: NodeContext, sequence: SequenceOperand, place: Operand) -> Operand:
    """The element at a place, which may be data; a negative one counts from the end."""
    if _is_fixed(place):
        segments, k, own = _located(n, sequence, int(n.scalar(place, "the position in the sequence")))
        segment = segments[k]
        if isinstance(segment, OperandSequence):
            return segment.elements[own]
        return _entry_of(n, segment, n.number(own, ()))
    index = _from_front(n, place, length_of(n, sequence))
    if isinstance(sequence, OperandSequence) and not _alike(sequence.elements):
        return _selected(n, [(n.op("equal", index, k), e) for k, e in enumerate(sequence.elements)])
    return _entry_of(n, sequence, index)


def _entry_of(n: NodeContext, sequence: SequenceOperand, index: Operand) -> Operand:
    """The element at a place [] that is counted from the front."""
    if not isinstance(sequence, PartsSequence):
        entry: Operand = n.op("take", stacked(n, sequence), index, axis=0)
        return entry
    whole, axis, size = sequence.whole, sequence.axis, sequence.size
    first = n.op("multiply", index, n.number(size, ()))
    left = n.op("subtract", n.number(whole.shape[axis], ()), first)
    (width,) = n.dims(n.op("minimum", left, n.number(size, ())), "the size of a part", most=size)
    places = n.op("add", n.numbers(width, 0, 1), n.reshape(first, (1,)))
    part: Operand = n.op("take", whole, places, axis=axis)
    return part


def _selected(n: NodeContext, choices: Sequence[tuple[Operand, Operand]]) -> Operand:
    """Of pairs of a truth value [] and a tensor, the first tensor whose value is true; the last one if none is."""
    *others, (_, result) = choices
    if any(e.ndim != result.ndim or e.dtype != result.dtype for _, e in others):
        n.refuse(f"{[e for _, e in choices]} differ in rank or type, and data decide which of them is meant")
    for flag, element in reversed(others):
        if flag.is_known and not flag.is_symbolic:
            result = element if flag.data is not None and flag.data.item() else result
            continue
        result = n.builder.selected(flag, n.holds(flag), element, result, n.name_hint, n.where)
    return result


def _located(
    n: NodeContext, sequence: SequenceOperand, place: int, *, behind: bool = False
) -> tuple[list[SequenceOperand], int, Any]:
    """The lists that make up a sequence, which of them has a place, and the place in it, counted from the front.

    In a list of open length the place is taken for one that it has; a run checks it. With `behind`, the place behind the
    last element is one, too.
    """
    segments = _segments(sequence)
    order = range(len(segments)) if place >= 0 else range(len(segments) - 1, -1, -1)
    left = place if place >= 0 else -place - 1  # elements between the place and the end that it is counted from
    for k in order:
        segment = segments[k]
        length = length_of(n, segment)
        if isinstance(length, int):
            if left < length or (behind and left == length and place >= 0 and k == len(segments) - 1):
                return segments, k, left if place >= 0 else length - 1 - left
            left -= length
            continue
        segments[k] = _with(n, segment, LE(*match(as_expr(left if behind and place >= 0 else left + 1), as_expr(length))))
        return segments, k, left if place >= 0 else simple(length - 1 - left)
    total = length_of(n, sequence)
    raise ModelError(f"{n.where}: position {place} in a sequence with {total} places")


def _with(n: NodeContext, segment: SequenceOperand, condition: Expr) -> SequenceOperand:
    """A list of open length, under a condition that a run checks."""
    decided = simple(condition)
    if not isinstance(decided, Expr):
        return segment
    if isinstance(segment, PartsSequence):
        return PartsSequence(n.builder.required(segment.whole, [decided], n.where), segment.axis, segment.size)
    return StackedSequence(n.builder.required(stacked(n, segment), [decided], n.where))


def _cut(n: NodeContext, segment: SequenceOperand, place: Any) -> tuple[SequenceOperand, SequenceOperand]:
    """A list up to a place, and from there on."""
    if isinstance(segment, OperandSequence):
        return OperandSequence(segment.elements[:place]), OperandSequence(segment.elements[place:])
    if isinstance(segment, PartsSequence):
        whole, axis, size = segment.whole, segment.axis, segment.size
        at = simple(place * size)
        ends = ((0, at), (at, whole.shape[axis]))
        front, back = (PartsSequence(n.part(whole, axis, *end), axis, size) for end in ends)
        return front, back
    stack = stacked(n, segment)
    return StackedSequence(n.part(stack, 0, 0, place)), StackedSequence(n.part(stack, 0, place, stack.shape[0]))


def _from_front(n: NodeContext, place: Operand, length: Dim) -> Operand:
    index = n.cast(n.reshape(place, ()), "int64")
    return n.op("where", n.op("less", index, 0), n.op("add", index, n.number(length, ())), index)


@converter("SequenceEmpty", since=11)
def sequence_empty(n: NodeContext) -> Any:
    n.ignore("dtype")
    return OperandSequence(())


@converter("SequenceConstruct", since=11)
def sequence_construct(n: NodeContext) -> Any:
    return OperandSequence(n.present)


@converter("SequenceInsert", since=11)
def sequence_insert(n: NodeContext) -> Any:
    at = n.optional(2)
    if isinstance(n[0], GrowingSequence) and at is None:
        return GrowingSequence(n[0].before, (*n[0].appended, n[1]))
    sequence, new = _sequence(n), OperandSequence([n[1]])
    if at is None:
        return _joined([*_segments(sequence), new])
    if _is_fixed(at):
        place = int(n.scalar(at, "the position in the sequence"))
        if not place:
            return _joined([new, *_segments(sequence)])
        segments, k, own = _located(n, sequence, place, behind=True)
        front, back = _cut(n, segments[k], own)
        return _joined([*segments[:k], front, new, back, *segments[k + 1 :]])
    if isinstance(sequence, OperandSequence) and not _alike([*sequence.elements, n[1]]):
        return _inserted(n, sequence.elements, n[1], at)
    stack = stacked(n, sequence)
    count = stack.shape[0]
    longer = n.op("concatenate", stack, n.op("expand_dims", n[1], axis=(0,)), axis=0)
    place, number = n.reshape(_from_front(n, at, count), (1,)), n.numbers(simple(count + 1), 0, 1)
    behind = n.op("where", n.op("equal", number, place), n.number(count), n.op("subtract", number, 1))
    return StackedSequence(n.op("take", longer, n.op("where", n.op("less", number, place), number, behind), axis=0))


def _inserted(n: NodeContext, elements: Sequence[Operand], new: Operand, at: Operand) -> OperandSequence:
    """Elements of different shapes with a new one at a place that is data."""
    place = _from_front(n, at, len(elements))
    longer = []
    for k in range(len(elements) + 1):
        choices = [(n.op("equal", place, k), new)]
        if k < len(elements):
            choices.append((n.op("greater", place, k), elements[k]))
        if k:
            choices.append((n.op("less", place, k), elements[k - 1]))
        longer.append(_selected(n, choices))
    return OperandSequence(longer)


@converter("SequenceErase", since=11)
def sequence_erase(n: NodeContext) -> Any:
    sequence, at = _sequence(n), n.optional(1)
    if _is_fixed(at):
        place = -1 if at is None else int(n.scalar(at, "the position in the sequence"))
        segments, k, own = _located(n, sequence, place)
        front, rest = _cut(n, segments[k], own)
        _, back = _cut(n, rest, 1)
        return _joined([*segments[:k], front, back, *segments[k + 1 :]])
    if isinstance(sequence, OperandSequence) and not _alike(sequence.elements):
        place, last = _from_front(n, at, len(sequence.elements)), len(sequence.elements) - 1
        pairs = zip(sequence.elements, sequence.elements[1:], strict=False)
        each = [[(n.op("greater", place, k), own), (place, after)] for k, (own, after) in enumerate(pairs)]
        return OperandSequence([_selected(n, choices) for choices in each[:last]])
    stack = stacked(n, sequence)
    place, number = n.reshape(_from_front(n, at, stack.shape[0]), (1,)), n.numbers(simple(stack.shape[0] - 1), 0, 1)
    kept = n.op("where", n.op("less", number, place), number, n.op("add", number, 1))
    return StackedSequence(n.op("take", stack, kept, axis=0))


@converter("SequenceAt", since=11)
def sequence_at(n: NodeContext) -> Any:
    return element_at(n, _sequence(n), n[1])


@converter("SequenceLength", since=11)
def sequence_length(n: NodeContext) -> Any:
    return n.number(length_of(n, _sequence(n)), ())


@converter("SplitToSequence", since=11)
def split_to_sequence(n: NodeContext) -> Any:
    """Parts of the sizes of a list, of one size (the last may be smaller), or entries, which may lose the axis."""
    x, split = n[0], n.optional(1)
    axis = n.attr("axis", 0) % x.ndim
    keep = n.attr("keepdims", 1)
    extent = x.shape[axis]
    if split is None and isinstance(extent, Expr):
        first = n.op("transpose", x, axes=(axis, *(a for a in range(x.ndim) if a != axis)))
        return StackedSequence(n.op("expand_dims", first, axis=(1 + axis,)) if keep else first)
    if split is not None and split.ndim == 1:
        sizes = n.dims(split, "the sizes of the parts", most=extent)
    else:
        size = 1 if split is None else n.dims(split, "the size of the parts", most=extent)[0]
        if isinstance(size, Expr):
            x = n.builder.required(x, [GT(size, as_expr(0))], n.where)
        if isinstance(extent, Expr) or isinstance(size, Expr):
            return PartsSequence(x, axis, size)
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
    sequence, axis, new_axis = _sequence(n), n.attr("axis"), bool(n.attr("new_axis", 0))
    if isinstance(sequence, JoinedSequence) and not new_axis:
        return n.op("concatenate", *(_concatenated(n, segment, axis) for segment in sequence.segments), axis=axis)
    return _concatenated(n, sequence, axis, new_axis=new_axis)


def _concatenated(n: NodeContext, sequence: SequenceOperand, axis: int, *, new_axis: bool = False) -> Operand:
    if isinstance(sequence, OperandSequence):
        joined: Operand = n.op("stack" if new_axis else "concatenate", *sequence.elements, axis=axis)
        return joined
    if isinstance(sequence, PartsSequence) and not new_axis and axis % sequence.whole.ndim == sequence.axis:
        whole: Operand = n.op("copy", sequence.whole)
        return whole
    stack = stacked(n, sequence)
    axis = axis % (stack.ndim if new_axis else stack.ndim - 1)
    order = list(range(1, stack.ndim))
    order.insert(axis, 0)
    moved: Operand = n.op("transpose", stack, axes=tuple(order))
    if new_axis:
        return moved
    shape = list(moved.shape)
    shape[axis : axis + 2] = [simple(shape[axis] * shape[axis + 1])]
    return n.reshape(moved, shape)


@converter("SequenceMap", since=17)
def sequence_map(n: NodeContext) -> Any:
    """The body of each element, and of tensors that are the same for all; a loop if the number of elements is open."""
    body, inputs = n.attr("body"), [n[0], *n.present_from(1)]
    length = length_of(n, _sequence(n))
    names = [info.name for info in body.input]

    def results(place: Operand) -> list[Operand]:
        own = [element_at(n, x, place) if isinstance(x, SequenceOperand) else x for x in inputs]
        return n.importer.subgraph(body, {**n.scope, **dict(zip(names, own, strict=True))})

    if isinstance(length, int):
        columns = zip(*(results(n.number(k, ())) for k in range(length)), strict=True)
        mapped = [OperandSequence(column) for column in columns]
        return mapped if length else [OperandSequence(()) for _ in body.output]
    going = Operand.known(np.array(True))
    _, *rows = n.builder.loop(
        lambda number: (going, [], results(number)), [], n.number(length, ()), going, length, n.where
    )
    return [StackedSequence(row) for row in rows]
