"""ONNX's conformance suite: a sample compiled, a third interpreted; and that the judge can tell right from wrong.

`make test-full` runs all of it both ways.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from minitvm.frontends.onnx import conformance
from minitvm.frontends.onnx.backend import OnnxBackend, Runner
from minitvm.frontends.onnx.conformance import FAILED, PASS, REFUSED, WRONG, Result
from minitvm.graph import Graph
from minitvm.reference import graph as interpreter
from tests.fewer import number

EVERY = 83  # of the cases, in `make test`; a prime, so that no family of operators is always left out


def _interpreted(graph: Graph) -> Runner:
    return lambda inputs: interpreter.run(graph, inputs)


class InterpretedBackend(OnnxBackend):
    """The same with the graph interpreter in the place of the compiler."""

    engine = staticmethod(_interpreted)


@cache
def _cases() -> list[Any]:
    return conformance.cases()


@cache
def _interpreted_cases() -> list[Result]:
    return conformance.run_all(InterpretedBackend.prepare, _cases()[:: number(3, 1)])


def _bad(results: Sequence[Result]) -> list[str]:
    return [str(r) for r in results if r.outcome in (WRONG, FAILED)]


def test_the_suite_is_the_one_that_was_counted() -> None:
    assert len(_cases()) >= 1600


def test_cases_interpreted() -> None:
    results = _interpreted_cases()
    assert _bad(results) == []
    counts = Counter(r.outcome for r in results)
    assert counts[PASS] >= 0.9 * len(results) and counts[PASS] + counts[REFUSED] == len(results)


def test_a_sample_compiled() -> None:
    results = conformance.run_all(OnnxBackend.prepare, _cases()[::EVERY])
    assert _bad(results) == []
    assert sum(r.outcome == PASS for r in results) >= 0.75 * len(results)


@pytest.mark.full
def test_every_case_compiled() -> None:
    results = conformance.run_all(OnnxBackend.prepare, _cases())
    assert _bad(results) == []
    assert sum(r.outcome == PASS for r in results) >= 600


def test_refusals_name_the_operator() -> None:
    refused = [r for r in _interpreted_cases() if r.outcome == REFUSED]
    assert refused
    unclear = [str(r) for r in refused if not r.detail.startswith(("operator ", "opset ", "input ", "output "))]
    assert unclear == []


class _Broken:
    """A backend that is wrong in a given way."""

    def __init__(self, model: Any, how: str) -> None:
        self.prepared, self.how = InterpretedBackend.prepare(model), how

    def run(self, inputs: list[Any]) -> list[np.ndarray]:
        (y,) = self.prepared.run(inputs)
        if self.how == "crash":
            raise KeyError("lost")
        return {
            "value": [y + np.float32(0.01)],
            "shape": [y[None]],
            "dtype": [y.astype(np.float64)],
            "count": [y, y],
            "nan": [np.full_like(y, np.nan)],
        }[self.how]


@pytest.mark.parametrize("how", ["value", "shape", "dtype", "count", "nan", "crash"])
def test_the_judge_finds_faults(how: str) -> None:
    case = next(c for c in _cases() if c.name == "test_relu")
    result = conformance.run_case(case, lambda model: _Broken(model, how))
    assert result.outcome == (FAILED if how == "crash" else WRONG)
    assert conformance.run_case(case, InterpretedBackend.prepare).outcome == PASS


@pytest.mark.parametrize(("units", "outcome"), [(1, PASS), (2, PASS), (5, WRONG)])
def test_bfloat16_may_be_rounded_twice(units: int, outcome: str) -> None:
    case = next(c for c in _cases() if c.name == "test_celu_bfloat16")
    (_, [expected]) = case.data_sets[0]

    class Apart:
        """Gives the answer that many neighbours away."""

        def run(self, inputs: list[Any]) -> list[np.ndarray]:
            return [(np.asarray(expected).view(np.uint16) + np.uint16(units)).view(np.asarray(expected).dtype)]

    assert conformance.run_case(case, lambda model: Apart()).outcome == outcome


def test_the_table_counts_and_gives_reasons() -> None:
    results = [
        Result("test_a", "Relu", PASS),
        Result("test_b", "Relu", REFUSED, "operator Relu (node y): dtype int4 is not supported"),
        Result("test_c", "NonZero", REFUSED, "operator NonZero (node y) is not supported: depends on the data"),
    ]
    text = conformance.table(results, 10)
    assert "| Relu | 2 | 1 | 1 | Relu: dtype int4 is not supported (1) |" in text
    assert "- 1 pass when compiled;" in text and "- 2 are refused with" in text
