"""Run many micro-ops of the accelerator at once, with the same result as one after the other.

GEMM adds products to registers, and sums that wrap may be computed in any order. An ALU instruction changes one
register at a time, and the new value depends on earlier values of this and other registers. So its micro-ops run in
*waves*: the k-th change of each register is in the k-th wave. If one reads a register that another one changes, they
run one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def wrapped(values: Array, dtype: np.dtype[Any]) -> Array:
    """Reduce integers to the low bits of a dtype, in two's complement."""
    return values.astype(np.int64).astype(dtype)


def multiply_add(acc: Array, inp: Array, wgt: Array, dst: Array, src: Array, weights: Array) -> None:
    """`acc[dst] += inp[src] @ wgt[weights].T` for all three indices in parallel, in place.

    Registers that use the same weights in the same order are computed by one float64 matrix product. Its sums of 16-bit
    products are integers below 2**53, so they are exact.
    """
    if not len(dst):
        return
    order = np.argsort(dst, kind="stable")
    dst, src, weights = dst[order], src[order], weights[order]
    registers, first, counts = np.unique(dst, return_index=True, return_counts=True)
    for count in np.unique(counts):
        chosen = np.flatnonzero(counts == count)
        at = first[chosen, None] + np.arange(count)
        used, which = np.unique(weights[at], axis=0, return_inverse=True)
        which = which.reshape(-1)
        by_use = np.argsort(which, kind="stable")
        bounds = np.searchsorted(which[by_use], np.arange(len(used) + 1))
        for use, row in enumerate(used):
            members = chosen[by_use[bounds[use] : bounds[use + 1]]]
            _product(acc, inp, wgt, registers[members], src[at[by_use[bounds[use] : bounds[use + 1]]]], row)


def _product(acc: Array, inp: Array, wgt: Array, registers: Array, sources: Array, row: Array) -> None:
    """Multiply for registers that use the same weights `row`; `sources` has a row of indices for each register."""
    members, count = sources.shape
    batch, block_in = inp.shape[1:]
    matrix = wgt[row].astype(np.float64).transpose(0, 2, 1).reshape(count * block_in, -1)
    left = inp[sources].astype(np.float64).transpose(0, 2, 1, 3).reshape(members * batch, count * block_in)
    added = (left @ matrix).reshape(members, batch, -1).astype(np.int64)
    acc[registers] = wrapped(acc[registers].astype(np.int64) + added, acc.dtype)


def apply(acc: Array, operation: Callable[[Array, Array], Array], dst: Array, src: Array | None, second: int) -> None:
    """`acc[dst] = operation(acc[dst], acc[src])` for each micro-op in turn, in place; `second` replaces a missing
    `src`.
    """
    if not len(dst):
        return
    if src is not None and _reads_what_changes(dst, src, len(acc)):
        for to, one in zip(dst, src, strict=True):
            acc[to] = wrapped(operation(acc[to].astype(np.int64), acc[one].astype(np.int64)), acc.dtype)
        return
    order = np.argsort(dst, kind="stable")
    _, first, counts = np.unique(dst[order], return_index=True, return_counts=True)
    turn = np.empty(len(dst), dtype=np.int64)
    turn[order] = np.arange(len(dst)) - np.repeat(first, counts)
    for wave in range(int(counts.max())):
        now = np.flatnonzero(turn == wave)
        others: Any = np.int64(second) if src is None else acc[src[now]].astype(np.int64)
        acc[dst[now]] = wrapped(operation(acc[dst[now]].astype(np.int64), others), acc.dtype)


def _reads_what_changes(dst: Array, src: Array, depth: int) -> bool:
    """Return whether a micro-op may read, as its second operand, a register that another micro-op changes."""
    changed = np.bincount(dst, minlength=depth)
    own = src == dst
    return bool((changed[src] > own).any())


def shifted(values: Array, by: Array) -> Array:
    """Shift right arithmetically, or left by a negative amount; shifts by more than 63 bits count as 63."""
    amount = np.clip(np.abs(by), 0, 63)
    return np.where(by >= 0, values >> amount, values << amount)


def signed(values: Array, bits: int) -> Array:
    """Return the low bits as a signed number."""
    return ((values + (1 << (bits - 1))) & ((1 << bits) - 1)) - (1 << (bits - 1))
