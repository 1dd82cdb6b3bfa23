"""Networks as C for a CPU of another architecture, run by an emulator of it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from minitvm.export import c
from minitvm.graph import Graph, GraphBuilder
from minitvm.tools.models import get
from minitvm.tools.models.mobilenet_v3 import mobilenet_v3

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
pytestmark = pytest.mark.skipif(
    not (shutil.which(COMPILER) and shutil.which(EMULATOR)),
    reason=f"{COMPILER} or {EMULATOR} is missing: apt install gcc-aarch64-linux-gnu qemu-user",
)


def checked(graph: Graph, folder: Path, target: str) -> str:
    """The last line of `make check`, which runs the program in the emulator."""
    c.export(graph, folder, target=target, weights="incbin")
    flags = [f"CC={COMPILER}", f"RUN={EMULATOR}", "LDFLAGS=-static", "CFLAGS=-O1 -Werror"]
    run = subprocess.run(["make", "-C", folder, "check", *flags], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-1000:] + run.stderr[-1000:]
    return [line for line in run.stdout.splitlines() if not line.startswith("make")][-1]


def attention() -> Graph:
    """A product, softmax with its exponential, and a normalisation with its square root."""
    b, rng = GraphBuilder("attention"), np.random.default_rng(0)
    x = b.input("x", (2, 9, 16))
    scores = b.op("nn.softmax", b.op("nn.batch_matmul", x, x), axis=-1)
    mixed = b.op("nn.batch_matmul", scores, b.op("transpose", x, axes=(0, 2, 1)))
    scale, shift = (rng.standard_normal(16).astype("float32") for _ in range(2))
    return b.build(b.op("nn.layer_norm", b.op("erf", mixed), scale, shift))


@pytest.mark.parametrize("target", ["cpu -model=cortex-a76", "cpu -model=cortex-a53"])
def test_operators_compute_what_they_compute_here(tmp_path: Path, target: str) -> None:
    assert checked(attention(), tmp_path / "net", target).startswith("equal")


def test_a_part_of_a_network_computes_what_it_computes_here(tmp_path: Path) -> None:
    network = mobilenet_v3(shape=(1, 3, 32, 32), blocks=2)
    assert checked(network, tmp_path / "net", "cpu -model=cortex-a76").startswith("equal")


@pytest.mark.full
@pytest.mark.parametrize("name", ["squeezenet1_1", "mobilenet_v2", "resnet18"])
def test_a_network_computes_what_it_computes_here(tmp_path: Path, name: str) -> None:
    assert checked(get(name), tmp_path / "net", "cpu -model=cortex-a76").startswith("equal")
