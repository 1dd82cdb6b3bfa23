"""`minitvm check-schedules`: what has no schedule of its own, and why not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minitvm.build import optimize_graph
from minitvm.errors import ScheduleError
from minitvm.frontends.onnx.export.to_onnx import to_onnx
from minitvm.graph import Graph, GraphBuilder
from minitvm.lowering import to_units
from minitvm.strategy import Candidate, Cost, rule
from minitvm.strategy.registry import RULES, rules_of
from minitvm.target import Target
from minitvm.tools.cli import main
from minitvm.tools.cli.check_schedules import fallen_through


def network(dtype: str = "float32") -> Graph:
    b = GraphBuilder("small")
    x = b.input("x", (8, 32), dtype)
    for _ in range(2):
        weight = b.constant(np.ones((32, 32), dtype), "weight")
        x = b.op("nn.relu", b.op("nn.matmul", x, weight))
    return b.build(x)


@pytest.mark.parametrize(("dtype", "status"), [("float32", 0), ("int64", 1)])
def test_products_that_no_rule_takes_fall_through(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], dtype: str, status: int
) -> None:
    path = tmp_path / "small.onnx"
    path.write_bytes(to_onnx(network(dtype)).SerializeToString())
    assert main(["check-schedules", str(path)]) == status
    out = capsys.readouterr().out
    if status:
        assert "matmul_relu (2 times): int64[8, 32], int64[32, 32] -> int64[8, 32]" in out
        assert "  scheduled by: generic\n" in out
        assert out.endswith("2 of 2 operators have no schedule of their own\n")
    else:
        assert out.startswith("each of the ") and out.endswith("has a schedule of its own, or needs none\n")


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule in front that takes every function, and whose steps are refused."""
    monkeypatch.setitem(RULES, "cpu", list(rules_of("cpu")))

    def apply(sch: Any, rows: int) -> None:
        raise ScheduleError(f"split: rows of {rows}\n  wanted: more\n  found:  less")

    @rule("cpu", lambda func: True, first=True)
    def eager(func: Any, target: Any) -> Iterator[Candidate]:
        for rows in (4, 8):
            yield Candidate(knobs={"rows": rows}, price=lambda rows: Cost(rows), apply=apply)


def test_a_refusal_is_told_with_its_knobs(refusing: None) -> None:
    b = GraphBuilder("sums")
    x = b.input("x", (3, 5, 2))
    target = Target("cpu -vector_bits=256")
    graph = b.build(b.op("max", x, axis=(0, 2)))
    (one,) = fallen_through(to_units(optimize_graph(graph, target)), target, lambda *steps: None)
    assert str(one).split("\n")[1:-1] == [
        "  scheduled by: generic",
        "  eager with rows=4 refused: split: rows of 4; wanted: more; found: less",
        "  eager with rows=8 refused: split: rows of 8; wanted: more; found: less",
    ]


def test_what_no_rule_takes_names_the_rules_that_were_asked() -> None:
    b = GraphBuilder("sums")
    x = b.input("x", (3, 5, 2))
    target = Target("cpu -vector_bits=256")
    graph = b.build(b.op("max", x, axis=(0, 2)))
    (one,) = fallen_through(to_units(optimize_graph(graph, target)), target, lambda *steps: None)
    scheduled, asked = str(one).split("\n")[1:]
    assert scheduled == "  scheduled by: generic"
    assert asked.startswith("  takes other computations: ") and "contraction" in asked and "generic" not in asked
