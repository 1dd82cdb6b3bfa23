"""Whether machine code is for this CPU: decided by what Linux says where it can be, and never wrongly yes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from minitvm.machines.cpu.runtime import identity
from minitvm.machines.cpu.runtime.loader import cpu_description

CPUINFO = """\
processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 1
model name\t: AMD EPYC 7763
stepping\t: 1
cpu MHz\t\t: 2445.404
flags\t\t: fpu sse sse2 avx avx2 fma

processor\t: 1
vendor_id\t: Another
"""


@pytest.fixture(autouse=True)
def no_other_cpu_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_CPU_NAME", raising=False)
    monkeypatch.delenv("NUMBA_CPU_FEATURES", raising=False)


def fingerprint(tmp_path: Path, text: str) -> str | None:
    (tmp_path / "cpuinfo").write_text(text)
    return identity.fingerprint(str(tmp_path / "cpuinfo"))


def test_each_field_that_matters_changes_the_fingerprint(tmp_path: Path) -> None:
    usual = fingerprint(tmp_path, CPUINFO)
    assert usual is not None
    for old, new in (
        ("AuthenticAMD", "GenuineIntel"),
        ("family\t: 25", "family\t: 26"),
        ("model\t\t: 1", "model\t\t: 2"),
        ("7763", "7713"),
        ("stepping\t: 1", "stepping\t: 2"),
        ("avx2", "avx2 avx512f"),
        (" fma", ""),
    ):
        assert old in CPUINFO
        assert fingerprint(tmp_path, CPUINFO.replace(old, new, 1)) not in (usual, None)
    for old, new in (("2445.404", "1500.000"), ("Another", "AuthenticAMD")):
        assert fingerprint(tmp_path, CPUINFO.replace(old, new, 1)) == usual


@pytest.mark.parametrize("text", ["", "Hardware : BCM2711\n", CPUINFO.replace("flags", "Features")])
def test_what_linux_does_not_say_is_unknown(tmp_path: Path, text: str) -> None:
    assert fingerprint(tmp_path, text) is None
    assert identity.fingerprint(str(tmp_path / "missing")) is None


@pytest.mark.parametrize("name", ["NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"])
def test_code_for_another_cpu_has_no_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "nehalem" if name.endswith("NAME") else "+sse4.2")
    assert fingerprint(tmp_path, CPUINFO) is None
    assert identity.describe()["fingerprint"] is None


def test_this_cpu_is_here_and_another_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    here = identity.describe()
    assert (here["name"], here["features"]) == cpu_description()
    assert identity.is_here(here)
    assert not identity.is_here({**here, "platform": "beos m68k"})
    # Without a fingerprint, or with one of another kernel, that knows other flags, LLVM decides.
    for unknown in (None, "0" * 64):
        asked = {**here, "fingerprint": unknown}
        assert identity.is_here(asked)
        assert not identity.is_here({**asked, "name": "nehalem"})
        assert not identity.is_here({**asked, "features": "+sse4.2"})
    monkeypatch.setenv("NUMBA_CPU_NAME", "nehalem")
    assert not identity.is_here(here)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")
def test_llvm_is_not_asked_where_linux_says(monkeypatch: pytest.MonkeyPatch) -> None:
    from minitvm.machines.cpu.runtime import loader

    here = identity.describe()
    if here["fingerprint"] is None:
        pytest.skip("this CPU has no fingerprint")
    monkeypatch.setattr(loader, "cpu_description", lambda: pytest.fail("LLVM was asked"))
    assert identity.is_here(here)
