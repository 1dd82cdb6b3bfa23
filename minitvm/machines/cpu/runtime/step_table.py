"""Build step tables, and the counters of the pieces into which parallel steps are divided."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....executable.alignment import address
from . import executor as row_words

NativeStep = tuple[int, int, int, int]  # operation, kernel address, address of the arguments, the operation's own word

_LINE = 16  # words in 128 bytes: words of two threads are on different cache lines


@dataclass(frozen=True, slots=True)
class StepTable:
    """A step table for the executor, and the counters of its pieces.

    It belongs to one team, because the counters hold numbers of that team's phases. `state` is a state table for a run
    on the calling thread alone, which needs no team.
    """

    words: np.ndarray[Any, Any]
    taken: np.ndarray[Any, Any]
    state: np.ndarray[Any, Any]
    address: int
    parallel: bool


def step_table(steps: Iterable[NativeStep], threads: int) -> StepTable:
    """Return the table of `steps`, followed by `End`, for a team of `threads` threads.

    The OWN word of a parallel step is the number of iterations of its kernel, or 0 if that is not known.
    """
    rows = [*steps, (row_words.END, 0, 0, 0)]
    words = np.zeros((len(rows), row_words.STEP_WORDS), np.int64)
    words[:, [row_words.OPERATION, row_words.KERNEL, row_words.ARGS, row_words.OWN]] = rows
    dealt = np.flatnonzero(words[:, row_words.OPERATION] == row_words.PARALLEL)
    pitch = -(-max(1, len(dealt)) // _LINE) * _LINE
    taken = np.zeros(threads * pitch, np.int64)
    words[dealt, row_words.OWN] = [_pieces(int(tasks), threads) for tasks in words[dealt, row_words.OWN]]
    words[dealt, row_words.TAKEN] = address(taken) + 8 * np.arange(len(dealt))
    words[dealt, row_words.PITCH] = pitch
    first = None  # of the steps since the last barrier or the last step of a loop
    for number, operation in enumerate(words[:, row_words.OPERATION]):
        if operation > row_words.STAMP:
            first = None
        elif first is None:
            first = number
        if operation == row_words.PARALLEL:
            words[first, row_words.OPENS] = 1
    state = np.zeros(row_words.WORKER, np.int64)
    state[row_words.PROGRAM] = address(words)
    return StepTable(words, taken, state, address(words), bool(len(dealt)))


def _pieces(tasks: int, threads: int) -> int:
    """Return the number of pieces of a thread's part of a step. Each piece has at least one iteration."""
    return max(1, min(row_words.MOST_PIECES, (tasks // threads).bit_length())) if tasks else row_words.MOST_PIECES
