"""Sequences of tensors: lists that leave nothing in the graph, or entries of a tensor if their number is open."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....errors import ModelError
from ....expr import LT, Expr, as_expr, match
from ....graph.nodes import Dim
from ....topi.shapes import simple
from ...operand import (
    GrowingSequence,
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


def _place(n: NodeContext, operand: Operand, length: int) -> int:
    """A place among `length` ones, counted from the front."""
    place = int(n.scalar(operand, "the position in the sequence"))
    if not -length <= place < length:
        raise ModelError(f"{n.where}: position {place} in a sequence with {length} places")
    return place % length


def _is_fixed(place: Operand | None) -> bool:
    return place is None or (place.is_known and not place.is_symbolic)


def stacked(n: NodeContext, sequence: SequenceOperand) -> Operand:
    """The elements along a new first axis; they must have one shape."""
    if isinstance(sequence, StackedSequence):
        return sequence.stack
    if not isinstance(sequence, OperandSequence) or not sequence.elements:
        n.refuse(f"{sequence} is taken apart or put together in a way that needs elements of one shape")
    stack: Operand = n.op("stack", *sequence.elements, axis=0)
    return stack


def length_of(n: NodeContext, sequence: SequenceOperand) -> Dim:
    """The number of elements."""
    if isinstance(sequence, PartsSequence):
        return simple((sequence.whole.shape[sequence.axis] + (sequence.size - 1)) // sequence.size)
    return len(sequence.elements) if isinstance(sequence, OperandSequence) else stacked(n, sequence).shape[0]


def element_at(n: NodeContext, sequence: SequenceOperand, place: Operand) -> Operand:
    """The element at a place, which may be data; a negative one counts from the end."""
    if isinstance(sequence, OperandSequence) and _is_fixed(place):
        return sequence.elements[_place(n, place, len(sequence.elements))]
    length = length_of(n, sequence)
    index = _from_front(n, place, length)
    if not isinstance(sequence, PartsSequence):
        stack = stacked(n, sequence)
        if _is_fixed(place):
            known = int(n.scalar(place, "the position in the sequence"))
            needed = as_expr(known if known >= 0 else -known - 1)
            stack = n.builder.required(stack, [LT(*match(needed, as_expr(length)))], n.where)
        entry: Operand = n.op("take", stack, index, axis=0)
        return entry
    whole, axis, size = sequence.whole, sequence.axis, sequence.size
    first = n.op("multiply", index, size)
    left = n.op("subtract", n.number(whole.shape[axis], ()), first)
    (width,) = n.dims(n.op("minimum", left, size), "the size of a part", most=size)
    places = n.op("add", n.numbers(width, 0, 1), n.reshape(first, (1,)))
    part: Operand = n.op("take", whole, places, axis=axis)
    return part


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
    sequence = _sequence(n)
    if isinstance(sequence, OperandSequence) and _is_fixed(at):
        elements = list(sequence.elements)
        elements.insert(len(elements) if at is None else _place(n, at, len(elements) + 1), n[1])
        return OperandSequence(elements)
    stack = stacked(n, sequence)
    count = stack.shape[0]
    longer = n.op("concatenate", stack, n.op("expand_dims", n[1], axis=(0,)), axis=0)
    if at is None:
        return StackedSequence(longer)
    place, number = n.reshape(_from_front(n, at, count), (1,)), n.numbers(simple(count + 1), 0, 1)
    behind = n.op("where", n.op("equal", number, place), n.number(count), n.op("subtract", number, 1))
    return StackedSequence(n.op("take", longer, n.op("where", n.op("less", number, place), number, behind), axis=0))


@converter("SequenceErase", since=11)
def sequence_erase(n: NodeContext) -> Any:
    sequence, at = _sequence(n), n.optional(1)
    if isinstance(sequence, OperandSequence) and _is_fixed(at):
        elements = list(sequence.elements)
        elements.pop(-1 if at is None else _place(n, at, len(elements)))
        return OperandSequence(elements)
    stack = stacked(n, sequence)
    count = stack.shape[0]
    if at is None:
        return StackedSequence(n.part(stack, 0, 0, simple(count - 1)))
    place, number = n.reshape(_from_front(n, at, count), (1,)), n.numbers(simple(count - 1), 0, 1)
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
        sizes = n.dims(split, "the sizes of the parts")
    else:
        size = 1 if split is None else int(n.scalar(split, "the size of the parts"))
        if isinstance(extent, Expr):
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
    if isinstance(sequence, OperandSequence):
        return n.op("stack" if new_axis else "concatenate", *sequence.elements, axis=axis)
    if isinstance(sequence, PartsSequence) and not new_axis and axis % sequence.whole.ndim == sequence.axis:
        return n.op("copy", sequence.whole)
    stack = stacked(n, sequence)
    axis = axis % (stack.ndim if new_axis else stack.ndim - 1)
    order = list(range(1, stack.ndim))
    order.insert(axis, 0)
    moved = n.op("transpose", stack, axes=tuple(order))
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
