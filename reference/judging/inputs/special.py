"""Special mode: NaN, infinities, zeros of both signs, subnormals, the largest floats and the ends of integer ranges.

`special_inputs` plants them at random positions among ordinary values, in turns until each argument had each. A
transform that keeps the order of float operations must give the same bits on them, whatever the payload of a NaN;
`x * 0 -> 0` does not. Where it changes the order of a sum, rounding and overflow on the way may differ: `explained`
tells such elements, for which no more can be said, from those that differ for no such reason.
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
    """An argument for each parameter, special values planted; `kind` is one of `KINDS`.

    Turn after turn, as many as `turns` says, each argument gets every value.
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
    """After how many turns every value was planted in every argument that has elements."""
    needed, dims = [TURNS], dimensions(program, np.random.default_rng(0), sizes)
    words = places_of_words(program)
    for k, p in enumerate(parameters(program)):
        size = math.prod(extents(p, dims))
        if size and _is_planted(p, dims):
            values = special_words() if k in words else special_values(p.dtype)
            needed.append(math.ceil(values.size / _planted(size)))
    return max(needed)


def _is_planted(p: Parameter, dims: Mapping[x.Var, int]) -> bool:
    """Whether an argument takes special values: not what is written, a size of something, or a truth value."""
    return p.is_input and p.var not in dims and not p.dtype.is_bool


def _planted(size: int) -> int:
    return max(1, int(size * DENSITY))


def special_values(dtype: x.DType, infinite: bool = True) -> np.ndarray:
    """The values of a dtype at which arithmetic changes its ways."""
    numpy = dtype.numpy
    if not dtype.is_float:
        low, high = int(dtype.min), int(dtype.max)
        return np.array([low, low + 1, low // 2, 0, 1, high // 2 + 1, high - 1, high], numpy)
    info = limits(numpy)
    sides = [0.0, info.smallest_subnormal, info.smallest_subnormal * 3, info.tiny, 1.0, info.max, info.max / 2]
    beyond = [np.inf, -np.inf, np.nan, np.nan] if infinite else []
    return np.array([*sides, *(-v for v in sides), *beyond], numpy)


def special_words(infinite: bool = True) -> np.ndarray:
    """Words of two bfloat16 at which their arithmetic changes its ways: each value once low and once high."""
    halves = special_values(x.DType("bfloat16"), infinite)
    return words_of(np.stack([halves, np.roll(halves, 5)], axis=-1))


def same_bits(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Where two arrays hold the same bits, or both NaN; zeros of two signs differ."""
    if not is_floating(first.dtype):
        return np.asarray(first == second)
    same = (first == second) & (np.signbit(first) == np.signbit(second))
    return np.asarray(same | (np.isnan(first) & np.isnan(second)))


def explained(program: Program, inputs: Sequence[Any], results: Sequence[Any],
              sizes: Mapping[str, int]) -> list[np.ndarray | None]:  # fmt: skip
    """For each output, where another order of a sum accounts for a result: at least three terms, within the bound.

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
