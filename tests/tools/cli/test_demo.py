"""The demo shows a small loop and its kernel, and cuts no line."""

from __future__ import annotations

import numpy as np
import pytest

from minitvm.graph import Graph, GraphBuilder
from minitvm.tools.cli.demo import LETTERS, kernel_of, loops_of, show_operator


def network(width: int = 64) -> Graph:  # whole vectors on every CPU
    b = GraphBuilder("net")
    x = b.input("x", (16, width))
    weights = np.ones((width, width), "float32")
    scale = b.constant(np.ones((16, 1), "float32"), "scale")
    return b.build(b.op("subtract", b.op("nn.softmax", b.op("nn.dense", x, weights), axis=-1), scale))


def test_it_shows_the_loops_of_an_operator_and_their_vectors(capsys: pytest.CaptureFixture[str]) -> None:
    show_operator(network())
    text = capsys.readouterr().out
    loops, kernel = text.split("\nand as the kernel that runs")
    assert "for i0, i1 in T.grid(16, 64):\n        T_subtract[i0, i1] = p0[i0, i1] - p1[i0, 0]" in loops
    assert "store(T_subtract, " in kernel and "load(p0, " in kernel
    assert max(map(len, text.split("\n"))) <= LETTERS + 4 and "..." not in text


def test_a_network_without_a_short_operator_shows_none(capsys: pytest.CaptureFixture[str]) -> None:
    b = GraphBuilder("net")
    x = b.input("x", (16, 8))
    show_operator(b.build(b.op("nn.softmax", x, axis=-1)))
    assert capsys.readouterr().out == ""


def test_programs_of_another_form_are_not_shown() -> None:
    two = 'for i in range(4):\n    with T.block("a"):\n    with T.block("b"):\n'
    assert loops_of(two) == [] and loops_of("") == []
    assert kernel_of("def f():\n    for i in range(4):\n        pass\n    for j in range(4):\n        pass") == []
