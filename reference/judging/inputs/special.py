"""Special mode: NaN, infinities, zeros of both signs, subnormals, the largest floats and the ends of integer ranges.

`special_inputs` puts these at random positions among ordinary values, in several turns, until each argument had each
value. A transform that keeps the order of float operations must give the same bits (for any payload of a NaN); `x * 0
-> 0` does not. If it changes the order of a sum, rounding and intermediate overflow may differ: `explained` separates
the elements that differ only for this reason from all others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm.expr.dtypes import is_floating, limits

from ...domains import bound
from ..programs import Parameter, Program, parameters
from .arguments import dimensions, extents, random_inputs
from .words import places_of_words, words_of

DENSITY = 0.5  # of the elements are special
TURNS = 4  # at least

KINDS = ("all", "small integers", "finite floats")  # tried in turn: integers may be indices, floats may become integers


def special_inputs(program: Program, seed: int, sizes: Mapping[str, int], kind: str = "all",
                   turn: int = 0) -> list[Any]:  # fmt: skip
    """Return an argument for each parameter, with special values among the others; `kind` is one of `KINDS`.

    If you call it for every `turn` below `turns(program, sizes)`, each argument gets every special value.
    """
    args = random_inputs(program, seed + turn, sizes)
    words = places_of_words(program)
    dims = dimensions(program, np.random.default_rng(seed), sizes)
    lists = np.random.default_rng((seed, 0x5BEC))  # the same in every turn
    rng = np.random.default_rng((seed, turn))
    for k, p in enumerate(parameters(program)):
        if not _is_planted(p, dims) or (not p.dtype.is_float and k not in words and kind != "all"):
            continue
        infinite = kind != "finite floats"
        values = lists.permutation(special_words(infinite) if k in words else special_values(p.dtype, infinite))
        array = np.array(args[k])
        flat = array.reshape(-1)
        count = _planted(flat.size)
        places = rng.permutation(flat.size)[:count]
        flat[places] = values[(turn * count + np.arange(places.size)) % values.size]
        args[k] = array if p.shape is not None else array[()]
    return args


def turns(program: Program, sizes: Mapping[str, int]) -> int:
    """Return the number of turns after which each non-empty argument had every value."""
    needed, dims = [TURNS], dimensions(program, np.random.default_rng(0), sizes)
    words = places_of_words(program)
    for k, p in enumerate(parameters(program)):
        size = math.prod(extents(p, dims))
        if size and _is_planted(p, dims):
            values = special_words() if k in words else special_values(p.dtype)
            needed.append(math.ceil(values.size / _planted(size)))
    return max(needed)


def _is_planted(p: Parameter, dims: Mapping[x.Var, int]) -> bool:
    """Return whether an argument gets special values: not an output, a size or a truth value."""
    return p.is_input and p.var not in dims and not p.dtype.is_bool


def _planted(size: int) -> int:
    return max(1, int(size * DENSITY))


def special_values(dtype: x.DType, infinite: bool = True) -> np.ndarray:
    """Return the special values of a dtype, such as NaN, zeros and the ends of its range."""
    numpy = dtype.numpy
    if not dtype.is_float:
        low, high = int(dtype.min), int(dtype.max)
        return np.array([low, low + 1, low // 2, 0, 1, high // 2 + 1, high - 1, high], numpy)
    info = limits(numpy)
    sides = [0.0, info.smallest_subnormal, info.smallest_subnormal * 3, info.tiny, 1.0, info.max, info.max / 2]
    beyond = [np.inf, -np.inf, np.nan, np.nan] if infinite else []
    return np.array([*sides, *(-v for v in sides), *beyond], numpy)


def special_words(infinite: bool = True) -> np.ndarray:
    """Return words of two special bfloat16 numbers, with each value once in the low half and once in the high half."""
    halves = special_values(x.DType("bfloat16"), infinite)
    return words_of(np.stack([halves, np.roll(halves, 5)], axis=-1))


def same_bits(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return where two arrays hold the same bits, or both NaN; zeros with different signs differ."""
    if not is_floating(first.dtype):
        return np.asarray(first == second)
    same = (first == second) & (np.signbit(first) == np.signbit(second))
    return np.asarray(same | (np.isnan(first) & np.isnan(second)))


def explained(program: Program, inputs: Sequence[Any], results: Sequence[Any],
              sizes: Mapping[str, int]) -> list[np.ndarray | None]:  # fmt: skip
    """Return, for each output, where another order of a sum explains a result: at least three terms, within the bound.

    The sign of an exact zero does not depend on the order. Raises `Unsupported` for a program without error analysis.
    """
    result: list[np.ndarray | None] = []
    for must, array in zip(bound.evaluate(program, inputs, sizes), results, strict=True):
        if must is None:
            result.append(None)
            continue
        array = np.asarray(array).reshape(must.value.shape)
        zero = (array == 0) & (must.value == 0) & (must.error == 0)
        result.append((must.sums >= 2) & ~must.wrong(array) & ~zero)
    return result
