"""Assembly of the accelerator: what a kernel becomes, how it is run and saved, and what no program is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import minitvm as tvm
from minitvm import strategy
from minitvm.backend import get
from minitvm.errors import InputError, Unsupported
from minitvm.graph import Graph, GraphBuilder
from minitvm.machines.scratchpad.instruction_set import module_of, operation_of, token, token_of
from minitvm.machines.scratchpad.simulated_device import timelines
from minitvm.machines.vta.assembler import assemble
from minitvm.machines.vta.emitter import program_of
from minitvm.machines.vta.layers import Conv2d
from minitvm.reference import graph as interpreter
from minitvm.target import Target
from minitvm.tools.cli.accel_layers import layer_function, machine
from tests.machines.vta.accel_programs import SMALL, lowered

from .accel_kernels import NAMES, computed_or_refused, kernel

VTA = machine("vta", "tsim")


def network() -> Graph:
    b, rng = GraphBuilder("two_layers"), np.random.default_rng(0)
    x = b.input("x", (1, 2, 6, 6, 1, 16), "int8")
    first = rng.integers(-128, 128, (2, 2, 3, 3, 16, 16)).astype("int8")
    second = rng.integers(-128, 128, (4, 2, 1, 1, 16, 16)).astype("int8")
    h = b.op("nn.contrib_requantize_elements", b.op("nn.contrib_conv2d_elements", x, first, padding=1), shift=8)
    return b.build(
        b.op("nn.contrib_requantize_elements", b.op("nn.contrib_conv2d_elements", h, second, stride=2), shift=7)
    )


def test_a_network_is_built_run_and_saved(tmp_path: Path) -> None:
    graph = network()
    x = np.random.default_rng(1).integers(-128, 128, (1, 2, 6, 6, 1, 16)).astype("int8")
    (expected,) = interpreter.run(graph, {"x": x})
    module = tvm.build(graph, target="vta")
    np.testing.assert_array_equal(module(x), expected)
    module.export(tmp_path / "net.mtvm")
    np.testing.assert_array_equal(tvm.runtime.load(tmp_path / "net.mtvm")(x), expected)


def test_the_source_is_assembly_and_machine_code_is_its_bits() -> None:
    target = Target("vta")
    (source, _) = tvm.lower(network(), target=target, stop_at="source").values()
    assert ".input p0 inp at 0 count 72" in source and "load.inp sram=0 dram=p0" in source
    program = assemble(source, target.config)
    assert str(program.instructions[-1]).startswith("finish pop(store)")
    rows = get(target).part("assembly")(source, "k", target).splitlines()
    assert len(rows) == len(program.instructions) and all(int(row[:32], 16) >= 0 for row in rows)


def test_cycles_on_request() -> None:
    executable = tvm.lower(network(), target="vta", stop_at="executable")
    found = timelines(executable)
    assert len(found) == 2 and all(timeline.cycles > 100 for timeline in found.values())
    fast = tvm.lower(network(), target="accel -memory=board", stop_at="executable")
    assert sum(t.cycles for t in timelines(fast).values()) > sum(t.cycles for t in found.values())


def test_a_function_that_is_not_scheduled() -> None:
    with pytest.raises(Unsupported, match="instructions of the accelerator alone") as error:
        tvm.build(layer_function(Conv2d(4, 4, 16, 16, 1), VTA.config), target="vta")
    assert "try:    strategy.schedule(func, target)" in str(error.value)


def test_storage_that_does_not_fit() -> None:
    func = layer_function(Conv2d(8, 8, 32, 32, 3), VTA.config)
    scheduled = strategy.schedule(func, VTA, knobs={"rows": 8, "outs": 2, "ins": 2, "contexts": 1}).func
    small = machine("vta", "tsim")
    small = Target(f"{small} -input_buffer=1024")
    with pytest.raises(InputError, match="the scratchpad inp is too small") as error:
        lowered(scheduled, small)
    assert "wanted: at most 64 elements" in str(error.value) and "found:  200" in str(error.value)


SHIFT = """
with T.instruction("reset", 4, T.tile(C[0], C[4], C[0], C[1])):
    for n, j in T.grid(4, 4):
        C[n * 4 + j] = 0
with T.instruction("alu_shr_imm", 4, T.tile(C[0], C[4], C[0], C[1]), {into}, {by}):
    for n, j in T.grid(4, 4):
        C[{at} + n * 4 + j] = T.shift_right(C[n * 4 + j], {by})
with T.instruction("store", 4, T.tile(C[0], C[4], C[0], C[1]), T.tile(D[0], D[4], D[0], D[1])):
    for n, j in T.grid(4, 4):
        D[n * 4 + j] = T.Cast("int8", C[n * 4 + j])
"""


def shift(by: int, at: int = 0) -> str:
    into = f"T.tile(C[{at}], C[{at + 4}], C[{at}], C[{at + 1}])"
    return SHIFT.format(by=by, at=at, into=into)


def test_an_instruction_as_text() -> None:
    program = program_of(kernel(shift(3)), SMALL.config)
    assert [str(i) for i in program.instructions[1:]] == [
        "gemm uops=0:1 loops=1,4 dst=0,1 src=0,0 wgt=0,0 reset",
        "alu.shr uops=0:1 loops=1,4 dst=0,1 src=0,0 imm=3",
        "store.out sram=0 dram=0 y=1 x=4 stride=4",
    ]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (shift(40000), "wanted: a constant of 16 bits"),
        (shift(3, at=16), "wanted: a result in the registers of the first operand"),
        (shift(3).replace("C[4], C[0], C[1]", "C[6], C[0], C[1]", 1), "the first at 0, the next ones 6, 0, 1 numbers"),
        (shift(3).replace("D[4]", "D[8]"), None),
        (shift(3).replace("C[4], C[0], C[1]), T.tile(D", "C[8], C[0], C[1]), T.tile(D"), "a dense scratchpad"),
        ("for n in range(4):\n    C[n] = 0", "wanted: instructions of the accelerator alone"),
    ],
)  # fmt: skip
def test_kernels_that_are_no_program(body: str, words: str | None) -> None:
    if words is None:
        (store,) = [str(i) for i in program_of(kernel(body), SMALL.config).instructions if "store" in str(i)]
        assert store == "store.out sram=0 dram=0 y=4 x=1 stride=2", "registers one behind the other, rows apart"
        return
    with pytest.raises(Unsupported) as error:
        program_of(kernel(body), SMALL.config)
    assert words in str(error.value)


@pytest.mark.parametrize("seed", range(8))
def test_operations_on_registers_are_right_or_refused(seed: int) -> None:
    computed_or_refused(seed)


def test_names_of_instructions() -> None:
    assert operation_of(NAMES.name("gemm")) == "gemm" and operation_of("mma_16x8x16_f16") is None
    assert [module_of(NAMES.name(op)) for op in ("load_inp_padded", "load_acc", "store")] == [
        "load",
        "compute",
        "store",
    ]
    assert token_of(token("push", "load", "compute")) == ("push", "load", "compute")
    assert token_of(NAMES.name("gemm")) is None
    with pytest.raises(InputError, match="the accelerator has no operation 'fly'"):
        NAMES.name("fly")
    from minitvm.tir import TensorIntrin

    TensorIntrin.KNOWN.pop(NAMES.name("alu_mul"))
    assert TensorIntrin.get(NAMES.name("alu_mul")) is not None, "known by its name alone"
