"""Detectors from the pixels to the boxes that remain: ONNX Runtime, the interpreters and compiled code agree."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

import minitvm
from minitvm import runtime
from minitvm.errors import ModelError
from minitvm.frontends.onnx.export.to_onnx import to_onnx
from minitvm.graph import Graph
from minitvm.reference import executable as executables
from minitvm.reference import graph as interpreter
from minitvm.tools import models
from minitvm.tools.models.retinaface import SIZES, STRIDES, prior_boxes

onnxruntime = pytest.importorskip("onnxruntime")

light = partial(models.retinaface, shape=(1, 3, 64, 96), width=4, pyramid=16, score=0.55)


def by_onnx_runtime(graph: Graph, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(to_onnx(graph).SerializeToString(), providers=["CPUExecutionProvider"])
    found: list[np.ndarray] = session.run(None, inputs)
    return found


def assert_found(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    assert [a.shape for a in found] == [a.shape for a in wanted]
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-2)


def test_the_interpreter_finds_what_onnx_runtime_finds_and_the_number_is_data() -> None:
    graph, numbers = light(), set()
    for seed in range(3):
        inputs = models.example_inputs(graph, seed)
        wanted = by_onnx_runtime(graph, inputs)
        assert_found(interpreter.run(graph, inputs), wanted)
        numbers.add(len(wanted[0]))
    assert len(numbers) > 1 and min(numbers) > 0 and max(numbers) < 100


@pytest.mark.full
def test_the_compiled_detector_finds_the_same_also_from_a_file(tmp_path: Path) -> None:
    graph = light()
    module = minitvm.build(graph, threads=2)
    module.export(tmp_path / "faces.mtvm")
    loaded = runtime.load(tmp_path / "faces.mtvm")
    for seed in range(3):
        inputs = models.example_inputs(graph, seed)
        wanted = interpreter.run(graph, inputs)
        assert_found(list(module(**inputs)), wanted)
        assert_found(list(loaded(**inputs)), wanted)
    nothing = minitvm.build(light(score=0.999), threads=1)(**inputs)
    assert [a.shape for a in nothing] == [(0, 4), (0,), (0, 5, 2)]


@pytest.mark.full
def test_the_executable_and_the_whole_network_find_the_same() -> None:
    graph = light()
    inputs = models.example_inputs(graph)
    executable = minitvm.lower(graph, stop_at="executable")
    assert_found(executables.run(executable, inputs), interpreter.run(graph, inputs))
    whole = models.get("retinaface")
    inputs = models.example_inputs(whole)
    assert_found(list(minitvm.build(whole)(**inputs)), by_onnx_runtime(whole, inputs))


def test_what_remains_is_apart_and_the_best_come_first() -> None:
    graph = light(iou=0.3)
    boxes, scores, landmarks = interpreter.run(graph, models.example_inputs(graph))
    assert (np.diff(scores) <= 0).all() and (scores > 0.55).all() and landmarks.shape == (len(boxes), 5, 2)
    low, high = boxes[:, :2], boxes[:, 2:]
    sides = np.maximum(np.minimum(high[:, None], high) - np.maximum(low[:, None], low), 0)
    both, area = sides.prod(-1), (high - low).prod(-1)
    iou = both / (area[:, None] + area - both)
    assert (iou[~np.eye(len(boxes), dtype=bool)] <= 0.3 + 1e-5).all()


def test_priors_stand_at_every_place_of_every_level() -> None:
    priors = prior_boxes(64, 96)
    assert len(priors) == sum(64 // s * 96 // s * len(sides) for s, sides in zip(STRIDES, SIZES))
    np.testing.assert_allclose(priors[0], [4 / 96, 4 / 64, 16 / 96, 16 / 64])
    np.testing.assert_allclose(priors[-1], [80 / 96, 48 / 64, 512 / 96, 512 / 64])


def test_pictures_that_the_pyramid_does_not_divide_are_refused() -> None:
    with pytest.raises(ModelError, match="multiples of 32"):
        models.get("retinaface", shapes={"data": (1, 3, 100, 96)})
