"""ONNX's conformance cases as single regions of ONNX Runtime: each result has the bits of ONNX Runtime by itself."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnxruntime

import minitvm
from minitvm.engines.onnx_text import complete
from minitvm.errors import UnsupportedOperator
from minitvm.executable import CallExternal
from minitvm.frontends.onnx import conformance
from minitvm.frontends.onnx.backend import OnnxBackend, Runner
from minitvm.graph import Graph
from tests.fewer import number

EVERY = number(41, 1)  # of the cases, in `make test`
COUNTS: Counter[str] = Counter()


def session_of(step: CallExternal, constants: dict[str, Any]) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    model = complete(step.attrs["code"], constants)
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def one_region(graph: Graph) -> Runner:
    """A function that runs the graph as one region, and compares the bits. Raises if it is not one region."""
    fused = minitvm.lower(graph, stop_at="fused", engines="onnxruntime")
    if len(fused.nodes) != 1 or not fused.nodes[0].engine:
        COUNTS["several" if fused.nodes else "folded"] += 1
        raise UnsupportedOperator("it is not one region")
    (node,) = fused.nodes
    module = minitvm.build(graph, engines="onnxruntime", threads=1)
    (step,) = (step for step in module.executable.steps if isinstance(step, CallExternal))
    weights, names = step.attrs["weights"], step.attrs["names"]
    constants = {names[k]: module.executable.constants[step.args[k].index].data for k in weights}  # type: ignore[union-attr]
    named = [(names[k], value.name) for k, value in enumerate(node.inputs) if k not in weights]
    folded = {c.value.name: c.data for c in fused.constants}  # an input of the region may be folded after it was chosen
    places = [fused.outputs.index(value) for value in node.outputs]
    session = session_of(step, constants)

    def run(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        results = module(**inputs)
        own = list(results) if isinstance(results, tuple) else [results]
        COUNTS["fallen back"] += bool(module._program.engine_call(module.executable.steps.index(step)).run.reason)
        fed = {inner: {**folded, **inputs}[outer] for inner, outer in named}
        for place, array in zip(places, session.run(None, fed), strict=True):
            same = own[place].dtype == array.dtype and own[place].shape == array.shape
            COUNTS["equal" if same and own[place].tobytes() == array.tobytes() else "different"] += 1
        return own

    return run


class OneRegion(OnnxBackend):
    engine = staticmethod(one_region)


def test_a_case_as_one_region_equals_onnx_runtime_bit_for_bit() -> None:
    COUNTS.clear()
    results = conformance.run_all(OneRegion.prepare, conformance.cases()[::EVERY])
    assert [str(r) for r in results if r.outcome in (conformance.WRONG, conformance.FAILED)] == []
    assert COUNTS["different"] == COUNTS["fallen back"] == 0
    assert COUNTS["equal"] >= 0.5 * len(results)
