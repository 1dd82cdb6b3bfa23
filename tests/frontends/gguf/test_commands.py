"""The commands take GGUF files like other models."""

from __future__ import annotations

from pathlib import Path

import pytest

from minitvm.tools.cli import main

from .models import write_model


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.gguf"
    write_model(path, kind="Q4_1", depth=1)
    model = [str(path), "--shape", "tokens=1,2"]
    assert main(["show", *model, "--level", "graph"]) == 0
    assert "qnn.contrib_dense_of_blocks" in capsys.readouterr().out
    assert main(["check", *model]) == 0
    assert capsys.readouterr().out.endswith("all levels agree\n")
    assert main(["run", *model]) == 0
    assert "logits: float32[1, 50]" in capsys.readouterr().out
