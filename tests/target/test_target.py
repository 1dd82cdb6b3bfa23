"""Targets: read, printed, refused, detected from files written for the purpose."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from minitvm.errors import TargetError
from minitvm.target import CPU, KINDS, Cache, Kind, Target, detect_cpu, register_kind

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
        ("tpu", "known: accel, cpu, cuda, llvm, opencl"),
        ("cpu -widht=256", "no option 'widht'; did you mean width"),
        ("cpu -width=lots", "option vector_bits='lots': wanted a value like"),
        ("cpu -width=300", "wanted: 128 (SSE, NEON), 256 (AVX2) or 512"),
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


def _machine(folder: Path, flags: str, caches: list[tuple[str, str, str, str]]) -> CPU:
    (folder / "cpuinfo").write_text(f"processor : 0\nmodel name\t: Some CPU\ncpu MHz\t\t: 2999.9\nflags\t\t: {flags}\n")
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


def test_a_plug_in_adds_a_kind() -> None:
    kind = Kind(("toy",), CPU, lambda: CPU("toy", cores=5), "toy")
    try:
        register_kind(kind)
        assert Target("toy -cores=6").cores == 6
        with pytest.raises(TargetError, match="registered already"):
            register_kind(kind)
    finally:
        KINDS.pop("toy")


def test_import_pulls_in_nothing_heavy() -> None:
    code = "import sys, minitvm.target; print(*sorted({'numpy', 'numba', 'sympy', 'llvmlite'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == ""
