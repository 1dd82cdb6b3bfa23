"""What warps of the simulator do together, lane by lane: `ldmatrix` and `mma.sync` by the tables of PTX's ISA.

Each lane brings its registers; the last one to come works out the registers of all 32, each by its own row and column.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from .faults import KernelFault

LANES = 32
_PATIENCE = 60.0  # seconds that a lane waits for the others


class Meeting:
    """Where the lanes of one warp meet, again and again."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.brought: dict[int, tuple[str, Any]] = {}
        self.results: Sequence[Any] = ()
        self.round = 0

    def together(self, lane: int, what: str, brings: Any, work: Callable[[Sequence[Any]], Sequence[Any]]) -> Any:
        """What `work` makes of what all lanes bring, for this lane. They must all do the same."""
        with self.condition:
            mine = self.round
            self.brought[lane] = (what, brings)
            if len(self.brought) == LANES:
                kinds = {kind for kind, _ in self.brought.values()}
                if len(kinds) > 1:
                    raise KernelFault(f"the lanes of a warp do different things together: {', '.join(sorted(kinds))}")
                self.results = work([self.brought[k][1] for k in range(LANES)])
                self.brought = {}
                self.round += 1
                self.condition.notify_all()
            elif not self.condition.wait_for(lambda: self.round > mine, _PATIENCE):
                raise KernelFault(f"{what}: {len(self.brought)} of {LANES} lanes of a warp came")
            return self.results[lane]


def ldmatrix(rows: Sequence[Any], count: int, trans: bool) -> list[tuple[np.uint32, ...]]:
    """Of each lane the words of `count` matrices. Row r of matrix m is what lane 8 m + r named: 8 elements."""
    matrices = [np.stack([rows[8 * m + r] for r in range(8)]) for m in range(count)]
    registers = []
    for lane in range(LANES):
        group, thread = lane // 4, lane % 4
        words = []
        for matrix in matrices:
            pair = [matrix[2 * thread + k, group] if trans else matrix[group, 2 * thread + k] for k in (0, 1)]
            words.append(np.array(pair, np.uint16).view(np.uint32)[0])
        registers.append(tuple(words))
    return registers


def mma_16x8x16(registers: Sequence[Sequence[Any]], kind: str) -> list[tuple[np.float32, ...]]:
    """Of each lane the four sums. Every element is looked up where its lane holds it."""
    dtype = np.float16 if kind == "f16" else ml_dtypes.bfloat16
    a, b = np.zeros((16, 16), np.float64), np.zeros((16, 8), np.float64)
    c = np.zeros((16, 8), np.float64)
    for lane, held in enumerate(registers):
        group, thread = lane // 4, lane % 4
        halves = np.array(held[:6], np.uint32).view(dtype).astype(np.float64)
        for i in range(8):
            row = group if i < 2 or 4 <= i < 6 else group + 8
            a[row, thread * 2 + (i & 1) + (8 if i >= 4 else 0)] = halves[i]
        for i in range(4):
            b[thread * 2 + (i & 1) + (8 if i >= 2 else 0), group] = halves[8 + i]
        for i in range(4):
            c[group if i < 2 else group + 8, thread * 2 + (i & 1)] = held[6 + i]
    with np.errstate(all="ignore"):
        sums = (a @ b + c).astype(np.float32)
    return [
        tuple(sums[lane // 4 + (8 if i >= 2 else 0), (lane % 4) * 2 + (i & 1)] for i in range(4))
        for lane in range(LANES)
    ]
