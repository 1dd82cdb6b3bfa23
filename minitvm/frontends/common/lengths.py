"""Sequences of different lengths in one tensor."""

from __future__ import annotations

from .conversion import Conversion
from .operand import Operand


def reversed_sequences(n: Conversion, x: Operand, lengths: Operand, batch: int, time: int) -> Operand:
    """Reverse the first lengths[b] elements along the axis `time`, and keep the others."""
    x, lengths = with_lengths(n, x, lengths, batch, time)
    shape = tuple(-1 if a == batch else 1 for a in range(x.ndim))
    size = n.reshape(n.cast(lengths, "int64"), shape)
    place = n.numbers(x.shape[time], time, x.ndim)
    turned = n.op("subtract", n.op("subtract", size, 1), place)
    source = n.op("where", n.op("less", place, size), turned, place)
    result: Operand = n.op("gather", x, n.op("broadcast_to", source, shape=x.shape), axis=time)
    return result


def with_lengths(n: Conversion, x: Operand, lengths: Operand, batch: int, time: int) -> tuple[Operand, Operand]:
    """Return the data and the lengths of its sequences, which must be from 0 to the extent of the axis `time`."""
    lengths = n.fit(lengths, (x.shape[batch],), "the lengths of sequences")
    if lengths.data is not None and not lengths.is_symbolic:
        if lengths.data.min(initial=0) < 0:
            n.refuse(f"a sequence of {lengths.data.min()} elements")
        x = n.reachable(x, Operand.known(lengths.data - 1), time)
    elif lengths.data is None:
        long = n.op("greater", n.cast(lengths, "int64"), n.number(x.shape[time]))
        wrong = n.op("logical_or", long, n.op("less", lengths, 0))
        text = "{found} lengths of sequences are negative, or beyond the time axis"
        n.at_most(n.op("sum", n.cast(wrong, "int64")), 0, text)
    return x, lengths
