"""Artifacts for devices: which machine code they hold, on which devices it runs, what is said where it does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitvm
from minitvm.errors import ArtifactError, InputError, TargetError
from minitvm.graph import GraphBuilder
from minitvm.machines.cuda.runtime import architectures, compile_pool, driver, machine_code
from minitvm.machines.cuda.runtime.machine_code import Cubins
from minitvm.runtime import load
from minitvm.runtime.artifact.export import export
from minitvm.runtime.artifact.load import look_at
from minitvm.target import KINDS, Target
from minitvm.tools.cli import main
from tests.machines.cuda.runtime import fake_cuda
from tests.machines.cuda.runtime.test_driver import Plug, plugged
from tests.runtime.test_artifact import in_a_fresh_process, own_cache, own_config
from tests.runtime.test_devices import alike, network

__all__ = ["own_cache", "own_config", "plugged"]
ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a")


def doubled() -> Any:
    b = GraphBuilder("doubled")
    x = b.input("x", (40,))
    return b.build(b.op("add", x, x))


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cubins are texts, which the pretended driver runs."""
    monkeypatch.setattr(compile_pool, "cubins", fake_cuda.cubins)


# -- which code runs where


@given(st.sampled_from(ARCHITECTURES[:-1]), st.lists(st.sampled_from(ARCHITECTURES), unique=True))
def test_the_code_chosen_runs_on_the_device_and_none_that_runs_is_newer(device: str, archs: list[str]) -> None:
    best = architectures.best_for(device, archs)
    fitting = [
        a for a in archs if a[3] == device[3] and int(a[4]) <= int(device[4]) and (a[-1] != "a" or a[:-1] == device)
    ]
    assert (best is None) == (not fitting)
    assert best is None or (best in fitting and all(a <= best for a in fitting))


@given(st.sampled_from(("", *ARCHITECTURES)), st.sampled_from(ARCHITECTURES[:-1]))
def test_code_is_compiled_for_the_device_or_for_what_the_kernels_need(target: str, device: str) -> None:
    older = not target or (target[:5] <= device and (target[-1] != "a" or target[:5] == device))
    if older:
        assert architectures.runs_on(architectures.compiled_for(target, device), device)
        assert architectures.compiled_for(target, device) in (device, target)
    else:
        with pytest.raises(TargetError, match=f"generated for {target}, which {device} does not run"):
            architectures.compiled_for(target, device)


@given(st.data())
def test_the_short_text_of_a_target_reads_back(data: st.DataObject) -> None:
    kind = KINDS[data.draw(st.sampled_from(["cuda", "opencl", "accel", "cpu"]))]
    model = data.draw(st.sampled_from(["", *kind.presets]))
    options = {"model": model} if model else {}
    names = ["arch", "max_threads_per_block", "vector_bits"] if kind.names[0] in ("cuda", "opencl") else []
    values = {"arch": ["sm_80", "sm_90a"], "max_threads_per_block": [64, 1024], "vector_bits": [64, 128]}
    for name in names:
        if data.draw(st.booleans()):
            options[name] = data.draw(st.sampled_from(values[name]))
    target = Target({"kind": kind.names[0], **options})
    assert Target(target.brief) == target
    assert target.brief.split()[0] == target.kind


# -- what an artifact holds


def test_an_executable_keeps_its_architecture(tmp_path: Path) -> None:
    executable = minitvm.lower(doubled(), target="cuda -arch=sm_90a", stop_at="executable")
    assert executable.target == "cuda -arch=sm_90a" and "for cuda -arch=sm_90a" in str(executable)
    minitvm.build(doubled(), target="opencl -device=mali").export(tmp_path / "mali.mtvm")
    assert Target(look_at(tmp_path / "mali.mtvm").target) == Target("opencl -device=mali")


def test_cubins_of_several_architectures_come_back() -> None:
    executable = minitvm.lower(doubled(), target="cuda", stop_at="executable")
    about, data = machine_code.pack(executable, ["sm_75", "sm_90a", "sm_75"])
    (code,) = machine_code.unpack(json.loads(json.dumps(about)), memoryview(data), 1) or []
    assert list(code.code) == ["sm_75", "sm_90a"]
    assert all(cubin.startswith(b"\x7fELF") for cubin in code.code.values())
    assert b"sm_75" in code.code["sm_75"] and b"sm_90a" in code.code["sm_90a"]
    assert code.for_device("sm_80") is None and code.for_device("sm_90") == code.code["sm_90a"]
    with pytest.raises(ValueError, match="2 in the program"):
        machine_code.unpack(about, memoryview(data), 2)
    with pytest.raises(ValueError, match="bytes"):
        machine_code.unpack(about, memoryview(data)[:-1], 1)


@pytest.mark.parametrize(("target", "holds"), [("cuda", "sm_80"), ("cuda -arch=sm_75", "sm_75")])
def test_without_a_choice_the_targets_architecture_is_held(target: str, holds: str, held: None) -> None:
    about, _ = machine_code.pack(minitvm.lower(doubled(), target=target, stop_at="executable"))
    assert list(about["sizes"]) == [holds]


def test_kernels_that_need_a_device_are_not_packed_for_an_older_one() -> None:
    executable = minitvm.lower(doubled(), target="cuda -arch=sm_90a", stop_at="executable")
    with pytest.raises(TargetError, match="generated for sm_90a, which sm_80 does not run"):
        machine_code.pack(executable, ["sm_80"])


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("cpu", "an artifact for CPUs has code for this CPU alone"),
        ("opencl", "for opencl holds sources, its device comp"),
    ],
)
def test_architectures_go_with_cuda(target: str, text: str, tmp_path: Path) -> None:
    executable = minitvm.lower(doubled(), target=target, stop_at="executable")
    with pytest.raises(InputError, match=text):
        export(executable, tmp_path / "x.mtvm", architectures=["sm_80"])
    assert not list(tmp_path.iterdir())


# -- and on which devices it runs


@pytest.mark.parametrize("device", ["sm_80", "sm_86", "sm_90"])
def test_a_loaded_module_runs_what_the_artifact_holds(
    device: str, plugged: Plug, held: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    plugged(device)
    graph = network()
    minitvm.build(graph, target="cuda -arch=sm_75").export(tmp_path / "net.mtvm", architectures=["sm_80", "sm_90"])
    monkeypatch.setattr(driver, "cubins", lambda *about: pytest.fail("it is compiled"))
    loaded = load(tmp_path / "net.mtvm")
    alike(graph, loaded, x=rng.standard_normal((2, 2, 5, 6), dtype=np.float32))


def test_a_device_of_another_generation_compiles_the_sources(
    plugged: Plug, held: None, tmp_path: Path, rng: np.random.Generator
) -> None:
    plugged("sm_90")
    graph = network()
    export(
        minitvm.lower(graph, target="cuda -arch=sm_75", stop_at="executable"),
        tmp_path / "net.mtvm",
        architectures=["sm_80"],
    )
    alike(graph, load(tmp_path / "net.mtvm"), x=rng.standard_normal((2, 2, 5, 6), dtype=np.float32))


def test_without_the_compiler_it_is_said_what_the_artifact_lacks(
    plugged: Plug, held: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugged("sm_90")
    executable = minitvm.lower(network(), target="cuda -arch=sm_75", stop_at="executable")
    export(executable, tmp_path / "net.mtvm", architectures=["sm_75", "sm_80"])

    def missing(*about: Any) -> Any:
        raise TargetError("CUDA needs the package numba-cuda")

    monkeypatch.setattr(driver, "cubins", missing)
    with pytest.raises(TargetError) as error:
        load(tmp_path / "net.mtvm")
    assert str(error.value) == (
        "network has machine code for sm_75, sm_80, and NVIDIA Pretended is sm_90\n"
        "  try:    minitvm export --arch sm_90, on the machine that compiles it\n"
        "  found:  it cannot be compiled here: CUDA needs the package numba-cuda"
    )


def test_an_index_that_does_not_fit_its_program_is_refused(held: None, tmp_path: Path, monkeypatch: Any) -> None:
    executable = minitvm.lower(network(), target="cuda -arch=sm_75", stop_at="executable")
    whole = machine_code.pack
    monkeypatch.setattr(machine_code, "pack", lambda *a: ({**whole(*a)[0], "kernels": [0]}, whole(*a)[1]))
    export(executable, tmp_path / "net.mtvm")
    with pytest.raises(ArtifactError, match="is not put together as this minitvm does it"):
        load(tmp_path / "net.mtvm")


ALONE = """
import sys
import numpy as np
import minitvm.runtime
from minitvm.machines.cuda.runtime import driver
from tests.machines.cuda.runtime.fake_cuda import FakeDriver

fake = FakeDriver("sm_86")
driver.bindings = lambda: fake
print(minitvm.runtime.load(sys.argv[1], trust=True)(np.arange(40, dtype=np.float32)).sum())
print(sorted({"numba", "llvmlite", "sympy", "numba_cuda", "onnx", "minitvm.tir"} & set(sys.modules)))
"""


def test_a_fresh_process_runs_cubins_without_numba(held: None, tmp_path: Path) -> None:
    export(minitvm.lower(doubled(), target="cuda", stop_at="executable"), tmp_path / "net.mtvm")
    printed = in_a_fresh_process(ALONE, tmp_path / "net.mtvm", MINITVM_CUDA_DEVICE="0")
    assert printed.split("\n")[:2] == ["1560.0", "[]"]


def test_the_command_exports_without_a_device(
    held: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [8]) for n in "xy"]
    onnx.save(helper.make_model(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", info[:1], info[1:])),
              tmp_path / "relu.onnx")  # fmt: skip
    monkeypatch.setattr(driver, "found", list)
    monkeypatch.setenv("MINITVM_CUDA_DEVICE", "")
    path = tmp_path / "relu.mtvm"
    command = ["export", str(tmp_path / "relu.onnx"), "-o", str(path), "--target", "cuda", "--arch"]
    assert main([*command, "sm_75", "--arch", "sm_90"]) == 0 and path.exists()
    assert main([*command, "ampere"]) == 2
    assert "'ampere' is no architecture of CUDA" in capsys.readouterr().err


def test_what_stands_for_a_cubin_runs_on_its_generation_alone() -> None:
    source = "def k(a):\n    pass\n"
    driver = fake_cuda.FakeDriver("sm_90")
    _, context = driver.cuDevicePrimaryCtxRetain(0)
    driver.cuCtxPushCurrent(context)
    status, *_ = driver.cuModuleLoadData(fake_cuda.cubin(source, "k", "sm_80"))
    assert status.name == "CUDA_ERROR_NO_BINARY_FOR_GPU"
    assert Cubins({"sm_80": b"x"}).for_device("sm_90") is None
