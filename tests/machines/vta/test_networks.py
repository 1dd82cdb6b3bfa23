"""Networks of int8 on the simulated accelerator and its host, bit for bit what the graph's interpreter computes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitvm
from minitvm.build import optimize_graph, stage
from minitvm.frontends import from_onnx
from minitvm.frontends.onnx.export.to_onnx import to_onnx
from minitvm.graph import Graph, GraphBuilder
from minitvm.graph.passes.shifted_scales import shifted_scales
from minitvm.lowering import to_units
from minitvm.machines.scratchpad.element_layout import refusals
from minitvm.machines.scratchpad.simulated_device import timelines
from minitvm.machines.vta.config import AluOptions, configured
from minitvm.reference import graph as interpreter
from minitvm.runtime import load
from minitvm.target import Target
from minitvm.tir.transform import growth
from minitvm.tools.cli import main
from minitvm.tools.models import example_inputs, get
from tests.fewer import examples
from tests.graph.passes.shifted_networks import dequantized
from tests.graph.passes.shifted_networks import quantized as quantized_to
from tests.machines.scratchpad.element_networks import network

SMALL = (
    "vta -batch=2 -block_in=4 -block_out=4 -uop_buffer=4096 -input_buffer=4096 -weight_buffer=8192 "
    "-accumulator_buffer=16384 -multiply_bits=8 -pad_value=1 -clip=1 -widen=1"
)


@examples(3, 8)
@given(st.data())
def test_random_layers(data: Any) -> None:
    graph, inputs = network(data.draw)
    module = minitvm.build(graph, target=SMALL, threads=1)
    assert "accel-asm" in {kernel.language for kernel in module.executable.kernels}
    results = module(*inputs)
    for found, expected in zip(
        results if isinstance(results, tuple) else [results], interpreter.run(graph, inputs), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def floats(*shape: int) -> np.ndarray:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * 0.2).astype("float32")


def residual() -> Graph:
    """A block of ResNet between a first convolution of three channels and a classifier."""
    b = GraphBuilder("residual")
    x = b.op("nn.conv2d", b.input("x", (1, 3, 16, 16)), floats(16, 3, 3, 3), padding=1, strides=2)
    x = b.op("nn.relu", x)
    y = b.op("nn.relu", b.op("nn.bias_add", b.op("nn.conv2d", x, floats(32, 16, 3, 3), padding=1), floats(32), axis=1))
    y = b.op("nn.conv2d", y, floats(16, 32, 3, 3), padding=1)
    y = b.op("nn.relu", b.op("add", x, y))
    pooled = b.op("reshape", b.op("nn.global_avg_pool", y), newshape=(1, 16))
    return b.build(b.op("nn.dense", pooled, floats(10, 16)))


@pytest.fixture(scope="module")
def quantized() -> Graph:
    return minitvm.quantize(residual(), [floats(1, 3, 16, 16)], dtype="int8").graph


def test_a_quantised_network_is_that_of_the_interpreter(quantized: Graph, tmp_path: Any) -> None:
    module = minitvm.build(quantized, target="vta")
    kernels = module.executable.kernels
    assert [k.target.split()[0] for k in kernels if k.language == "accel-asm"] == ["accel", "accel"]
    assert len(kernels) > 4
    x = floats(1, 3, 16, 16)
    (expected,) = interpreter.run(quantized, [x])
    np.testing.assert_array_equal(module(x), expected)
    assert all(line.cycles > 100 for line in timelines(module.executable).values())
    module.export(tmp_path / "two.mtvm")
    np.testing.assert_array_equal(load(tmp_path / "two.mtvm")(x), expected)


def qdq() -> Graph:
    """A convolution between a quantisation and a dequantisation, as files have it."""
    b = GraphBuilder("qdq")
    x = dequantized(b, quantized_to(b, b.input("x", (1, 16, 6, 6)), 5), 5)
    weight = dequantized(b, b.constant(np.rint(floats(16, 16, 3, 3) * 128).astype(np.int8), "w"), 7)
    y = b.op("nn.bias_add", b.op("nn.conv2d", x, weight, padding=1), floats(16), axis=1)
    return b.build(dequantized(b, quantized_to(b, b.op("nn.relu", y), 4), 4))


def test_files_with_powers_of_two_as_scales_come_in() -> None:
    graph = from_onnx(to_onnx(qdq()))
    module = minitvm.build(graph, target="vta")
    assert sum(kernel.language == "accel-asm" for kernel in module.executable.kernels) == 1
    x = floats(1, 16, 6, 6) * 10
    np.testing.assert_allclose(module(x), interpreter.run(graph, [x])[0], atol=2.0**-4)  # halves are rounded up


@pytest.mark.full
@pytest.mark.parametrize(("name", "machine"), [("resnet18", "vta"), ("mobilenet", "vta"), ("mobilenet", "vta2")])
def test_a_whole_network(name: str, machine: str) -> None:
    graph = get(name)
    inputs = example_inputs(graph)
    quantised = minitvm.quantize(graph, [inputs], dtype="int8").graph
    module = minitvm.build(quantised, target=f"accel -model={machine}")
    np.testing.assert_array_equal(module(**inputs), interpreter.run(quantised, list(inputs.values()))[0])


def separable() -> Graph:
    """A pair of layers of MobileNet, a sum around it, a pool in front, a product behind."""
    b = GraphBuilder("separable")
    x = b.op("nn.relu", b.op("nn.conv2d", b.input("x", (1, 3, 12, 12)), floats(16, 3, 3, 3), padding=1))
    x = b.op("nn.max_pool2d", x, pool_size=3, strides=2, padding=1)
    y = b.op("nn.conv2d", x, floats(16, 1, 3, 3), padding=1, groups=16)
    y = b.op("clip", b.op("nn.bias_add", y, floats(16), axis=1), a_min=0.0, a_max=6.0)
    y = b.op("nn.relu", b.op("add", x, b.op("nn.conv2d", y, floats(16, 16, 1, 1))))
    return b.build(b.op("nn.relu", b.op("nn.conv2d", y, floats(16, 16, 1, 1))))


def test_options_of_the_machine_bring_sums_pools_and_depthwise_convolutions() -> None:
    """The first layer has three channels, the last one ends in floats; with all options the others run there."""
    x = floats(1, 3, 12, 12)
    graph = minitvm.quantize(separable(), [x], dtype="int8").graph
    (expected,) = interpreter.run(graph, [x])
    for machine, layers in (("vta", 1), ("accel -model=vta2", 4)):
        module = minitvm.build(graph, target=machine)
        np.testing.assert_array_equal(module(x), expected)
        assert sum(kernel.language == "accel-asm" for kernel in module.executable.kernels) == layers


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, {"its option widen", "its option multiply_bits"}),
        ({"widen": True}, {"its option pad_value", "its option multiply_bits"}),
        ({"widen": True, "pad_value": True}, {"its option multiply_bits"}),
        ({"pad_value": True, "multiply_bits": 8}, {"its option widen"}),
        ({"widen": True, "pad_value": True, "multiply_bits": 8}, set()),
    ],
)
def test_what_a_machine_lacks_is_said(options: dict[str, Any], why: set[str]) -> None:
    graph = shifted_scales(minitvm.quantize(separable(), [floats(1, 3, 12, 12)], dtype="int8").graph)
    said = refusals(graph, configured("vta", options=AluOptions(**options))).values()
    assert {reason[reason.index("its option") : -1] for reason in said if "its option" in reason} == why


@pytest.fixture(scope="module")
def file(tmp_path_factory: Any) -> str:
    path = tmp_path_factory.mktemp("models") / "residual.onnx"
    path.write_bytes(to_onnx(residual()).SerializeToString())
    return str(path)


def test_explain_says_why_a_layer_stays_on_the_host(file: str, capsys: Any) -> None:
    assert main(["accel", "explain", file]) == 0
    lines = [line.split(maxsplit=3) for line in capsys.readouterr().out.splitlines()]
    layers = {line[2]: line[3] for line in lines if line[1].startswith("qnn.")}
    assert layers == {
        "16x3x3x3": "host: 3 channels leave more than half of a block of 16 empty",
        "32x16x3x3": "accelerator",
        "16x32x3x3": "accelerator",
        "10x16": "host: its sums are read before they are int8 again",
    }
    assert " ".join(lines[-1]).startswith("2 of 5 layers run on the accelerator; ")


def test_run_counts_the_cycles_of_a_network(file: str, capsys: Any, tmp_path: Any) -> None:
    written = {name: tmp_path / f"network.{end}" for name, end in (("timeline", "html"), ("trace", "json"))}
    output = tmp_path / "y.npz"
    options = [part for name, path in written.items() for part in (f"--{name}", str(path))]
    assert main(["accel", "run", file, "--memory", "board", "--output", str(output), *options]) == 0
    out = capsys.readouterr().out
    assert "the result is the interpreter's, bit by bit" in out
    assert out.count("array in use") == 2
    total = sum(int(line.split()[1].replace(",", "")) for line in out.splitlines() if "array in use" in line)
    assert f"kernel calls are the accelerator's: {total:,} cycles" in out
    assert f'"cycles":{total},' in written["timeline"].read_text(encoding="utf-8")
    assert json.loads(written["trace"].read_text(encoding="utf-8"))["otherData"]["cycles"] == total
    (array,) = np.load(output).values()
    assert array.shape == (1, 10)


def test_a_network_that_is_not_there(capsys: Any) -> None:
    assert main(["accel", "explain", "nothing.onnx"]) == 2
    error = capsys.readouterr().err
    assert "nothing.onnx" in error and "Traceback" not in error


def test_no_limit_of_code_leaves_an_accelerator_without_a_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot run the loops as written; the limit is for machines that have a simpler schedule."""
    monkeypatch.setattr(growth, "LEAST", 1)
    monkeypatch.setattr(growth, "FACTOR", 1)
    graph = minitvm.quantize(separable(), [floats(1, 3, 12, 12)], dtype="int8").graph
    target = Target("accel -model=vta2")
    unit = next(unit for unit in to_units(optimize_graph(graph, target)) if "depthwise" in unit.name)
    assert stage(unit, target, "source").startswith("; kernel depthwise")
