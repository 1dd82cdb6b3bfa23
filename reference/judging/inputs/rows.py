"""Make rows of extreme elements: at the lowest and highest values of a dtype, in order, equal, or far from zero.

A maximum that starts too high goes wrong only in a row of the lowest values, and one that skips the last element only
if that is the largest. A sum overflows near the largest floats. A difference of squares loses its digits if numbers are
large and nearly equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from minitvm import expr as x

from ..programs import Parameter

Values = list[np.ndarray | None]  # for each parameter, flat; None: it stays

PATTERNS = 5  # of two values in a row
MEANS = (4096.0, 1000.0, 1.0)  # of rows that differ little, by parts of `SPREADS`
SPREADS = (1.0, 2.0**-6, 0.0)
ELEMENTS = 256  # of the inputs of all such rows together, at least
MOST = 16  # inputs with such rows


def extremes(parameters: Sequence[Parameter], moved: Sequence[bool], shapes: Sequence[tuple[int, ...]],
             rng: np.random.Generator) -> Iterator[Values]:  # fmt: skip
    """Yield rows of the two lowest values of their dtypes, then of the two highest, each row with another pattern."""
    most = max((_rows(shape)[0] for shape, is_moved in zip(shapes, moved, strict=True) if is_moved), default=0)
    for highest in (False, True):
        for first in range(0, PATTERNS, max(1, most)) if most else ():
            yield [
                _patterned(_ends(p.dtype, highest), shape, first, rng) if is_moved else None
                for p, is_moved, shape in zip(parameters, moved, shapes, strict=True)
            ]


def ramps(
    parameters: Sequence[Parameter], moved: Sequence[bool], shapes: Sequence[tuple[int, ...]]
) -> Iterator[Values]:
    """Yield rows that ascend and rows that descend, so that the last or the first element is the largest."""
    for step in (1, -1):
        values: Values = []
        for p, is_moved, shape in zip(parameters, moved, shapes, strict=True):
            size = math.prod(shape)
            ramp = np.arange(size)[::step] % int(min(float(p.dtype.max), 1 << 11)) if is_moved else None
            values.append(None if ramp is None else ramp - (size // 2 if p.dtype.kind != "uint" and size < 99 else 0))
        yield values


def bytes_of(parameters: Sequence[Parameter], moved: Sequence[bool], shapes: Sequence[tuple[int, ...]],
             rng: np.random.Generator, rounds: int) -> Iterator[Values]:  # fmt: skip
    """Yield all 8-bit values in each argument with such elements, if this takes few rounds."""
    sizes = [
        math.prod(shape) if is_moved and p.dtype.bits == 8 and p.dtype.is_int else 0
        for p, is_moved, shape in zip(parameters, moved, shapes, strict=True)
    ]
    least = min((size for size in sizes if size), default=0)
    if not least or math.ceil(256 / least) > rounds:
        return
    every = [rng.permutation(256) for _ in sizes]
    for k in range(math.ceil(256 / least)):
        yield [
            np.roll(order, -k * size)[np.arange(size) % 256].astype(np.uint8).view(p.dtype.numpy) if size else None
            for p, size, order in zip(parameters, sizes, every, strict=True)
        ]


def largest(parameters: Sequence[Parameter], moved: Sequence[bool], shapes: Sequence[tuple[int, ...]],
            rng: np.random.Generator) -> Iterator[Values]:  # fmt: skip
    """Yield floats near the largest of their dtype in all arguments, with one sign and with both; then a fraction of
    these.
    """
    for signs, part in (((1.0,), 1.0), ((-1.0, 1.0), 1.0), ((1.0,), 1 / 64)):
        yield [
            rng.choice(signs, n) * rng.uniform(0.55, 0.95, n) * (float(p.dtype.max) * part)
            if is_moved and p.dtype.is_float else None
            for p, is_moved, n in zip(parameters, moved, map(math.prod, shapes), strict=True)
        ]  # fmt: skip


def no_numbers(parameters: Sequence[Parameter], moved: Sequence[bool], shapes: Sequence[tuple[int, ...]],
               rng: np.random.Generator) -> Iterator[Values]:  # fmt: skip
    """Yield NaN and infinities among other floats, a third of the elements of all arguments; NaN alone first."""
    for kinds in ((np.nan,), (np.inf, -np.inf), (np.nan, np.inf, -np.inf)):
        yield [
            np.where(rng.integers(0, 3, n) == 0, rng.choice(kinds, n), rng.integers(-8, 9, n).astype(np.float64))
            if is_moved and p.dtype.is_float else None
            for p, is_moved, n in zip(parameters, moved, map(math.prod, shapes), strict=True)
        ]  # fmt: skip


def spread(parameters: Sequence[Parameter], moved: Sequence[bool], shapes: Sequence[tuple[int, ...]],
           rng: np.random.Generator) -> Iterator[Values]:  # fmt: skip
    """Yield rows with a large mean and small differences, mixed with rows of equal elements."""
    sizes = [math.prod(s) for s, p, m in zip(shapes, parameters, moved, strict=True) if m and p.dtype.is_float]
    count = min(MOST, max(len(MEANS), math.ceil(ELEMENTS / max(1, max(sizes, default=1)))))
    for k in range(count):
        mean, part = MEANS[k % len(MEANS)], SPREADS[k % len(SPREADS)]
        values: Values = []
        for p, is_moved, shape in zip(parameters, moved, shapes, strict=True):
            if not is_moved or not p.dtype.is_float:
                values.append(None)
                continue
            count_of_rows, length = _rows(shape)
            around = mean * rng.uniform(0.9, 1.1, (count_of_rows, 1))
            values.append((around + part * rng.standard_normal((count_of_rows, length))).reshape(-1))
        yield values


def _rows(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the number of rows along the last axis, and their length."""
    return (1, 1) if not shape else (math.prod(shape[:-1]), shape[-1])


def _ends(dtype: x.DType, highest: bool) -> tuple[Any, Any]:
    """Return the two lowest or highest values of a dtype."""
    end = dtype.max if highest else dtype.min
    if not dtype.is_float:
        return int(end), int(end) + (-1 if highest else 1)
    numpy: Any = dtype.numpy.type
    last = numpy(float(end))
    return last, np.nextafter(last, numpy(0))


def _patterned(ends: tuple[Any, Any], shape: tuple[int, ...], first: int, rng: np.random.Generator) -> np.ndarray:
    """Return rows with four patterns of the two values: the end alone, the other alone, one different element at an
    end, random.
    """
    count, length = _rows(shape)
    other = np.zeros((count, length), np.bool_)
    for row in range(count):
        pattern = (row + first) % PATTERNS
        if pattern == 1:
            other[row] = True
        elif pattern in (2, 3) and length:
            other[row, 0 if pattern == 2 else -1] = True
        elif pattern == 4:
            other[row] = rng.integers(0, 2, length) == 1
    return np.where(other, np.asarray(ends[1]), np.asarray(ends[0])).reshape(-1)
