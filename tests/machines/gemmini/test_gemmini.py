"""The second machine: text, meaning, cycles, and the way from a tensor expression to a program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitvm
from minitvm import strategy, te
from minitvm.backend import lookup
from minitvm.errors import ExecutionError, InputError, ParseError
from minitvm.graph import GraphBuilder
from minitvm.lowering import place
from minitvm.machines.gemmini import interpreter, schedule
from minitvm.machines.gemmini.config import Gemmini
from minitvm.machines.gemmini.emitter import GemminiEmitter
from minitvm.machines.gemmini.isa import (
    ZERO,
    BufferPlace,
    Compute,
    ConfigLd,
    ConfigSt,
    Fence,
    Mvin,
    Mvout,
    Preload,
    assemble,
)
from minitvm.machines.gemmini.timing import by_start, simulate
from minitvm.machines.scratchpad.topi import conv2d_elements, requantize_elements
from minitvm.machines.scratchpad.viz.page import data
from minitvm.machines.vta.config import AluOptions
from minitvm.machines.vta.layers import Conv2d
from minitvm.reference import graph as graph_interpreter
from minitvm.target import Target
from minitvm.tools.cli import main
from minitvm.tools.cli.accel_layers import layer_function, machine, timed
from tests.machines.scratchpad.element_networks import network

from .programs import CHECKS, SMALL, lowered

TINY = Gemmini(side=2, scratchpad=64, accumulator=64, bytes_per_cycle=4)

HAND = """
.input image 4
.input filters 4
.output y 4
config.ld stride=2
config.st shift=1 least=0
mvin image+0 sp=0 rows=2          ; the rows 1 2 and 3 -4
mvin filters+0 sp=4 rows=2        ; the rows 1 1 and 0 2
preload sp=4
compute sp=0 acc=0 rows=2
compute sp=0 acc=0 rows=2 add
mvout y+0 acc=0 rows=2
fence
"""
NUMBERS = {"image": np.array([1, 2, 3, -4], np.int8), "filters": np.array([1, 1, 0, 2], np.int8)}


@pytest.mark.parametrize("check", CHECKS)
@settings(max_examples=3)
@given(seed=st.integers(0, 10_000))
def test_random_layers(check: Any, seed: int) -> None:
    check(seed)


def test_a_program_by_hand() -> None:
    """Rows times weights transposed, twice: 6, 8 and -2, -16. Halves, and nothing below zero: 3, 4 and 0, 0."""
    found = interpreter.run(assemble(HAND), TINY, NUMBERS)["y"].view(np.int8)
    assert found.tolist() == [3, 4, 0, 0]


def test_cycles_of_a_program_by_hand() -> None:
    """4 bytes of image are asked at 2 and there at 4, those of weights a cycle later. The weights take two cycles, each
    product two, and the last one's sums four more; the store is one burst, answered two cycles later."""
    line = simulate(assemble(HAND), TINY)
    began = {i.instruction: (i.start, i.end) for i in line.intervals if i.unit != "host"}
    assert began[2] == (3, 4) and began[3][0] == 4, (
        "instruction 2 is sent at 2; DRAM is free, the next one waits a turn"
    )
    assert [began[n] for n in (4, 5, 6)] == [(6, 8), (8, 10), (10, 12)]
    assert began[7][0] == 12 + 2 * TINY.side
    assert line.cycles == began[7][0] + 2 and line.micro_ops == 4 and line.bound == (4, "array")
    twice = assemble(HAND.replace("compute sp=0 acc=0 rows=2 add", "preload sp=4\ncompute sp=0 acc=0 rows=2 add"))
    line = simulate(twice, TINY)
    began = {i.instruction: (i.start, i.end) for i in line.intervals if i.unit != "host"}
    assert began[6] == began[5] == (8, 10) and began[7] == (10, 12), "weights are loaded while the array multiplies"


def test_rows_that_are_apart_are_waited_for() -> None:
    """Products of the rows 0 and 3: what is moved into row 3 waits for them, what is moved into row 1 does not."""
    text = """
        config.ex stride=3
        mvin zero sp=0 rows=8
        preload sp=4
        compute sp=0 acc=0 rows=2
        mvin zero sp=1 rows=1
        mvin zero sp=3 rows=1
        fence
        """
    line = simulate(assemble(text), TINY)
    spans = {i.instruction: i for i in line.intervals if i.unit != "host"}
    assert spans[4].start < spans[3].start and spans[5].start == spans[3].end + TINY.drain


@given(st.lists(st.sampled_from([
    Mvin(BufferPlace("image", 16), sp=3, rows=2, lines=2, step=(8, 5)), Mvin(ZERO, acc=0, rows=4, add=True),
    Preload(8), Compute(1, 2, 3, 4, (5, 6), True), Compute(), Mvout(BufferPlace("y", 0), 4, 2),
    ConfigLd(0), ConfigSt(3, 0), Fence(),
]), max_size=6))  # fmt: skip
def test_text_is_read_back(instructions: list[Any]) -> None:
    text = "\n".join(map(str, instructions))
    assert list(assemble(text).instructions) == instructions


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("mvim p+0 sp=0", "no instruction is called 'mvim'"),
        ("compute sp=0 acc=0 raws=2", "compute has no 'raws=2'; it has sp, acc, rows, lines, step, add"),
        ("compute sp=0 sp=1", "sp is given twice"),
        ("compute sp", "wanted sp=NUMBER, found sp"),
        ("compute add=1", "wanted add without a number"),
        ("compute rows=0", "wanted rows=1 or more, found 0"),
        ("mvout y+0 lines=-1", "wanted lines=1 or more, found -1"),
        ("mvin sp=0", "mvin needs a place in memory, such as p0+16, or zero"),
        ("mvout acc=0", "mvout needs a place in memory, such as p0+16\n"),
        ("mvin p0+0", "wanted one of sp and acc, found neither"),
        ("mvin p0+0 sp=0 acc=0", "wanted one of sp and acc, found both"),
        ("compute step=3", "step is two numbers, found 3"),
        ("mvin p sp=0", "wanted a place such as p0+16, found 'p'"),
        ("mvout y+x", "line 1: invalid literal"),
        (".input y", "line 1"),
    ],
)
def test_mistakes_in_text(line: str, words: str) -> None:
    with pytest.raises(ParseError) as error:
        assemble(line)
    assert words in str(error.value) and line in str(error.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("rows=2          ;", "rows=9          ;"), "wanted: bytes 0 to 3 of image"),
        (("sp=4 rows=2", "sp=31 rows=2"), "wanted: rows 0 to 31 of sp"),
        (("preload sp=4", "preload sp=6"), "row 6 of sp was not"),
        (("preload sp=4", ""), "wanted: weights in the array"),
        (("mvin image", "mvin picture"), "wanted: a buffer: image, filters, y"),
        (("rows=2\ncompute", "rows=2 add\ncompute"), "row 0 of acc was not"),
        (("fence", ""), "does not end with a fence"),
    ],
)
def test_programs_that_go_wrong(change: tuple[str, str], words: str) -> None:
    with pytest.raises(ExecutionError) as error:
        interpreter.run(assemble(HAND.replace(*change, 1)), TINY, NUMBERS)
    assert words in str(error.value)
    with pytest.raises(ExecutionError, match="rows 0 to 31 of sp"):
        simulate(assemble(HAND.replace("preload sp=4", "preload sp=31")), TINY)
    with pytest.raises(InputError, match="image has 4 bytes, found 3"):
        interpreter.run(assemble(HAND), TINY, {**NUMBERS, "image": np.zeros(3, np.int8)})
    with pytest.raises(InputError, match="no array for an input\n  wanted: filters\n  found:  image"):
        interpreter.run(assemble(HAND), TINY, {"image": NUMBERS["image"]})
    assert by_start(assemble(""), TINY).instructions == ()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("-side=0", "side = 0, wanted at least 1"),
        ("-scratchpad=1000", "scratchpad = 1000, wanted whole rows of 16 bytes"),
        ("-memory=slow", "memory = slow"),
        ("-depth_execute=1", "depth_execute = 1, wanted at least 2"),
    ],
)
def test_machines_that_cannot_be(options: str, words: str) -> None:
    with pytest.raises(InputError, match="there is no machine 'gemmini'") as error:
        Target(f"gemmini {options}")
    assert words in str(error.value)


def test_graph_passes_find_no_alu() -> None:
    """One offset of all sums is a row of memory, were it of one bit; the layer is the machine's."""
    config = SMALL.config
    assert config.options == AluOptions() and not config.adds_constants
    for offset in (-1, 0, 3):
        b = GraphBuilder("offset")
        x = b.input("x", (1, 4, 2, 2), "int8")
        sums = b.op("add", b.op("qnn.conv2d", x, np.ones((4, 4, 1, 1), np.int8)), np.int32(offset))
        graph = b.build(b.op("cast", b.op("clip", b.op("right_shift", sums, np.int32(1)), a_min=-128, a_max=127),
                             dtype="int8"))  # fmt: skip
        assert "gemmini-asm" in {kernel.language for kernel in minitvm.build(graph, target=SMALL).executable.kernels}


def test_no_tokens_are_inserted() -> None:
    names = [step.name for step in schedule.PASSES]
    assert "fetch_order" in names and "insert_tokens" not in names
    assert names == [s.name for s in lookup("accel", "passes") if s.name not in ("delay_resets", "insert_tokens")]


def test_queues_that_are_full_keep_loads_back() -> None:
    """In the order of the kernel loads stand behind the products before them; in that of beginnings they do not."""
    target = Target("gemmini -memory=board")
    tiles = {"rows": 2, "outs": 4, "ins": 4, "contexts": 2}
    func = strategy.schedule(layer_function(Conv2d(16, 8, 64, 64, 1), target.config), target, knobs=tiles).func
    by_kernel = GemminiEmitter(lowered(func, target), target.config).program()
    sent = by_start(by_kernel, target.config)
    assert simulate(sent, target.config).cycles < 0.9 * simulate(by_kernel, target.config).cycles
    assert by_start(sent, target.config) == sent, "it is in that order already"


def test_a_layer_is_near_its_bound() -> None:
    """A 1x1 layer of 64 channels: eight products for each row of results."""
    line = timed(Conv2d(16, 16, 128, 64, 1), Target("gemmini"))
    assert line.bound == (16 * 16 * 8 * 4, "array") and line.utilisation > 0.85
    drawn = data(line)
    assert drawn["units"] == ["host", "load", "preload", "execute", "store"] and drawn["tokens"] == []


def functions() -> dict[str, Any]:
    x = te.placeholder((1, 1, 4, 4, 1, 4), "int8", name="x")
    w = te.placeholder((1, 1, 1, 1, 4, 4), "int8", name="w")
    sums = conv2d_elements(x, w)
    return {
        "it is no convolution on elements": te.create_prim_func([x, te.compute(x.shape, lambda *i: x[i] + x[i])]),
        "results are kept between -128 and 100": te.create_prim_func(
            [x, w, requantize_elements(sums, shift=1, most=100)]
        ),
        "behind its sums are store": te.create_prim_func(
            [x, w, te.compute(sums.shape, lambda *i: sums[i].astype("int8"))]
        ),
        "it shifts by 40; numbers of 32 bits": te.create_prim_func([x, w, requantize_elements(sums, shift=40)]),
        "it shifts by -1;": te.create_prim_func([x, w, requantize_elements(sums, shift=-1)]),
        "no tile of it fits": layer_function(Conv2d(8, 8, 4, 4, 47), SMALL.config),
    }  # fmt: skip


@pytest.mark.parametrize("why", functions())
def test_what_stays_on_the_host(why: str) -> None:
    assert place(functions()[why], SMALL).refusal.startswith(why)


@settings(max_examples=1)
@given(st.data())
def test_random_networks(draw: Any) -> None:
    graph, inputs = network(draw.draw)
    module = minitvm.build(graph, target=SMALL, threads=1)
    results = module(*inputs)
    for found, expected in zip(
        results if isinstance(results, tuple) else [results], graph_interpreter.run(graph, inputs), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_a_network_is_run_and_saved(tmp_path: Any) -> None:
    b, rng = GraphBuilder("layer"), np.random.default_rng(0)
    x = b.input("x", (1, 2, 6, 6, 1, 4), "int8")
    w = rng.integers(-128, 128, (2, 2, 3, 3, 4, 4)).astype("int8")
    graph = b.build(
        b.op("nn.contrib_requantize_elements", b.op("nn.contrib_conv2d_elements", x, w, padding=1), shift=6)
    )
    values = rng.integers(-128, 128, (1, 2, 6, 6, 1, 4)).astype("int8")
    (expected,) = graph_interpreter.run(graph, {"x": values})
    module = minitvm.build(graph, target=SMALL)
    assert {kernel.language for kernel in module.executable.kernels} == {"gemmini-asm"}
    module.export(tmp_path / "layer.mtvm")
    for one in (module, minitvm.runtime.load(tmp_path / "layer.mtvm")):
        np.testing.assert_array_equal(one(values), expected)


def test_the_command(capsys: Any, tmp_path: Any) -> None:
    assert main(["accel", "run", "C8", "--config", "gemmini", "--timeline", str(tmp_path / "c8.html")]) == 0
    out = capsys.readouterr().out
    assert "the result is NumPy's, bit by bit" in out and "25,088 cycles of the array" in out
    for action in ("run", "show"):
        assert main(["accel", action, "nothing.asm", "--config", "gemmini"]) == 2
        assert f"on gemmini {action} a layer" in capsys.readouterr().err
    assert main(["accel", "sweep", "C11", "--config", "gemmini"]) == 0
    head, _, row = capsys.readouterr().out.splitlines()
    assert "what its transfers and products take" in head and 0 < float(row.split()[-3]) <= 1
    assert main(["accel", "show", "C11", "--config", "gemmini"]) == 0
    shown = assemble(capsys.readouterr().out)
    assert any(isinstance(one, Compute) for one in shown.instructions)
    assert main(["accel", "show", "C11", "--config", "gemmini", "--binary", str(tmp_path / "c11.bin")]) == 2
    assert "--binary is for the machines of kind accel" in capsys.readouterr().err
    with pytest.raises(InputError, match="no accelerator is called 'gemini': did you mean gemmini"):
        machine("gemini", "tsim")
    with pytest.raises(InputError, match="has options for its array"):
        machine("gemmini", "tsim", 32)
