"""The random inputs of commands: positions at which a program writes are within its bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from minitvm import lower
from minitvm.tools.cli import main
from minitvm.tools.cli.options import random_inputs
from minitvm.tools.cli.run_artifact import random_inputs as inputs_of_artifact
from tests.link.test_bounds import Positions


def test_positions_are_drawn_within_the_bounds() -> None:
    accepted = 0
    for seed in range(40):
        drawn = Positions(seed)
        if not any(map(drawn.fits, range(-20, 20))):
            continue
        accepted += 1
        for seeds in (0, 1):
            at = random_inputs(drawn.graph, drawn.graph.inputs, seeds)["at"]
            assert all(map(drawn.fits, at)), (seed, at)
        at = inputs_of_artifact(lower(drawn.graph, stop_at="executable"), {})["at"]
        assert all(map(drawn.fits, at)), (seed, at)
    assert accepted > 20


def test_commands_run_a_model_with_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx = pytest.importorskip("onnx")
    monkeypatch.chdir(tmp_path)
    kinds = {"past": ("FLOAT", [2, 1, 3, 4]), "new": ("FLOAT", [2, 1, 1, 4]), "at": ("INT64", [2])}
    inputs = [
        onnx.helper.make_tensor_value_info(name, getattr(onnx.TensorProto, kind), shape)
        for name, (kind, shape) in kinds.items()
    ]
    output = onnx.helper.make_tensor_value_info("present", onnx.TensorProto.FLOAT, [2, 1, 3, 4])
    node = onnx.helper.make_node("TensorScatter", ["past", "new", "at"], ["present"], axis=2)
    graph = onnx.helper.make_graph([node], "cache", inputs, [output])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 24)], ir_version=11)
    onnx.save(model, "cache.onnx")
    for command in ("run cache.onnx", "export cache.onnx -o cache.mtvm", "run cache.mtvm", "profile cache.mtvm"):
        assert main(command.split()) == 0
