"""The PP-OCRv4 models are found, and where they are not the error says how to install them."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import onnx
import pytest

from minitvm.errors import ModelError
from minitvm.tools.models import rapidocr


def test_recogniser_is_the_one_that_its_docstring_describes() -> None:
    model = onnx.load(rapidocr.recogniser())
    assert [value.name for value in model.graph.input] == ["x"]
    assert model.graph.output[0].type.tensor_type.shape.dim[2].dim_value == 6625
    alphabet = next(entry.value for entry in model.metadata_props if entry.key == "character").splitlines()
    # Blank first and space last make the 6625 classes.
    assert len(alphabet) == 6623
    assert {"a", "Z", "0", "!"} <= set(alphabet)


def test_classifier_tells_two_directions() -> None:
    model = onnx.load(rapidocr.classifier())
    assert model.graph.output[0].type.tensor_type.shape.dim[1].dim_value == 2


def test_missing_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rapidocr, "PACKAGE", "rapidocr-nowhere")
    with pytest.raises(ModelError, match="pip install --no-deps .*rapidocr-nowhere==1.4.4"):
        rapidocr.recogniser()


def test_package_without_the_file_is_named_with_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Emptied:
        version = "0.0.1"

        def locate_file(self, name: str) -> Path:
            return tmp_path / name

    monkeypatch.setattr(metadata, "distribution", lambda name: Emptied())
    with pytest.raises(ModelError, match=r"0\.0\.1, without .*rec_infer\.onnx"):
        rapidocr.recogniser()
