"""Whole networks as C compute the bits of their modules, under sanitizers too; programs for ARM run under qemu."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from minitvm.build import code_target, compile_fused, optimize_graph
from minitvm.graph import Graph, GraphBuilder
from minitvm.tools import models
from minitvm.tools.models.mobilenet_v3 import mobilenet_v3
from tests.export.c.networks import require_results_within_bounds, small
from tests.export.c.programs import EQUAL, call, check, check_on_arm, needs_arm, needs_gcc, written

pytestmark = needs_gcc


@pytest.mark.full
@pytest.mark.parametrize("name", list(models.ALL))
def test_a_network_has_the_bits_of_its_module(name: str, tmp_path: Path) -> None:
    graph = models.get(name)
    folder = written(graph, tmp_path / "net", inputs=models.example_inputs(graph))
    assert call("make", "-s", "check", folder=folder) == EQUAL  # with the flags that a user gets


@pytest.mark.full
@pytest.mark.parametrize("name", list(models.ALL))
def test_a_network_under_sanitizers(name: str, tmp_path: Path) -> None:
    graph = small(name)
    check(graph, tmp_path / "net", inputs=models.example_inputs(graph))


@pytest.mark.full
@needs_arm
@pytest.mark.parametrize("name", list(models.ALL))
def test_a_network_on_arm(name: str, tmp_path: Path) -> None:
    """Bits on ARM are those of the same kernels on this machine, whose results are within their error bounds."""
    graph, target = small(name), code_target("cpu -arch=cortex-a76")
    fused, inputs = optimize_graph(graph, target), models.example_inputs(graph)
    executable = compile_fused(graph, fused, target)
    folder = check_on_arm(executable, tmp_path / "net", inputs=inputs)
    for number, result in enumerate(require_results_within_bounds(fused, target, inputs)):
        assert result.tobytes() == (folder / f"check/output_{number}_run_0.bin").read_bytes()


def mixed() -> Graph:
    """A convolution, an activation with exponentials, bytes, and a product."""
    rng = np.random.default_rng(0)
    b = GraphBuilder("mixed")
    x, bytes_ = b.input("x", (1, 8, 9, 9)), b.input("bytes", (3, 7), "int8")
    weights = b.constant(rng.standard_normal((12, 8, 3, 3)).astype(np.float32))
    y = b.op("sigmoid", b.op("nn.conv2d", x, weights, padding=1))
    return b.build([b.op("nn.softmax", b.op("mean", y, axis=(2, 3))), b.op("add", bytes_, bytes_)])


def attention() -> Graph:
    """A product, softmax with its exponential, and a normalisation with its square root."""
    b, rng = GraphBuilder("attention"), np.random.default_rng(0)
    x = b.input("x", (2, 9, 16))
    scores = b.op("nn.softmax", b.op("nn.batch_matmul", x, x), axis=-1)
    mixed = b.op("nn.batch_matmul", scores, b.op("transpose", x, axes=(0, 2, 1)))
    scale, shift = (rng.standard_normal(16).astype("float32") for _ in range(2))
    return b.build(b.op("nn.layer_norm", b.op("erf", mixed), scale, shift))


def start_of_mobilenet() -> Graph:
    """Two blocks of mobilenet_v3, for small pictures."""
    return mobilenet_v3(shape=(1, 3, 32, 32), blocks=2)


@needs_arm
@pytest.mark.parametrize(
    ("graph", "arch"),
    [(mixed, "a76"), (attention, "a76"), (attention, "a53"), (start_of_mobilenet, "a76")],
)
def test_a_small_network_on_arm(graph: Callable[[], Graph], arch: str, tmp_path: Path) -> None:
    check_on_arm(graph(), tmp_path / "net", arch)
