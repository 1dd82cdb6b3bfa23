"""The words of a step table, and the counters of the pieces in which its parallel steps are dealt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....executable.alignment import address
from .executor import (
    ARGS,
    END,
    KERNEL,
    MOST_PIECES,
    OPENS,
    OPERATION,
    OWN,
    PARALLEL,
    PITCH,
    STAMP,
    STEP_WORDS,
    TAKEN,
)

NativeStep = tuple[int, int, int, int]  # operation, kernel address, address of the arguments, the operation's own word

_LINE = 16  # words in 128 bytes: words of two threads are on different cache lines


@dataclass(frozen=True, slots=True)
class StepTable:
    """A step table of the executor and the counters of its pieces.

    It belongs to one team: the counters hold numbers of that team's phases.
    """

    words: np.ndarray[Any, Any]
    taken: np.ndarray[Any, Any]
    address: int
    parallel: bool


def step_table(steps: Iterable[NativeStep], threads: int) -> StepTable:
    """The table of `steps`, which `End` follows, for a team of `threads` threads.

    The own word of a parallel step is how many iterations its kernel has, 0 if that is not known.
    """
    rows = [*steps, (END, 0, 0, 0)]
    words = np.zeros((len(rows), STEP_WORDS), np.int64)
    words[:, [OPERATION, KERNEL, ARGS, OWN]] = rows
    dealt = np.flatnonzero(words[:, OPERATION] == PARALLEL)
    pitch = -(-max(1, len(dealt)) // _LINE) * _LINE
    taken = np.zeros(threads * pitch, np.int64)
    words[dealt, OWN] = [_pieces(int(tasks), threads) for tasks in words[dealt, OWN]]
    words[dealt, TAKEN] = address(taken) + 8 * np.arange(len(dealt))
    words[dealt, PITCH] = pitch
    first = None  # of the steps since the last barrier or the last step of a loop
    for number, operation in enumerate(words[:, OPERATION]):
        if operation > STAMP:
            first = None
        elif first is None:
            first = number
        if operation == PARALLEL:
            words[first, OPENS] = 1
    return StepTable(words, taken, address(words), bool(len(dealt)))


def _pieces(tasks: int, threads: int) -> int:
    """In how many pieces a thread takes its part of a step: none of them is less than an iteration."""
    return max(1, min(MOST_PIECES, (tasks // threads).bit_length())) if tasks else MOST_PIECES
