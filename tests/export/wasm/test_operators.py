"""ONNX's cases for operators, exported to WebAssembly: right answers, and the bits of the same kernels here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from minitvm.frontends.onnx import conformance
from minitvm.frontends.onnx.backend import OnnxBackend, Runner
from minitvm.frontends.onnx.conformance import FAILED, PASS, WRONG
from minitvm.graph import Graph
from minitvm.runtime import GraphModule
from minitvm.runtime.here import on_this_machine

from .node import Exported, same_bits

EVERY = 163  # of the cases, in `make test`; a prime, so that no family of operators is always left out


def backend(exported: Exported) -> type[OnnxBackend]:
    """ONNX's interface to networks in node."""

    def engine(graph: Graph) -> Runner:
        executable = exported.lower(graph)
        place, module = exported.write(executable), GraphModule(on_this_machine(executable), threads=1)

        def run(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
            expected = module(**inputs)
            outputs = exported.run(executable, place, inputs)
            same_bits(outputs, expected if isinstance(expected, tuple) else (expected,))
            return outputs

        return run

    return type("WasmBackend", (OnnxBackend,), {"engine": staticmethod(engine)})


def check(exported: Exported, cases: Sequence[Any]) -> None:
    results = conformance.run_all(backend(exported).prepare, cases)
    assert [str(result) for result in results if result.outcome in (WRONG, FAILED)] == []
    assert sum(result.outcome == PASS for result in results) >= 0.6 * len(results)


def test_a_sample_of_cases(exported: Exported) -> None:
    check(exported, conformance.cases()[::EVERY])


@pytest.mark.full
def test_every_case(exported: Exported) -> None:
    check(exported, conformance.cases())
