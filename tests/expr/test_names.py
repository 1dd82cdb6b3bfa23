"""Names in generated text are valid and unique, whatever people have called their values."""

from __future__ import annotations

import ast

import pytest

from minitvm import te
from minitvm.expr import Var, const
from minitvm.expr.printer import fresh, identifier
from minitvm.graph import GraphBuilder
from minitvm.graph.printer import script as graph_text
from minitvm.te.printer import script as te_text
from minitvm.tir.nodes import Buffer, BufferStore, For, ForKind, PrimFunc

WISHES = ["for", "x.1", "1x", "", "x²", "é", "lambda", "range"]


@pytest.mark.parametrize("wish", WISHES)
def test_names_are_valid(wish: str) -> None:
    assert identifier(wish).isidentifier() and identifier(wish).isascii()


def test_names_are_unique() -> None:
    taken = {"x", "x_2"}
    assert [fresh("x", taken) for _ in range(3)] == ["x_1", "x_3", "x_4"]
    assert taken == {"x", "x_1", "x_2", "x_3", "x_4"}


@pytest.mark.parametrize("wish", WISHES)
def test_every_level_prints_python(wish: str) -> None:
    b = GraphBuilder("net")
    graph = b.build(b.op("nn.relu", b.input(wish, (4,))))
    a = te.placeholder((4,), name=wish)
    tensors = [a, te.compute((4,), lambda i: a[i] + 1.0, name="B")]
    A, i = Buffer(wish, (const(4),)), Var(wish)
    loop = For(i, const(0), const(4), ForKind.SERIAL, BufferStore(A, A[i] + 1.0, (i,)))
    for text in (graph_text(graph), te_text(tensors), PrimFunc((A,), loop).script()):
        ast.parse(text)
