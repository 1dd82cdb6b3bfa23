"""Convert sequences of tensors: lists that add nothing to the graph, or entries of a tensor if their number is
symbolic.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ....errors import ModelError
from ....expr import EQ, GT, LE, LT, Expr, as_expr, match
from ....graph.nodes import Dim
from ....topi.shapes import axis_of, larger, same, simple, smaller
from ...common import operand as common
from ..context import NodeContext
from ..registry import converter


def _sequence(n: NodeContext) -> common.SequenceOperand:
    """Return the first input. Raises if it is not a sequence, or is a sequence that the surrounding loop extends."""
    sequence = n[0]
    if isinstance(sequence, common.GrowingSequence):
        n.refuse("a sequence that a loop of open length extends can be read behind the loop only")
    if not isinstance(sequence, common.SequenceOperand):
        raise ModelError(f"{n.where}: wanted a sequence, found {sequence}")
    return sequence


def _is_fixed(place: common.Operand) -> bool:
    return place.is_known and not place.is_symbolic


def _segments(sequence: common.SequenceOperand) -> list[common.SequenceOperand]:
    return list(sequence.segments) if isinstance(sequence, common.JoinedSequence) else [sequence]


def _joined(segments: Iterable[common.SequenceOperand]) -> common.SequenceOperand:
    """Return several lists as one, with as few parts as possible."""
    fewer: list[common.SequenceOperand] = []
    for segment in segments:
        last = fewer[-1] if fewer else None
        if isinstance(segment, common.OperandSequence) and isinstance(last, common.OperandSequence):
            fewer[-1] = common.OperandSequence([*last.elements, *segment.elements])
        elif not isinstance(segment, common.OperandSequence) or segment.elements:
            fewer.append(segment)
    return fewer[0] if len(fewer) == 1 else common.JoinedSequence(fewer) if fewer else common.OperandSequence(())


def _alike(operands: Sequence[common.Operand]) -> bool:
    """Return whether tensors have the same shape at all sizes."""
    first = operands[0].shape
    return all(len(o.shape) == len(first) and all(map(same, o.shape, first)) for o in operands[1:])


def stacked(n: NodeContext, sequence: common.SequenceOperand) -> common.Operand:
    """Return the elements along a new first axis. They must have the same shape."""
    if isinstance(sequence, common.StackedSequence):
        return sequence.stack
    if isinstance(sequence, common.PartsSequence):
        return _stacked_parts(n, sequence)
    if isinstance(sequence, common.JoinedSequence):
        rows: common.Operand = n.op("concatenate", *(stacked(n, segment) for segment in sequence.segments), axis=0)
        return rows
    if not isinstance(sequence, common.OperandSequence) or not sequence.elements:
        n.refuse(f"{sequence} is taken apart or put together in a way that needs elements of one shape")
    stack: common.Operand = n.op("stack", *sequence.elements, axis=0)
    return stack


def _stacked_parts(n: NodeContext, sequence: common.PartsSequence) -> common.Operand:
    """Return parts of equal size along a new axis. A run in which the last part is smaller is refused."""
    whole, axis, size = sequence.whole, sequence.axis, sequence.size
    count = length_of(n, sequence)
    entries = n.reshape(whole, (*whole.shape[:axis], count, size, *whole.shape[axis + 1 :]))
    moved: common.Operand = n.op("transpose", entries, axes=(axis, *(a for a in range(entries.ndim) if a != axis)))
    return moved


def length_of(n: NodeContext, sequence: common.SequenceOperand) -> Dim:
    """Return the number of elements."""
    if isinstance(sequence, common.JoinedSequence):
        return simple(functools.reduce(operator.add, [length_of(n, segment) for segment in sequence.segments]))
    if isinstance(sequence, common.PartsSequence):
        return simple((sequence.whole.shape[sequence.axis] + (sequence.size - 1)) // sequence.size)
    return len(sequence.elements) if isinstance(sequence, common.OperandSequence) else stacked(n, sequence).shape[0]


def element_at(n: NodeContext, sequence: common.SequenceOperand, place: common.Operand) -> common.Operand:
    """Return the element at a position, which may be data. A negative position counts from the end."""
    if _is_fixed(place):
        return _at(n, *_checked(n, sequence, place))
    index = _from_front(n, place, length_of(n, sequence))
    if isinstance(sequence, common.OperandSequence) and not _alike(sequence.elements):
        return _selected(n, [(n.op("equal", index, k), e) for k, e in enumerate(sequence.elements)])
    return _entry_of(n, sequence, index)


def _entry_of(n: NodeContext, sequence: common.SequenceOperand, index: common.Operand) -> common.Operand:
    """Return the element at a position [] that counts from the front."""
    if not isinstance(sequence, common.PartsSequence):
        entry: common.Operand = n.op("take", stacked(n, sequence), index, axis=0)
        return entry
    whole, axis, size = sequence.whole, sequence.axis, sequence.size
    first = n.op("multiply", index, n.number(size, ()))
    left = n.op("subtract", n.number(whole.shape[axis], ()), first)
    (width,) = n.dims(n.op("minimum", left, n.number(size, ())), "the size of a part", most=size)
    places = n.op("add", n.numbers(width, 0, 1), n.reshape(first, (1,)))
    part: common.Operand = n.op("take", whole, places, axis=axis)
    return part


def _selected(n: NodeContext, choices: Sequence[tuple[common.Operand, common.Operand]]) -> common.Operand:
    """Return the first tensor whose truth value [] holds, from pairs (truth value, tensor), or the last one if none
    holds.
    """
    *others, (_, result) = choices
    if any(e.ndim != result.ndim or e.dtype != result.dtype for _, e in others):
        n.refuse(f"{[e for _, e in choices]} differ in rank or type, and data decide which of them is meant")
    for flag, element in reversed(others):
        if flag.is_known and not flag.is_symbolic:
            result = element if flag.data is not None and flag.data.item() else result
            continue
        result = n.builder.selected(flag, n.holds(flag), element, result, n.name_hint, n.where)
    return result


def _checked(
    n: NodeContext, sequence: common.SequenceOperand, at: common.Operand, *, behind: int = 0
) -> tuple[common.SequenceOperand, Dim]:
    """Return the sequence and a known position, counted from the front. A run checks that the sequence is long enough.

    With `behind=1`, the position after the last element is allowed, too.
    """
    place, length = int(n.scalar(at, "the position in the sequence")), length_of(n, sequence)
    needed = simple(LE(*match(as_expr(place + 1 - behind if place >= 0 else -place), as_expr(length))))
    if isinstance(needed, int) and not needed:
        raise ModelError(f"{n.where}: position {place} in a sequence with {length} places")
    if isinstance(needed, Expr):
        segments = _segments(sequence)
        k = next(k for k, segment in enumerate(segments) if not isinstance(segment, common.OperandSequence))
        segments[k] = _with(n, segments[k], needed)
        sequence = _joined(segments)
    return sequence, place if place >= 0 else simple(length + place)


def _with(n: NodeContext, segment: common.SequenceOperand, condition: Expr) -> common.SequenceOperand:
    """Return a list of symbolic length under a condition that a run checks."""
    if isinstance(segment, common.PartsSequence):
        return common.PartsSequence(n.builder.required(segment.whole, [condition], n.where), segment.axis, segment.size)
    return common.StackedSequence(n.builder.required(stacked(n, segment), [condition], n.where))


def _at(n: NodeContext, sequence: common.SequenceOperand, place: Dim) -> common.Operand:
    """Return the element at a position, from the list that contains it. Sizes may decide which list that is."""
    lists, begin = [], 0
    for segment in _segments(sequence):
        end = simple(begin + length_of(n, segment))
        inside = simple(LT(*match(as_expr(place), as_expr(end))))
        if isinstance(inside, Expr) or inside:
            lists.append((inside, segment, simple(place - begin)))
        if not isinstance(inside, Expr) and inside:
            break
        begin = end
    sure = len(lists) == 1
    return _selected(n, [(_truth(inside), _inside(n, segment, own, sure)) for inside, segment, own in lists])


def _truth(condition: Dim) -> common.Operand:
    data = np.empty((), object)
    data[()] = condition
    return common.Operand.known(data if isinstance(condition, Expr) else np.array(bool(condition)), "bool")


def _inside(n: NodeContext, segment: common.SequenceOperand, own: Dim, sure: bool) -> common.Operand:
    """Return the element of one list at a position. If the position may be outside and not `sure`, any element will do
    there.
    """
    if isinstance(segment, common.OperandSequence):
        if isinstance(own, int):
            return segment.elements[own]
        return _selected(n, [(_truth(simple(EQ(own, as_expr(k)))), e) for k, e in enumerate(segment.elements)])
    if sure:
        return _entry_of(n, segment, n.number(own, ()))
    if isinstance(segment, common.StackedSequence):  # which may be empty
        rows = segment.stack
        more = n.op("nn.pad", rows, pad_width=((0, 1), *((0, 0),) * (rows.ndim - 1)))
        segment = common.StackedSequence(more)
    last = larger(simple(length_of(n, segment) - 1), 0)
    return _entry_of(n, segment, n.number(smaller(larger(own, 0), last), ()))


def _divided(
    n: NodeContext, sequence: common.SequenceOperand, place: Dim
) -> tuple[list[common.SequenceOperand], list[common.SequenceOperand]]:
    """Return the lists up to a position, and the lists from there on.

    Each list of the sequence is cut: a list before the position is cut after its last element, and a list after it
    before its first element. So it need not be known which list contains the position.
    """
    fronts, backs, begin = [], [], 0
    for segment in _segments(sequence):
        length = length_of(n, segment)
        front, back = _cut(n, segment, smaller(larger(simple(place - begin), 0), length))
        fronts.append(front)
        backs.append(back)
        begin = simple(begin + length)
    return fronts, backs


def _cut(
    n: NodeContext, segment: common.SequenceOperand, place: Dim
) -> tuple[common.SequenceOperand, common.SequenceOperand]:
    """Return a list up to a position, and from there on."""
    length = length_of(n, segment)
    nothing = common.OperandSequence(())
    if same(place, 0):
        return nothing, segment
    if same(place, length):
        return segment, nothing
    if isinstance(segment, common.OperandSequence) and isinstance(place, int):
        return common.OperandSequence(segment.elements[:place]), common.OperandSequence(segment.elements[place:])
    if isinstance(segment, common.PartsSequence):
        whole, axis, size = segment.whole, segment.axis, segment.size
        at = simple(place * size)
        ends = ((0, at), (at, whole.shape[axis]))
        front, back = (common.PartsSequence(n.part(whole, axis, *end), axis, size) for end in ends)
        return front, back
    stack = stacked(n, segment)
    return common.StackedSequence(n.part(stack, 0, 0, place)), common.StackedSequence(n.part(stack, 0, place, length))


def _from_front(n: NodeContext, place: common.Operand, length: Dim) -> common.Operand:
    index = n.cast(n.reshape(place, ()), "int64")
    return n.op("where", n.op("less", index, 0), n.op("add", index, n.number(length, ())), index)


@converter("SequenceEmpty", since=11)
def sequence_empty(n: NodeContext) -> Any:
    n.ignore("dtype")
    return common.OperandSequence(())


@converter("SequenceConstruct", since=11)
def sequence_construct(n: NodeContext) -> Any:
    return common.OperandSequence(n.present)


@converter("SequenceInsert", since=11)
def sequence_insert(n: NodeContext) -> Any:
    at = n.optional(2)
    if isinstance(n[0], common.GrowingSequence) and at is None:
        return common.GrowingSequence(n[0].before, (*n[0].appended, n[1]))
    sequence, new = _sequence(n), common.OperandSequence([n[1]])
    if at is None:
        return _joined([*_segments(sequence), new])
    if _is_fixed(at):
        fronts, backs = _divided(n, *_checked(n, sequence, at, behind=1))
        return _joined([*fronts, new, *backs])
    if isinstance(sequence, common.OperandSequence) and not _alike([*sequence.elements, n[1]]):
        return _inserted(n, sequence.elements, n[1], at)
    stack = stacked(n, sequence)
    count = stack.shape[0]
    longer = n.op("concatenate", stack, n.op("expand_dims", n[1], axis=(0,)), axis=0)
    index, number = n.reshape(_from_front(n, at, count), (1,)), n.numbers(simple(count + 1), 0, 1)
    behind = n.op("where", n.op("equal", number, index), n.number(count), n.op("subtract", number, 1))
    return common.StackedSequence(
        n.op("take", longer, n.op("where", n.op("less", number, index), number, behind), axis=0)
    )


def _inserted(
    n: NodeContext, elements: Sequence[common.Operand], new: common.Operand, at: common.Operand
) -> common.OperandSequence:
    """Return elements of different shapes with a new one inserted at a position given by a tensor."""
    place = _from_front(n, at, len(elements))
    longer = []
    for k in range(len(elements) + 1):
        choices = [(n.op("equal", place, k), new)]
        if k < len(elements):
            choices.append((n.op("greater", place, k), elements[k]))
        if k:
            choices.append((n.op("less", place, k), elements[k - 1]))
        longer.append(_selected(n, choices))
    return common.OperandSequence(longer)


@converter("SequenceErase", since=11)
def sequence_erase(n: NodeContext) -> Any:
    sequence, at = _sequence(n), n.optional(1)
    if at is None or _is_fixed(at):
        sequence, place = _checked(n, sequence, common.Operand.known(np.array(-1)) if at is None else at)
        return _joined([*_divided(n, sequence, place)[0], *_divided(n, sequence, simple(place + 1))[1]])
    if isinstance(sequence, common.OperandSequence) and not _alike(sequence.elements):
        index = _from_front(n, at, len(sequence.elements))
        pairs = enumerate(pairwise(sequence.elements))
        return common.OperandSequence(
            [_selected(n, [(n.op("greater", index, k), own), (index, after)]) for k, (own, after) in pairs]
        )
    stack = stacked(n, sequence)
    index, number = n.reshape(_from_front(n, at, stack.shape[0]), (1,)), n.numbers(simple(stack.shape[0] - 1), 0, 1)
    kept = n.op("where", n.op("less", number, index), number, n.op("add", number, 1))
    return common.StackedSequence(n.op("take", stack, kept, axis=0))


@converter("SequenceAt", since=11)
def sequence_at(n: NodeContext) -> Any:
    return element_at(n, _sequence(n), n[1])


@converter("SequenceLength", since=11)
def sequence_length(n: NodeContext) -> Any:
    return n.number(length_of(n, _sequence(n)), ())


@converter("SplitToSequence", since=11)
def split_to_sequence(n: NodeContext) -> Any:
    """Return a sequence of parts: with listed sizes, with one size (the last may be smaller), or single entries,
    perhaps without the axis.
    """
    x, split = n[0], n.optional(1)
    axis = axis_of(n.attr("axis", 0), x.ndim)
    keep = n.attr("keepdims", 1)
    extent = x.shape[axis]
    if split is None and isinstance(extent, Expr):
        first = n.op("transpose", x, axes=(axis, *(a for a in range(x.ndim) if a != axis)))
        return common.StackedSequence(n.op("expand_dims", first, axis=(1 + axis,)) if keep else first)
    if split is not None and split.ndim == 1:
        sizes = n.dims(split, "the sizes of the parts", most=extent)
    else:
        size = 1 if split is None else n.dim(split, "the size of the parts", most=extent)
        if isinstance(size, Expr):
            x = n.builder.required(x, [GT(size, as_expr(0))], n.where)
        if isinstance(extent, Expr) or isinstance(size, Expr):
            return common.PartsSequence(x, axis, size)
        sizes = tuple(min(size, extent - first) for first in range(0, extent, size))
    parts: list[common.Operand] = []
    begin: Any = 0
    for width in sizes:
        parts.append(n.part(x, axis, begin, begin + width))
        begin = begin + width
    if split is None and not keep:
        parts = [n.op("squeeze", part, axis=(axis,)) for part in parts]
    return common.OperandSequence(parts)


@converter("ConcatFromSequence", since=11)
def concat_from_sequence(n: NodeContext) -> Any:
    sequence, axis, new_axis = _sequence(n), n.attr("axis"), bool(n.attr("new_axis", 0))
    if isinstance(sequence, common.JoinedSequence) and not new_axis:
        return n.op("concatenate", *(_concatenated(n, segment, axis) for segment in sequence.segments), axis=axis)
    return _concatenated(n, sequence, axis, new_axis=new_axis)


def _concatenated(
    n: NodeContext, sequence: common.SequenceOperand, axis: int, *, new_axis: bool = False
) -> common.Operand:
    if isinstance(sequence, common.OperandSequence):
        joined: common.Operand = n.op("stack" if new_axis else "concatenate", *sequence.elements, axis=axis)
        return joined
    if isinstance(sequence, common.PartsSequence) and not new_axis and axis % sequence.whole.ndim == sequence.axis:
        whole: common.Operand = n.op("copy", sequence.whole)
        return whole
    stack = stacked(n, sequence)
    axis = axis_of(axis, stack.ndim if new_axis else stack.ndim - 1)
    order = list(range(1, stack.ndim))
    order.insert(axis, 0)
    moved: common.Operand = n.op("transpose", stack, axes=tuple(order))
    if new_axis:
        return moved
    shape = list(moved.shape)
    shape[axis : axis + 2] = [simple(shape[axis] * shape[axis + 1])]
    return n.reshape(moved, shape)


@converter("SequenceMap", since=17)
def sequence_map(n: NodeContext) -> Any:
    """Apply the body to each element, and to tensors that are the same for all. If the length is symbolic, this is a
    loop.
    """
    body, inputs = n.attr("body"), [n[0], *n.present_from(1)]
    length = length_of(n, _sequence(n))
    names = [info.name for info in body.input]

    def results(place: common.Operand) -> list[common.Operand]:
        own = [element_at(n, x, place) if isinstance(x, common.SequenceOperand) else x for x in inputs]
        return n.importer.subgraph(body, {**n.scope, **dict(zip(names, own, strict=True))})

    if isinstance(length, int):
        columns = zip(*(results(n.number(k, ())) for k in range(length)), strict=True)
        mapped = [common.OperandSequence(column) for column in columns]
        return mapped if length else [common.OperandSequence(()) for _ in body.output]
    going = common.Operand.known(np.array(True))
    _, *rows = n.builder.loop(
        lambda number: (going, [], results(number)), [], n.number(length, ()), going, length, n.where
    )
    return [common.StackedSequence(row) for row in rows]
