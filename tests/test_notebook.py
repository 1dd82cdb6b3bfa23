"""Programs and verdicts in a notebook: HTML that holds all of the text, escaped."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest

from minitvm import reference, te, tir
from minitvm.graph import GraphBuilder


def _program(constant: float) -> tir.PrimFunc:
    A = te.placeholder((4,), name="A")
    return te.create_prim_func([A, te.compute((4,), lambda i: te.if_then_else(A[i] < 2.0, A[i] * constant, 0.0))])


def _shown() -> dict[str, tuple[Any, str]]:
    func = _program(2.0)
    sch = tir.Schedule(func)
    sch.split(sch.get_loops(sch.get_child_blocks("root")[0])[0], [2, None])
    b = GraphBuilder("layer")
    graph = b.build(b.op("nn.relu", b.input("x", (2, 3))))
    same, different = reference.check(func, func), reference.check(func, _program(3.0))
    return {
        "PrimFunc": (func, func.script(with_header=False)),
        "IRModule": (sch.mod, sch.mod.script(with_header=False)),
        "Schedule": (sch, f"{sch.mod.script(with_header=False)}\n{sch.trace}"),
        "Trace": (sch.trace, str(sch.trace)),
        "Graph": (graph, graph.script()),
        "equal": (same, str(same)),
        "different": (different, str(different)),
    }


SHOWN = _shown()


class _Balanced(HTMLParser):
    """Fails where a tag is left open or is closed that was not opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", SHOWN)
def test_a_notebook_shows_the_text_as_html(name: str) -> None:
    value, text = SHOWN[name]
    shown = value._repr_html_()
    parser = _Balanced()
    parser.feed(shown)
    assert not parser.open
    plain = unescape(re.sub(r"<[^>]*>", "", shown))
    assert "".join(plain.split()) == "".join(text.split())


def test_a_difference_is_red_and_agreement_green() -> None:
    assert "#c33" in SHOWN["different"][0]._repr_html_() and "#2a2" in SHOWN["equal"][0]._repr_html_()
