"""Identify the CPU for which machine code was compiled, and decide whether it is this one."""

from __future__ import annotations

import hashlib
import os

from ....target.isas import ISAS, NATIVE
from .image import PLATFORM

_FIELDS = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags")


def fingerprint(cpuinfo: str = "/proc/cpuinfo") -> str | None:
    """Return a hash of Linux's description of the first core. Equal hashes mean CPUs of the same name and features.

    Returns None if Linux has no description, or if NUMBA_CPU_NAME or NUMBA_CPU_FEATURES select another CPU for kernels.
    LLVM also knows the features, but loading it takes longer than the rest of loading an artifact.
    """
    if os.environ.get("NUMBA_CPU_NAME") or os.environ.get("NUMBA_CPU_FEATURES") is not None:
        return None
    try:
        with open(cpuinfo, encoding="utf-8", errors="replace") as file:
            first = file.read(1 << 14).split("\n\n")[0]
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in first.split("\n") if ":" in line)
    values = {name.strip(): value.strip() for name, value in fields.items()}
    if any(name not in values for name in _FIELDS):
        return None
    text = "\0".join((PLATFORM, *(values[name] for name in _FIELDS)))
    return hashlib.sha256(text.encode()).hexdigest()


def describe(isa: str = NATIVE) -> dict[str, str | None]:
    """Return a description of the CPU that kernels are compiled for, this one or any with an instruction set, to be
    stored with their code.
    """
    from .loader import cpu_description

    name, features = cpu_description(isa)
    here = fingerprint() if isa == NATIVE else None
    return {"platform": PLATFORM, "name": name, "features": features, "fingerprint": here}


def is_here(described: dict[str, str | None]) -> bool:
    """Return whether code for the described CPU can run on this one, which requires equal platforms, names and
    features, or the name of an instruction set that this CPU has.
    """
    if described["platform"] != PLATFORM:
        return False
    here = fingerprint()
    if here is not None and here == described["fingerprint"]:
        return True
    from .loader import cpu_description, lacking

    name, features = described["name"], described["features"]
    if cpu_description() == (name, features):
        return True
    return name in ISAS and features == ISAS[name].attributes and not lacking(ISAS[name])
