"""Find the inputs that are words of two bfloat16 numbers; random integers there would be subnormal numbers.

The search goes from the operands of `dot2_bf16` back to the parameters, through buffers, names and choices. If a word
is computed from an integer (by a shift or a mask), the integer does not count as a word.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minitvm import expr as x
from minitvm.te import nodes as te
from minitvm.tir import nodes as t

from ...domains.exact import integers
from ..programs import Program
from .preimages import Preimages
from .signs import nodes

_BRAIN = x.DType("bfloat16")


def places_of_words(program: Program) -> set[int]:
    """Return the positions of the parameters whose elements are multiplied as two bfloat16 numbers."""
    operands = [a for n in nodes(program) if isinstance(n, x.Call) and n.op == "dot2_bf16" for a in n.args[1:]]
    if not operands:
        return set()
    back, places, seen = Preimages(program), set[int](), set[object]()
    while operands:
        e = operands.pop()
        if isinstance(e, t.BufferLoad | te.TensorLoad | x.Var):
            key, sources = back.behind(e)
            if key in back.places:
                places.add(back.places[key])
            elif key not in seen:
                seen.add(key)
                operands += sources
        elif isinstance(e, x.Broadcast):
            operands.append(e.value)
        elif isinstance(e, x.Let):
            operands.append(e.body)
        elif isinstance(e, x.Shuffle):
            operands += e.vectors
        elif isinstance(e, x.Select):
            operands += [e.true_value, e.false_value]
        elif isinstance(e, x.Call) and e.op in ("if_then_else", "likely"):
            operands += [*e.args[1:], e.args[-1]]
    return places


def random_words(rng: np.random.Generator, shape: Sequence[int], magnitude: int | None) -> np.ndarray:
    """Return words of two bfloat16 numbers: normally distributed, or integers up to `magnitude`."""
    pairs = (*shape, 2)
    if magnitude is None:
        halves = rng.standard_normal(pairs).astype(_BRAIN.numpy)
    else:
        halves = integers(rng, pairs, _BRAIN, magnitude)
    return words_of(halves)


def words_of(halves: np.ndarray) -> np.ndarray:
    """Combine pairs of bfloat16 along the last axis into int32 words, the first one in the low half."""
    return np.ascontiguousarray(halves).view(np.int32)[..., 0]
