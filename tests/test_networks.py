"""Real networks: what minitvm computes beside what ONNX Runtime computes, interpreted and compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import minitvm
from minitvm.errors import InputError
from minitvm.frontends import from_onnx
from minitvm.reference import graph as interpreter
from minitvm.tools.models import light, rapidocr

# Of the largest output; the logits of the light networks spread over all of it.
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Network:
    """A model, inputs for it, and the shapes that it leaves open."""

    model: Any
    inputs: dict[str, np.ndarray]
    shapes: dict[str, tuple[int, ...]] | None = None

    def expected(self) -> list[np.ndarray]:
        """What ONNX Runtime computes."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        data = str(self.model) if not hasattr(self.model, "SerializeToString") else self.model.SerializeToString()
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        found: list[np.ndarray] = session.run(None, self.inputs)
        return found


def _light(name: str) -> Network:
    model = light.seeded(name)
    return Network(model, light.example_inputs(model))


def _ocr(path: Callable[[], Any], shape: tuple[int, ...]) -> Network:
    picture = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    return Network(path(), {"x": picture}, {"x": shape})


_BUILDERS: Mapping[str, Callable[[], Network]] = {
    "recogniser": lambda: _ocr(rapidocr.recogniser, (1, 3, 48, 320)),
    "classifier": lambda: _ocr(rapidocr.classifier, (1, 3, 48, 192)),
    **{name: (lambda name=name: _light(name)) for name in light.NETWORKS},  # type: ignore[misc]
}
_SLOW_TO_INTERPRET = {"vgg19", "densenet121", "alexnet", "zfnet512", "inception_v2"}
_QUICK_TO_COMPILE = {"squeezenet"}


@cache
def _network(name: str) -> Network:
    return _BUILDERS[name]()


def _agree(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        assert a.shape == b.shape and a.dtype == b.dtype
        largest = np.abs(b).max()
        # An output that hardly varies would agree with anything.
        assert largest > 0 and b.std() > 1e-4 * largest
        assert np.abs(a - b).max() <= TOLERANCE * largest


def _marked(names: Mapping[str, Any], quick: Callable[[str], bool]) -> list[Any]:
    return [pytest.param(n, marks=[] if quick(n) else [pytest.mark.full]) for n in names]


@pytest.mark.parametrize("name", _marked(_BUILDERS, lambda n: n not in _SLOW_TO_INTERPRET))
def test_interpreted(name: str) -> None:
    network = _network(name)
    _agree(interpreter.run(from_onnx(network.model, network.shapes), network.inputs), network.expected())


@pytest.mark.parametrize("name", _marked(_BUILDERS, lambda n: n in _QUICK_TO_COMPILE))
def test_compiled(name: str, tmp_path: Path) -> None:
    network = _network(name)
    module = minitvm.build(network.model, shapes=network.shapes)
    loaded = _saved_and_loaded(module, tmp_path)
    for each in (module, loaded):
        each.run(**network.inputs)
    wanted = network.expected()
    _agree([np.array(module.get_output(k)) for k in range(len(wanted))], wanted)
    for k in range(len(wanted)):
        np.testing.assert_array_equal(loaded.get_output(k), module.get_output(k))


@pytest.mark.full
@pytest.mark.parametrize("name", list(_BUILDERS))
def test_on_an_opencl_device(name: str) -> None:
    pytest.importorskip("pyopencl")
    network = _network(name)
    module = minitvm.build(network.model, shapes=network.shapes, target="opencl -device=pocl")
    module.run(**network.inputs)
    wanted = network.expected()
    _agree([np.array(module.get_output(k)) for k in range(len(wanted))], wanted)


def _saved_and_loaded(module: Any, folder: Path) -> Any:
    """What comes back from a file: it computes the same bits."""
    module.export(folder / "net.mtvm", key=b"a key of these tests")
    return minitvm.runtime.load(folder / "net.mtvm", key=b"a key of these tests")


def test_the_classifier_keeps_its_open_dimensions() -> None:
    graph = from_onnx(rapidocr.classifier())
    assert len(graph.symbolic_dims()) == 3
    for shape in ((1, 3, 48, 192), (3, 3, 48, 64)):
        picture = np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)
        network = Network(rapidocr.classifier(), {"x": picture})
        np.testing.assert_allclose(interpreter.run(graph, [picture])[0], network.expected()[0], rtol=1e-3, atol=1e-5)


def test_a_shape_of_the_wrong_rank_is_one_clear_line() -> None:
    with pytest.raises(InputError, match=r"input x has 4 dimensions .*, found \(3, 48, 320\)") as caught:
        from_onnx(rapidocr.recogniser(), shapes={"x": (3, 48, 320)})
    assert "\n" not in str(caught.value)


def test_the_recogniser_keeps_its_open_width() -> None:
    graph = from_onnx(rapidocr.recogniser(), shapes={"x": (1, 3, 48, "width")})
    assert [v.name for v in graph.symbolic_dims()] == ["width"]
    for width in (96, 200):
        picture = np.random.default_rng(2).uniform(-1, 1, (1, 3, 48, width)).astype(np.float32)
        _agree(interpreter.run(graph, [picture]), Network(rapidocr.recogniser(), {"x": picture}).expected())


@pytest.mark.full
def test_one_compiled_recogniser_serves_every_width(tmp_path: Path) -> None:
    module = minitvm.build(rapidocr.recogniser(), shapes={"x": (1, 3, 48, "width")})
    loaded = _saved_and_loaded(module, tmp_path)
    for width in (320, 200, 96):
        picture = np.random.default_rng(3).uniform(-1, 1, (1, 3, 48, width)).astype(np.float32)
        module.run(x=picture)
        _agree([np.array(module.get_output(0))], Network(rapidocr.recogniser(), {"x": picture}).expected())
        np.testing.assert_array_equal(loaded(picture), module.get_output(0))
