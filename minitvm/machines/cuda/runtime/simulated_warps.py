"""Simulate operations of warps: shuffles, and `ldmatrix` and `mma.sync` by the tables in the PTX ISA.

The threads of a block are coroutines (`simulated_blocks`). At such an operation, a thread waits until all lanes of its
mask have reached the same operation with the same mask ("shfl.sync", PTX ISA). The last one to arrive computes the
results of all. It is an error if a lane is not in its own mask, reads a value from a lane outside of the mask, or never
arrives, and if lanes do different operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from .faults import KernelFault
from .simulated_blocks import Thread, Waits, current

LANES = 32
WHOLE = (1 << LANES) - 1  # the mask of all lanes

Work = Callable[[Mapping[int, Any]], Mapping[int, Any] | Sequence[Any]]


@dataclass(slots=True)
class _Meeting:
    """Lanes that wait for each other: the operand of each lane and, once all have arrived, the result of each or an
    error.
    """

    what: str
    mask: int
    size: int
    group: int
    waiting: list[Thread] = field(default_factory=list)
    brought: dict[int, tuple[str, Any]] = field(default_factory=dict)
    results: Mapping[int, Any] | Sequence[Any] | None = None
    fault: KernelFault | None = None

    def never(self) -> KernelFault:
        """Return the error for lanes that wait for a lane that never arrives."""
        missing = min({k for k in range(self.size) if self.mask >> k & 1} - self.brought.keys(), default=0)
        group = f"{'warp' if self.size == LANES else 'group'} {self.group}"
        return KernelFault(
            f"{self.what}: lane {missing} of {group}, which the mask {hex(self.mask)} names, never comes"
        )

    def end(self, work: Work) -> None:
        """Compute the result of each lane once all have arrived. An error is raised in all of them."""
        kinds = sorted({kind for kind, _ in self.brought.values()})
        try:
            if len(kinds) > 1:
                raise KernelFault(f"the lanes of a warp do different things together: {', '.join(kinds)}")
            self.results = work({k: brings for k, (_, brings) in self.brought.items()})
        except KernelFault as fault:
            self.fault = fault


def together(what: str, mask: int, brings: Any, work: Work, size: int = LANES) -> Waits:
    """Return the running lane's result of `work`, a function of the operands of all lanes in the mask.

    The lanes are the threads of the running thread's warp, or of its group of `size` threads.
    """
    thread = current()
    assert thread.block is not None
    warp, lane = divmod(thread.number, size)
    named = {k for k in range(size) if mask >> k & 1}
    if lane not in named:
        raise KernelFault(f"{what}: lane {lane} is not in its mask {hex(mask)}")
    meetings = thread.block.shared.setdefault("meetings", {})
    place = (size, warp, mask)
    meeting = meetings.setdefault(place, _Meeting(what, mask, size, warp))
    meeting.brought[lane] = (what, brings)
    if meeting.brought.keys() == named:
        del meetings[place]
        meeting.end(work)
        thread.block.ready.extend(meeting.waiting)
    else:
        meeting.waiting.append(thread)
        yield meeting
    if meeting.fault is not None:
        raise KernelFault(str(meeting.fault))
    assert meeting.results is not None
    return meeting.results[lane]


def active() -> int:
    """Return the mask of all lanes of the warp. A program that calls this has not diverged."""
    thread = current()
    return (1 << min(LANES, thread.size - thread.number // LANES * LANES)) - 1


# -- shuffles


def shuffle(name: str, mask: Any, value: Any, by: Any, width: Any) -> Waits:
    """Return the value of the lane that `name` and `by` select. `by` may differ between lanes, `width` may not."""
    from minitvm.reference.meaning.warps import source_lane

    by, width = int(by), int(width)

    def exchanged(brought: Mapping[int, Any]) -> dict[int, Any]:
        results = {}
        for lane, (_, offset) in brought.items():
            source = source_lane(f"tvm_{name}", lane, offset, width)
            if source not in brought:
                raise KernelFault(f"{name}: lane {lane} reads from lane {source}, which does not take part")
            results[lane] = brought[source][0]
        return results

    return (yield from together(f"{name} over {width} lanes", int(mask) & WHOLE, (value, by), exchanged))


# -- tiles, in registers of all lanes


def ldmatrix(row: Any, count: int, trans: bool) -> Waits:
    """Return the lane's words of `count` matrices. `row` holds 8 elements: row `lane % 8` of matrix `lane // 8`."""
    return (
        yield from together(
            "ldmatrix", WHOLE, row, lambda rows: _matrices([rows[k] for k in range(LANES)], count, trans)
        )
    )


def mma_16x8x16(held: Sequence[Any], kind: str) -> Waits:
    """Return the lane's four sums. `held` are its registers: four of a, two of b, four of c."""
    return (
        yield from together("mma", WHOLE, held, lambda lanes: _product_16x8x16([lanes[k] for k in range(LANES)], kind))
    )


def mma_16x8x8(held: Sequence[Any]) -> Waits:
    """Return the lane's four sums of rounded float32. `held` are its registers: four of a, two of b, four of c."""
    return (yield from together("mma", WHOLE, held, lambda lanes: _product_16x8x8([lanes[k] for k in range(LANES)])))


def _matrices(rows: Sequence[Any], count: int, trans: bool) -> list[tuple[np.uint32, ...]]:
    """Return each lane's words of `count` matrices. Lane 8 m + r holds row r of matrix m, which has 8 elements."""
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


def _product_16x8x16(registers: Sequence[Sequence[Any]], kind: str) -> list[tuple[np.float32, ...]]:
    """Return the four sums of each lane, after assembling the matrices from the registers of all lanes."""
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


def _product_16x8x8(registers: Sequence[Sequence[Any]]) -> list[tuple[np.float32, ...]]:
    """Return the four sums of each lane, for products of float32 without their last 13 bits."""
    a, b, c = np.zeros((16, 8)), np.zeros((8, 8)), np.zeros((16, 8))
    for lane, held in enumerate(registers):
        group, thread = lane // 4, lane % 4
        factors = (np.array(held[:6], np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
        for i in range(4):
            a[group + 8 * (i & 1), thread + 4 * (i >> 1)] = factors[i]
            c[group + 8 * (i >> 1), thread * 2 + (i & 1)] = held[6 + i]
        for i in range(2):
            b[thread + 4 * i, group] = factors[4 + i]
    with np.errstate(all="ignore"):
        sums = (a @ b + c).astype(np.float32)
    return [tuple(sums[lane // 4 + 8 * (i >> 1), (lane % 4) * 2 + (i & 1)] for i in range(4)) for lane in range(LANES)]
