"""Random arguments for a program, and sizes for its symbolic dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minitvm import expr as x

from ...domains.exact import integers
from ...meaning.scalar import evaluate
from ..hints import hint
from ..programs import Parameter, Program, parameters
from .endings import ending
from .index_ranges import Span, index_spans
from .words import places_of_words, random_words


def random_inputs(program: Program, seed: int = 0, sizes: Mapping[str, int] | None = None,
                  magnitude: int | None = None) -> list[Any]:  # fmt: skip
    """Return an argument for each parameter: random values for inputs, and garbage for outputs.

    Floats are normally distributed, or integers up to `magnitude`. Integers are between -8 and 8. An integer that is
    used as an index is within the extent that it indexes, and a word of two bfloat16 holds two such floats. A symbolic
    dimension gets its value from `sizes`, or a random value from 1 to 9. If a `while` loop does not end on these
    arguments, others are tried (`reference.judging.inputs.endings`).
    """
    rng = np.random.default_rng(seed)
    dims = dimensions(program, rng, sizes or {})
    every = parameters(program)
    has_integers = any(p.is_input and p.dtype.is_int and p.shape for p in every)
    spans: dict[int, Span] = hint(lambda: index_spans(program, dims), {}) if has_integers else {}
    words = places_of_words(program) if has_integers else set()
    drawn = [_argument(p, dims, rng, magnitude, spans.get(k), k in words) for k, p in enumerate(every)]
    return ending(program, drawn, sizes or {})


def dimensions(program: Program, rng: np.random.Generator, sizes: Mapping[str, int]) -> dict[x.Var, int]:
    """Return a value for each symbolic dimension."""
    values: dict[x.Var, int] = {}
    for p in parameters(program):
        for dim in p.shape or ():
            for var in x.free_vars(dim):
                if var not in values:
                    values[var] = int(sizes.get(var.name, rng.integers(1, 10)))
        if p.var is not None and p.dtype.is_int and p.var not in values and p.name in sizes:
            values[p.var] = int(sizes[p.name])
    return values


def chosen_sizes(program: Program, seed: int, sizes: Mapping[str, int] | None) -> dict[str, int]:
    """Return the given sizes by name, and random ones for the other symbolic dimensions."""
    drawn = dimensions(program, np.random.default_rng(seed), sizes or {})
    return {**{v.name: n for v, n in drawn.items()}, **(sizes or {})}


def sizes_from_shapes(program: Program, inputs: Sequence[Any]) -> dict[str, int]:
    """Return the symbolic dimensions, by name, as given by the shapes of arguments."""
    sizes: dict[str, int] = {}
    for p, value in zip(parameters(program), inputs, strict=False):
        for dim, size in zip(p.shape or (), np.shape(value), strict=False):
            if isinstance(dim, x.Var):
                sizes.setdefault(dim.name, int(size))
    return sizes


def extents(p: Parameter, dims: Mapping[x.Var, int]) -> list[int]:
    """Return the shape of an array parameter."""
    return [int(evaluate(d, dict(dims))) for d in p.shape or ()]


def garbage(shape: Sequence[int], dtype: x.DType) -> np.ndarray:
    """Return an array for an output. It is not zero, so that a program that forgets to write looks wrong."""
    return np.full(shape, np.nan if dtype.is_float else 1, dtype.numpy)


def copies(args: Sequence[Any]) -> list[Any]:
    """Return copies of the arguments."""
    return [np.array(a, order="C") if isinstance(a, np.ndarray) else a for a in args]


def _argument(p: Parameter, dims: Mapping[x.Var, int], rng: np.random.Generator, magnitude: int | None,
              span: Span | None = None, of_words: bool = False) -> Any:  # fmt: skip
    if p.shape is None:
        if p.var is not None and p.var in dims:
            return dims[p.var]
        value = integers(rng, (), p.dtype, magnitude or 8)
        return p.dtype.numpy.type(value)
    shape = extents(p, dims)
    if not p.is_input:
        return garbage(shape, p.dtype)
    if of_words:
        return random_words(rng, shape, magnitude)
    if p.dtype.is_float and magnitude is None:
        return rng.standard_normal(shape).astype(p.dtype.numpy)
    if span is not None:
        low, high = span.limits(p.dtype)
        if low <= high:
            return _pointers(rng, shape, p.dtype, low, high)
    return integers(rng, shape, p.dtype, magnitude or 8)


def _pointers(rng: np.random.Generator, shape: Sequence[int], dtype: x.DType, low: int, high: int) -> np.ndarray:
    """Return random integers from `low` to `high`; both ends occur if there is room."""
    drawn = rng.integers(low, high, shape, np.int64, endpoint=True).astype(dtype.numpy)
    ends = rng.permutation(drawn.size)[:2]
    drawn.reshape(-1)[ends] = np.array([high, low], np.int64)[: ends.size].astype(dtype.numpy)
    return drawn
