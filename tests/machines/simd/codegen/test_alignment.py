"""Vectors that are read at once lie at multiples of their size, wherever their buffer may begin."""

from __future__ import annotations

import itertools
from random import Random

from minitvm.arith import Analyzer
from minitvm.expr import Expr, Ramp, Var, const, free_vars
from minitvm.machines.simd.codegen.alignment import is_whole
from minitvm.reference.meaning.scalar import evaluate
from minitvm.tir.nodes import Buffer

I, J = Var("i"), Var("j")
LET = Var("at")  # has a value, from which divisibility follows


def a_base(rng: Random) -> tuple[Expr, dict[Var, Expr]]:
    """The first place of a vector, and the variables in it that have values."""
    factors = [1, 2, 3, 4, 8, 12, 16, 32]
    base = I * rng.choice(factors) + J * rng.choice(factors) + rng.choice([0, 0, 1, 4, 8, 16])
    if rng.random() < 0.3:
        return LET + rng.choice([0, 8, 16]), {LET: base}
    return base, {}


def whole_vectors_lie_at_multiples_of_their_size() -> None:
    """Of all places where an aligned buffer may begin and all values of the variables."""
    claimed = 0
    for seed in range(1500):
        rng = Random(seed)
        dtype, lanes = rng.choice(["int8", "float16", "float32", "float64"]), rng.choice([2, 3, 4, 8, 15, 16])
        buffer = Buffer("A", (const(4096),), dtype, align=rng.choice([1, 4, 8, 16, 32, 64, 128]))
        base, lets = a_base(rng)
        ranges = {I: (0, 3), J: (0, 5)}
        if not is_whole(buffer, Ramp(base, const(1), lanes), Analyzer(ranges), lets):
            continue
        claimed += 1
        size = buffer.dtype.bytes
        for i, j, begin in itertools.product(range(4), range(6), (0, 1, 3)):
            env = {I: i, J: j}
            env |= {let: int(evaluate(value, {v: env[v] for v in free_vars(value)})) for let, value in lets.items()}
            first = int(evaluate(base, {v: env[v] for v in free_vars(base)}))
            place = begin * buffer.align + first * size
            assert place % (lanes * size) == 0, f"seed {seed}: {buffer}[{base}] of {lanes} lanes at {place}"
    assert claimed > 50


def test_whole_vectors_lie_at_multiples_of_their_size() -> None:
    whole_vectors_lie_at_multiples_of_their_size()
