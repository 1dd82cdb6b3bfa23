"""Today's networks: as published; light forms against ONNX Runtime, in the interpreter and compiled.

A light form has fewer layers and a smaller input, and every kind of layer that the whole has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

import minitvm
from minitvm.errors import ModelError
from minitvm.frontends.onnx.export.to_onnx import to_onnx
from minitvm.graph import Graph
from minitvm.reference import graph as reference
from minitvm.tools import models

onnxruntime = pytest.importorskip("onnxruntime")


@dataclass(frozen=True)
class Case:
    """Millions of numbers that the whole network holds, and its light form; whether that is compiled each time.

    They are the weights as published, without the layers that are left out (BERT, GPT-2), and with masks and biases
    by distance written out (Swin).
    """

    weights: float
    light: Callable[..., Graph]
    quick: bool = False


SMALL_PICTURE = (1, 3, 64, 64)

CASES = {
    "bert": Case(51.9, partial(models.bert, shape=(1, 12), depth=1, width=24, heads=2, vocabulary=50), quick=True),
    "convnext_tiny": Case(28.59, partial(models.convnext_tiny, shape=(1, 3, 32, 32), depths=(1, 1, 0, 0))),
    "efficientnet_b0": Case(5.29, partial(models.efficientnet_b0, shape=SMALL_PICTURE, stages=3)),
    "gpt2": Case(67.0, partial(models.gpt2, shape=(1, 10), depth=1, width=24, heads=2, vocabulary=50)),
    "llama": Case(
        74.3, partial(models.llama, shape=(1, 10), depth=1, width=32, heads=4, key_heads=2, hidden=40, vocabulary=50)
    ),
    "lstm_tagger": Case(2.74, partial(models.lstm_tagger, shape=(1, 9), width=12, hidden=10, vocabulary=50)),
    "mobilenet_v3": Case(5.48, partial(models.mobilenet_v3, shape=SMALL_PICTURE, blocks=7)),
    "regnet_y_400mf": Case(4.34, partial(models.regnet_y_400mf, shape=SMALL_PICTURE, depths=(1, 2, 0, 0))),
    "shufflenet_v2": Case(2.28, partial(models.shufflenet_v2, shape=(1, 3, 32, 32), depths=(2, 0, 0))),
    "swin_t": Case(29.5, partial(models.swin_t, shape=(1, 3, 56, 56), depths=(2, 1))),
    "unet": Case(7.76, partial(models.unet, shape=(1, 3, 32, 32), width=8, depth=2)),
    "vit_small": Case(22.05, partial(models.vit_small, shape=(1, 3, 48, 64), depth=1, width=64)),
    "whisper_encoder": Case(8.21, partial(models.whisper_encoder, shape=(1, 80, 40), depth=1, width=32, heads=2)),
}


def _answers(graph: Graph, seed: int) -> np.ndarray:
    session = onnxruntime.InferenceSession(to_onnx(graph).SerializeToString(), providers=["CPUExecutionProvider"])
    answer: np.ndarray = session.run(None, models.example_inputs(graph, seed))[0]
    return answer


def _agree(answer: np.ndarray, expected: np.ndarray) -> None:
    assert np.abs(answer - expected).max() <= 1e-3 * np.abs(expected).max()


def test_every_network_has_its_case() -> None:
    assert sorted(CASES) == sorted(models.MORE)
    assert not set(models.NETWORKS) & set(models.MORE)


@pytest.mark.parametrize("name", CASES)
def test_light_forms_mean_what_onnx_runtime_computes(name: str) -> None:
    graph = CASES[name].light()
    expected = _answers(graph, 0)
    _agree(reference.run(graph, models.example_inputs(graph))[0], expected)
    largest = np.abs(expected).max()
    assert 0.5 < largest < 5000
    assert np.abs(expected - _answers(graph, 1)).max() > 0.05 * largest, "the answer hardly depends on the input"


@pytest.mark.parametrize(
    "name", [name if case.quick else pytest.param(name, marks=pytest.mark.full) for name, case in CASES.items()]
)
def test_compiled_light_forms_answer_as_onnx_runtime_does(name: str) -> None:
    graph = CASES[name].light()
    for threads in (1, 2):
        module = minitvm.build(graph, threads=threads)
        _agree(np.asarray(module(**models.example_inputs(graph))), _answers(graph, 0))


@pytest.mark.parametrize("name", CASES)
def test_a_batch_of_two_is_two_of_one(name: str) -> None:
    light = CASES[name].light
    single = light()
    double = light(shape=(2, *single.inputs[0].shape[1:]))
    first, second = (models.example_inputs(single, seed) for seed in (0, 1))
    both = {key: np.concatenate([first[key], second[key]]) for key in first}
    alone = [reference.run(single, inputs)[0] for inputs in (first, second)]
    _agree(reference.run(double, both)[0], np.concatenate(alone))


def test_networks_are_built_for_other_shapes() -> None:
    graph = models.get("shufflenet_v2", shapes={"data": (2, 3, 96, 64)})
    assert [tuple(v.shape) for v in (*graph.inputs, *graph.outputs)] == [(2, 3, 96, 64), (2, 1000)]
    assert models.get("squeezenet1_1", shapes={"data": (1, 3, 32, 48)}).inputs[0].shape == (1, 3, 32, 48)
    assert tuple(models.get("alexnet", shapes={"data": (1, 3, 227, 227)}).inputs[0].shape) == (1, 3, 227, 227)


@pytest.mark.parametrize(
    ("name", "shapes", "message"),
    [
        (
            "shufflenet_v2",
            {"picture": (1, 3, 96, 64)},
            "wanted: data: (1, 3, 224, 224)\n  found:  picture: (1, 3, 96, 64)",
        ),
        ("shufflenet_v2", {"data": (1, 3, 96)}, "found:  data: (1, 3, 96)"),
        ("swin_t", {"data": (1, 3, 230, 224)}, "multiples of 224"),
    ],
)
def test_shapes_that_a_network_does_not_have_are_refused(
    name: str, shapes: dict[str, tuple[int, ...]], message: str
) -> None:
    with pytest.raises(ModelError) as error:
        models.get(name, shapes=shapes)
    assert message in str(error.value)


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_whole_networks_are_as_published_and_right(name: str) -> None:
    graph = models.get(name)
    assert sum(c.data.size for c in graph.constants) / 1e6 == pytest.approx(CASES[name].weights, rel=0.02)
    expected = _answers(graph, 0)
    assert 0.5 < np.abs(expected).max() < 5000
    _agree(np.asarray(minitvm.build(graph)(**models.example_inputs(graph))), expected)
