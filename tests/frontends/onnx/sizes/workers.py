"""Judges many models in forked processes: one that ends by a signal has a verdict too."""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .verdicts import CRASH, OUTSIDE, Judgement

LIMIT = 100  # seconds for one model


def judged(
    models: Sequence[Any], judge: Callable[[Any], Any], limit: float = LIMIT, until: float = float("inf")
) -> Iterator[tuple[Any, Any]]:
    """Each model with its verdict. A process judges models until it ends; another one continues after that."""
    done = 0
    while done < len(models) and time.time() < until:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            _work(models[done:], judge, limit, until, writing)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            while len(head := pipe.read(4)) == 4:
                yield models[done], pickle.loads(pipe.read(struct.unpack("<I", head)[0]))
                done += 1
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            name = signal.Signals(-status).name if status < 0 else f"exit {status}"
            outside = -status in (signal.SIGSEGV, signal.SIGBUS)
            yield models[done], Judgement(OUTSIDE if outside else CRASH, f"ended by {name}")
            done += 1


def _work(models: Sequence[Any], judge: Callable[[Any], Any], limit: float, until: float, pipe: int) -> None:
    """In a child: write each verdict to the pipe."""
    faulthandler.disable()  # a signal is a verdict here
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        for model in models:
            if time.time() > until:
                break
            signal.setitimer(signal.ITIMER_REAL, limit)
            verdict = pickle.dumps(judge(model))
            signal.setitimer(signal.ITIMER_REAL, 0)
            os.write(pipe, struct.pack("<I", len(verdict)) + verdict)
    except BaseException:
        os._exit(3)
    os._exit(0)
