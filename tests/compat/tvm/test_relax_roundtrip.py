"""Graphs through a real TVM: it parses our text and prints it, and the graph that we read back means the same."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from minitvm.compat.tvm.bridge import RealTVM
from minitvm.graph import verify_graph
from minitvm.reference.strategies import graphs
from tests.fewer import examples
from tests.frontends.relax.test_relax import Functions, Operators, _bound, _same_results, _text

from .tvm_installed import needs_tvm, real

__all__ = ["real"]


@needs_tvm
@examples(50)
@given(graphs(largest=4))
def test_a_drawn_graph_goes_through_tvm(real: RealTVM, drawn: Any) -> None:
    graph = drawn.graph
    again = _bound(real.script(_text(graph, "tvm-0.27")), graph)
    verify_graph(again)
    _same_results(graph, again, list(drawn.inputs.values()), drawn.tolerances)


@needs_tvm
def test_modules_of_courses_go_through_tvm(real: RealTVM) -> None:
    for module in (Functions, Operators):
        assert "R.function" in real.script(module.script(dialect="tvm-0.27"))
