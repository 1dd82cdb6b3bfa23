"""Describe the CPU that this process runs on, from /proc/cpuinfo and /sys, with defaults for missing information."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from functools import cache, lru_cache
from pathlib import Path

from .isas import Isa
from .machines import CPU, Cache

_CACHES = "/sys/devices/system/cpu/cpu0/cache"


@lru_cache(maxsize=4)
def detect_cpu(cpuinfo: str = "/proc/cpuinfo", caches: str = _CACHES) -> CPU:
    """Return the description of the host's CPU. It is detected once per process."""
    text = _read(Path(cpuinfo))
    flags = set(_field(text, "flags", "Features").split())
    bits = vector_bits(flags)
    levels = _caches(Path(caches))
    arm = "asimd" in flags or platform.machine() in ("aarch64", "arm64")
    return CPU(
        name=_field(text, "model name", "Model") or platform.machine(),
        vector_bits=bits,
        vector_registers=32 if bits == 512 or arm else 16,
        fma_ports=2,
        fma_latency=4,
        has_fma=arm or bool(flags & {"fma", "avx512f"}),
        cores=_cores(),
        ghz=round(float(_field(text, "cpu MHz") or 0) / 1000, 2),
        l1=levels.get(1, Cache(32 * 1024, 8)),
        l2=levels.get(2, Cache(512 * 1024, 8)),
        l3=levels.get(3, Cache(0, 1)),
        features=tuple(f for f in _FEATURES if f in flags and (not f.startswith("amx") or tiles_allowed())),
        l1_rate=_L1_RATES.get(_field(text, "vendor_id"), 128),
    )


@cache
def native() -> Isa:
    """Return the instruction set of this machine. LLVM and the compilers detect its CPU and features themselves."""
    spelled = platform.machine().lower()
    architecture = {"amd64": "x86_64", "arm64": "aarch64"}.get(spelled, spelled)
    flag = "-march=native" if architecture == "x86_64" else "-mcpu=native"
    return Isa(architecture, f"{architecture}-unknown-{sys.platform}-gnu", "", (), (flag,))


@cache
def tiles_allowed() -> bool:
    """Return whether this process may use AMX's tile registers.

    Linux requires a process to ask for permission first, with arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA). A sandbox may
    refuse it even if the CPU has AMX.
    """
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    try:
        return ctypes.CDLL(None).syscall(158, 0x1023, 18) == 0
    except (OSError, AttributeError):
        return False


# Bytes per cycle that a core loads from the L1 cache, if they are fewer than two vectors of 512 bits. Measured on Ice
# Lake with all data in the L1 cache: 1.28 loads of 512 bits, 1.9 of 256 bits.
_L1_RATES = {"GenuineIntel": 80}

_FEATURES = (
    "sse4_2",
    "avx",
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512vl",
    "avx512_vnni",
    "avx512_bf16",
    "amx_tile",
    "amx_int8",
    "amx_bf16",
    "asimd",
)


def vector_bits(flags: set[str]) -> int:
    """Return the width in bits of the widest float32 vectors that CPU flags allow. x86-64 and NEON have at least
    128.
    """
    if {"avx512f", "avx512vl"} <= flags:
        return 512
    # AVX alone has no 256-bit integer operations; kernels need those for indices and masks.
    return 256 if "avx2" in flags else 128


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _field(text: str, *names: str) -> str:
    for name in names:
        match = re.search(rf"^{re.escape(name)}\s*:\s*(.*)$", text, re.MULTILINE)
        if match:
            return match.group(1).strip()
    return ""


def _caches(folder: Path) -> dict[int, Cache]:
    levels: dict[int, Cache] = {}
    for entry in sorted(folder.glob("index*")):
        kind, level, size = (_read(entry / name).strip() for name in ("type", "level", "size"))
        if kind not in ("Data", "Unified") or not level.isdigit():
            continue
        levels[int(level)] = Cache(
            _bytes(size),
            max(1, _number(_read(entry / "ways_of_associativity"), 8)),
            _number(_read(entry / "coherency_line_size"), 64),
            _count(_read(entry / "shared_cpu_list")),
        )
    return levels


def _bytes(text: str) -> int:
    match = re.match(r"(\d+)([KMG]?)", text)
    return int(match.group(1)) * {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[match.group(2)] if match else 0


def _number(text: str, default: int) -> int:
    return int(text) if text.strip().isdigit() else default


def _count(text: str) -> int:
    """Return the number of CPUs in a list such as `0-3,8`."""
    total = 0
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        total += int(last or first) - int(first) + 1
    return max(total, 1)
