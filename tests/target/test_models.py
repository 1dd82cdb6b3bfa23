"""Machines by name: their facts agree with LLVM and with C compilers, and do not depend on this machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from minitvm.errors import TargetError
from minitvm.target import CPU, Cache, Target, find_kind
from minitvm.target.isas import ISAS, find_isa

MODELS = {name: Target(f"cpu -arch={name}") for name in find_kind("cpu").presets}
FUNCTION = "define float @f(float %x) {\n  %y = fmul float %x, %x\n  ret float %y\n}"
# Compilers of C that may be installed, by architecture.
COMPILERS = {
    "x86_64": ("gcc", "clang"), "aarch64": ("aarch64-linux-gnu-gcc",), "arm": ("arm-none-eabi-gcc", "clang"),
    "riscv64": ("riscv64-linux-gnu-gcc", "clang"), "wasm32": ("clang",),
}  # fmt: skip


def test_the_machines_of_the_documentation_have_names() -> None:
    """Each is named after the instruction set for which code is generated."""
    names = "cortex-a53 cortex-a72 cortex-a76 cortex-m4 cortex-m7 x86-64-v2 x86-64-v3 x86-64-v4 riscv64-v wasm"
    assert set(names.split()) <= set(MODELS)
    assert {name: target.isa for name, target in MODELS.items()} == {name: name for name in ISAS}


@pytest.mark.parametrize("name", MODELS)
def test_spellings_of_a_name_agree_and_read_back(name: str) -> None:
    target = MODELS[name]
    assert (
        target == Target(f"cpu -model={name}") == Target(f"llvm -mcpu={name}") == Target({"kind": "cpu", "arch": name})
    )
    assert Target(str(target)) == Target(target.brief) == Target.from_json(target.to_json()) == target
    assert target.brief == f"cpu -model={name}"
    assert f"isa={name!r}" in target.code_identity()


def test_this_machine_decides_nothing_about_a_named_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for described in (CPU("a", 512, 32, features=("amx_int8",)), CPU("b", 128, l2=Cache(1, 1))):
        monkeypatch.setattr("minitvm.target.host.detect_cpu", lambda cpu=described: cpu)
        monkeypatch.setattr("platform.machine", lambda: "sparc64")
        assert {name: Target(f"cpu -arch={name}") for name in MODELS} == MODELS


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cpu -arch=cortex-a67", "unknown cpu model 'cortex-a67'; did you mean cortex-a7"),
        ("cpu -arch=x86-64-v5", "did you mean x86-64-v"),
        ("cpu -mcpu=pentium", "known: x86-64, haswell"),
        ("cpu -isa=cortex-a7", "unknown instruction set isa='cortex-a7'; did you mean cortex-a7"),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=znver3", "znver3 is x86_64"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(text: str, said: str) -> None:
    with pytest.raises(TargetError) as error:
        Target(text)
    assert said in str(error.value)


def test_a_triple_may_go_with_a_model_of_its_architecture() -> None:
    assert Target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76") == MODELS["cortex-a76"]


@pytest.mark.parametrize("name", ISAS)
def test_llvm_knows_each_cpu_and_feature(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """LLVM prints a warning about a name that it does not know, and goes on."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    isa = find_isa(name)
    machine = llvm.Target.from_triple(isa.triple).create_target_machine(cpu=isa.cpu, features=isa.attributes)
    module = llvm.parse_assembly(FUNCTION)
    module.triple, module.data_layout = isa.triple, str(machine.target_data)
    assert machine.emit_object(module)
    assert ("p:32:32" in str(machine.target_data)) is (isa.pointer_bits == 32)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ISAS)
def test_compilers_of_c_accept_the_flags(name: str, tmp_path: Path) -> None:
    isa = find_isa(name)
    installed = [path for path in map(shutil.which, COMPILERS[isa.architecture]) if path]
    if not installed:
        pytest.skip(f"no compiler of C for {isa.architecture}")
    (tmp_path / "f.c").write_text("float f(float x) { return x * x; }\n")
    for compiler in installed:
        triple = [f"--target={isa.triple}"] if compiler.endswith("clang") else []
        command = [compiler, *triple, *isa.flags, "-c", "f.c", "-o", "f.o"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_a_scalar_cpu_has_lanes_of_one() -> None:
    for target in (Target("cpu -width=32"), MODELS["cortex-m4"]):
        assert target.is_scalar
        assert {target.vector_lanes(dtype) for dtype in ("float32", "float64", "float16", "int8", "bool")} == {1}
    assert not Target("cpu -width=64").is_scalar
    assert Target("cpu -width=64").vector_lanes("int8") == 8
