"""The networks that everybody measures: their answers are ONNX Runtime's, and depend on the picture."""

from __future__ import annotations

import numpy as np
import pytest

import minitvm
from minitvm.errors import ModelError
from minitvm.frontends.onnx.export.to_onnx import to_onnx
from minitvm.graph import Graph
from minitvm.tools import models

onnxruntime = pytest.importorskip("onnxruntime")

# Millions of weights, and of multiply-adds at the size that the papers give.
SIZES = {
    "alexnet": 61.1, "densenet121": 8.0, "inception_v3": 23.8, "mobilenet": 4.2, "mobilenet_v2": 3.5, "resnet18": 11.7,
    "resnet50": 25.6, "squeezenet1_0": 1.25, "squeezenet1_1": 1.24, "vgg16": 138.4, "vgg19": 143.7,
}  # fmt: skip


def _expected(graph: Graph, seed: int) -> np.ndarray:
    session = onnxruntime.InferenceSession(to_onnx(graph).SerializeToString(), providers=["CPUExecutionProvider"])
    answer: np.ndarray = session.run(None, models.example_inputs(graph, seed))[0]
    return answer


@pytest.mark.full
@pytest.mark.parametrize("name", models.NETWORKS)
def test_compiled_networks_answer_as_onnx_runtime_does(name: str) -> None:
    graph = models.get(name)
    weights = sum(c.data.size for c in graph.constants) / 1e6
    assert weights == pytest.approx(SIZES[name], rel=0.02)
    wanted = [_expected(graph, seed) for seed in (0, 1)]
    largest = np.abs(wanted[0]).max()
    assert 0.5 < largest < 5000
    assert np.abs(wanted[0] - wanted[1]).max() > 0.05 * largest, "the answer hardly depends on the picture"
    for threads in (1, 2):
        module = minitvm.build(graph, threads=threads)
        for seed, answer in enumerate(wanted):
            found = np.asarray(module(**models.example_inputs(graph, seed)))
            assert np.abs(found - answer).max() <= 1e-3 * largest


@pytest.mark.full
@pytest.mark.parametrize("name", ["squeezenet1_1", "inception_v3"])
def test_networks_through_onnx_are_the_same(name: str) -> None:
    graph = models.get(name)
    inputs = models.example_inputs(graph)
    there = np.asarray(minitvm.build(graph, threads=1)(**inputs))
    back = np.asarray(minitvm.build(to_onnx(graph), threads=1)(**inputs))
    assert np.abs(back - there).max() <= 1e-5 * np.abs(there).max()


def test_the_seed_decides_every_bit() -> None:
    first, again, other = (models.get("squeezenet1_1", seed) for seed in (0, 0, 1))
    for a, b, c in zip(first.constants, again.constants, other.constants, strict=True):
        assert np.array_equal(a.data, b.data)
        assert not np.array_equal(a.data, c.data)


def test_an_unknown_network_names_the_nearest() -> None:
    with pytest.raises(ModelError, match="resnet18"):
        models.get("resnet19")
