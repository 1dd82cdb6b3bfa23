"""`minitvm check` of a recurrent layer: what it is fed with does not enlarge rounding errors from step to step."""

from __future__ import annotations

from typing import Any

from minitvm.build import optimize_graph
from minitvm.graph import GraphBuilder
from minitvm.lowering import to_units
from minitvm.target import Target
from minitvm.tools.cli.check import check_level, operator_cases


def _silent(*_: Any) -> None:
    pass


def test_sixty_steps_agree() -> None:
    b, hidden = GraphBuilder(), 24
    shapes = ((60, 1, 1, hidden), (1, hidden, hidden), (1, 1, hidden))
    graph = b.build(b.op("nn.rnn", *(b.input(f"x{k}", shape) for k, shape in enumerate(shapes))))
    target = Target("cpu")
    cases, _ = operator_cases(to_units(optimize_graph(graph, target)), target, 0, _silent)
    assert check_level("te", cases, _silent) == (0, [])
