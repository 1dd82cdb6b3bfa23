"""Kernels of masked vectors, compiled and beside the interpreter of kernels.

Every mask is a bound of its own: sides that are index expressions over a loop that starts below zero, lanes in steps of
one and others, the constant side left or right. A kernel has many, so that one compilation looks at many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import numpy as np

from minitvm.expr import (
    GE,
    GT,
    LE,
    LT,
    Add,
    And,
    Broadcast,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Ramp,
    Sub,
    Var,
    const,
)
from minitvm.machines.cpu.codegen.numba_cpu import generate
from minitvm.machines.cpu.runtime.compiler import compile_kernel
from minitvm.machines.cpu.runtime.executor import native_call
from minitvm.machines.cpu.runtime.loader import load_kernel
from minitvm.reference import kernel as reference
from minitvm.tir.nodes import Buffer, BufferLoad, BufferStore, For, ForKind, PrimFunc, Seq, Stmt

FIRST, COUNT = -5, 16  # the loop's iterations: from below zero
LANES = 4
ROWS = 24  # masked stores of one kernel
Run = Callable[[PrimFunc, Sequence[np.ndarray], int], list[np.ndarray]]


def run_compiled(func: PrimFunc, arrays: Sequence[np.ndarray], threads: int = 1) -> list[np.ndarray]:
    """The arrays after each thread's share of the kernel has run."""
    copies = [a.copy() for a in arrays]
    loaded = load_kernel(compile_kernel(generate(func), func.name), func.name)
    words = np.array([a.ctypes.data for a in copies], np.int64)
    call = native_call(loaded.address)
    for thread in range(threads):
        call(words.ctypes.data, thread, threads)
    return copies


def compare(
    func: PrimFunc, arrays: Sequence[np.ndarray], threads: int = 1, inout: Sequence[str] = (), run: Run = run_compiled
) -> None:
    """What a machine leaves in the arrays is what the interpreter leaves, to the bit."""
    wanted = [a.copy() for a in arrays]
    reference.run(func, *wanted, inout=inout)
    for found, want in zip(run(func, arrays, threads), wanted, strict=True):
        np.testing.assert_array_equal(found, want, err_msg=str(func))


def index(random: Random, i: Var, depth: int) -> Expr:
    """Sums, products, and quotients of all kinds, of numbers of both signs, and what 32 bits leave of large ones."""
    if depth == 0 or random.random() < 0.1:
        return random.choice([i, i, i * 3, const(random.randint(-9, 9))])
    a, b = index(random, i, depth - 1), index(random, i, depth - 1)
    kind = random.choice([Add, Add, Add, Sub, Sub, Sub, Mul, Min, Max, FloorDiv, FloorMod, Div, Mod, Cast])
    if kind is Cast:
        large = const(random.choice([-(2**33), -(2**32), -(2**31), 2**31, 2**32, 3 * 2**31]), "int64")
        return Cast(a.dtype, Min(Cast(large.dtype, a), const(9, "int64")) * large + Cast(large.dtype, b)) % 100
    if kind is Mul:
        return a * random.randint(-4, 4)
    if kind in (FloorDiv, FloorMod, Div, Mod):
        return kind(a, const(random.choice([1, 2, 3, 4, 5, 8, 16, -3, -4])))  # type: ignore[no-any-return]
    return kind(a, b)  # type: ignore[no-any-return]


def masked_row(random: Random, source: Buffer, row: Buffer, i: Var) -> Stmt:
    """A vector of `source` into the row's part of an iteration, some lanes of both kept out: by bounds whose sides are
    index expressions, in steps of one and others, on either side of the sign; from places in a run or apart."""

    def mask(depth: int) -> Expr:
        if depth and random.random() < 0.2:
            return Not(mask(0)) if random.random() < 0.5 else And(mask(0), mask(0))
        step, kind = const(random.choice([1, 1, 1, 2, -1])), random.choice([LT, LT, LT, LE, GT, GE])
        lanes, limit = Ramp(index(random, i, 2), step, LANES), index(random, i, 2)
        near = random.random() < 0.7  # some of the lanes, mostly
        bound = Broadcast(lanes.base + random.randint(0, LANES) + limit % 2 if near else limit, LANES)
        return random.choice([kind(lanes, bound), kind(bound, lanes)])  # type: ignore[no-any-return]

    at: list[Expr] = []
    for length in (COUNT, COUNT * LANES):
        base = (i - FIRST) * LANES if length > COUNT else index(random, i, 2) % (COUNT - 3 * LANES)
        step = 1 if length > COUNT else random.choice([1, 1, 2, 3])
        at.append(Ramp(base, const(step), LANES))
    mine = mask(1)
    load = BufferLoad(source, (at[0],), random.choice([None, mine, mask(1)]))
    return BufferStore(row, load, (at[1],), random.choice([mine, mine, None]))


def masks_alike(seed: int, run: Run = run_compiled) -> None:
    """A kernel of masked stores leaves what the interpreter leaves."""
    i, random = Var("i"), Random(seed)
    source = Buffer("A", (const(COUNT),), "int32")
    rows = [Buffer(f"R{k}", (const(COUNT * LANES),), "int32") for k in range(ROWS)]
    body = Seq.of(*(masked_row(random, source, row, i) for row in rows))
    func = PrimFunc((source, *rows), For(i, const(FIRST), const(COUNT), ForKind.SERIAL, body), {"global_symbol": "k"})
    arrays = [np.arange(1, COUNT + 1, dtype="int32"), *(np.zeros(COUNT * LANES, "int32") for _ in rows)]
    compare(func, arrays, inout=[row.name for row in rows], run=run)
