"""Winograd's algorithm on GPUs: transforms that load each element once, any tiles between them, and its choice."""

from __future__ import annotations

import re

import numpy as np
import pytest

import minitvm
from minitvm import reference, strategy, te, topi
from minitvm.graph import GraphBuilder
from minitvm.machines.gpu.strategy import algorithms
from minitvm.machines.gpu.strategy.algorithms import convolution_algorithms
from minitvm.machines.simd.topi.blocked import unblock_axis
from minitvm.machines.simd.topi.winograd import winograd_conv2d_nchwc
from minitvm.reference import graph as interpreter
from minitvm.strategy import Candidate
from minitvm.strategy.algorithms import Convolution
from minitvm.strategy.candidate import Cost
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc

H100 = Target("cuda -model=h100")


def layer(channels: int, image: int, out: int, tile: int) -> PrimFunc:
    """With a relu, and the result plain."""
    x = te.placeholder((1, channels // 4, image, image, 4), name="x")
    w = te.placeholder((1, tile + 2, tile + 2, channels // 4, 4, out // 4, 4), name="w")
    result = topi.relu(winograd_conv2d_nchwc(x, w, tile=tile, padding=1))
    return te.create_prim_func([x, w, unblock_axis(result, axis=1, extent=out)])


def candidate(func: PrimFunc, **knobs: object) -> Candidate:
    every = [one for one in strategy.candidates(func, H100) if one.rule == "winograd"]
    return next(one for one in every if all(one.knobs.get(name) == value for name, value in knobs.items()))


CASES = [(4, 5, 1, False), (2, 3, 2, False), (2, 3, 1, True)]  # tiles stick out of the image


@pytest.mark.parametrize(("tile", "image", "splits", "shared"), CASES)
def test_three_kernels_keep_the_meaning(tile: int, image: int, splits: int, shared: bool) -> None:
    func = layer(64 if splits > 1 else 8, image, 8 if shared else 4, tile)
    one = candidate(
        func, splits=splits, shared=shared, double=False, **({"threads": 32, "row": "v_p"} if shared else {})
    )
    schedule = one.schedule(func)
    verdict = reference.check(func, schedule.func, modes=["exact"])
    assert verdict.equal, str(verdict)
    assert len(minitvm.lower(schedule.func, target=str(H100), stop_at="executable").kernels) == 3


def test_products_by_the_tiles_of_matrices_keep_the_meaning() -> None:
    func = layer(16, 3, 16, 2)
    schedule = candidate(func, thread_rows=2, splits=1, stages=1).schedule(func)
    assert reference.check(func, schedule.func, modes=["exact"]).equal
    assert len(minitvm.lower(schedule.func, target=str(H100), stop_at="executable").kernels) == 3


@pytest.mark.parametrize("tile", [2, 4])
def test_transforms_load_each_element_once(tile: int) -> None:
    func = layer(8, 8, 8, tile)
    schedule = candidate(func, splits=1, shared=False).schedule(func)
    first, _, last = minitvm.lower(schedule.func, target=str(H100), stop_at="executable").kernels
    places = (tile + 2) ** 2
    for kernel, read in ((first, "x"), (last, "products")):
        assert len(re.findall(rf"\b{read}\[", kernel.source)) == places, kernel.source


def names(conv: Convolution, target: str = "cuda -model=h100", accuracy: str = "fast") -> list[str]:
    return [option.rule for option in convolution_algorithms(conv, 4, Target(target), accuracy)]


def test_it_is_chosen_where_it_costs_less() -> None:
    large = Convolution(1, 512, 512, (7, 7), (3, 3), (1, 1), (1, 1))
    small = Convolution(1, 4, 4, (7, 7), (3, 3), (1, 1), (1, 1))
    assert names(large)[0] == "winograd" and names(large, "opencl -device=mali")[0] == "winograd"
    assert names(small)[0] == "direct"  # two kernels more
    assert names(large, accuracy="strict") == ["direct"]
    for image, dilation, strides in (((None, 7), 1, 1), ((7, 7), 2, 1), ((7, 7), 1, 2)):
        other = Convolution(1, 512, 512, image, (3, 3), (strides, strides), (dilation, dilation))
        assert names(other) == ["direct"]


def test_a_network_computes_the_same(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyopencl")
    monkeypatch.setattr(algorithms, "_direct", lambda *_: Cost(1e18))
    b = GraphBuilder("layer")
    x = b.input("x", (1, 8, 9, 9))
    made = b.op("nn.conv2d", x, rng.standard_normal((8, 8, 3, 3), dtype=np.float32), padding=1)
    graph = b.build(b.op("nn.relu", made))
    data = rng.standard_normal((1, 8, 9, 9), dtype=np.float32)
    module = minitvm.build(graph, target="opencl -device=mali")
    assert "contrib_winograd" in str(minitvm.lower(graph, target="opencl -device=mali", stop_at="fused"))
    np.testing.assert_allclose(module(data), interpreter.run(graph, [data])[0], rtol=0, atol=1e-4)
