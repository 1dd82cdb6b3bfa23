"""Targets: read, printed, refused, detected from files written for the purpose."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from minitvm.errors import TargetError
from minitvm.target import CPU, KINDS, Cache, Kind, Target, detect_cpu, register_kind, tvm_options

TARGETS = [
    "cpu",
    "llvm",
    "cpu -width=256 -cores=3",
    "cpu -model=znver3",
    "cuda -model=h100",
    "opencl -device=mali",
    "accel -model=vdla",
]


@pytest.mark.parametrize("text", TARGETS)
def test_text_and_json_read_back(text: str) -> None:
    target = Target(text)
    assert Target(str(target)) == target
    assert Target.from_json(target.to_json()) == target
    assert hash(Target(target)) == hash(target)


def test_kinds_and_options() -> None:
    assert Target("llvm").kind == "cpu"
    target = Target("cpu -model=skylake-avx512 -width=256")
    assert (target.vector_bits, target.vector_registers, target.cores) == (256, 16, 8)
    assert [target.vector_lanes(d) for d in ("float32", "float64", "int8", "bool", "float16")] == [8, 4, 32, 32, 16]
    assert Target("accel -model=vdla").mhz == 200
    assert Target({"kind": "llvm", "mcpu": "znver3", "num-cores": 2}).cores == 2
    cuda = Target("cuda", host="cpu -model=haswell")
    assert cuda.device == "cuda"
    assert Target(str(cuda)) == cuda
    assert cuda.host is not None and cuda.host.vector_bits == 256


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("cpuu", "unknown target 'cpuu'; did you mean cpu"),
        ("tpu", "known: accel, cpu, cuda, gemmini, interpreter, llvm, opencl"),
        ("cpu -widht=256", "no option 'widht'; did you mean width"),
        ("cpu -width=lots", "option vector_bits='lots': wanted a value like"),
        ("cpu -width=300", "wanted: 32 (no vectors), 64, 128 (SSE, NEON), 256 (AVX2) or 512"),
        ("cpu width", "'width' is no option"),
        ("cuda -model=h900", "unknown cuda model 'h900'"),
        ("cpu -l1=big", "option l1='big'"),
        ({"cores": 2}, "a target needs a kind"),
    ],
)
def test_what_is_refused(spec: str, said: str) -> None:
    with pytest.raises(TargetError) as error:
        Target(spec)
    assert said in str(error.value)


def test_bad_json_is_refused() -> None:
    for text in ("{", "[1]"):
        with pytest.raises(TargetError, match="not a target in JSON"):
            Target.from_json(text)


def test_current_target_nests() -> None:
    outer, inner = Target("cpu -cores=1"), Target("cpu -cores=7")
    assert Target.current(allow_none=True) is None
    with outer:
        with inner, inner:
            assert Target.current() is inner
        assert Target.current() is outer
    assert Target.current(allow_none=True) is None
    assert Target.of(None).kind == "cpu"


def _machine(folder: Path, flags: str, caches: list[tuple[str, str, str, str]], vendor: str = "Some") -> CPU:
    text = f"processor : 0\nvendor_id\t: {vendor}\nmodel name\t: Some CPU\ncpu MHz\t\t: 2999.9\nflags\t\t: {flags}\n"
    (folder / "cpuinfo").write_text(text)
    for i, (kind, level, size, ways) in enumerate(caches):
        entry = folder / "cache" / f"index{i}"
        entry.mkdir(parents=True)
        for name, value in {"type": kind, "level": level, "size": size, "ways_of_associativity": ways,
                            "coherency_line_size": "64", "shared_cpu_list": "0-3,8"}.items():  # fmt: skip
            (entry / name).write_text(value + "\n")
    return detect_cpu(str(folder / "cpuinfo"), str(folder / "cache"))


@pytest.mark.parametrize(
    ("flags", "bits", "registers", "fma"),
    [
        ("sse sse2 avx", 128, 16, False),
        ("sse2 avx avx2 fma", 256, 16, True),
        ("avx2 fma avx512f avx512vl", 512, 32, True),
        ("fp asimd", 128, 32, True),
    ],
)
def test_detection_from_flags(tmp_path: Path, flags: str, bits: int, registers: int, fma: bool) -> None:
    cpu = _machine(
        tmp_path, flags, [("Data", "1", "48K", "12"), ("Instruction", "1", "32K", "8"), ("Unified", "2", "1M", "16")]
    )
    assert (cpu.vector_bits, cpu.vector_registers, cpu.has_fma, cpu.name, cpu.ghz) == (
        bits,
        registers,
        fma,
        "Some CPU",
        3.0,
    )
    assert cpu.l1 == Cache(48 * 1024, 12, 64, 5)
    assert cpu.l2.size == 1 << 20


def test_detection_without_any_file(tmp_path: Path) -> None:
    cpu = detect_cpu(str(tmp_path / "none"), str(tmp_path / "nowhere"))
    assert cpu.cores >= 1
    assert cpu.l1.size > 0
    assert cpu.vector_bits == 128


def test_narrower_vectors_of_a_wide_machine_are_loaded_at_the_usual_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    host = CPU(vector_bits=512, vector_registers=32, l1_rate=80)
    monkeypatch.delenv("MINITVM_CPU", raising=False)
    monkeypatch.setattr("minitvm.target.host.detect_cpu", lambda: host)
    loads = [Target(f"cpu{options}").loads for options in ("", " -width=512", " -width=256")]
    assert loads == [1.25, 1.25, 2.0]
    assert Target("cpu -width=256 -l1_rate=48").loads == 1.5


def test_a_plug_in_adds_a_kind() -> None:
    kind = Kind(("sundial",), CPU, lambda: CPU("sundial", cores=5), "sundial")
    try:
        register_kind(kind)
        assert Target("sundial -cores=6").cores == 6
        with pytest.raises(TargetError, match="registered already"):
            register_kind(kind)
    finally:
        KINDS.pop("sundial")


def test_import_pulls_in_nothing_heavy() -> None:
    code = "import sys, minitvm.target; print(*sorted({'numpy', 'numba', 'sympy', 'llvmlite'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == ""


UNDERSTOOD = {
    "llvm -mcpu=cascadelake -num-cores=4": {"vector_bits": 512, "cores": 4, "name": "cascadelake"},
    "llvm -mcpu=core-avx2": {"vector_bits": 256, "has_fma": True},
    "llvm -keys=cpu -mcpu=znver4 --num-cores=16": {"vector_bits": 512, "cores": 16},
    "llvm -mattr=+avx2,+fma": {"vector_bits": 256, "features": ("avx2", "fma")},
    "llvm -vector-width=128": {"vector_bits": 128},
    f"llvm -mtriple={platform.machine()}-linux-gnu": {"kind": "cpu"},
    "nvidia/nvidia-a100": {"arch": "sm_80"},
    "cuda -arch=sm_80 -keys=cuda,gpu": {"arch": "sm_80"},
}


@pytest.mark.parametrize("text", UNDERSTOOD)
def test_target_strings_of_tvm_are_understood(text: str) -> None:
    made = Target(text)
    assert {key: getattr(made, key) for key in UNDERSTOOD[text]} == UNDERSTOOD[text]
    assert Target(str(made)) == made


@pytest.mark.parametrize(
    "text",
    [
        *tvm_options.KINDS_REFUSED, *(f"llvm -{key}=1" for key in tvm_options.OPTIONS_REFUSED),
        "llvm -fast-math-nnan=1", "llvm -mtriple=riscv64-unknown-elf", "nvidia/geforce-rtx-3090",
        "raspberry-pi/4b-aarch64", "aws/cpu/c5.9xlarge",
    ],
)  # fmt: skip
def test_target_strings_of_tvm_without_a_counterpart_are_refused_with_one_that_has(text: str) -> None:
    """What to write instead is itself a target."""
    with pytest.raises(TargetError, match="has no counterpart") as caught:
        Target(text)
    assert text.split(" -")[-1].split("=")[0] in str(caught.value)
    assert Target(str(caught.value).split("Target('")[1].split("')")[0]).kind


def test_cpus_of_llvm_are_like_models_that_exist() -> None:
    assert {Target(f"llvm -mcpu={name}").name for name in tvm_options.MODELS} == set(tvm_options.MODELS)


@pytest.mark.parametrize("allowed", [True, False])
def test_tile_registers_count_where_a_process_may_use_them(
    allowed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sandbox may refuse them, whatever the CPU has; then kernels are compiled without them, too."""
    from minitvm.machines.cpu.runtime import loader
    from minitvm.target import host

    monkeypatch.setattr(host, "tiles_allowed", lambda: allowed)
    monkeypatch.setattr(loader, "tiles_allowed", lambda: allowed)
    (tmp_path / "cpuinfo").write_text("flags\t: fpu sse4_2 avx2 avx512f avx512vl amx_tile amx_int8 amx_bf16\n")
    found = host.detect_cpu(str(tmp_path / "cpuinfo"), str(tmp_path))
    assert ("amx_int8" in found.features) is allowed

    class Features:
        def flatten(self) -> str:
            return "+avx2,+amx-tile,+amx-int8"

    monkeypatch.setattr(loader.llvm, "get_host_cpu_features", Features)
    loader._host_features.cache_clear()
    assert ("+amx-int8" in loader._host_features()) is allowed
    loader._host_features.cache_clear()


def test_a_model_takes_the_hosts_place(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = Target("cpu").cores
    for model, bits, on_pocl in (("x86-64", 128, 128), ("znver4", 512, 256), ("skylake-avx512", 512, 512)):
        monkeypatch.setenv("MINITVM_CPU", model)
        assert (Target("cpu").name, Target("cpu").vector_bits, Target("cpu").cores) == (model, bits, cores)
        assert Target("opencl -device=pocl").vector_bits == on_pocl, "PoCL knows no CPU of AMD that has AVX-512"
    monkeypatch.setenv("MINITVM_CPU", "znver9")
    with pytest.raises(TargetError, match="MINITVM_CPU='znver9' names no model of a CPU; did you mean znver"):
        Target("cpu")
