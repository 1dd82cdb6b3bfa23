"""A back end from one folder outside of the package builds a network, and the oracle checks every level of it."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm.backend import register
from minitvm.build import optimize_graph
from minitvm.errors import TargetError, Unsupported
from minitvm.events import Listener, Step
from minitvm.frontends.onnx.export.to_onnx import to_onnx
from minitvm.lowering import to_units
from minitvm.reference import graph as interpreter
from minitvm.runtime import load
from minitvm.target import Target
from minitvm.tools.cli import main
from minitvm.tools.cli.check import INTERPRETED, check_level, check_model, operator_cases
from minitvm.tools.models.resnet import resnet18
from tests import toy_backend
from tests.executable.loop_graphs import CASES, listed, same

ROOT = Path(__file__).resolve().parent.parent.parent
SMALL = (1, 3, 16, 16)


def _silent(*progress: Any) -> None: ...


def test_a_network_is_right_at_every_level() -> None:
    """What `minitvm check MODEL --target toy` does, for ResNet-18 on a small picture."""
    target, graph = Target("toy"), resnet18(0, SMALL)
    assert check_model(graph, target, 0, _silent) == 0
    units = to_units(optimize_graph(graph, target))
    cases, _ = operator_cases(units, target, 0, _silent)
    assert len(cases) > 15
    assert {level: check_level(level, cases, _silent) for level in INTERPRETED} == dict.fromkeys(INTERPRETED, (0, []))


class _Steps(Listener):
    def __init__(self) -> None:
        self.kinds: list[str] = []

    def step_begin(self, step: Step, time: float) -> None:
        self.kinds.append(step.kind)


@pytest.mark.parametrize("name", ["swapped", "nested", "rows"])
def test_the_host_repeats_loops(name: str) -> None:
    make, runs = CASES[name]
    module = minitvm.build(make(), target="toy")
    for inputs in runs:
        same(listed(module(**inputs)), interpreter.run(make(), inputs))


def _softmax(name: str = "small") -> Any:
    b = minitvm.graph.GraphBuilder(name)
    x = b.input("x", (4, 9))
    return b.build(b.op("nn.softmax", b.op("add", x, b.op("nn.relu", x)), axis=1))


def test_every_part_is_the_toys() -> None:
    graph = _softmax()
    module = minitvm.build(graph, target="toy")
    steps = _Steps()
    module.listeners = [steps]
    x = np.linspace(-2, 2, 36, dtype="float32").reshape(4, 9)
    np.testing.assert_allclose(module(x), minitvm.build(graph)(x), rtol=1e-6)
    assert set(steps.kinds) == {"CallKernel"}
    assert module.threads == 1
    assert {kernel.language for kernel in module.executable.kernels} == {"numpy"}
    source = next(iter(minitvm.lower(graph, "toy", stop_at="source").values()))
    assert "import numpy as np" in source and "numba" not in source
    passes = [name for name, _ in minitvm.graph.passes.pipeline.passes(Target("toy"))]
    assert "channels_last" in passes and "blocked_layout" not in passes
    with pytest.raises(Unsupported, match="the back end toy cannot be profiled: its programs have no run_stamped"):
        module.stamped(x)


@pytest.mark.parametrize(
    "level", ["graph", "fused", "te", "tir", "schedule", "kernel", "source", "executable", "memory"]
)
def test_the_command_line_shows_every_level(level: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx = pytest.importorskip("onnx")
    onnx.save(to_onnx(_softmax()), str(tmp_path / "small.onnx"))
    assert main(["show", str(tmp_path / "small.onnx"), "--target", "toy", "--level", level]) == 0
    shown = capsys.readouterr().out
    assert ("# rule        vectors" in shown) == (level == "schedule")
    assert ("import numpy as np" in shown) == (level == "source")


def test_a_saved_module_brings_its_source(tmp_path: Path) -> None:
    module = minitvm.build(_softmax("kept"), target="toy")
    module.export(tmp_path / "kept.mtvm")
    x = np.linspace(-1, 3, 36, dtype="float32").reshape(4, 9)
    np.testing.assert_array_equal(load(tmp_path / "kept.mtvm")(x), module(x))


def test_a_kernel_that_the_toy_cannot_say_is_refused_with_its_name() -> None:
    b = minitvm.graph.GraphBuilder("hard")
    graph = b.build(b.op("erf", b.input("x", (3,))))
    with pytest.raises(Unsupported, match="the intrinsic erf in a kernel of the toy"):
        minitvm.build(graph, target="toy")


def test_no_file_of_the_package_knows_the_toy() -> None:
    sources = [file for top in ("minitvm", "reference") for file in (ROOT / top).rglob("*.py")]
    assert len(sources) > 300
    knowing = [str(file) for file in sources if re.search(r"\btoy_backend\b", file.read_text(encoding="utf-8"))]
    assert knowing == []


def _installed(folder: Path, module: str) -> Path:
    """A folder with a distribution whose entry point is that module."""
    about = folder / "toy-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[minitvm.backends]\ntoy = {module}\n")
    return folder


def _in_a_fresh_process(code: str, *paths: Path) -> str:
    path = f"import sys; sys.path[:0] = {[*map(str, paths)]!r}\n"
    done = subprocess.run([sys.executable, "-c", path + code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_installed_back_end_is_found_by_its_name(tmp_path: Path) -> None:
    folder = _installed(tmp_path, "toy_backend")
    code = "from minitvm import backend\nprint(sorted(backend.registered()), backend.get('toy').language)"
    assert (
        _in_a_fresh_process(code, folder, ROOT / "tests")
        == "['accel', 'cpu', 'cuda', 'gemmini', 'interpreter', 'opencl'] numpy\n"
    )


def test_an_installed_back_end_that_breaks_is_told(tmp_path: Path) -> None:
    code = """
from minitvm.errors import TargetError
from minitvm.target import Target
try:
    Target("toy")
except TargetError as error:
    print(error)
print(Target("cpu").kind)
"""
    wanted = "the back end gone_away of minitvm.backends cannot be imported: No module named 'gone_away'\ncpu\n"
    assert _in_a_fresh_process(code, _installed(tmp_path, "gone_away")) == wanted


def test_parts_given_by_name_are_looked_for_when_it_is_registered() -> None:

    name = toy_backend.__name__
    wrong = replace(toy_backend.BACKEND, generate=f"{name}.source:no_such", program=f"{name}.elsewhere:Program")
    with pytest.raises(TargetError) as error:
        register(wrong)
    assert f"found:  generate: {name}.source has no no_such\n          program: there is no module" in str(error.value)
