"""A toy engine: NumPy computes regions, by the interpreter's functions. It can be told to fail in several ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minitvm.engines import Engine, Region, register
from minitvm.engines import engine as registry
from minitvm.executable.alignment import address
from minitvm.graph import Graph, OpNode
from minitvm.reference import graph as interpreter


@dataclass
class Toy:
    """Records the calls of the engine, and decides how it behaves. `supports` decides which operators it takes."""

    name: str = "toy"
    supports: Callable[[OpNode], str] = lambda item: ""
    fails: str = ""  # in "missing", "prepare", "no function", "run", "nan" or "nothing"
    prepared: list[str] = field(default_factory=list)
    places: list[tuple[list[int], list[int]]] = field(default_factory=list)
    graphs: list[Graph] = field(default_factory=list)

    def prepare(self, region: Region, constants: Mapping[str, np.ndarray], threads: int) -> Any:
        if self.fails == "prepare":
            raise ValueError("no room\nfor this")
        if self.fails == "no function":
            return None
        self.prepared.append(region.name)
        graph = region.graph(constants)
        self.graphs.append(graph)
        assert [v.name for v in graph.inputs] == [spec.name for spec in region.inputs] and threads >= 1

        def run(inputs: Any, outputs: Any, workspace: Any) -> None:
            assert workspace is None
            if self.fails == "run":
                raise RuntimeError("a wrong turn")
            if self.fails == "nothing":
                return
            self.places.append(([address(a) for a in inputs], [address(a) for a in outputs]))
            for array, result in zip(outputs, interpreter.run(graph, list(inputs)), strict=True):
                array[...] = result
            if self.fails == "nan":
                outputs[0].reshape(-1)[0] = np.nan

        return run

    def engine(self) -> Engine:
        missing = "no toys are installed" if self.fails == "missing" else ""
        return Engine(self.name, self.prepare, supports=self.supports, missing=lambda: missing)


@contextmanager
def registered(*toys: Toy) -> Iterator[None]:
    """Make toys available by their names, for the time of a test."""
    before = dict(registry._REGISTERED)
    for toy in toys:
        register(toy.engine())
    try:
        yield
    finally:
        registry._REGISTERED.clear()
        registry._REGISTERED.update(before)
