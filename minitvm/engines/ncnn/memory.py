"""ncnn's allocations in our memory.

ncnn asks an allocator for each value and each working buffer, in the same order in every run. A dry run records the
sizes and lifetimes (`Recorder`), our planner gives each block a place in one workspace, and every later run gets these
places (`Replayer`). So the peak is known in advance, and a run allocates nothing.

Behind its data, ncnn keeps four bytes with a count of references. They belong to the block.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import ModuleType
from typing import Any

import numpy as np

from ...executable.alignment import ALIGNMENT, address, aligned_empty

COUNT_BYTES = 4  # behind the data of a block


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """The size and the offset of each allocation of a run, in order, and the size of the workspace.

    `outputs` are the numbers of the allocations that hold the network's outputs; -1 for one that shares its block.
    """

    sizes: tuple[int, ...]
    offsets: tuple[int, ...]
    size: int
    outputs: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def of_json(body: Mapping[str, Any]) -> BlockPlan:
        return BlockPlan(tuple(body["sizes"]), tuple(body["offsets"]), body["size"], tuple(body["outputs"]))


@functools.cache
def _new_capsule() -> Any:
    function = ctypes.pythonapi.PyCapsule_New
    function.restype, function.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return function


def pointer(capsule: Any) -> int:
    """Return the address in a capsule, the form in which ncnn's Python interface passes memory."""
    name, get = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(get(capsule, name(capsule)) or 0)


@functools.cache
def library() -> ModuleType:
    """Import ncnn, and return it.

    Its threads sleep while they wait for each other. By default they spin, and if another program uses the cores, a
    run of 0.3 ms takes 2 s. libgomp reads the variable when it is loaded.
    """
    if "GOMP_SPINCOUNT" in os.environ:
        return importlib.import_module("ncnn")
    os.environ["GOMP_SPINCOUNT"] = "0"
    try:
        return importlib.import_module("ncnn")
    finally:
        del os.environ["GOMP_SPINCOUNT"]


@functools.cache
def recorder_class() -> Any:
    """Return the class `Recorder`. ncnn, which has its base class, is imported when it is first needed."""
    ncnn: Any = library()

    class Recorder(ncnn.UnlockedPoolAllocator):
        """Allocates each block by itself, and records when it is in use."""

        def __init__(self) -> None:
            super().__init__()
            self.memory: list[Any] = []
            self.born: list[int] = []
            self.died: dict[int, int] = {}
            self.sizes: list[int] = []
            self.number_at: dict[int, int] = {}
            self.time = 0

        def fastMalloc(self, size: int) -> Any:
            memory = aligned_empty(size)
            self.number_at[address(memory)] = len(self.sizes)
            self.memory.append(memory)
            self.born.append(self.time)
            self.sizes.append(size)
            self.time += 1
            return _new_capsule()(address(memory), None, None)

        def fastFree(self, capsule: Any) -> None:
            number = self.number_at.get(pointer(capsule))
            if number is not None:
                self.died[number] = self.time
            self.time += 1

        def plan(self, outputs: list[int]) -> BlockPlan:
            """Return the plan of what was recorded. `outputs` are the addresses of the results."""
            from ...link.plan_memory import Lifetime, plan_memory

            lives = [
                Lifetime(str(k), size, self.born[k], self.died.get(k, self.time)) for k, size in enumerate(self.sizes)
            ]
            plan = plan_memory(lives, ALIGNMENT)
            numbers = tuple(self.number_at.get(place, -1) for place in outputs)
            places = tuple(int(offset) for offset in plan.offsets)  # type: ignore[arg-type]
            return BlockPlan(tuple(self.sizes), places, int(plan.size), numbers)  # type: ignore[arg-type]

    return Recorder


@functools.cache
def replayer_class() -> Any:
    """Return the class `Replayer`."""
    ncnn: Any = library()

    class Replayer(ncnn.UnlockedPoolAllocator):
        """Gives each allocation of a run its place in a workspace.

        `elsewhere` has the addresses of the allocations that are not in the workspace. If a run does not follow the
        plan, `strayed` becomes True, and the blocks from there on have memory of their own.
        """

        def __init__(self, plan: BlockPlan) -> None:
            super().__init__()
            self.plan = plan
            self.begin(0, {})

        def begin(self, base: int, elsewhere: dict[int, int]) -> None:
            self.base, self.elsewhere, self.count = base, elsewhere, 0
            self.strayed, self.own = False, list[np.ndarray[Any, Any]]()

        def fastMalloc(self, size: int) -> Any:
            number, self.count = self.count, self.count + 1
            if self.strayed or number >= len(self.plan.sizes) or self.plan.sizes[number] != size:
                self.strayed = True
                self.own.append(aligned_empty(size))
                return _new_capsule()(address(self.own[-1]), None, None)
            place = self.elsewhere.get(number, self.base + self.plan.offsets[number])
            return _new_capsule()(place, None, None)

        def fastFree(self, capsule: Any) -> None:
            """Blocks are not freed: the plan knows their lifetimes."""

    return Replayer
