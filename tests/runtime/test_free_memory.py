"""Results and workspaces that this machine has no memory for: one clear error, before a system ends the process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm import free_memory, te
from minitvm.errors import InputError
from minitvm.graph.builder import GraphBuilder
from minitvm.graph.nodes import Graph
from minitvm.reference import graph as interpreter


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_memory, "free_memory", lambda: 10_000_000)
    monkeypatch.setattr(free_memory, "_SMALL", 1_000_000)


def wide(summed: bool) -> Graph:
    """Rows of 3,000 elements, as the result or before a sum of them."""
    b = GraphBuilder("wide")
    x = b.input("x", (te.size_var("n"), 1), "float32")
    y = b.op("cumsum", b.op("broadcast_to", x, shape=(x.shape[0], 3000)), axis=1)
    return b.build(b.op("nn.matmul", y, np.ones((3000, 1), np.float32)) if summed else y)


def rows(count: int) -> np.ndarray[Any, Any]:
    return np.ones((count, 1), np.float32)


@pytest.mark.parametrize(
    ("summed", "message"),
    [
        (False, r"wide: cumsum: .* has\n  wanted: 0.048 GB for \w+: float32\(2000, 3000\) and intermediate results"),
        (True, r"wide: more memory than this machine has\n  wanted: 0.0481 GB for intermediate results"),
    ],
)
def test_a_run_that_needs_more_memory_is_refused(little_memory: None, summed: bool, message: str) -> None:
    module = minitvm.build(wide(summed), threads=1)
    assert module(rows(2)).shape == (2, 1 if summed else 3000)
    with pytest.raises(InputError, match=message + r"\n  found:  0.01 GB free\n  try:    smaller sizes"):
        module(rows(2000))
    assert module(rows(3)).shape == (3, 1 if summed else 3000)  # the module is as it was


def test_the_interpreter_refuses_a_result_that_needs_more_memory(little_memory: None) -> None:
    with pytest.raises(InputError, match=r"broadcast_to: more memory than this machine has"):
        interpreter.run(wide(False), [rows(2000)])


def test_memory_that_the_system_refuses_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    module = minitvm.build(wide(False), threads=1)

    def refuse(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(np, "empty", refuse)
    with pytest.raises(InputError, match="wide: more memory than this machine has"):
        module(rows(2))


def test_free_memory_is_less_than_a_machine_has() -> None:
    assert 0 < free_memory.free_memory() < 1 << 50
