"""Whole networks as C compute the bits of their modules; programs for ARM run under qemu, with small differences."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from minitvm.graph import Graph, GraphBuilder
from minitvm.tools import models
from tests.export.c.programs import call, compiled, needs_gcc, written

pytestmark = needs_gcc

needs_arm = pytest.mark.skipif(
    shutil.which("aarch64-linux-gnu-gcc") is None or shutil.which("qemu-aarch64") is None,
    reason="no compiler for aarch64, or no qemu",
)


@pytest.mark.full
@pytest.mark.parametrize("name", list(models.ALL))
def test_a_network_has_the_bits_of_its_module(name: str, tmp_path: Path) -> None:
    graph = models.get(name)
    folder = written(graph, tmp_path / "net", inputs=models.example_inputs(graph))
    assert call(compiled(folder, flags=["-O2"]), folder=folder) == "equal\n"


@pytest.mark.full
@pytest.mark.parametrize("name", ["squeezenet1_1", "lstm_tagger"])
def test_a_network_under_sanitizers(name: str, tmp_path: Path) -> None:
    graph = models.get(name)
    folder = written(graph, tmp_path / "net", inputs=models.example_inputs(graph))
    flags = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    assert call(compiled(folder, flags=flags), folder=folder) == "equal\n"


@pytest.mark.full
@needs_arm
@pytest.mark.parametrize("name", ["squeezenet1_1", "mobilenet_v2"])
def test_a_network_on_arm(name: str, tmp_path: Path) -> None:
    folder = written(models.get(name), tmp_path / "net", target="cpu -arch=cortex-a76")
    assert call("make", "-s", "check", folder=folder) == "equal\n"


def small() -> Graph:
    """A convolution, an activation with exponentials, bytes, and a product."""
    rng = np.random.default_rng(0)
    b = GraphBuilder("small")
    x, bytes_ = b.input("x", (1, 8, 9, 9)), b.input("bytes", (3, 7), "int8")
    weights = b.constant(rng.standard_normal((12, 8, 3, 3)).astype(np.float32))
    y = b.op("sigmoid", b.op("nn.conv2d", x, weights, padding=1))
    return b.build([b.op("nn.softmax", b.op("mean", y, axis=(2, 3))), b.op("add", bytes_, bytes_)])


@needs_arm
def test_a_small_network_on_arm(tmp_path: Path) -> None:
    folder = written(small(), tmp_path / "net", target="cpu -arch=cortex-a76")
    assert call("make", "-s", "check", folder=folder) == "equal\n"
