"""Locks that are unlocked in a forked child process.

`os.fork` copies only the thread that calls it. A lock that another thread holds at that moment stays locked in the
child for ever, because its holder does not exist there. So all locks of minitvm are made here. In the child, every lock
that the forking thread does not hold itself is unlocked.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_plain: weakref.WeakSet[Any] = weakref.WeakSet()
_recursive: weakref.WeakSet[Any] = weakref.WeakSet()


def lock() -> threading.Lock:
    """Return a new lock. The thread that holds it must not fork."""
    new = threading.Lock()
    _plain.add(new)
    return new


def condition() -> threading.Condition:
    """Return a new condition variable, with a new lock of its own."""
    return threading.Condition(lock())


def recursive_lock() -> Any:
    """Return a new lock that the thread holding it can acquire again (`threading.RLock`)."""
    new = threading.RLock()
    _recursive.add(new)
    return new


def _after_fork() -> None:
    for one in list(_plain):
        one._at_fork_reinit()  # as Python's own modules do (logging, concurrent.futures)
    for one in list(_recursive):
        if not one._is_owned():
            one._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
