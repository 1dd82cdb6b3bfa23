"""The seeded light networks: each answer depends on the picture and is of a sane size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from minitvm.errors import ModelError
from minitvm.tools.models import light

onnxruntime = pytest.importorskip("onnxruntime")

# Half a gigabyte of weights and seconds to draw them; the other five show the same in a tenth of the time.
LARGE = {"alexnet", "resnet50", "vgg19", "zfnet512"}


def logits(model: Any, seed: int) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (answer,) = session.run(None, light.example_inputs(model, seed))
    return answer.ravel()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.full if name in LARGE else ()) for name in light.NETWORKS]
)
def test_logits_are_sane_and_depend_on_the_picture(name: str) -> None:
    model = light.seeded(name)
    onnx.checker.check_model(model)
    assert len(model.graph.input) == 1
    assert not {node.op_type for node in model.graph.node} & {"ConstantOfShape", "Softmax"}
    answers = np.stack([logits(model, seed) for seed in range(3)])
    assert answers.shape == (3, 1000)
    assert np.isfinite(answers).all()
    largest = np.abs(answers).max()
    assert 1 < largest < 5000
    # Checks against ONNX Runtime allow 1e-3 of the largest logit: a compiler that ignores the picture must stand out.
    assert answers.std(axis=0).mean() > 0.02 * largest
    # ... and so must one that mixes up the classes.
    assert answers.std(axis=1).mean() > 0.05 * largest


def test_the_seed_decides_every_bit() -> None:
    first, again, other = (light.seeded("squeezenet", seed) for seed in (0, 0, 1))
    assert first.SerializeToString() == again.SerializeToString()
    weights = {tensor.name: tensor.raw_data for tensor in first.graph.initializer}
    assert all(weights[tensor.name] != tensor.raw_data for tensor in other.graph.initializer)


@pytest.mark.parametrize("name", light.NETWORKS)
def test_every_network_is_in_the_package_under_both_names(name: str) -> None:
    assert light.path(name).is_file()
    assert light.path(light.NETWORKS[name]) == light.path(name)


def test_unknown_network_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ModelError, match="resnet50"):
        light.seeded("resnet5")


def test_batch_norm_variances_are_positive() -> None:
    model = light.seeded("inception_v2")
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    variances = [stored[node.input[4]] for node in model.graph.node if node.op_type == "BatchNormalization"]
    assert len(variances) == 69
    assert min(variance.min() for variance in variances) > 0.1


def test_missing_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"onnx is not installed: .*minitvm\[onnx\]"):
        light.path("resnet50")


def test_file_missing_from_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Spec:
        origin = str(tmp_path / "__init__.py")

    monkeypatch.setattr("importlib.util.find_spec", lambda name: Spec)
    with pytest.raises(ModelError, match="light_vgg19.onnx"):
        light.path("vgg19")
