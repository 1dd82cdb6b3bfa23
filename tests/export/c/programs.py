"""Exported C programs, compiled with sanitizers and run: their own test compares them with the module, bit by bit."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from minitvm.export.c.project import project
from minitvm.export.folders import fill

STRICT = ("-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-ffp-contract=off", "-march=native")
EQUAL = "equal, bit for bit\n"  # printed by the test of a program
SANITIZED = ("-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def written(model: Any, folder: Path, **options: Any) -> Path:
    """Write the program of a model into a new folder."""
    fill(folder, project(model, **options))
    return folder


def compiled(folder: Path, main: str = "check.c", flags: Sequence[str] = SANITIZED, compiler: str = "gcc") -> Path:
    """Compile a program of the folder together with the network."""
    sources = [main, *sorted(file.name for pattern in ("*.c", "*.S") for file in folder.glob(pattern))]
    sources = list(dict.fromkeys(name for name in sources if name == main or not name.startswith(("check", "main"))))
    binary = folder / f"{Path(main).stem}.run"
    call(compiler, "-std=c11", *STRICT, *flags, "-o", binary.name, *sources, "-lm", "-lpthread", folder=folder)
    return binary


def call(*arguments: Any, folder: Path) -> str:
    """Return what a command prints in a folder; a failure fails the test with all of its output."""
    command = [str(argument) for argument in arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}"
    return done.stdout


def check(model: Any, folder: Path, **options: Any) -> None:
    """Require that a model as C computes the same bits as its module, under the sanitizers."""
    program = compiled(written(model, folder, **options))
    assert call(program, folder=folder) == EQUAL


def check_on_arm(model: Any, folder: Path, arch: str = "a76", **options: Any) -> Path:
    """Require that a model as C for a Cortex computes, under QEMU, the bits of the same kernels here."""
    written(model, folder, target=f"cpu -arch=cortex-{arch}", **options)
    assert call("make", "-s", "check", f"CFLAGS=-O1 -Werror -mcpu=cortex-{arch}", folder=folder) == EQUAL
    return folder


needs_gcc = pytest.mark.skipif(
    not all(map(shutil.which, ("gcc", "g++", "make"))), reason="gcc, g++ or make is not installed"
)
needs_arm = pytest.mark.skipif(
    not all(map(shutil.which, ("aarch64-linux-gnu-gcc", "qemu-aarch64"))),
    reason="no compiler for aarch64, or no qemu",
)
