"""Operands of open sizes: one version of the loops for equal sizes, which reads vectors, one that repeats an entry."""

from __future__ import annotations

import numpy as np
import pytest

import minitvm
from minitvm.expr import SizeVar
from minitvm.graph import GraphBuilder


@pytest.mark.parametrize("sizes", [(37, 37), (37, 1), (1, 37), (1, 1), (0, 1)])
def test_both_versions_are_right(sizes: tuple[int, int]) -> None:
    b, n, m = GraphBuilder(), SizeVar("n"), SizeVar("m")
    graph = b.build(b.op("add", b.input("x", (3, n)), b.input("y", (m,))))
    kernels = minitvm.lower(graph, "cpu -vector_bits=256 -vector_registers=16")
    text = str(next(iter(kernels.values())))
    assert text.count("m == n") + text.count("n == m") == 1  # outside of the loops, not at each element
    x, y = (np.arange(3 * sizes[0], dtype=np.float32).reshape(3, -1), np.arange(sizes[1], dtype=np.float32))
    np.testing.assert_array_equal(minitvm.build(graph, threads=1)(x, y), x + y)
