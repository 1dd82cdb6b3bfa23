"""Objects that a driver returns, such as memory, streams, modules and graphs. Each has an owner that frees it.

    owner = Owner(context)
    stream = Owned(owner, create_stream(), destroy_stream)    # freed with `stream`, or by `owner.close()`

An object is freed when its last reference is gone (in any thread), when its owner is closed, or at the end of the
process. pyopencl frees the objects of its drivers itself, in the same way.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


class Owner:
    """The live objects of one device. `entered` makes the driver's context current while an object is freed."""

    def __init__(self, entered: Callable[[], AbstractContextManager[Any]]) -> None:
        self._entered = entered
        self._ends: dict[int, Any] = {}  # the function that frees each object, by a number, the oldest first
        self._count = 0
        self.is_lost = False

    def __len__(self) -> int:
        return len(self._ends)

    def take(self, thing: Any, handle: Any, free: Callable[[Any], Any]) -> Callable[[], Any]:
        """Arrange that a handle is freed when nothing refers to `thing` any longer. Returns a function that frees the
        handle at once; the handle is never freed twice.
        """
        self._count += 1
        end = weakref.finalize(thing, self._free, self._count, handle, free)
        self._ends[self._count] = end
        return end

    def _free(self, number: int, handle: Any, free: Callable[[Any], Any]) -> None:
        del self._ends[number]
        if not self.is_lost:
            with self._entered():
                free(handle)

    def close(self) -> None:
        """Free all live objects, newest first: a kernel before its module, and the module before the stream."""
        for end in reversed(list(self._ends.values())):
            end()

    def lose(self) -> None:
        """Forget all objects without freeing them, because the driver has already destroyed them."""
        self.is_lost = True
        self.close()


class Owned:
    """A driver object, represented by the handle that the driver's functions take."""

    __slots__ = ("__weakref__", "free", "handle")

    def __init__(self, owner: Owner, handle: Any, free: Callable[[Any], Any]) -> None:
        self.handle = handle
        self.free = owner.take(self, handle, free)
