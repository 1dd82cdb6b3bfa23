"""Sizes that data decide, in ONNX models: every level against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
from hypothesis import given, settings

import minitvm as tvm
from minitvm.frontend import from_onnx
from minitvm.graph import verify_graph
from minitvm.reference import executable as executables
from minitvm.reference import graph as interpreter

from .data_sizes import data_sizes

Case = tuple[onnx.ModelProto, dict[str, np.ndarray]]


def by_onnx_runtime(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, inputs)


def assert_same(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        assert a.dtype == b.dtype and a.shape == b.shape, (a.shape, b.shape)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@given(case=data_sizes())
@settings(max_examples=200)
def test_the_graph_is_what_onnx_runtime_computes(case: Case) -> None:
    model, inputs = case
    graph = from_onnx(model)
    verify_graph(graph)
    assert_same(interpreter.run(graph, inputs), by_onnx_runtime(model, inputs))


@given(case=data_sizes())
@settings(max_examples=40)
def test_the_module_is_what_onnx_runtime_computes(case: Case) -> None:
    model, inputs = case
    wanted = by_onnx_runtime(model, inputs)
    assert_same(executables.run(tvm.lower(model, stop_at="executable"), inputs), wanted)
    module = tvm.build(model, threads=2)
    for _ in range(2):
        results = module(**inputs)
        assert_same(list(results) if isinstance(results, tuple) else [results], wanted)
