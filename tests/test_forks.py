"""Locks that are free in a forked child."""

from __future__ import annotations

import ast
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minitvm import forks

ROOT = Path(forks.__file__).resolve().parent
LOCKS = {"Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore"}


def locks_elsewhere(text: str) -> list[int]:
    """The lines on which `threading` makes a lock."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if (isinstance(node, ast.Call) and ast.unparse(node.func) in {f"threading.{name}" for name in LOCKS})
        or (isinstance(node, ast.ImportFrom) and node.module == "threading" and LOCKS & {a.name for a in node.names})
    ]


def test_all_locks_are_made_in_one_place() -> None:
    files = {path: path.read_text() for path in ROOT.rglob("*.py") if path.name != "forks.py"}
    where = {path: locks_elsewhere(text) for path, text in files.items() if "threading" in text}
    assert {str(path): lines for path, lines in where.items() if lines} == {}
    assert locks_elsewhere("import threading\nx = threading.Lock()") == [2]
    assert locks_elsewhere("from threading import RLock") == [1]


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("make", [forks.lock, forks.recursive_lock])
def test_a_lock_of_another_thread_is_free_in_the_child(make: Callable[[], Any]) -> None:
    lock, own = make(), forks.recursive_lock()
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            done.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    assert taken.wait(60)
    with own:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                signal.alarm(30)
                with lock:
                    status = 0 if own._is_owned() else 2  # the thread that forked has its own locks
            finally:
                os._exit(status)
    done.set()
    holder.join(60)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
