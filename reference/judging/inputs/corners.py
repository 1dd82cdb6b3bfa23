"""Try bools and the ends of integer ranges, a different one for each argument: a program may be wrong only if x is the
smallest integer and y is -1.

Every argument holds the same value everywhere, so that the values meet whatever the indices are. A few arguments get
all combinations. Many arguments get the combinations in which all agree or one differs from the others, and random
ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from minitvm import expr as x

ALL = 8  # combinations at most, where all are taken
CHANCE = 4  # of more


def corners(dtypes: Sequence[x.DType | None], rng: np.random.Generator) -> Iterator[list[int | None]]:
    """Yield combinations of values for arguments of these dtypes (None: not varied).

    If there are no bools, combinations with all integers at the same end are left out.
    """
    varied = [k for k, dtype in enumerate(dtypes) if dtype is not None]
    bools = [k for k in varied if _of(dtypes, k).is_bool]
    if not bools and len(varied) < 2:
        return
    for row in _rows(len(varied), rng):
        if bools or len(set(row)) > 1:
            yield _values(dtypes, {k: _end(_of(dtypes, k), greatest) for k, greatest in zip(varied, row, strict=True)})
    signed = [k for k in varied if _of(dtypes, k).kind == "int"]
    for k in signed[:CHANCE] if len(signed) > 1 else ():
        yield _values(dtypes, {j: _end(_of(dtypes, j), False) for j in varied} | {k: -1})


def _rows(n: int, rng: np.random.Generator) -> Iterator[tuple[bool, ...]]:
    if 2**n <= ALL:
        yield from itertools.product((False, True), repeat=n)
        return
    for greatest in (False, True):
        yield (greatest,) * n
        for k in range(min(n, CHANCE)):
            yield tuple((j == k) != greatest for j in range(n))
    for _ in range(CHANCE):
        yield tuple(bool(bit) for bit in rng.integers(0, 2, n))


def _of(dtypes: Sequence[x.DType | None], k: int) -> x.DType:
    dtype = dtypes[k]
    assert dtype is not None
    return dtype


def _end(dtype: x.DType, greatest: bool) -> int:
    return int(greatest) if dtype.is_bool else int(dtype.max if greatest else dtype.min)


def _values(dtypes: Sequence[x.DType | None], values: dict[int, int]) -> list[int | None]:
    return [values.get(k) for k in range(len(dtypes))]
