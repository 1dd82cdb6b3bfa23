"""Locks that are free in a forked child.

`os.fork` copies only the thread that calls it. A lock that another thread holds at that moment stays locked in the
child for ever, because its holder does not exist there. All locks of minitvm are therefore made here: in the child,
those that the forking thread does not hold itself are unlocked.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_plain: weakref.WeakSet[Any] = weakref.WeakSet()
_recursive: weakref.WeakSet[Any] = weakref.WeakSet()


def lock() -> threading.Lock:
    """A lock; do not fork while the forking thread holds it."""
    new = threading.Lock()
    _plain.add(new)
    return new


def recursive_lock() -> Any:
    """A lock that its holder can take again (`threading.RLock`)."""
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
