"""Progress on the terminal for work that takes longer than two seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ... import forks
from ...events import Listener, Step

PATIENCE = 2.0  # seconds before anything is shown

Report = Callable[[str, int, int], None]


class Steps(Listener):
    """A listener that reports each step of a run under one name; `total` steps are expected."""

    def __init__(self, report: Report, stage: str, total: int) -> None:
        self.report, self.stage, self.total, self.done = report, stage, total, 0

    def step_end(self, step: Step, time: float) -> None:
        self.done += 1
        self.report(self.stage, self.done, self.total)


@contextmanager
def progress(stage: str = "") -> Iterator[Report]:
    """A function `report(stage, done, total)`; a bar on standard error once the work has taken two seconds.

    On something that is not a terminal it prints a plain line every ten seconds instead. `stage` is what a terminal
    shows after two seconds if nothing has been reported until then: work that cannot be counted.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    start = last = time.monotonic()
    rows: dict[str, object] = {}
    terminal = sys.stderr.isatty()

    def report(stage: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - start < PATIENCE:
            return
        if not terminal:
            if now - last >= 10:
                last = now
                print(f"{stage}: {done} of {total}, {now - start:.0f} s", file=sys.stderr)
            return
        with lock:
            if waiting is not None:
                waiting.cancel()
            show(stage, done, total)

    def show(stage: str, done: int, total: int) -> None:
        if not rows:
            bar.start()
        if stage not in rows:
            rows[stage] = bar.add_task(stage, total=total)
        bar.update(rows[stage], completed=done, total=total)  # type: ignore[arg-type]

    def still_working() -> None:
        with lock:
            if not rows and not ended:
                show(stage, 0, 1)

    lock, ended = forks.lock(), False
    waiting = threading.Timer(PATIENCE, still_working) if stage and terminal else None
    if waiting is not None:
        waiting.daemon = True
        waiting.start()
    try:
        yield report
    finally:
        with lock:
            ended = True
            if waiting is not None:
                waiting.cancel()
            if rows:  # on an output that is not a terminal `stop` would print an empty line
                bar.stop()
