"""The memory of the fast mode: shadow bytes are arrays, and storage inside a loop has a copy for each point."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..meaning.storage import View
from .tracking import Track


class GridMemory:
    """Storage with one shadow byte per element, and the tracks of the levels that write it."""

    __slots__ = ("complete", "data", "init", "name", "scope", "tracks")

    def __init__(self, name: str, data: np.ndarray, scope: str, init: np.ndarray | None) -> None:
        self.name, self.data, self.scope, self.init = name, data, scope, init
        self.complete = init is None or bool(init.all())
        self.tracks: dict[Any, Track] = {}

    def track(self, level: Any) -> Track:
        if level not in self.tracks:
            self.tracks[level] = Track(self.data.size)
        return self.tracks[level]


class GridView:
    """A buffer's place in a memory; `base` is the start of each point's copy, or None if all points share one."""

    __slots__ = ("base", "data", "memory", "offset", "shape", "strides")

    def __init__(self, memory: GridMemory, shape: Any, strides: Any, offset: Any, base: np.ndarray | None) -> None:
        self.memory, self.data, self.base = memory, memory.data, base
        self.shape, self.strides, self.offset = shape, strides, offset

    @staticmethod
    def of(view: View) -> GridView:
        """Return the same place as a view of the slow mode, sharing its data and shadow."""
        init = None if view.memory.init is None else np.frombuffer(view.memory.init, np.bool_)
        memory = GridMemory(view.memory.name, view.data, view.memory.scope, init)
        return GridView(memory, view.shape, view.strides, view.offset, None)
