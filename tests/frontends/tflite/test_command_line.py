"""TFLite models on the command line: with open sizes, and with states."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from minitvm.tools.cli import main

from .writing import Case, Tensor, constant


@pytest.fixture
def layer(tmp_path: Path) -> str:
    """A layer whose state holds the last features of two runs."""
    rng = np.random.default_rng(1)
    weights = [constant(rng.standard_normal(shape).astype("float32")) for shape in ((3, 4), (3, 2))]
    state = Tensor((1, 6), variable=True)
    case = Case("SVDF", [Tensor((1, 4)), *weights, None, state], [Tensor((1, 3))], "SVDFOptions", {"rank": 1})
    file = tmp_path / "layer.tflite"
    file.write_bytes(case.model())
    return str(file)


def test_a_model_with_a_state_runs(layer: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", layer, "--check"]) == 0
    printed = capsys.readouterr().out
    assert "t4: float32[1, 3]" in printed and "check t4: ok" in printed


def test_its_graph_is_shown(layer: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", layer, "--level", "graph"]) == 0
    assert "def layer(t0: float32[1, 4], state_t3: float32[1, 6])" in capsys.readouterr().out


def test_a_missing_size_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "open.tflite"
    file.write_bytes(Case("ABS", [Tensor((1, 4), open_axes=(0,))], [Tensor((1, 4))]).model())
    assert main(["run", str(file)]) != 0
    assert "input t0 has open dimensions (t0_0,4); give --shape t0=SIZE,4" in capsys.readouterr().err
    assert main(["run", str(file), "--shape", "t0=3,4"]) == 0
    assert "t1: float32[3, 4]" in capsys.readouterr().out
